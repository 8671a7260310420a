"""FANO: attention between patches as functions."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from mondrian.models.baselines import FANOSpec, fano
from mondrian.models.baselines.fano import PatchAttention
from mondrian.operators.base import use_definitions
from tests.baselines.test_fno import circulant

pytestmark = pytest.mark.usefixtures("float64")


def waves(points: tuple[int, ...], frequencies: list[tuple[int, ...]]) -> Tensor:
    """`(frequency, point)`: the exponentials of a patch at its points, flattened."""
    axes = [(torch.arange(n) + 0.5) / n for n in points]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    angle = 2 * torch.pi * torch.tensor(frequencies, dtype=torch.float64) @ places.mT
    return torch.polar(torch.ones_like(angle), angle)


def test_scores_are_the_integrals_of_the_products():
    """Patches are trigonometric polynomials with given coefficients: the integral is a finite sum (Parseval)."""
    layer, points, modes, channels, cells = PatchAttention(4, 2, modes=4, dim=2), (8, 6), 4, 4, 3
    frequencies = [(k, m) for k, m in product((-2, -1, 0, 1), (0, 1, 2))]
    # real functions: Re sum_k a_k e^{2 pi i k y}; with half-planes of frequencies the mean of a product is
    # sum_k Re(a_k conj b_k) / 2 for k != 0, and the product of the real parts for k = 0
    interior = [f for f in frequencies if f[1] > 0 or f == (0, 0)]
    spectrum = torch.complex(torch.randn(cells, channels, len(interior)), torch.randn(cells, channels, len(interior)))
    v = torch.einsum("nck,kx->ncx", spectrum, waves(points, interior)).real[None]
    weight = torch.view_as_complex(layer.weight.detach())
    matrices = torch.stack([weight[:, :, k + modes // 2, m] for k, m in interior])
    a = spectrum.clone()
    zero = interior.index((0, 0))
    a[..., zero] = a[..., zero].real.to(a.dtype)  # of a constant only the real part is seen
    qkv = torch.einsum("kio,nik->nok", matrices, a)
    q, k = qkv[:, :channels], qkv[:, channels : 2 * channels]
    expected = torch.zeros(2, cells, cells)
    for head, i, j in product(range(2), range(cells), range(cells)):
        for c, f in product(range(2 * head, 2 * head + 2), range(len(interior))):
            p, r = q[i, c, f], k[j, c, f]
            expected[head, i, j] += p.real * r.real if f == zero else (p * r.conj()).real / 2
    queries, keys, _ = layer.functions(v, points)
    torch.testing.assert_close(layer.scores(queries, keys)[0], expected / 2**0.5)


def test_scores_do_not_depend_on_the_resolution():
    layer = PatchAttention(4, 2, modes=4, dim=1)

    def scores(n: int) -> Tensor:
        t = 2 * torch.pi * (torch.arange(n) + 0.5) / n
        v = torch.stack([torch.stack([(c * t + i).sin() + 0.2 * c for c in range(4)]) for i in range(3)])[None]
        q, k, _ = layer.functions(v, (n,))
        return layer.scores(q, k)

    torch.testing.assert_close(scores(9), scores(64))


@pytest.mark.parametrize("points", [(6,), (4, 5)])
def test_operators_are_circulant_on_each_patch(points):
    layer, v = PatchAttention(4, 2, modes=3, dim=len(points)), torch.randn(2, 3, 4, math.prod(points))
    dense = torch.einsum("oxiy,bniy->bnox", circulant(layer.weight.detach(), points), v)
    parts = layer.functions(v, points)
    together = torch.cat([part.transpose(1, 2).flatten(2, 3) for part in parts], dim=2)
    torch.testing.assert_close(together, dense)


@pytest.mark.parametrize("points", [(6,), (4, 5)])
def test_fused_attention_is_softmax_of_the_scores(points):
    layer = PatchAttention(4, 2, modes=3, dim=len(points))
    v = torch.randn(2, 3, 4, math.prod(points), requires_grad=True)
    fast = layer(v, points)
    slow = use_definitions(layer)(v, points)
    torch.testing.assert_close(fast, slow)
    way = torch.randn_like(fast)
    torch.testing.assert_close(*(torch.autograd.grad((u * way).sum(), v)[0] for u in (fast, slow)))


def test_refinement_converges():
    """At the order of the midpoint rule: a patch closed to a ring has a jump, and Fourier sums of it are means."""
    model = FANOSpec(1, 1, hidden_channels=8, n_layers=2, n_heads=2, patches=(2,), modes=2).build()

    def output(n):  # 18, 54, ... cell-centred points share those of 18
        x = (torch.arange(n) + 0.5) / n
        factor = n // 18
        return model((torch.sin(3 * x) + x**2)[None, None])[..., factor // 2 :: factor]

    fine = output(18 * 729)
    errors = [(output(n) - fine).norm().item() for n in (18, 54, 162)]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.2)


def test_rectangles_with_different_patches_an_axis():
    model = fano(1, 1, hidden_channels=8, n_heads=2, patches=(2, 3))
    assert model(torch.randn(1, 1, 8, 18)).shape == (1, 1, 8, 18)
    with pytest.raises(ValueError, match=r"x has \(8, 16\) points; needed a multiple of patches=\(2, 3\)"):
        model(torch.randn(1, 1, 8, 16))


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"patches=\(2, 0\) must hold"):
        fano(1, 1, patches=(2, 0))
    with pytest.raises(ValueError, match="modes=0 must be at least 1"):
        fano(1, 1, modes=0)
    with pytest.raises(ValueError, match="n_heads=3 does not divide"):
        fano(1, 1, n_heads=3)
