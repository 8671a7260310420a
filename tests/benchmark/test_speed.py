"""Speed and memory of models: what is counted, in which order, and what is refused."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mondrian import SeparableMixture, vit_no
from mondrian.benchmark import Candidate, measure_speeds
from mondrian.benchmark.measure import flops, interleaved, peak_memory
from mondrian.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = vit_no(2, 3, hidden_channels=8, subdomains=(4, 4), operator=SeparableMixture(terms=4), n_layers=1)
    model.save_pretrained(tmp_path / "small")
    return tmp_path / "small"


def block(mebibytes: int) -> Callable[[], None]:
    def run() -> None:
        torch.zeros(mebibytes * 2**18).add_(1)

    return run


def test_cases_take_turns_and_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0.0], []

    def case(name: str, *durations: float) -> Callable[[], None]:
        left = iter(durations)

        def run() -> None:
            order.append(name)
            now[0] += next(left)

        return run

    monkeypatch.setattr(time, "process_time", lambda: now[0])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    found = interleaved({"a": case("a", 9, 4, 3, 5), "b": case("b", 9, 6, 7, 8)}, rounds=3)
    assert found == {"a": 3, "b": 6}
    assert "".join(order) == "abababab"  # the first round warms up


def test_memory_is_that_of_the_pass() -> None:
    small, large = (peak_memory(block, size) / 2**20 for size in (32, 128))
    assert small == pytest.approx(32, abs=4)
    assert large == pytest.approx(128, abs=4)


def test_a_process_that_ends_without_an_answer_leaves_no_number() -> None:
    assert math.isnan(peak_memory(exit))


def test_products_of_matrices_are_counted() -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert flops(lambda: a @ b) == 2 * 3 * 5 * 7


def test_all_models_are_measured_at_all_resolutions(folder: Path) -> None:
    candidates = [Candidate(str(folder)), Candidate("allen_cahn/fno", ("model.hidden_channels=4",))]
    found, refused = measure_speeds(candidates, [16, 32], batch=2, memory=False, rounds=1)
    assert [(speed.name, speed.points) for speed in found] == [
        (candidate.name, (size, size)) for size in (16, 32) for candidate in candidates
    ]
    assert refused == {}
    ours = found[0]
    assert ours.parameters == sum(p.numel() for p in candidates[0].build().parameters())
    assert ours.operations > 0
    assert 0 < ours.trained < ours.predictions  # backward and optimiser come on top
    assert math.isnan(ours.training_memory)


def test_training_needs_more_memory_than_a_prediction(folder: Path) -> None:
    (speed,), _ = measure_speeds([Candidate(str(folder))], [128], batch=4, rounds=1)
    assert speed.training_memory > 1.5 * speed.prediction_memory > 2**20


def test_a_resolution_that_a_model_refuses_is_left_out_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["benchmark", "allen_cahn/fano", "model.hidden_channels=8", "batch=1", "memory=false"]
    assert main([*words, "points=[3,16]", "--json"]) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)
    assert (row["points"], row["training_memory"]) == ([16, 16], None)
    assert "allen_cahn/fano at 3 points is left out: x has (3, 3) points; needed a multiple of patches" in err
    assert main([*words, "points=3"]) == 2
    assert "no model takes any of the resolutions" in capsys.readouterr().err


def test_the_command_prints_an_aligned_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(folder), "points=16", "memory=false"]) == 0
    head, row = capsys.readouterr().out.splitlines()[-2:]
    assert head.split()[:3] == ["model", "parameters", "points"]
    assert row.split()[0] == str(folder)
    assert len(head) == len(row)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model is named"),
        (["allen_cahn/nothing"], "no recipe 'allen_cahn/nothing'"),
        (["poisson/boxes"], "poisson/boxes is a model of functions on meshes; needed one of fields on grids"),
        (["allen_cahn/fno", "points=[]"], "points=[] must be points of each axis"),
        (["allen_cahn/fno", "points=big"], "points=big must be points of each axis"),
        (["allen_cahn/fno", "batch=0"], "batch=0 must be a whole number from 1 on"),
        (["allen_cahn/fno", "memory=3"], "memory=3 must be true or false"),
        (["allen_cahn/fno", "device=abacus"], "device=abacus cannot be used"),
        (["allen_cahn/fno", "--fast"], "unknown option --fast"),
        (["allen_cahn/fno", "model.colour=red"], "colour"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *words]) == 2
    assert message in capsys.readouterr().err
