"""What each operator is, beyond the common contract."""

import copy

import pytest
import torch
from neuralop.layers.spectral_convolution import SpectralConv
from torch.nn import functional as F

from mondrian import Integral, Interpolating, LowRank, Mixture, PointAttention, SeparableMixture, Spectral
from mondrian.operators.interpolating import hat_functions
from mondrian.quadrature import Cell, EndCorrected, Midpoint

pytestmark = pytest.mark.usefixtures("float64")


def test_the_mixture_with_one_hidden_unit_and_no_slope_is_a_mean_over_the_cell():
    built = Mixture(terms=3, skip=False).build(2, 4, bias=False)
    with torch.no_grad():
        built.second.weight.zero_()
    cell = Cell.build((4, 4), EndCorrected(terms=1))
    v = torch.randn(1, 3, 2, 16)
    matrix = torch.einsum("n,nio->io", built.second.bias, built.mixed)
    expected = ((v * cell.weights).sum(dim=-1) @ matrix)[..., None].expand(-1, -1, -1, 16)
    torch.testing.assert_close(built(v, cell), expected)


def test_a_mixture_of_diagonal_matrices_is_the_separable_mixture():
    separable = SeparableMixture(terms=6).build(5, 5, bias=False)
    full = Mixture(terms=6, skip=False).build(5, 5, bias=False)
    with torch.no_grad():
        separable.mix.weight.copy_(torch.eye(5))
        separable.mix.bias.zero_()
        full.mixed.copy_(torch.diag_embed(separable.diagonals))
        for part in ("first", "second"):
            getattr(full, part).load_state_dict(getattr(separable, part).state_dict())
    cell = Cell.build((4, 3), Midpoint())
    v = torch.randn(2, 2, 5, 12)
    torch.testing.assert_close(full(v, cell), separable(v, cell))


def test_a_mixture_is_an_integral_operator_whose_last_layer_is_collapsed():
    mixture = Mixture(terms=7, skip=False).build(3, 4)
    integral = Integral(hidden=8).build(3, 4)
    matrices, mean = mixture.matrices()
    with torch.no_grad():
        integral.first.load_state_dict(mixture.first.state_dict())
        integral.second.weight.copy_(matrices.flatten(1).mT)
        integral.second.bias.copy_(mean.flatten())
    cell = Cell.build((4, 4), Midpoint())
    v = torch.randn(1, 2, 3, 16)
    torch.testing.assert_close(mixture.definition(v, cell), integral.definition(v, cell))


def test_the_low_rank_operator_has_its_rank():
    cell = Cell.build((6, 6), Midpoint())
    built = LowRank(rank=3, hidden=16).build(4, 5, bias=False)
    columns = built(torch.eye(4 * 36).view(-1, 1, 4, 36), cell).flatten(1)
    assert torch.linalg.matrix_rank(columns) == 3


def test_the_hats_interpolate_and_sum_to_one():
    nodes = Cell.build((4, 4), Midpoint()).coordinates
    torch.testing.assert_close(hat_functions(nodes, 4), torch.eye(16))
    x = 2 * torch.rand(30, 2) - 1
    torch.testing.assert_close(hat_functions(x, 4).sum(dim=1), torch.ones(30))
    inside = 1.5 * torch.rand(30, 2) - 0.75  # between the outermost nodes a bilinear function is reproduced
    values = hat_functions(inside, 4) @ (1 + nodes[:, 0] - 2 * nodes[:, 1] + 3 * nodes.prod(dim=1))
    torch.testing.assert_close(values, 1 + inside[:, 0] - 2 * inside[:, 1] + 3 * inside.prod(dim=1))


def test_between_the_nodes_the_interpolating_factors_stay_between_their_values():
    factor = Interpolating(rank=2).build(2, 2).phi
    fine = torch.einsum("xm,rcm->rcx", hat_functions(Cell.build((21, 21), Midpoint()).coordinates, 4), factor)
    assert (fine.amax(dim=-1) <= factor.amax(dim=-1) + 1e-12).all()
    assert (fine.amin(dim=-1) >= factor.amin(dim=-1) - 1e-12).all()


def test_the_spectral_operator_is_the_truncated_fourier_multiplier_that_torch_computes():
    built = Spectral(modes=4).build(2, 3, bias=False)
    n = 12
    v = torch.randn(1, 1, 2, n * n)
    spectrum = torch.fft.rfft2(v.view(2, n, n), norm="forward")
    product = torch.zeros(3, n, n // 2 + 1, dtype=torch.complex128)
    weight = torch.complex(built.weight[:, 0], built.weight[:, 1])
    for mode, (k0, k1) in enumerate(built.frequencies):
        product[:, k0, k1] = spectrum[:, k0, k1] @ weight[mode]
    expected = torch.fft.irfft2(product, s=(n, n), norm="forward")
    torch.testing.assert_close(built(v, Cell.build((n, n), Midpoint())).view(3, n, n), expected)


def test_the_spectral_operator_agrees_with_neuraloperator():
    peer = SpectralConv(2, 3, n_modes=(4, 4), bias=False)
    built = Spectral(modes=4).build(2, 3, bias=False)
    theirs = peer.weight.to_tensor().to(torch.complex128) if hasattr(peer.weight, "to_tensor") else peer.weight
    theirs = theirs.detach().to(torch.complex128)  # in, out, mode, mode; the first axis runs over -2 ... 1
    with torch.no_grad():
        flat = theirs.flatten(2).permute(2, 0, 1)
        built.weight.copy_(torch.stack([flat.real, flat.imag], dim=1))
    v = torch.randn(1, 1, 2, 144)
    ours = built(v, Cell.build((12, 12), Midpoint())).view(1, 3, 12, 12)
    torch.testing.assert_close(ours, peer(v.view(1, 2, 12, 12).float()).double(), rtol=1e-4, atol=1e-5)


def test_the_spectral_operator_commutes_with_cyclic_shifts_of_the_cell():
    built = Spectral(modes=5, skip=True).build(2, 3)
    cell = Cell.build((8, 6), Midpoint())
    v = torch.randn(1, 1, 2, 8, 6)
    moved = built(v.roll((3, 2), dims=(-2, -1)).flatten(-2), cell)
    torch.testing.assert_close(moved, built(v.flatten(-2), cell).view(1, 1, 3, 8, 6).roll((3, 2), (-2, -1)).flatten(-2))


def test_frequencies_that_the_points_cannot_tell_apart_are_left_out():
    built = Spectral(modes=8).build(1, 1)
    kept = [built.frequencies[index] for index in built.waves(Cell.build((4, 4), Midpoint()))[3]]
    assert sorted(kept) == [(a, b) for a in (-1, 0, 1) for b in (0, 1)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_waves_of_several_turns_are_as_exact_as_the_precision(dtype):
    built, v = Spectral(modes=8).build(4, 4), torch.randn(1, 3, 4, 256)
    exact = built(v, Cell.build((16, 16), Midpoint()))
    with torch.no_grad():
        u = copy.deepcopy(built).to(dtype)(v.to(dtype), Cell.build((16, 16), Midpoint(), dtype=dtype))
    assert (u.double() - exact).norm() < torch.finfo(dtype).eps * exact.norm()


def test_a_band_limited_function_has_the_same_output_at_every_resolution():
    built = Spectral(modes=4).build(1, 1)

    def output(n):
        cell = Cell.build((n,) * 2, Midpoint())
        x = torch.pi * cell.coordinates
        v = torch.sin(x[:, 0]) + torch.cos(x[:, 0] - x[:, 1])
        return built(v[None, None, None], cell).view(n, n)

    torch.testing.assert_close(output(27)[1::3, 1::3], output(9), rtol=1e-10, atol=1e-10)


def test_point_attention_with_no_scores_is_the_mean_over_the_cell():
    built = PointAttention().build(4, 6, bias=False)
    with torch.no_grad():
        built.query.weight.zero_()
        built.offset_bias[2].weight.zero_()
    cell = Cell.build((5, 5), EndCorrected(terms=1))
    v = torch.randn(1, 2, 4, 25)
    mean = F.linear((v * cell.weights).sum(dim=-1), built.value.weight)
    torch.testing.assert_close(built(v, cell), mean[..., None].expand(-1, -1, -1, 25))


def test_point_attention_reduces_its_heads_to_a_common_divisor():
    assert PointAttention(n_heads=2).build(3, 4).n_heads == 1
    assert PointAttention(n_heads=4).build(6, 8).n_heads == 2
