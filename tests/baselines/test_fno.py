"""FNO: its convolution is a circulant matrix, its layers are the library's."""

from __future__ import annotations

import math
import sys
import warnings
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor, nn

from mondrian import Grid
from mondrian.models.baselines import FNOSpec, fno
from mondrian.models.baselines.fno import neuraloperator
from mondrian.models.baselines.fourier import crop_domain, fourier_multiply, pad_domain

pytestmark = pytest.mark.usefixtures("float64")


def circulant(weight: Tensor, points: tuple[int, ...]) -> Tensor:
    """The matrix `(out, x, in, y)` of the convolution, entry by entry from its kernel at x - y."""
    modes = weight.shape[2:-1]
    places = torch.tensor(list(product(*map(range, points))))
    offsets = (places[:, None] - places[None, :]) / torch.tensor(points)  # row column axis
    starts = [-(m // 2) for m in modes[:-1]] + [0]
    matrix = torch.zeros(weight.shape[1], len(places), weight.shape[0], len(places))
    for index in product(*map(range, modes)):
        k = [start + i for start, i in zip(starts, index, strict=True)]
        if any(2 * abs(frequency) >= n for frequency, n in zip(k, points, strict=True)):
            continue
        angle = 2 * torch.pi * offsets @ torch.tensor(k, dtype=offsets.dtype)
        real, imaginary = weight[(slice(None), slice(None), *index)].unbind(dim=-1)
        kernel = torch.einsum("io,xy->oxiy", real, angle.cos()) - torch.einsum("io,xy->oxiy", imaginary, angle.sin())
        matrix += (1 if k[-1] == 0 else 2) * kernel / len(places)
    return matrix


@pytest.mark.parametrize(
    ("points", "modes"),
    [((12,), (4,)), ((7,), (4,)), ((5,), (8,)), ((1,), (2,)), ((8, 6), (4, 3)), ((7, 9), (5, 3)), ((4, 5), (6, 6)),
     ((4, 5, 6), (3, 3, 2))],
)  # fmt: skip
def test_convolution_is_the_circulant_product(points, modes):
    weight, u = torch.randn(2, 3, *modes, 2), torch.randn(4, 2, *points)
    dense = torch.einsum("oxiy,biy->box", circulant(weight, points), u.flatten(2))
    torch.testing.assert_close(fourier_multiply(u, weight).flatten(2), dense)


@pytest.mark.parametrize(("points", "modes"), [((16,), (8,)), ((16, 12), (8, 6)), ((8, 8, 6), (4, 4, 4))])
def test_convolution_is_the_library_s_on_even_grids(points, modes):
    torch.set_default_dtype(torch.float32)  # the library's convolution rounds to it
    layer = neuraloperator().SpectralConv(3, 3, modes, bias=False)
    u, weight = torch.randn(2, 3, *points), torch.view_as_real(layer.weight.to_tensor().detach())
    torch.testing.assert_close(fourier_multiply(u, weight), layer(u), rtol=1e-4, atol=1e-5)


def test_one_layer_is_the_library_s_model():
    """The library's model of one layer, its second norm taken out: more layers activate twice there."""
    torch.set_default_dtype(torch.float32)
    ours = fno(2, 3, hidden_channels=8, modes=(6, 4), n_layers=1, edge_channels=16, padding=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.models import FNO

        theirs = FNO(
            n_modes=(6, 4), in_channels=2, out_channels=3, hidden_channels=8, n_layers=1, norm="group_norm",
            lifting_channel_ratio=2, projection_channel_ratio=2, positional_embedding=None, use_channel_mlp=False,
        )  # fmt: skip
    block = ours.blocks[0]
    theirs.fno_blocks.norm[1] = nn.Identity()
    theirs.lifting.load_state_dict(ours.lift.state_dict())
    theirs.projection.load_state_dict(ours.projection.state_dict())
    theirs.fno_blocks.fno_skips[0].load_state_dict(block.skip.state_dict())
    theirs.fno_blocks.norm[0].load_state_dict(block.norm.state_dict())
    convolution = theirs.fno_blocks.convs[0]
    with torch.no_grad():
        convolution.weight.tensor.copy_(torch.view_as_complex(block.weight))
        convolution.bias.copy_(block.bias)
    x = torch.randn(2, 2, 16, 12)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_padding_is_a_quarter_on_axes_that_are_not_periodic():
    u = torch.randn(1, 2, 16, 12, 8)
    padded = pad_domain(u, (False, True, False), 0.25)
    assert padded.shape == (1, 2, 20, 12, 10)
    assert torch.equal(crop_domain(padded, (16, 12, 8)), u)
    assert padded.abs().sum() == u.abs().sum()


def test_opposite_ends_meet_only_on_a_ring():
    """One layer of local reach: what is done at one end is felt at the other on a ring, hardly across the padding."""
    model = fno(1, 1, hidden_channels=4, modes=(64,), n_layers=1, padding=1.0)
    with torch.no_grad():  # a narrow Gaussian kernel
        k = torch.arange(33)
        model.blocks[0].weight.zero_()
        model.blocks[0].weight[..., 0] = torch.exp(-((k / 12.0) ** 2)) * torch.eye(4)[..., None]
    model.blocks[0].norm = nn.Identity()
    x = torch.zeros(1, 1, 128)
    bump = x.clone()
    bump[..., :4] = 1.0

    def felt(periodic: bool) -> float:
        grid = Grid(extent=(1.0,), periodic=(periodic,))
        return (model(bump, grid) - model(x, grid))[..., -4:].abs().max().item()

    assert felt(False) < 1e-3 * felt(True)


def test_refinement_converges_faster_than_any_order_on_a_ring():
    model = FNOSpec(1, 1, hidden_channels=6, n_layers=3, modes=(6,), grid=Grid((1.0,), periodic=(True,))).build()

    def output(n):  # 9, 27, ... cell-centred points share those of 9
        t = 2 * torch.pi * (torch.arange(n) + 0.5) / n
        y = model((torch.sin(t) + 0.3 * torch.cos(2 * t))[None, None])
        factor = n // 9
        return y[..., factor // 2 :: factor]

    fine = output(9 * 81)
    errors = [(output(n) - fine).norm().item() for n in (9, 27, 81)]
    assert math.log(errors[0] / errors[1], 3) > 2
    assert errors[-1] < 1e-5 * errors[0]


def test_refinement_converges_at_second_order_between_walls():
    """Zeros behind the end begin half a spacing after the last point: to the midpoint rule the jump is no error."""
    model = FNOSpec(1, 1, hidden_channels=6, n_layers=3, modes=(6,)).build()

    def output(n):  # 36, 108, ... cell-centred points share those of 36; a quarter of each is a whole number
        x = (torch.arange(n) + 0.5) / n
        factor = n // 36
        return model((torch.sin(3 * x) + x**2)[None, None])[..., factor // 2 :: factor]

    fine = output(36 * 729)
    errors = [(output(n) - fine).norm().item() for n in (36, 108, 324)]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.05)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralop.layers.channel_mlp", None)
    with pytest.raises(ImportError, match=r"pip install -c constraints.txt -e '.\[baselines\]'"):
        fno(1, 1)


def test_the_library_leaves_the_filters_of_warnings_alone():
    before = list(warnings.filters)
    fno(1, 1, hidden_channels=2, modes=(2,))
    assert warnings.filters == before


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"modes=\(4, 0\) must hold"):
        fno(1, 1, modes=(4, 0))
    with pytest.raises(ValueError, match=r"modes=\(\) must hold"):
        fno(1, 1, modes=())
    with pytest.raises(ValueError, match=r"padding=-0.5 must lie between 0 and 1"):
        fno(1, 1, padding=-0.5)
    with pytest.raises(ValueError, match=r"needed .in, out, 2 axes of modes, 2."):
        fourier_multiply(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2))
