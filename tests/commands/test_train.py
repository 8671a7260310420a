"""`mondrian train` and `mondrian demo` from the command line: from nothing to a report, and one line for bad input."""

import re
from pathlib import Path

import pytest

from mondrian.cli import main

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


def test_the_demo_does_it_all_and_again_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *SMALL]) == 0
    out = capsys.readouterr().out
    table = out.split("forecast that knows nothing")[1]
    assert [line.split()[0] for line in table.splitlines() if " x " in line] == ["32", "64", "128"]
    assert Path("runs/demo/report.html").exists()
    assert main(["demo", *SMALL]) == 0


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
