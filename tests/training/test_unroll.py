"""Several applications in a row: losses worked out by hand, and where the gradient goes."""

import pytest
import torch

from mondrian import Grid
from mondrian.losses import MeanSquare
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec
from mondrian.training.unroll import Unroll, UnrolledLoss
from tests.test_surrogate import SumSpec

GRID = Grid(extent=(1.0,), points=(4,))
PLAIN = Scale()


@pytest.fixture(autouse=True)
def _in_float64(float64: None) -> None:
    pass


def surrogate(weight: float, scale: Scale = PLAIN) -> Surrogate:
    """u -> weight u."""
    built = SurrogateSpec(SumSpec(1), ("u[0]",), ("u[1]",), (scale,), (scale,)).build()
    built.model.weight.data.fill_(weight)
    return built


def objective(model: Surrogate, applications: int) -> UnrolledLoss:
    return UnrolledLoss(model, MeanSquare(), Unroll(applications))


def test_the_loss_is_the_mean_over_all_applications() -> None:
    x, y = torch.ones(1, 1, 4), torch.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1).expand(1, 3, 4)
    loss, first = objective(surrogate(3.0), 3)(x, y, GRID, horizon=3)
    # predictions 3, 9, 27 against 1, 2, 3
    assert loss.item() == pytest.approx(((3 - 1) ** 2 + (9 - 2) ** 2 + (27 - 3) ** 2) / 3)
    assert first.eq(3).all()


def test_the_gradient_goes_through_all_applications() -> None:
    model = surrogate(3.0)
    x, y = torch.ones(1, 1, 4), torch.zeros(1, 2, 4)
    loss, _ = objective(model, 2)(x, y, GRID, horizon=2)
    loss.backward()
    # loss (w^2 + w^4) / 2, derivative w + 2 w^3
    assert model.model.weight.grad.item() == pytest.approx(3 + 2 * 27)


def test_pushforward_trains_the_last_application_only() -> None:
    model = surrogate(3.0)
    x, y = torch.ones(1, 1, 4), torch.zeros(1, 2, 4)
    loss, _ = objective(model, 2)(x, y, GRID, horizon=2, pushforward=True)
    loss.backward()
    # loss (w c)^2 with c = w held fixed: 81, derivative 2 w c^2
    assert loss.item() == pytest.approx(81)
    assert model.model.weight.grad.item() == pytest.approx(2 * 3 * 9)


def test_the_loss_is_taken_on_the_scaled_side() -> None:
    x, y = torch.full((1, 1, 4), 10.0), torch.full((1, 1, 4), 50.0)
    loss, first = objective(surrogate(3.0, Scale(factor=10.0)), 1)(x, y, GRID, horizon=1)
    assert first.eq(30).all()
    assert loss.item() == pytest.approx((3 - 5) ** 2)


def test_noise_has_the_stated_size_and_belongs_to_the_place() -> None:
    scales = (Scale(factor=2.0), Scale())
    model = SurrogateSpec(SumSpec(2), ("u[0]", "gamma"), ("u[1]",), scales, (Scale(),)).build()
    noisy = UnrolledLoss(model, MeanSquare(), Unroll(noise=0.1))
    x = torch.zeros(8, 2, 4000)
    added = noisy.with_noise(x, list(range(8)), seed=0)
    assert added[:, 0].std().item() == pytest.approx(0.2, rel=0.02)
    assert added[:, 1].eq(0).all()
    assert torch.equal(noisy.with_noise(x[:3], [5, 6, 7], seed=0), added[5:])
    assert not torch.equal(noisy.with_noise(x, list(range(8)), seed=1), added)
    assert UnrolledLoss(model, MeanSquare(), Unroll()).with_noise(x, [0], seed=0) is x


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="unroll=0 must be at least 1"):
        Unroll(applications=0)
    with pytest.raises(ValueError, match=r"grow_every=0 and noise=-1\.0 must not be negative"):
        Unroll(noise=-1.0)
    with pytest.raises(ValueError, match="cannot be rolled out"):
        objective(SurrogateSpec(SumSpec(1), ("a",), ("u",), (Scale(),), (Scale(),)).build(), 2)
