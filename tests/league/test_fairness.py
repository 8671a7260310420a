"""The same budget for all: parameters within a factor of two, and speeds that mean something."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from mondrian.evaluation.statistics import Summary
from mondrian.league.results import Score
from mondrian.league.settings import parse
from mondrian.league.speeds import clock_of, in_step, step_seconds, yardsticks
from mondrian.training.settings import ModelSettings, resolved_config

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("part", ["main", "ablation"])
def test_parameters_are_within_a_factor_of_two(problem: str, part: str) -> None:
    counts = parameters_of(problem, part)
    assert max(counts.values()) <= 2 * min(counts.values()), counts


@pytest.mark.parametrize(
    ("problem", "part"), [("allen_cahn", "design_ablation"), ("allen_cahn", "beyond"), ("navier_stokes", "beyond")]
)
def test_every_variant_can_be_built(problem: str, part: str) -> None:
    assert min(parameters_of(problem, part).values()) > 100_000


def parameters_of(problem: str, part: str) -> dict[str, int]:
    counts = {}
    for name, config in configs_of(problem, part).items():
        with torch.device("meta"):
            model = ModelSettings(config["model"]).spec().build()
        counts[name] = sum(parameter.numel() for parameter in model.parameters())
    return counts


@cache
def configs_of(problem: str, part: str) -> dict[str, dict[str, Any]]:
    """The configuration of each entrant: composing them takes most of the time of these tests."""
    league = parse([problem, f"part={part}"])
    return {entrant.name: resolved_config(league.overrides(entrant)) for entrant in league.entrants}


def test_speeds_are_medians_of_the_second_step_of_each_turn() -> None:
    now, order = [0.0], []

    def step(name: str, *durations: float) -> Callable[[], None]:
        left = iter(durations)

        def run() -> None:
            order.append(name)
            now[0] += next(left)

        return run

    steps = {"a": step("a", 90, 1, 90, 50, 90, 3), "b": step("b", 90, 8, 90, 7, 90, 0)}
    assert step_seconds(steps, lambda: now[0], threads=1, rounds=3) == {"a": 3, "b": 7}
    assert "".join(order) == "aabbaabbaabb"


def test_speeds_that_are_measured_later_are_brought_to_the_hour_of_the_first() -> None:
    known = {"fno": 100.0, "ffno": 40.0, "gt": 10.0}
    later = {"fno": 50.0, "ffno": 16.0, "gt": 5.0, "vit_mo": 8.0}  # half as fast, and one of them was unlucky
    assert in_step(later, known) == known | {"vit_mo": 16.0}
    assert in_step(later, {}) == later


def test_yardsticks_are_slow_fast_and_between() -> None:
    league = parse(["allen_cahn"])
    known = {"wide": 5.0, "fno": 100.0, "vit_mo": 8.0, "ffno": 40.0, "gt": 10.0}
    assert [entrant.name for entrant in yardsticks(league, known)] == ["wide", "gt", "fno"]
    assert [entrant.name for entrant in yardsticks(league, {"gt": 1.0})] == ["gt"]
    assert yardsticks(league, {"theirs": 1.0, "wide_staggered": 2.0, "theirs_staggered": 3.0}) == []
    assert yardsticks(league, {}) == []


def test_on_one_thread_it_is_the_processors_time_that_counts() -> None:
    assert clock_of(1) is (time.perf_counter if torch.cuda.is_available() else time.process_time)
    assert clock_of(2) is time.perf_counter


def test_measuring_leaves_the_threads_as_they_were() -> None:
    former = torch.get_num_threads()
    step_seconds({"nothing": lambda: None}, time.perf_counter, threads=3, rounds=1)
    assert torch.get_num_threads() == former


def test_a_score_of_several_seeds_has_mean_and_deviation() -> None:
    score = Score.of([Summary(mean, mean - 0.005, mean + 0.004, 8) for mean in (0.01, 0.02, 0.03)])
    assert (score.mean, score.deviation, score.seeds) == (pytest.approx(0.02), pytest.approx(0.01), 3)
    assert (score.first_low, score.first_high) == (0.005, 0.014)  # of the first
    assert str(score) == "0.0200 ± 0.0100"
    assert str(Score.of([Summary(12.345, 1.0, 20.0, 3)])) == "12.3"


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_seed_that_did_not_stay_finite_shows_and_stops_nothing(bad: float) -> None:
    score = Score.of([Summary(1.0, 0.9, 1.1, 8), Summary(bad, bad, bad, 8)])
    assert (str(score), score.deviation) == (str(bad), None)


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("part", ["main", "ablation"])
def test_everyone_trains_in_the_same_way(problem: str, part: str) -> None:
    assert len({_training(config) for config in configs_of(problem, part).values()}) == 1


def _training(config: dict[str, Any]) -> str:
    """All that a league lets nobody have to themselves."""
    common = {key: config[key] for key in ("data", "loss", "normalise", "augment", "unroll", "noise", "batch_size")}
    optimizer = {key: value for key, value in config["optimizer"].items() if key not in ("lr", "warmup")}
    return f"{common} {optimizer}"


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
def test_under_one_attention_the_operators_differ_in_nothing_else(problem: str) -> None:
    settings: dict[str, set[str]] = {}
    for name, config in configs_of(problem, "ablation").items():
        model = config["model"]
        kept = {key: model[key] for key in sorted(model) if "operator" not in str(key) and key != "hidden_channels"}
        settings.setdefault(name.partition("_")[0], set()).add(f"{kept} {_training(config)}")
    assert {family: len(different) for family, different in settings.items()} == {"vit": 1, "swin": 1}, settings
