"""Flow-NO: a coarse level and transport, on any points, over any subdomains, wherever on a torus."""

import pytest
import torch

from mondrian import (
    EndCorrected,
    Grid,
    Interpolating,
    NeighborhoodAttention,
    Spec,
    TransformerSpec,
    flow_no,
    from_pretrained,
)
from mondrian.models import FlowNO
from mondrian.operators.base import use_definitions
from tests.unchecked import unchecked

pytestmark = pytest.mark.usefixtures("float64")

EXCHANGE = NeighborhoodAttention(n_heads=2, radius=1, operator=Interpolating(rank=3, nodes=2))


def small(dim: int = 2, *, periodic: bool = True, **more):
    """With weights away from their initial values, so that displacements depend on the input."""
    grid = Grid(extent=(1.0, 1.5, 0.5)[:dim], periodic=(periodic,) * dim)
    settings = {"hidden_channels": 8, "n_layers": 2, "subdomains": (2,) * dim, "grid": grid, "modes": 3}
    model = flow_no(2, 1, **(settings | more))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("exchange", [None, EXCHANGE], ids=["alone", "with attention"])
def test_shifts_of_a_torus_commute(dim, exchange):
    model = small(dim, exchange=exchange)
    x = torch.randn(1, 2, *(8,) * dim)
    # attention sees the cuts: with it only shifts by whole subdomains commute
    shift, axes = [4 if exchange else 3] * dim, list(range(2, 2 + dim))
    torch.testing.assert_close(model(x.roll(shift, axes)), model(x).roll(shift, axes))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("order", [2, 4])
def test_the_fast_forms_are_the_definitions(periodic, order):
    model = small(periodic=periodic, order=order)
    x = torch.randn(2, 2, 8, 12)
    fast = model(x)
    torch.testing.assert_close(use_definitions(model)(x), fast)


@pytest.mark.parametrize("more", [{}, {"cell_points": (6, 6)}, {"quadrature": EndCorrected()}, {"bound": 1.0}])
def test_every_resolution_and_other_output_points(more):
    model = small(periodic=False, **more)
    assert model(torch.randn(1, 2, 13, 10)).shape == (1, 1, 13, 10)
    vertices = Grid(extent=(1.0, 1.5), points=(9, 7), ends=(2, 2))
    assert model(torch.randn(1, 2, 9, 7), vertices).shape == (1, 1, 9, 7)
    assert model(torch.randn(1, 2, 12, 12), out_grid=vertices).shape == (1, 1, 9, 7)


def test_refined_points_of_a_smooth_field_give_nearly_the_same():
    """Second order: linear interpolation between points."""
    model = small(periodic=True)

    def at(n: int) -> torch.Tensor:
        x, y = torch.meshgrid(*[(torch.arange(n) + 0.5) / n * 2 * torch.pi] * 2, indexing="ij")
        u = torch.stack([torch.sin(x) * torch.cos(y), torch.cos(x + y)])[None]
        return model(u).unflatten(3, (8, -1)).unflatten(2, (8, -1)).mean(dim=(3, 5))

    truth = at(256)
    errors = [(at(n) - truth).norm() for n in (16, 32, 64)]
    assert errors[1] < 0.45 * errors[0]
    assert errors[2] < 0.45 * errors[1]


def test_it_is_a_setting_of_the_transformer_operator(tmp_path):
    spec = FlowNO(2, 1, subdomains=(4, 4), residual=(0,), exchange=EXCHANGE)
    model = spec.build()
    assert type(model.spec) is TransformerSpec
    assert [layer.label for layer in model.spec.opening] == ["attention", "coarse"]
    assert model.spec.layers[0].heads == 16
    assert Spec.from_json(spec.to_json()) == spec
    model.save_pretrained(tmp_path / "model")
    x = torch.randn(1, 2, 16, 16)
    torch.testing.assert_close(from_pretrained(tmp_path / "model")(x), model(x))


def test_every_parameter_learns():
    model = small(residual=(0,), exchange=EXCHANGE, branch_scale=0.1)
    model(torch.randn(2, 2, 16, 16)).square().mean().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert not idle


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_channels": 3}, "head_channels=3 does not divide hidden_channels=32"),
        ({"head_channels": 0}, "head_channels=0 must be at least 1"),
        ({"residual": (2,)}, r"residual=\(2,\) must name one of 2 input channels"),
        ({"order": 5}, "order=5 is not available"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        flow_no(2, 1, subdomains=(4, 4), **settings)
