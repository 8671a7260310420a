"""`mondrian evaluate`: a run from data to files, models without a run, and one line for whatever is wrong."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.cases import generated, surrogate, travelling

from mondrian import Boxes, EndCorrected, build, point_no
from mondrian.cli import main
from mondrian.commands._options import OpenedModel
from mondrian.commands.evaluate import EvaluateOptions, measure, read
from mondrian.data import Splits, WellFiles, Window
from mondrian.data.meshes import MeshFiles, MeshSplits
from mondrian.evaluation import Evaluation
from mondrian.surrogate import MeshSurrogateSpec, Scale, SurrogateSpec
from mondrian.training.run import Run

WINDOW = Window(input=("u", "gamma"), target=("u",))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke data set: 8 simulations to test with, at three resolutions."""
    folder = tmp_path_factory.mktemp("data") / "ac"
    assert main(["generate", f"path={folder}", "scale=smoke", "workers=1"]) == 0
    return folder


def write_run(folder: Path, data: Path, *, name: str = "tiny", corrected: bool = False, **model) -> Run:
    """An untrained run of the recipe `allen_cahn/vit_sepmo`, narrower; `corrected` needs three points a cell."""
    torch.manual_seed(0)
    settings = {"hidden_channels": 8, "n_layers": 1, "subdomains": "[8,8]", **model}
    spec = build("allen_cahn/vit_sepmo", *(f"model.{key}={value}" for key, value in settings.items())).spec
    spec = replace(spec, quadrature=EndCorrected()) if corrected else spec
    scales = (Scale(), Scale(-3.0, 0.5, log=True)), (Scale(),)
    trained = Run(folder)
    SurrogateSpec(spec, ("u[0]", "gamma"), ("u[1]",), *scales, WINDOW).build().save_pretrained(trained.artefact)
    splits = Splits(files=WellFiles(path=str(data)), window=WINDOW)
    trained.write({"name": name, "config": {}, "data": splits.to_json()})
    return trained


def test_a_run_from_data_to_files(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", data)
    assert main(["evaluate", str(run.folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"tiny: test split of {data}, 8 simulations\n")
    assert re.findall(r"^(\d+x\d+) +mean absolute error", out, re.MULTILINE) == ["32x32", "64x64", "128x128"]
    assert out.endswith(f"written to {run.evaluation}\n")
    results = Evaluation.load(run.evaluation)
    assert results.table() in out
    assert [entry.points for entry in results.one_step] == [(32, 32), (64, 64), (128, 128)]
    assert results.rollout == ()  # two frames: one application
    for entry in results.one_step:
        assert set(entry.model) == {"mae", "mse", "relative_l2", "maximum", "interface"}
        assert entry.model["mae"].count == 8
        assert 0.3 < entry.persistence["mae"].mean < 0.8
        assert 0.7 < entry.training_mean["mae"].mean < 1.0
    with np.load(run.evaluation / "fields.npz") as fields:
        assert fields["128x128/prediction"].shape == (4, 1, 128, 128)
        assert fields["32x32/input"].shape == (4, 2, 32, 32)
        assert fields["subdomains"].tolist() == [8, 8]
        assert json.loads(str(fields["grid"]))["extent"] == [2.0, 2.0]


def test_some_of_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", data)
    words = ["points=[[64,64],[32,32]]", "split=test", "simulations=2", "batch_size=1", "interface=false", "device=cpu"]
    assert main(["evaluate", *words, str(run.folder), f"out={tmp_path / 'there'}"]) == 0
    results = Evaluation.load(tmp_path / "there")
    assert [entry.points for entry in results.one_step] == [(32, 32), (64, 64)]
    assert results.simulations == results.one_step[0].samples == 2
    assert "interface" not in results.one_step[0].model
    assert not run.evaluation.exists()
    assert f"written to {tmp_path / 'there'}" in capsys.readouterr().out


def test_several_runs_and_a_resolution_that_one_cannot_take(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        write_run(tmp_path / "lr=0.1", data, name="one"),
        write_run(tmp_path / "b", data, name="other", subdomains="[16,16]", corrected=True),
    ]
    words = [str(run.folder) for run in runs]
    assert main(["evaluate", *words, "simulations=1", "points=[[32,32],[64,64]]"]) == 0
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines() if " split of " in line] == ["one", "other"]
    line = r"mondrian evaluate: 32x32 is skipped: points=2 per axis are too few for terms=1.*\n"
    assert re.fullmatch(line, err)
    assert [entry.points for entry in Evaluation.load(runs[1].evaluation).one_step] == [(64, 64)]
    assert list(Evaluation.load(runs[1].evaluation).skipped) == [(32, 32)]


def test_a_model_without_its_run(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", tmp_path / "gone")
    words = ["simulations=2", "points=[[32,32]]", f"path={data}"]
    assert main(["evaluate", str(run.artefact), *words]) == 0
    assert capsys.readouterr().out.startswith(f"artefact: test split of {data}, 2 simulations\n")
    alone = Evaluation.load(run.artefact / "evaluation")
    assert main(["evaluate", str(run.folder), *words]) == 0  # data that has moved
    assert Evaluation.load(run.evaluation).one_step == alone.one_step


def test_a_rollout_with_a_horizon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u = {(8, 8): travelling(3, 6, (8, 8))}
    splits = generated(tmp_path / "data", {"train": u, "test": u}, np.arange(6) / 2)
    run = Run(tmp_path / "run")
    surrogate(shift=1).save_pretrained(run.artefact)
    run.write({"name": "moved", "config": {}, "data": splits.to_json()})
    assert main(["evaluate", str(run.folder), "horizon=3"]) == 0
    out = capsys.readouterr().out
    head, row = re.findall(r"^rollout.*|^8x8 +3 .*", out, re.MULTILINE)
    assert " ".join(head.split()) == "rollout simulations from to relative L2 95 % interval at the end correlated until"
    assert " ".join(row.split()) == "8x8 3 0 1.5 0 0 to 0 0 1.5"
    assert Evaluation.load(run.evaluation).rollout[0].times == (0.5, 1.0, 1.5)


def test_settings_are_read_as_hydra_reads_them() -> None:
    words = ["runs/a", "points=[[64],[32]]", "split=valid", "interface=true", "path='a folder/x=1'", "simulations=7"]
    assert read(words) == (
        [Path("runs/a")],
        EvaluateOptions(points=((64,), (32,)), split="valid", interface=True, path="a folder/x=1", simulations=7),
    )


@pytest.mark.parametrize("word", ["points=[[32,32]]", "horizon=3", "horizon=20", "batch_size=8", "interface=true"])
def test_settings_of_grids_are_refused_on_meshes(word: str, tmp_path: Path) -> None:
    splits = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("f",), target=("u",))
    model = point_no(1, 1, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1, reference=(2, 2)).spec
    spec = MeshSurrogateSpec(model, ("f",), ("u",), (Scale(),), (Scale(),), ("f",), ("u",))
    model = OpenedModel("wing", spec.build(), splits, tmp_path)
    _, options = read(["runs/a", "device=cpu", word])
    with pytest.raises(ValueError, match=rf"{word.partition('=')[0]}=.* is for fields on grids; .* holds meshes"):
        measure(model, options)


# Bad input


@pytest.fixture(scope="module")
def folders(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and models with something wrong about all of them but RUN."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "RUN", data)
    for name, field in {"OTHER": "u", "LACKING": "w"}.items():
        shutil.copytree(root / "RUN", root / name)
        splits = Splits(WellFiles(path=str(data)), Window(input=(field,), target=(field,)))
        Run(root / name).write({"name": name, "config": {}, "data": splits.to_json()})
    Run(root / "EMPTY").write(Run(root / "RUN").facts)
    surrogate().model.save_pretrained(root / "BARE")
    surrogate().save_pretrained(root / "UNNAMED")
    return root


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "no run is named; needed a folder of `mondrian train`"),
        (["simulations=2"], "no run is named"),
        (["RUN", "simulation=2"], "no setting 'simulation'; needed one of batch_size, device, horizon, "),
        (["RUN", "points=[32,32]"], r"points=\[32, 32\] must list resolutions, for example points=\[\[32,32\]"),
        (["RUN", "points=[]"], r"points=\[\] must list resolutions"),
        (["RUN", "points=[[a]]"], r"points=\[\['a'\]\] must list resolutions"),
        (["RUN", "points=[["], ".*"),
        (
            ["RUN", "points=[[32,32],[48,48]]"],
            "points=48x48 are not stored for split 'test' of .*; it has 32x32, 64x64",
        ),
        (["RUN", "horizon=two"], "horizon=two must be a whole number"),
        (["RUN", "horizon=-1"], "horizon=-1 must be a whole number from 0 on"),
        (["RUN", "simulations=2.5"], "simulations=2.5 must be a whole number"),
        (["RUN", "simulations=true"], "simulations=True must be a whole number"),
        (["RUN", "simulations=0"], "simulations=0 must be a whole number from 1 on"),
        (["RUN", "simulations=9"], "simulations=9 are wanted; split 'test' of .* has 8"),
        (["RUN", "batch_size=0"], "batch_size=0 must be a whole number from 1 on"),
        (["RUN", "interface=yes"], "interface=yes must be true or false"),
        (["RUN", "split=tset"], "split='tset' is not in .*; it has "),
        (["RUN", "split="], "split is empty; needed a value"),
        (["RUN", "path=nowhere"], "nowhere does not exist; needed a data set"),
        (["RUN", "device=abacus"], "device=abacus cannot be used: "),
        (["RUN", "RUN", "out=there"], "out=there is one folder for 2 results; needed one run"),
        (["nothing"], "nothing does not exist; needed a run of `mondrian train`"),
        (["."], r"\. is no training run: it has no run\.json"),
        (["RUN/artefact"], r"RUN/artefact is a model without a run; needed the data to evaluate it on, path=\.\.\."),
        (["EMPTY"], "EMPTY holds no model yet"),
        (["BARE", "path=x"], "BARE holds a bare model; needed a surrogate"),
        (
            ["UNNAMED", "path=x"],
            r"UNNAMED/config\.json: .* does not say which fields its channels are",
        ),
        (["OTHER"], r".* gives input channels \(u\[0\]\); needed \(u\[0\], gamma\)"),
        (["LACKING"], r".* has no field 'w'; it has \['gamma', 'u'\]"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_two(
    words: list[str],
    message: str,
    folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folders)
    assert main(["evaluate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"mondrian evaluate: {message}.*\n", err)
    assert not list(folders.rglob("evaluation"))


def test_an_empty_split_is_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((data / "manifest.json").read_text())
    content["simulations"]["valid"] = 0
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "manifest.json").write_text(json.dumps(content))
    run = write_run(tmp_path / "run", empty)
    assert main(["evaluate", str(run.folder), "split=valid"]) == 2
    assert "holds no .hdf5 or .h5 file (split='valid'" in capsys.readouterr().err


def test_the_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--help"]) == 0
    examples = re.findall(r"^  mondrian evaluate (.*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) >= 6
    for example in examples:
        folders, _ = read(example.split())
        assert folders
