"""Rollouts: which channel becomes which, and linear recursions whose answer is known."""

import pytest
import torch

from mondrian.rollout import Advance, predictions, rollout
from mondrian.surrogate import Scale, SurrogateSpec
from tests.test_surrogate import SumSpec


@pytest.mark.parametrize(
    "in_names, out_names, expected",
    [
        (("u[0]",), ("u[1]",), [10]),
        (("u[-2]", "u[-1]", "u[0]"), ("u[1]",), [1, 2, 10]),
        (("u[-1]", "u[0]", "gamma"), ("u[1]", "u[2]"), [10, 11, 2]),
        (("u[0]",), ("u[1]", "u[2]", "u[3]"), [12]),
        (("u[-1]", "v[-1]", "u[0]", "v[0]"), ("u[1]", "v[1]"), [2, 3, 10, 11]),
    ],
)
def test_the_next_input_is_made_of_the_right_channels(
    in_names: tuple[str, ...], out_names: tuple[str, ...], expected: list[int]
) -> None:
    x = torch.arange(len(in_names)).float()[None, :, None]
    y = 10 + torch.arange(len(out_names)).float()[None, :, None]
    assert Advance(in_names, out_names)(x, y).flatten().tolist() == expected


def test_a_sum_of_two_frames_makes_the_fibonacci_numbers() -> None:
    spec = SurrogateSpec(SumSpec(), ("u[-1]", "u[0]"), ("u[1]",), (Scale(),) * 2, (Scale(),))
    x = torch.ones(1, 2, 4)
    assert rollout(spec.build(), x, 8)[0, :, 0].tolist() == [2, 3, 5, 8, 13, 21, 34, 55]


def test_scales_do_not_change_a_rollout_of_a_linear_model() -> None:
    plain = SurrogateSpec(SumSpec(), ("u[-1]", "u[0]"), ("u[1]",), (Scale(),) * 2, (Scale(),)).build()
    scaled = SurrogateSpec(
        SumSpec(), ("u[-1]", "u[0]"), ("u[1]",), (Scale(factor=4.0),) * 2, (Scale(factor=4.0),)
    ).build()
    x = torch.randn(3, 2, 5)
    torch.testing.assert_close(rollout(scaled, x, 6), rollout(plain, x, 6))


def test_predictions_are_given_one_by_one() -> None:
    calls = []

    def apply(u: torch.Tensor) -> torch.Tensor:
        calls.append(u)
        return 2 * u

    answers = predictions(apply, Advance(("u[0]",), ("u[1]",)), torch.ones(1, 1, 1), 5)
    assert next(answers).item() == 2
    assert len(calls) == 1
    assert [value.item() for value in answers] == [4, 8, 16, 32]


def test_what_cannot_be_rolled_out_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot be rolled out; it predicts no v\[1\]"):
        Advance(("u[0]", "v[0]"), ("u[1]",))
    with pytest.raises(ValueError, match=r"cannot be rolled out; it predicts no channels with a step"):
        Advance(("a",), ("u",))
    with pytest.raises(ValueError, match=r"\('a', 'b'\) -> .* cannot be rolled out; no input changes in time"):
        Advance(("a", "b"), ("u[1]",))
    with pytest.raises(ValueError, match="applications=0 must be at least 1"):
        rollout(SurrogateSpec(SumSpec(1), ("u[0]",), ("u[1]",), (Scale(),), (Scale(),)).build(), torch.ones(1, 1, 1), 0)
