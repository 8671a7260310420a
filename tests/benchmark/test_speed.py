"""Speed and memory of models: what is counted, in which order, and what is refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mondrian import SeparableMixture, vit_no
from mondrian.benchmark import Candidate, measure_speeds
from mondrian.benchmark.measure import flops, interleaved, peak_memory
from mondrian.benchmark.speed import PREDICTION, TRAINING, Trial
from mondrian.cli import main
from mondrian.commands.benchmark import read
from mondrian.models.baselines import FNO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = vit_no(2, 3, hidden_channels=8, subdomains=(4, 4), operator=SeparableMixture(terms=4), n_layers=1)
    model.save_pretrained(tmp_path / "small")
    return tmp_path / "small"


def block(mebibytes: int) -> Callable[[], None]:
    def run() -> None:
        torch.zeros(mebibytes * 2**18).add_(1)

    return run


def timed(now: list[float], order: list[str], name: str, *durations: float) -> Callable[[], None]:
    """A case that takes these durations, one after the other."""
    left = iter(durations)

    def run() -> None:
        order.append(name)
        now[0] += next(left)

    return run


def test_cases_take_turns_and_the_best_counts() -> None:
    now, order = [0.0], []
    cases = {"a": timed(now, order, "a", 9, 4, 3, 5), "b": timed(now, order, "b", 9, 6, 7, 8)}
    assert interleaved(cases, rounds=3, clock=lambda: now[0]) == {"a": 3, "b": 6}
    assert "".join(order) == "abababab"  # the first round warms up


def test_a_short_case_has_several_turns_and_rounds_end_with_the_time() -> None:
    now, order = [0.0], []
    cases = {"long": timed(now, order, "L", *[60] * 9), "short": timed(now, order, "s", 1, *[2] * 10, *[1] * 30)}
    assert interleaved(cases, rounds=5, seconds=100.0, clock=lambda: now[0]) == {"long": 60, "short": 2}
    assert "".join(order) == "Ls" + "Lsssss" * 2  # two rounds at least, then 100 seconds are used up


@pytest.mark.process
def test_memory_is_that_of_the_timed_step() -> None:
    small, large = (peak_memory(block, size) / 2**20 for size in (32, 128))
    assert small == pytest.approx(32, abs=4)
    assert large == pytest.approx(128, abs=4)


@pytest.mark.process
def test_a_process_that_ends_without_an_answer_leaves_no_number() -> None:
    assert math.isnan(peak_memory(exit))


def test_products_of_matrices_are_counted() -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert flops(lambda: a @ b) == 2 * 3 * 5 * 7


def test_attention_is_counted() -> None:
    q = torch.randn(1, 2, 16, 8)
    assert flops(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)) == 2 * 2 * 2 * 16 * 16 * 8


def test_all_models_are_measured_at_all_resolutions(folder: Path) -> None:
    candidates = [Candidate(str(folder)), Candidate("allen_cahn/fno", ("model.hidden_channels=4",))]
    speeds, refused = measure_speeds(candidates, [16, 32], batch_size=2, memory=False, rounds=1)
    assert [(speed.name, speed.points) for speed in speeds] == [
        (str(candidate), (size, size)) for size in (16, 32) for candidate in candidates
    ]
    assert refused == {}
    ours = speeds[0]
    assert ours.parameters == sum(p.numel() for p in candidates[0].build().parameters())
    assert ours.operations_per_second > 0
    assert 0 < ours.trained_per_second < ours.predictions_per_second  # backward and optimiser come on top
    assert math.isnan(ours.training_bytes)


def test_without_points_each_model_has_those_of_its_dimensions() -> None:
    small = ("model.hidden_channels=8",)
    candidates = [Candidate("kuramoto_sivashinsky/staggered", small), Candidate("allen_cahn/fno", small)]
    speeds, _ = measure_speeds(candidates, batch_size=1, memory=False, rounds=1)
    assert [speed.points for speed in speeds] == [(256,), (64, 64)]


def test_a_prediction_keeps_its_kernels_beside_steps_of_training() -> None:
    trial = Trial(Candidate("allen_cahn/vit_integral", ("model.hidden_channels=8",)), 16, 1, torch.device("cpu"))
    trial.try_out()
    alone = flops(trial.timed_steps[PREDICTION])
    trial.timed_steps[TRAINING]()
    assert flops(trial.timed_steps[PREDICTION]) == alone  # kernels made anew would be counted too


def test_a_model_of_double_precision_is_measured_as_it_is(tmp_path: Path) -> None:
    vit_no(1, 1, hidden_channels=8, subdomains=(4, 4), operator=SeparableMixture(terms=4)).double().save_pretrained(
        tmp_path
    )
    (speed,), _ = measure_speeds([Candidate(str(tmp_path))], [16], batch_size=1, memory=False, rounds=1)
    assert speed.predictions_per_second > 0


def test_what_does_not_fit_into_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 8 GiB\nmore")

    monkeypatch.setattr(FNO, "forward", full)
    speeds, refused = measure_speeds([Candidate("allen_cahn/fno")], [16], memory=False)
    assert speeds == []
    assert refused == {"allen_cahn/fno at 16x16": "out of memory: tried to allocate 8 GiB"}


@pytest.mark.process
def test_training_needs_more_memory_than_a_prediction(folder: Path) -> None:
    (speed,), _ = measure_speeds([Candidate(str(folder))], [128], batch_size=4, rounds=1)
    assert speed.training_bytes > 1.5 * speed.prediction_bytes > 2**20


def test_a_resolution_that_a_model_refuses_is_left_out_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["benchmark", "allen_cahn/fano", "model.hidden_channels=8", "batch_size=1", "memory=false"]
    assert main([*words, "points=[3,16]", "--json"]) == 0
    out, err = capsys.readouterr()
    results = json.loads(out)
    (row,) = results["models"]
    assert (results["batch_size"], row["points"], row["training_bytes"]) == (1, [16, 16], None)
    assert "fano model.hidden_channels=8 at 3x3 is left out: x has (3, 3) points; needed a multiple of patches" in err
    assert main([*words, "points=3"]) == 2
    assert "no model takes any of the resolutions" in capsys.readouterr().err


def test_settings_belong_to_the_recipe_before_them() -> None:
    words = ["allen_cahn/fno", "allen_cahn/fno", "model.hidden_channels=8", "batch_size=2", "allen_cahn/gt"]
    candidates, settings = read(words)
    assert list(map(str, candidates)) == ["allen_cahn/fno", "allen_cahn/fno model.hidden_channels=8", "allen_cahn/gt"]
    assert settings.batch_size == 2


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
        (["allen_cahn/nothing"], "allen_cahn/nothing is no recipe of `mondrian models`, and no folder of a run"),
        (["poisson/boxes"], "poisson/boxes is a model of functions on meshes; needed one of fields on grids"),
        (["allen_cahn/fno", "points=[]"], "points=[] must be points of each axis"),
        (["allen_cahn/fno", "points=32,64"], "points=32,64 holds several values; needed one, or a list in brackets"),
        (["allen_cahn/fno", "points=[[32,32]]"], "points=[[32, 32]] must be points of each axis"),
        (["allen_cahn/fno", "batch_size=0"], "batch_size=0 must be a whole number from 1 on"),
        (["allen_cahn/fno", "batch=4"], "no setting 'batch'; needed one of batch_size, device, memory, points"),
        (["allen_cahn/fno", "memory=3"], "memory=3 must be true or false"),
        (["allen_cahn/fno", "device=abacus"], "device=abacus cannot be used"),
        (["allen_cahn/fno", "device=null"], "device is empty; needed a value"),
        (["allen_cahn/fno", "device=meta"], "device=meta cannot be measured; needed cpu or cuda"),
        (["allen_cahn/fno", "--fast"], "unknown option --fast"),
        (["allen_cahn/fno", "model.colour=red"], "colour"),
        (["model.hidden_channels=8", "allen_cahn/fno"], "model.hidden_channels=8 belongs to no recipe"),
        (["tests", "model.hidden_channels=8"], "model.hidden_channels=8 is for recipes; tests is a model as it is"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *words]) == 2
    assert message in capsys.readouterr().err
