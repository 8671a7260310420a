"""One small league, run once: its trainings run in this process, which saves the imports of a process each."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mondrian.cli import main
from mondrian.league import publish, runner, train_one

FEW = ["simulations.train=8", "simulations.valid=2", "simulations.test=2", "+widths.fno=['model.hidden_channels=8']"]
SMALL = ["allen_cahn", "scale=smoke", "parts.main=[fno,vit_sepmo_staggered]", "rates=[2e-3]", "best=1", "jobs=2", *FEW]
SMALL += ["samples=16", "minutes=0.01", "+widths.vit_sepmo_staggered=['model.hidden_channels=8','model.n_layers=2']"]


class InProcess(subprocess.Popen[bytes]):
    """Trains here, where the league would start a process."""

    def __init__(self, command: list[str], **given: Any) -> None:
        try:
            self.returncode = train_one.main(Path(command[-1]))
        except ValueError as error:
            given["stdout"].write(f"{error}\n".encode())
            self.returncode = 1

    def poll(self) -> int | None:
        return self.returncode


@contextmanager
def training_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "subprocess", SimpleNamespace(Popen=InProcess, DEVNULL=None))
        patch.setattr(runner, "POLL", 0.0)
        yield


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without pictures, which take a second each to draw."""
    monkeypatch.setattr(publish, "_figures", lambda results: {})


@pytest.fixture(scope="session")
def small_league(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a league of two models, two budgets and one second seed, with published results beside it."""
    folder = tmp_path_factory.mktemp("league")
    with training_here():
        assert main(["league", *SMALL, f"folder={folder / 'work'}", f"publish={folder / 'published'}"]) == 0
    return folder / "work"


@pytest.fixture(scope="session")
def rolled_league(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league of Navier-Stokes, one of whose entrants cannot train: more applications than there are frames."""
    folder = tmp_path_factory.mktemp("rolled")
    broken = "+variants.broken={base: fno, label: Broken, overrides: ['unroll=99']}"
    overrides = ["navier_stokes", "scale=smoke", f"folder={folder}", "parts.main=[broken,fno]", broken, "rates=[2e-3]"]
    with training_here():
        assert main(["league", *overrides, *FEW, "minutes=null", "jobs=1", "seeds=1"]) != 0
    return folder
