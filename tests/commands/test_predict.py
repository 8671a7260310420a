"""`mondrian predict`: the examples of its help, the box, and one line for what does not fit."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian import Boxes, Grid, nbr_no, point_no, vit_no
from mondrian.cli import main
from mondrian.commands import predict
from mondrian.commands._options import box
from mondrian.data.generate import generate, plan
from mondrian.data.meshes import PerforatedPoisson
from mondrian.data.problems import AllenCahn
from mondrian.data.sources import WellFiles
from mondrian.points import write_mesh
from mondrian.surrogate import MeshSurrogateSpec, Scale, Surrogate, SurrogateSpec
from mondrian.training.run import Run

NAMES = ("u[0]", "gamma")


@pytest.fixture(autouse=True)
def _explaining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)


@pytest.fixture
def surrogate() -> Surrogate:
    model = vit_no(2, 1, hidden_channels=4, n_layers=1, subdomains=(2, 2), grid=Grid(extent=(2.0, 2.0)))
    return SurrogateSpec(model.spec, NAMES, ("u[1]",), (Scale(), Scale(log=True)), (Scale(),)).build().eval()


@pytest.fixture
def folder(surrogate: Surrogate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a run and samples, named as in the help."""
    monkeypatch.chdir(tmp_path)
    run = Run(Path("runs/ac"))
    run.write({"name": "test"})
    surrogate.save_pretrained(run.artefact)
    np.save("x.npy", np.full((5, 2, 8, 8), 1e-3, dtype=np.float32))
    return tmp_path


def directly(surrogate: Surrogate, steps: int = 1) -> np.ndarray:
    x, answers = torch.full((5, 2, 8, 8), 1e-3), []
    with torch.no_grad():
        for _ in range(steps):
            answers.append(surrogate(x))
            x = torch.cat([answers[-1], x[:, 1:]], dim=1)
    return torch.cat(answers, dim=1).numpy()


def test_an_array_in_and_an_array_out(surrogate, folder, capsys):
    assert main(["predict", "runs/ac/artefact", "x.npy", "-o", "y.npy"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"y\.npy: 5 samples, u\[1\] at 8 x 8 points, \d+\.\d s\n", out)
    assert err == ""
    np.testing.assert_allclose(np.load("y.npy"), directly(surrogate), atol=1e-6)


def test_the_examples_of_the_help_run(surrogate, folder, capsys):
    surrogate.save_pretrained("runs/ns")
    neighbours = nbr_no(
        2, 1, hidden_channels=4, n_layers=1, subdomains=(4, 4), radius=1, grid=surrogate.spec.default_grid
    )
    replace(surrogate.spec, model=neighbours.spec).build().save_pretrained("runs/nbr")
    np.savez("start.npz", u=np.ones((5, 8, 8)), gamma=1e-3)
    wanted = plan(
        AllenCahn(grid=Grid(extent=(2.0, 2.0), points=(64, 64))),
        seed=0,
        simulations={"test": 2},
        points={"test": [(32, 32), (64, 64)]},
        shard_size=2,
    )
    generate(Path("data/ac"), wanted, workers=1)
    on_meshes = point_no(2, 1, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1).spec
    scales = (Scale(), Scale())
    MeshSurrogateSpec(on_meshes, ("source", "distance"), ("u",), scales, (Scale(),)).build().save_pretrained(
        "runs/poisson/boxes"
    )
    write_mesh("domain.vtu", PerforatedPoisson(spacing=0.2).solve(seed=0))
    help = predict.__doc__ or ""
    examples = [re.split(r"  +", line)[0] for line in re.findall(r"^  mondrian (predict .*)", help, re.MULTILINE)]
    assert len(examples) == 12
    for example in examples:
        words = shlex.split(example)
        assert main([word.replace("cuda", "cpu") for word in words]) == 0, capsys.readouterr().err
    np.testing.assert_array_equal(len(torch.load("next.pt", weights_only=True)), 5)
    made = WellFiles(path="next.hdf5").open()
    assert (len(made), made.steps[0], made.grid.points) == (2, 5, (64, 64))


def test_rollouts_name_their_first_and_last_step(surrogate, folder, capsys):
    assert main(["predict", "runs/ac", "x.npy", "-o", "y.npy", "--steps", "9", "--batch", "2"]) == 0
    assert "u[1], u[2], u[3], ..., u[9] at 8 x 8" in capsys.readouterr().out
    np.testing.assert_allclose(np.load("y.npy"), directly(surrogate, 9), atol=1e-5)


def test_without_an_input_the_model_is_described(folder, capsys):
    assert main(["predict", "runs/ac"]) == 0
    assert re.fullmatch(
        r"model  Transformer, [\d,]+ parameters, float32\nin     u\[0\], gamma\nout    u\[1\]\nbox    2 x 2\n",
        capsys.readouterr().out,
    )
    vit_no(2, 1, hidden_channels=4, n_layers=1, subdomains=(2,)).save_pretrained("raw")
    assert main(["predict", "raw"]) == 0
    assert "in     0, 1 (by number: the model was saved without names)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, extent, periodic",
    [
        ("4x4", (4.0, 4.0), (False, True)),
        ("4px1e-2w", (4.0, 0.01), (True, False)),
        ("2.5wx1", (2.5, 1.0), (False, True)),
    ],
)
def test_an_axis_is_periodic_where_the_models_is_unless_it_says_otherwise(text, extent, periodic):
    own = Grid(extent=(1.0, 2.0), periodic=(False, True), origin=(-1.0, 0.0))
    assert box(text, own) == Grid(extent=extent, periodic=periodic, origin=own.origin)


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "the following arguments are required: artefact"),
        (["runs/ac", "x.npy"], "an output file, -o OUTPUT is missing"),
        (["runs/ac", "-o", "y.npy"], "an input file is missing"),
        (["runs/none", "x.npy", "-o", "y.npy"], "runs/none does not exist"),
        (["x.npy"], "x.npy is a file; needed the folder of an artefact or of a training run"),
        (["runs", "x.npy", "-o", "y.npy"], "runs/model.safetensors does not exist"),
        (["runs/ac", "none.npy", "-o", "y.npy"], "none.npy does not exist"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--colour", "red"], "unrecognized arguments: --colour red"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--step", "2"], "unrecognized arguments: --step 2"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--steps", "two"], "argument --steps: invalid int value: 'two'"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--steps", "0"], "steps=0 must be at least 1"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--batch", "0"], "batch_size=0 must be at least 1"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--grid", "2"], "--grid 2 has 1 axes; the model has 2"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--grid", "2xtwo"], "--grid 2xtwo must give a length for each axis"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--grid", "2x1.e.2"], "--grid 2x1.e.2 must give a length"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--grid", "2x0"], "must hold finite positive lengths"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--points", "8x8"], "choose among the files of a folder"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--points", "8by8"], "--points 8by8 must give a number for each axis"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--device", "abacus"], "device=abacus cannot be used"),
        (["runs/ac", "x.npy", "-o", "y.csv"], "y.csv ends in '.csv'"),
        (["runs/ac", "three.npy", "-o", "y.npy"], "three.npy has shape (1, 3, 8, 8); needed (batch, 2 channels (u[0],"),
        (
            ["runs/ac", "x.npy", "-o", "y.npy", "--out-points", "9"],
            "--out-points 9 must give a number for each of 2 axes",
        ),
        (["runs/ac", "x.npy", "-o", "y.npy", "--out-points", "9x9z"], "--out-points 9x9z must give a number"),
        (["runs/ac", "x.npy", "-o", "y.npy", "--out-points", "1vx9"], "points=(1, 9) are too few for ends=(2, 0)"),
        (["runs/ac", "zero.npy", "-o", "y.npy"], "sample 0, channel 'gamma' holds 0; needed positive numbers"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(folder, capsys, words, message):
    np.save("three.npy", np.ones((1, 3, 8, 8)))
    np.save("zero.npy", np.zeros((1, 2, 8, 8)))
    assert main(["predict", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"mondrian predict: .*{re.escape(message)}.*\n", err)
    assert not Path("y.npy").exists()
    assert not list(folder.glob(".*"))


def test_predictions_that_are_not_finite_are_told(surrogate, folder, capsys):
    np.save("x.npy", np.full((3, 2, 8, 8), 1e-3, dtype=np.float16))
    with torch.no_grad():
        for parameter in surrogate.model.projection.parameters():
            parameter.mul_(1e4)
    surrogate.save_pretrained("runs/ac/artefact")
    assert main(["predict", "runs/ac", "x.npy", "-o", "y.npy"]) == 0
    assert capsys.readouterr().err == "3 of 3 predictions hold NaN or infinite values\n"


@pytest.mark.parametrize(
    "text, ends, periodic",
    [("4vx4", (2, 0), (False, True)), ("4wvx4pv", (2, 1), (False, True)), ("4pvx4r", (1, 2), (True, True))],
)
def test_letters_say_which_ends_are_points(text, ends, periodic):
    own = Grid(extent=(1.0, 2.0), periodic=(False, True))
    assert box(text, own) == Grid(extent=(4.0, 4.0), periodic=periodic, ends=ends)


def test_any_number_of_points_in_and_out(surrogate, folder, capsys):
    np.save("odd.npy", np.full((2, 2, 9, 7), 1e-3, dtype=np.float32))
    assert main(["predict", "runs/ac", "odd.npy", "-o", "y.npy", "--grid", "2vx2", "--out-points", "17vx5"]) == 0
    assert "u[1] at 17 x 5 points" in capsys.readouterr().out
    grid = Grid(extent=(2.0, 2.0), ends=(2, 0))
    with torch.no_grad():
        expected = surrogate(torch.full((2, 2, 9, 7), 1e-3), grid, Grid(extent=(2.0, 2.0), points=(17, 5), ends=(2, 0)))
    np.testing.assert_allclose(np.load("y.npy"), expected.numpy(), atol=1e-6)


def test_an_hdf5_answer_knows_its_points(surrogate, folder):
    assert main(["predict", "runs/ac", "x.npy", "-o", "y.hdf5", "--out-points", "5vx6"]) == 0
    made = WellFiles(path="y.hdf5").open()
    assert made.grid == Grid(extent=(2.0, 2.0), points=(5, 6), ends=(2, 0))
    assert made.fields["u"].read(0, slice(0, 1)).shape == (1, 1, 5, 6)
