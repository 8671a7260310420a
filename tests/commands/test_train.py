"""`mondrian train` and `mondrian demo` from the command line: from nothing to a report, and one line for bad input."""

import re
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from mondrian.cli import main
from mondrian.commands import demo
from mondrian.data.meshes import MeshFiles, MeshSplits, PerforatedPoisson
from mondrian.data.meshes.poisson import write_poisson
from mondrian.models import point_no
from mondrian.points import Boxes
from mondrian.settings.compose import parsed, quoted
from mondrian.training import TrainingSpec, train_model
from mondrian.training.run import Run

pytestmark = pytest.mark.training

SMALL = ("model.hidden_channels=8", "model.n_layers=1", "max_steps=3", "simulations.train=8", "simulations.valid=4",
         "simulations.test=4", "shard_size=4")  # fmt: skip


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)


def test_train_evaluate_and_report_follow_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "experiment=allen_cahn/vit_sepmo", "scale=smoke", *SMALL]) == 0
    out = capsys.readouterr().out
    following = re.search(r"next: mondrian (evaluate \S+) && mondrian (report \S+)", out)
    assert following is not None
    for command in following.groups():
        assert main(command.split()) == 0
    folder = Path("runs/allen_cahn/vit_sepmo_smoke")
    assert (folder / "report.html").exists()
    assert (folder / "evaluation" / "metrics.json").exists()
    assert "128x128" in capsys.readouterr().out


def test_the_demo_does_it_all_and_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *SMALL]) == 0
    out = capsys.readouterr().out
    table = out.split("each baseline is:")[1]
    assert [line.split()[0] for line in table.splitlines() if " x " in line] == ["32", "64", "128"]
    assert Path("runs/demo/report.html").exists()
    assert main(["demo", *SMALL]) == 0


@pytest.mark.parametrize("folder", ["größe (1), a=b", "it's"])
def test_folders_may_have_any_name(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment=allen_cahn/fno", "scale=smoke", *SMALL, f"run={quoted(folder)}", "data.path='meine Daten'"]
    assert main(["generate", "path='meine Daten'", "scale=smoke", "workers=1"]) == 0
    assert main(["train", *words]) == 0
    commands = capsys.readouterr().out.partition("next: ")[2].split(" && ")
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    assert (Path(folder) / "report.html").exists()
    assert main(["train", f"run={quoted(folder)}", "resume=true", "max_steps=4"]) == 0


def test_meshes_of_ones_own_may_be_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "größe (1), a=b"
    write_poisson(folder, PerforatedPoisson(spacing=0.2), {"train": 2, "valid": 1})
    model = point_no(1, 1, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1, reference=(2, 2)).spec
    splits = MeshSplits(files=MeshFiles(path=str(folder)), input=("source",), target=("solution",))
    told: list[TrainingSpec] = []

    def record(spec: TrainingSpec, *_: object, **__: object) -> Run:
        told.append(spec)
        return Run(tmp_path)

    monkeypatch.setattr(
        sys.modules["mondrian.training.train"], "train_spec", record
    )  # the name is that of a function too
    train_model(model, splits, "run=a")
    assert told[0].config["data"]["path"] == told[0].data.path == str(folder)


def test_a_word_that_cannot_be_read_is_shown_with_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train", "sweep", "demo", "league", "generate"):
        words = ["allen_cahn"] if command == "league" else []
        key = {"league": "folder", "generate": "path"}.get(command, "run")
        assert main([command, *words, f"{key}=größe"]) == 2
        error = capsys.readouterr().err
        assert f"{key}=größe cannot be read" in error
        assert f"""; quotes keep its value as it is: "{key}='größe'"\n""" in error


def test_the_demo_takes_any_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told: dict[str, list[str]] = {}
    for name in ("train", "evaluate", "report"):
        monkeypatch.setattr(f"mondrian.commands.{name}.run", partial(told.__setitem__, name))
    monkeypatch.setattr(demo.Evaluation, "load", lambda _: None)
    monkeypatch.setattr(demo, "ratios", lambda _: "")
    demo.run(["run='größe (1)'"])
    assert parsed(told["train"])["run"] == told["evaluate"][0] == told["report"][0] == "größe (1)"
    use = capsys.readouterr().out.splitlines()[-1].partition("use it:")[2]
    assert shlex.split(use)[:3] == ["mondrian", "predict", "größe (1)"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["max_stepz=3"], "max_stepz"),
        (["experiment=allen_cahn/vit_magic"], "vit_magic"),
        (["data=files", "data.path=nowhere", "data.input=[u]", "data.target=[u]"], "nowhere does not exist"),
        (["data=files", "data.path=nowhere"], "data.input is missing"),
        (["data=files", "data.input=[u]", "data.target=[u]"], "needed one of data.path"),
        (["experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden=3", *SMALL], "hidden"),
        (["experiment=allen_cahn/fno", "scale=smoke", "trainer.precison=16", *SMALL], "precison"),
        (["experiment=allen_cahn/fno", "scale=smoke", "+trainer.speed=16", *SMALL], "speed"),
        (["experiment=allen_cahn/fno", "scale=smoke", "loss=l7", *SMALL], "l7"),
        (["experiment=allen_cahn/fno", "scale=smoke", "resume=maybe", *SMALL], "resume"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words]) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("mondrian train: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "word, message",
    [
        ("normalise=standart", "normalise=standart is not known; needed one of standard, scale, none"),
        ("data.log=[gama]", "data.log names 'gama'; the data set's channels are of ['gamma', 'u']"),
        ("data.parity=0", "data.parity=0 must be 1 or -1"),
        ("data.seed=-1", "data.seed=-1 must be a whole number from 0 on"),
        ("data.fractions=[1.0]", "fractions=(1.0,) must have a share for each of train, valid, test"),
        ("data.simulations=0", "data.simulations=0 must be a whole number from 1 on"),
    ],
)
def test_what_is_wrong_is_said_before_data_are_made(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "experiment=allen_cahn/fno", "scale=smoke", *SMALL, word]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("words", [["train"], ["sweep", "seed=0,1"]])
def test_scales_of_meshes_and_sweeps_are_checked_before_data_are_made(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "experiment=poisson/boxes", "scale=smoke", "data.log=[sorce]"]) == 2
    assert "data.log names 'sorce'; the data set's channels are of ['distance'," in capsys.readouterr().err
    assert not Path("data").exists()
