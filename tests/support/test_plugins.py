"""Models and operators of other people: `docs/own_models.md` as a user follows it."""

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import mondrian
from mondrian.cli import main
from mondrian.models.baselines import ffno
from mondrian.support import plugins
from mondrian.support.plugins import _load
from mondrian.training.run import Run
from tests import forked

pytestmark = pytest.mark.process

DOCUMENT = Path(__file__).parents[2] / "docs/own_models.md"
MODULE = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)[0]
OWN = ["model=own", "model.spec=Convolutional", "+model.kernel=3"]
READER = """
from dataclasses import dataclass

from mondrian import Loss
from mondrian.data.sources import ArrayFile, Axis, Files


@dataclass(frozen=True)
class MyFiles(Files):
    def open(self):
        return ArrayFile(path=self.path, axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE), periodic=(True,)).open()


@dataclass(frozen=True)
class Quartic(Loss):
    weight: float = 1.0

    def evaluate(self, prediction, target, grid):
        return self.weight * (prediction - target).pow(4).mean()
"""
SMOKE = ["scale=smoke", "data.path=../data", "max_steps=2", "validate_every=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, and beside it the data."""
    folder = tmp_path_factory.mktemp("user") / "work"
    folder.mkdir()
    (folder / "my_models.py").write_text(MODULE)
    ran(folder, "generate", "data=allen_cahn", "scale=smoke", "path=../data")
    return folder


def run(folder: Path, *words: str, plugins: str = "my_models") -> subprocess.CompletedProcess[str]:
    """A command in a process where nothing of this folder is on Python's path, nor known from before."""

    def work() -> None:
        sys.path.remove("")
        _load.cache_clear()
        sys.exit(main(list(words)))

    return forked.run(work, cwd=folder, env=os.environ | {"MONDRIAN_PLUGINS": plugins})


def ran(folder: Path, *words: str) -> str:
    result = run(folder, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """A run of the command as a shell starts it."""
    program = "import sys; sys.path.remove(''); from mondrian.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["train", "experiment=allen_cahn/fno", *SMOKE, *OWN, "run=runs/own"]
    environment = os.environ | {"MONDRIAN_PLUGINS": "my_models"}
    subprocess.run([sys.executable, "-c", program, *words], cwd=folder, env=environment, check=True)
    return folder / "runs/own"


def test_a_model_of_ones_own_trains_and_is_evaluated(folder: Path, trained: Path) -> None:
    assert Run(trained).facts["surrogate"]["model"] | {"grid": None} == {
        "spec": "Convolutional",
        "in_channels": 2,
        "out_channels": 1,
        "hidden_channels": 8,
        "n_layers": 4,
        "grid": None,
        "kernel": 3,
    }
    assert "128x128" in ran(folder, "evaluate", "runs/own").replace(" ", "")


def test_it_resumes(folder: Path, trained: Path) -> None:
    ran(folder, "train", "run=runs/own", "resume=true", "max_steps=3")
    assert Run(trained).history()["step"][-1] == 3


def test_an_operator_of_ones_own_takes_the_place_of_ours(folder: Path) -> None:
    words = ["operator@model.operator=own", "model.operator.spec=Averaging", "run=runs/averaging"]
    ran(folder, "train", "experiment=allen_cahn/vit_interpolating", *SMOKE, *words)
    assert Run(folder / "runs/averaging").facts["surrogate"]["model"]["operator"] == {"spec": "Averaging"}


def test_it_takes_part_in_a_league(folder: Path) -> None:
    mine = '+variants.mine={base: fno, label: Mine, overrides: ["model=own", "model.spec=Convolutional"]}'
    words = ["scale=smoke", "folder=league", "parts.main=[mine]", mine, "rates=[1e-3]", "native=false", "minutes=null"]
    ran(folder, "league", "allen_cahn", *words)
    assert "Mine" in (folder / "league/main/results.md").read_text()


def test_a_loss_and_a_reader_of_ones_own(folder: Path) -> None:
    (folder / "my_data.py").write_text(READER)
    reader = "data.reader={spec: MyFiles, path: u.npy}"
    words = ["data=files", reader, "data.input=[u]", "data.target=[u]", "scale=smoke", "max_steps=2", "model=fno"]
    words += ["loss.spec=Quartic", "+loss.weight=2.0", "model.modes=[4]", "model.hidden_channels=4", "run=runs/reader"]
    np.save(folder / "u.npy", np.random.default_rng(0).standard_normal((10, 3, 16)).astype(np.float32))
    again = ["train", "run=runs/reader", "resume=true", "max_steps=3"]
    for command in (["train", *words], again, ["evaluate", "runs/reader"]):
        result = run(folder, *command, plugins="my_data")
        assert result.returncode == 0, result.stderr


def test_a_recipe_is_built_with_it(folder: Path) -> None:
    overrides = ", ".join(map(repr, OWN))
    program = f"import mondrian; print(type(mondrian.build('allen_cahn/fno', {overrides})).__name__)"
    result = forked.run_text(program, cwd=folder, env=os.environ | {"MONDRIAN_PLUGINS": "my_models"})
    assert result.stdout.strip() == "ConvolutionalModel", result.stderr


def test_settings_of_the_models_place_that_it_does_not_have_are_named(folder: Path) -> None:
    result = run(folder, "train", "experiment=allen_cahn/vit_mo", *SMOKE, *OWN, "run=runs/none")
    assert result.returncode == 2
    assert re.search("Convolutional has no .*subdomains.*those of fno fit all", result.stderr)


def test_a_broken_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("theirs", "nowhere.models", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [broken])
    plugins._load.cache_clear()
    with pytest.raises(ValueError, match=r"the plug-in theirs = nowhere\.models cannot be loaded: No module named"):
        plugins.load_plugins()
    plugins._load.cache_clear()


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ("", "spec='Convolutional' is not known.*name your own modules in MONDRIAN_PLUGINS"),
        (
            "my_models,missing",
            "MONDRIAN_PLUGINS=my_models,missing: missing cannot be imported: No module",
        ),
    ],
)
def test_what_is_not_named_is_not_found(folder: Path, plugins: str, message: str) -> None:
    result = run(folder, "evaluate", "runs/own", plugins=plugins)
    assert result.returncode == 2
    assert re.search(message, result.stderr)


def test_a_name_that_two_specs_have_is_refused(folder: Path) -> None:
    (folder / "twice.py").write_text("import my_models, mondrian\nclass Mixture(my_models.Averaging): ...\n")
    program = "from mondrian import Spec; Spec.from_json({'spec': 'Mixture'})"
    result = forked.run_text(program, cwd=folder, env=os.environ | {"MONDRIAN_PLUGINS": "twice"})
    assert "spec='Mixture' is ambiguous: " in result.stderr
    assert "mondrian.operators.mixture" in result.stderr


def test_what_makes_no_model_of_fields_is_refused(folder: Path) -> None:
    (folder / "no_model.py").write_text("def make(**settings): return settings\n")
    words = ["experiment=allen_cahn/fno", *SMOKE, "model=own", "model._target_=no_model.make", "run=runs/none"]
    result = run(folder, "train", *words, plugins="no_model")
    assert result.returncode == 2
    assert "no_model.make makes a dict; needed a ModelSpec" in result.stderr


def test_stored_models_open_where_nothing_has_been_imported(tmp_path: Path) -> None:
    models = {
        "vit_no": mondrian.vit_no(in_channels=2, out_channels=1, hidden_channels=8, subdomains=(2, 2)),
        "ffno": ffno(in_channels=2, out_channels=1, hidden_channels=4),
        "point_no": mondrian.point_no(
            in_channels=1, out_channels=1, hidden_channels=8, partition=mondrian.Boxes((2, 2))
        ),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        program = f"import mondrian; mondrian.from_pretrained({name!r})"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
