"""The learning rate against its formula, and what an optimiser refuses."""

import math

import pytest
import torch

from mondrian.training.optimiser import AdamW


def test_rates_warm_up_linearly_and_end_at_the_final_rate() -> None:
    settings = AdamW(lr=1e-3, warmup=100, decay="cosine", final_lr=1e-8)
    assert [settings.rate(step, 1100) for step in (0, 49, 99)] == pytest.approx([1e-5, 5e-4, 1e-3])
    assert settings.rate(600, 1100) == pytest.approx(1e-8 + (1e-3 - 1e-8) / 2)
    assert settings.rate(1100, 1100) == pytest.approx(1e-8)
    quarter = 1e-8 + (1e-3 - 1e-8) * (1 + math.cos(math.pi / 4)) / 2
    assert settings.rate(350, 1100) == pytest.approx(quarter)


def test_linear_and_no_decay() -> None:
    assert AdamW(lr=1.0, warmup=0, decay="linear", final_lr=0.2).rate(5, 10) == pytest.approx(0.6)
    assert AdamW(lr=1.0, warmup=0, decay="none", final_lr=0.2).rate(9, 10) == 1.0


def test_the_schedule_sets_these_rates() -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    settings = AdamW(lr=1e-2, warmup=3, decay="linear")
    optimiser, schedule = settings.build([weight], steps=8)
    seen = []
    for _ in range(8):
        seen.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert seen == pytest.approx([settings.rate(step, 8) for step in range(8)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"decay": "sudden"}, "decay=sudden is not known; needed one of cosine, linear, none"),
        ({"lr": 0.0}, "lr=0.0 and final_lr=0.0 must be positive"),
        ({"lr": 1e-3, "final_lr": 1e-2}, "the final one not larger"),
        ({"warmup": -1}, "negative"),
        ({"betas": (0.9,)}, r"betas=\(0\.9,\) must be two numbers from 0 on and below 1"),
        ({"betas": (0.9, 1.0)}, r"betas=\(0\.9, 1\.0\) must be two numbers"),
        ({"betas": (-0.1, 0.9)}, r"betas=\(-0\.1, 0\.9\) must be two numbers"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdamW(**arguments)
