"""The normalisations of a block and the scales of its branches, by what defines them."""

from dataclasses import dataclass

import pytest
import torch

from mondrian import GlobalAttention, Grid, SeparableMixture
from mondrian.decomposition import Decomposition
from mondrian.layers import Attention, Block, FeedForward, LayerContext
from mondrian.layers.norm import NORMS
from mondrian.models.transformer import TransformerSpec
from mondrian.quadrature import Cell, EndCorrected, Midpoint
from tests.models.cases import small

CELLS = Decomposition(Grid((1.0, 1.0), points=(8, 12)), (2, 3))
LATTICE = CELLS.lattice
CELL = Cell.build((4, 4), Midpoint())


@dataclass(frozen=True)
class EqualWeights(Midpoint):
    """The midpoint rule, without saying that it is one."""

    equal_weights = False


def functions(channels: int = 16) -> torch.Tensor:
    return 3 * torch.randn(2, LATTICE.size, channels, CELL.size) + 1


def block(**settings) -> Block:
    context = LayerContext(16, 2, SeparableMixture(terms=4), GlobalAttention(n_heads=2), **settings)
    return Block((Attention(), FeedForward()), context)


@pytest.mark.parametrize(("kind", "axes"), [("cell", (3, 4)), ("domain", (1, 2, 3)), ("point", (2,))])
def test_a_normalised_function_has_mean_nought_and_variance_one(kind, axes):
    v = NORMS[kind](16)(functions(), CELL)
    v = v.unflatten(2, (8, 2)) if kind == "cell" else v
    torch.testing.assert_close(v.mean(dim=axes), torch.zeros(()).expand(v.mean(dim=axes).shape), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        v.var(dim=axes, unbiased=False), torch.ones(()).expand(v.mean(dim=axes).shape), atol=1e-4, rtol=0
    )


def test_the_norm_of_the_domain_does_not_depend_on_the_cuts():
    norm, v = NORMS["domain"](16), functions()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    u = CELLS.join(v)
    torch.testing.assert_close(CELLS.join(norm(v, CELL)), norm.on_field(u), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm(v, Cell.build((4, 4), EqualWeights())), norm(v, CELL), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="norm='cell' needs cells"):
        NORMS["cell"](16).on_field(u)


def test_a_cell_is_normalised_by_integrals_of_the_rule_that_the_model_has():
    cell, v = Cell.build((4, 4), EndCorrected(terms=1)), functions()
    groups = NORMS["cell"](16)(v, cell).unflatten(2, (8, 2))
    mean, square = groups.mean(dim=3), groups.square().mean(dim=3)
    torch.testing.assert_close((mean * cell.weights).sum(-1), torch.zeros(2, 6, 8), atol=1e-5, rtol=0)
    torch.testing.assert_close((square * cell.weights).sum(-1), torch.ones(2, 6, 8), atol=1e-4, rtol=0)
    as_midpoints = Cell.build((4, 4), EqualWeights())
    norm = NORMS["cell"](16)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    torch.testing.assert_close(norm(v, as_midpoints), norm(v, CELL), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_are_not_taken_in_low_precision(dtype):
    cell = Cell.build((4, 4), EndCorrected(terms=1), dtype=dtype)
    v = (400 * torch.randn(1, 6, 16, 16)).to(dtype)  # the squares are beyond float16
    exact = NORMS["cell"](16)(v.float(), Cell.build((4, 4), EndCorrected(terms=1)))
    assert (NORMS["cell"](16).to(dtype)(v, cell).float() - exact).abs().amax() < 0.02


@pytest.mark.parametrize("rule", [Midpoint(), EqualWeights()], ids=["midpoint", "weights"])
def test_the_norm_of_one_value_is_its_shift(rule):
    norm, cell = NORMS["cell"](8), Cell.build((1, 1), rule)  # a channel a group
    torch.nn.init.normal_(norm.bias)
    v = torch.randn(1, 1, 8, 1)
    for mode in (True, False):
        torch.testing.assert_close(norm.train(mode)(v, cell), norm.bias.view(v.shape))


def test_without_a_norm_the_functions_are_themselves():
    v = functions()
    assert torch.equal(NORMS["none"](16)(v, CELL), v)


@pytest.mark.parametrize("kind", ["cell", "domain", "point"])
def test_the_branches_do_not_see_how_large_a_function_is(kind):
    norm, v = NORMS[kind](16), functions()
    torch.testing.assert_close(norm(7 * v, CELL), norm(v, CELL), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["point", "none"])
def test_a_norm_at_each_point_does_not_know_how_many_points_there_are(kind):
    norm, v = NORMS[kind](16), functions()
    torch.testing.assert_close(norm(v, CELL)[..., ::2], norm(v[..., ::2], CELL))


def test_a_block_begins_as_the_identity_where_its_branches_begin_with_nought():
    v = functions()
    assert torch.equal(block(branch_scale=0.0)(v, CELL, CELLS), v)


def test_a_branch_scale_of_one_is_the_block_without_scales():
    v = functions()
    torch.manual_seed(0)
    scaled = block(branch_scale=1.0)
    torch.manual_seed(0)
    torch.testing.assert_close(scaled(v, CELL, CELLS), block()(v, CELL, CELLS))


def test_a_branch_is_scaled_channel_by_channel():
    v = functions()
    scaled = block(branch_scale=1.0)
    torch.nn.init.zeros_(scaled.feed_forward_scale)
    with torch.no_grad():
        scaled.attention_scale[0] = 0.0
        u = scaled(v, CELL, CELLS)
    assert torch.equal(u[:, :, 0], v[:, :, 0])
    assert not torch.equal(u[:, :, 1], v[:, :, 1])


@pytest.mark.parametrize("kind", ["vit", "swin", "nbr", "unet"])
@pytest.mark.parametrize("norm", ["point", "none"])
def test_every_model_takes_them_and_every_parameter_learns(kind, norm):
    model = small(kind, norm=norm, branch_scale=0.1)
    model(torch.randn(2, 2, 16, 24)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_an_unknown_norm_is_refused_by_name():
    with pytest.raises(ValueError, match=r"norm='batch' is unknown; needed one of \['cell', 'domain'"):
        TransformerSpec(1, 1, subdomains=(2, 2), norm="batch", grid=Grid(extent=(1.0, 1.0)))


def test_a_branch_scale_that_is_no_number_is_refused_by_name():
    with pytest.raises(ValueError, match="branch_scale=nan must be finite"):
        TransformerSpec(1, 1, subdomains=(2, 2), branch_scale=torch.nan)
