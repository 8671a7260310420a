"""`mondrian explore`: serves until it is stopped; bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from tests.explore.cases import data, surrogate

from mondrian.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without its run, and data."""
    folder = tmp_path_factory.mktemp("explore")
    splits = data("kuramoto_sivashinsky", folder)
    surrogate(splits).save_pretrained(folder / "artefact")
    return folder


@pytest.mark.process
def test_it_prints_an_address_answers_there_and_ends_with_an_interrupt(folder: Path) -> None:
    words = ["explore", str(folder / "artefact"), f"path={folder / 'kuramoto_sivashinsky'}", "split=valid"]
    hearing = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background of a script it would not
    command = [sys.executable, "-m", "mondrian.cli", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hearing
    ) as process:
        assert process.stdout is not None
        match = re.search(r"artefact: (http://127\.0\.0\.1:\d+/)\?key=(\S+)", process.stdout.readline())
        assert match is not None
        asked = urllib.request.Request(f"{match[1]}about", headers={"X-Mondrian-Key": match[2]})
        with urllib.request.urlopen(asked, timeout=60) as reply:
            about = json.load(reply)
        assert about["windows"] == [5]
        assert about["trained"] == []  # an artefact does not say
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.strip() == "mondrian explore: stopped"


@pytest.mark.parametrize("command", ["explore", "evaluate"])
@pytest.mark.parametrize(("content", "message"), [("{}", "has no data"), ("[]", "holds a list")])
def test_a_damaged_record_is_named(
    command: str,
    content: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    (tmp_path / "run.json").write_text(content)
    assert main([command, str(tmp_path)]) == 2
    error = f"mondrian {command}: {tmp_path}/run.json {message}; needed the record of a training run\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "0 runs are named; needed one"),
        (["a", "b"], "2 runs are named; needed one"),
        (["{folder}/artefact", "prot=1"], "no setting 'prot'; needed one of device, open, path, port, split"),
        (["{folder}/artefact", "port=x"], "port=x must be a whole number from 0 on"),
        (["{folder}/artefact"], "is a model without a run; needed the data to evaluate it on, path=..."),
        (["nowhere"], "nowhere does not exist"),
        (["{folder}/artefact", "path={folder}/kuramoto_sivashinsky", "split=tset"], "split='tset' is not"),
    ],
)
def test_bad_input_is_named(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    assert main(["explore", *(word.format(folder=folder) for word in words)]) == 2
    assert message in capsys.readouterr().err
