"""`mondrian export`: a run becomes a file, and one line for what does not fit."""

from pathlib import Path

import pytest
import torch

from mondrian import Boxes, Grid, point_no, vit_no
from mondrian.cli import main
from mondrian.surrogate import MeshSurrogateSpec, Scale, Surrogate, SurrogateSpec
from mondrian.training.run import Run


@pytest.fixture
def surrogate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surrogate:
    """The model of the run `runs/ac` of a working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    torch.manual_seed(0)
    model = vit_no(2, 1, hidden_channels=4, n_layers=1, subdomains=(2, 2), grid=Grid(extent=(2.0, 2.0)))
    scales = (Scale(), Scale(log=True))
    surrogate = SurrogateSpec(model.spec, ("u[0]", "gamma"), ("u[1]",), scales, (Scale(),)).build().eval()
    run = Run(Path("runs/ac"))
    run.write({"name": "test"})
    surrogate.save_pretrained(run.artefact)
    return surrogate


@pytest.mark.compiled
def test_a_run_becomes_a_program_on_another_box(surrogate: Surrogate, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", "runs/ac", "-o", "out/model.pt2", "--points", "8x12", "--grid", "4x3", "--out-points", "9vx5"]
    assert main(words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1:] == ["in   x: (batch, 2, 8 x 12)  u[0], gamma", "out  y: (batch, 1, 9 x 5)  u[1]"]
    x = 0.5 + torch.rand(3, 2, 8, 12)
    out_grid = Grid(extent=(4.0, 3.0), points=(9, 5), ends=(2, 0))
    with torch.no_grad():
        result, wanted = torch.export.load("out/model.pt2").module()(x), surrogate(x, Grid(extent=(4.0, 3.0)), out_grid)
    torch.testing.assert_close(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runs/ac", "-o", "m.pt2"], "the following arguments are required: --points; `mondrian export --help` shows"),
        (["runs/ac", "-o", "m.pth", "--points", "8x8"], "file=m.pth must end in .pt2 or .onnx"),
        (["runs/ac", "-o", "m.pt2", "--points", "8"], "points=(8,) must give at least one point along each of 2 axes"),
        (["runs/ac", "-o", "m.pt2", "--points", "8xq"], "--points 8xq must give a number for each axis"),
        (
            ["runs/ac/run.json", "-o", "m.pt2", "--points", "8x8"],
            "run.json is a file; needed the folder of an artefact",
        ),
        (["runs/no", "-o", "m.pt2", "--points", "8x8"], "runs/no does not exist; needed an artefact or a training run"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(
    words: list[str], message: str, surrogate: Surrogate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_model_of_meshes_is_refused(surrogate: Surrogate, capsys: pytest.CaptureFixture[str]) -> None:
    model = point_no(1, 1, hidden_channels=4, n_layers=1, partition=Boxes((2, 2)))
    trained = MeshSurrogateSpec(model.spec, ("f",), ("u",), (Scale(),), (Scale(),)).build()
    for each in (model, trained):
        each.save_pretrained("mesh")
        assert main(["export", "mesh", "-o", "m.pt2", "--points", "8x8"]) == 2
        assert "is a model of functions on meshes; needed one of fields on grids" in capsys.readouterr().err
