"""A model is a sequence of layers, each of which adds a branch of the normalised functions."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from mondrian import (
    Attention,
    FeedForward,
    GlobalAttention,
    Grid,
    LayerContext,
    LayerSpec,
    NeighborhoodAttention,
    SeparableMixture,
    Spec,
    TransformerSpec,
    attention_map,
    from_pretrained,
)
from mondrian.layers import Block
from mondrian.parallel.model import with_subdomains
from mondrian.quadrature import Cell, Midpoint
from tests.unchecked import unchecked

pytestmark = pytest.mark.usefixtures("float64")

OPERATOR = SeparableMixture(terms=4, skip=True)
NEAR = NeighborhoodAttention(n_heads=2, radius=1)


@dataclass(frozen=True)
class MeanOfCell(LayerSpec):
    """A layer of one's own: a matrix times the mean over the cell."""

    def build(self, context: LayerContext) -> nn.Module:
        return MeanOfCellBranch(context.channels)


class MeanOfCellBranch(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(channels, channels)

    def forward(self, u, cell, lattice):
        return self.matrix((u * cell.weights).sum(dim=-1)).unsqueeze(-1).expand_as(u).clone()


@dataclass(frozen=True)
class MeanOfDomain(LayerSpec):
    """The same on the whole domain."""

    norm: str | None = "domain"
    whole_domain = True

    def build(self, context: LayerContext) -> nn.Module:
        return MeanOfDomainBranch(context.channels)


class MeanOfDomainBranch(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(channels, channels)

    def forward(self, u, subdomains):
        means = self.matrix(u.flatten(2).mean(dim=-1))
        return means.view(*means.shape, *(1,) * (u.ndim - 2)).expand_as(u).clone()


def spec(**settings) -> TransformerSpec:
    defaults = {"hidden_channels": 8, "n_layers": 2, "subdomains": (2, 3), "operator": OPERATOR, "attention": NEAR}
    return TransformerSpec(2, 1, **(defaults | settings))


def test_a_model_adds_one_branch_after_the_other():
    layers = (FeedForward(norm="point"), Attention(), MeanOfCell(norm="none"), FeedForward())
    model = spec(layers=layers, opening=(MeanOfDomain(),), positions=()).build()
    x = torch.randn(2, 2, 8, 12)
    decomposition = model.spec.decompose(model.spec.default_grid.with_points((8, 12)))
    cell = Cell.build((4, 4), Midpoint())
    v = model.lift(decomposition.cut(x), cell)
    opening = model.opening[0]
    w = decomposition.join(v)
    v = decomposition.cut(w + opening.mean_of_domain(opening.mean_of_domain_norm.on_field(w), decomposition))
    for block in model.blocks:
        v = v + block.feed_forward(block.feed_forward_norm(v, cell), cell)
        v = v + block.attention(block.attention_norm(v, cell), cell, decomposition.lattice)
        v = v + block.mean_of_cell(v, cell, decomposition.lattice)
        v = v + block.feed_forward_1(block.feed_forward_1_norm(v, cell), cell)
    torch.testing.assert_close(model(x), decomposition.join(model.projection(v, cell)))


@pytest.mark.parametrize("periodic", [True, False])
def test_staggering_moves_the_layers_on_cells_and_leaves_those_on_the_whole_domain(periodic):
    grid = Grid((1.0, 1.0), periodic=(periodic, periodic))
    on_domain, on_cells = (
        (spec(layers=(layer,), stagger=True, grid=grid)) for layer in (MeanOfDomain(), MeanOfCell(norm="point"))
    )
    x = torch.randn(1, 2, 8, 12)
    for described, equal in ((on_domain, True), (on_cells, False)):
        torch.manual_seed(0)
        staggered = described.build()
        plain = spec(layers=described.layers, grid=grid).build()
        plain.load_state_dict(staggered.state_dict())
        assert torch.allclose(staggered(x), plain(x), rtol=1e-10) == equal


def test_layers_have_settings_of_their_own():
    layers = (Attention(pattern=GlobalAttention(n_heads=4)), Attention(norm="domain"), FeedForward(SeparableMixture(2)))
    model = spec(layers=layers, n_layers=1).build()
    (block,) = model.blocks
    assert block.attention.spec == GlobalAttention(n_heads=4)
    assert block.attention_1.spec == NEAR
    assert type(block.attention_1_norm).__name__ == "DomainNorm"
    assert block.feed_forward.first.second.out_features == 2
    maps = attention_map(model, torch.randn(1, 2, 8, 12))
    assert [(each.block, each.weights.shape[1]) for each in maps] == [("blocks.0", 4), ("blocks.0.attention_1", 2)]


def test_a_spec_of_the_usual_layers_is_written_as_ever_and_others_come_back(tmp_path):
    assert not {"layers", "opening", "residual"} & set(spec().to_json())
    other = spec(layers=(MeanOfCell(), FeedForward()), opening=(MeanOfDomain(),), residual=(0,))
    assert Spec.from_json(other.to_json()) == other
    model, x = other.build(), torch.randn(1, 2, 8, 12)
    model.save_pretrained(tmp_path / "model")
    torch.testing.assert_close(from_pretrained(tmp_path / "model")(x), model(x))


def test_a_residual_model_predicts_a_change_of_an_input_channel():
    model = spec(residual=(1,)).build()
    for parameter in model.projection.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 2, 8, 12)
    torch.testing.assert_close(model(x), x[:, 1:])
    out_grid = Grid((1.0, 1.0), points=(8, 12))
    torch.testing.assert_close(model(x, out_grid=out_grid), x[:, 1:])


@pytest.mark.parametrize("scale", [None, 0.0])
def test_a_block_adds_scaled_branches(scale):
    context = LayerContext(8, 2, OPERATOR, NEAR, branch_scale=scale)
    block = Block((MeanOfDomain(), FeedForward()), context)
    decomposition = spec().decompose(Grid((1.0, 1.0), points=(8, 12)))
    v = torch.randn(1, 6, 8, 16)
    assert torch.equal(block(v, Cell.build((4, 4), Midpoint()), decomposition), v) == (scale == 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": ()}, r"layers=\(\) is empty; needed at least one layer"),
        ({"layers": (FeedForward(norm="batch"),)}, "norm='batch' is unknown"),
        (
            {"layers": (MeanOfDomain(norm="cell"),)},
            "works on the whole domain; needed norm='domain'",
        ),
        ({"residual": (2,)}, r"residual=\(2,\) must name one of 2 input channels"),
        ({"residual": (0, 1)}, r"residual=\(0, 1\) must name one .* for each of 1 output channels"),
        ({"layers": (Attention(pattern=GlobalAttention(spatial_heads=(2,))),)}, r"spatial_heads=\(2,\) must have 2"),
        ({"layers": (FeedForward,)}, "TransformerSpec has layers="),
    ],
)
def test_impossible_sequences_are_refused(settings, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        TransformerSpec(**({"in_channels": 2, "out_channels": 1, "subdomains": (2, 3)} | settings))


def test_layers_that_need_the_whole_domain_are_refused_on_slabs():
    for layer in (MeanOfDomain(), FeedForward(norm="domain"), MeanOfCell()):
        with pytest.raises(ValueError, match="needs the whole domain; to work on slabs needed"):
            with_subdomains(spec(layers=(layer,)).build())
    with_subdomains(spec().build())
