"""The same budget for all: parameters within a factor of two, and speeds that mean something."""

import time

import pytest
import torch
from hydra.utils import instantiate

from mondrian.league.results import Score
from mondrian.league.settings import read
from mondrian.league.speeds import step_seconds
from mondrian.training.settings import configure


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("part", ["main", "ablation"])
def test_parameters_are_within_a_factor_of_two(problem: str, part: str) -> None:
    league = read([problem, f"part={part}"])
    counts = {}
    for entrant in league.entrants:
        config = configure(league.words(entrant))
        with torch.device("meta"):
            model = instantiate(config.model, _convert_="all")
        counts[entrant.name] = sum(parameter.numel() for parameter in model.parameters())
    assert max(counts.values()) <= 2 * min(counts.values()), counts


def test_speeds_are_those_of_the_work() -> None:
    def busy(loops: int) -> None:
        for _ in range(loops):
            sum(range(1000))

    seconds = step_seconds({"short": lambda: busy(1000), "long": lambda: busy(4000)}, threads=1)
    assert 2.5 < seconds["long"] / seconds["short"] < 6  # four in truth


def test_on_one_thread_waiting_for_others_does_not_count() -> None:
    assert step_seconds({"waits": lambda: time.sleep(0.05)}, threads=1, rounds=2)["waits"] < 0.02


def test_measuring_leaves_the_threads_as_they_were() -> None:
    former = torch.get_num_threads()
    step_seconds({"nothing": lambda: None}, threads=3, rounds=1)
    assert torch.get_num_threads() == former


def test_a_score_of_several_seeds_has_mean_and_deviation() -> None:
    score = Score.of([0.01, 0.02, 0.03])
    assert (score.mean, score.deviation, score.seeds) == (pytest.approx(0.02), pytest.approx(0.01), 3)
    assert str(score) == "0.0200 ± 0.0100"
    assert str(Score.of([12.345])) == "12.3"
    assert str(Score.of([float("inf")])) == "inf"
