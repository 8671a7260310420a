"""Models as programs that run without this library: their answers are those of the model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import mondrian
from mondrian import (
    Grid,
    Integral,
    Interpolating,
    LowRank,
    Mixture,
    PointAttention,
    RelativeBias,
    SeparableMixture,
    Spectral,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.artefact import OperatorModel
from mondrian.operators import Evaluation
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.prediction import Predictor
from mondrian.prediction.program import exported, write_program
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec

pytestmark = pytest.mark.compiled  # traced: the run-time shape checks would be too

SMALL = {"hidden_channels": 8, "n_layers": 2, "n_heads": 2}
MODELS = {
    "integral": lambda: vit_no(2, 1, subdomains=(2, 2), operator=Integral(hidden=4), **SMALL),
    "low rank": lambda: vit_no(2, 1, subdomains=(2, 2), operator=LowRank(rank=2), **SMALL),
    "spectral": lambda: vit_no(2, 1, subdomains=(2, 2), operator=Spectral(modes=2), **SMALL),
    "interpolating": lambda: vit_no(2, 1, subdomains=(2, 2), operator=Interpolating(rank=2), **SMALL),
    "point attention": lambda: vit_no(2, 1, subdomains=(2, 2), operator=PointAttention(), **SMALL),
    "staggered": lambda: vit_no(2, 1, subdomains=(2, 2), positions=(RelativeBias(),), stagger=True, **SMALL),
    "windows": lambda: swin_no(2, 1, subdomains=(4, 4), window=(2, 2), operator=Mixture(terms=4), **SMALL),
    "neighbourhoods": lambda: nbr_no(2, 1, subdomains=(6, 6), radius=1, **SMALL),
    "hierarchy": lambda: unet_no(2, 1, subdomains=(4, 4), **SMALL),
}


def surrogate(model: OperatorModel) -> Surrogate:
    """A model with scales that are not trivial, one of them a logarithm."""
    scales = (Scale(0.1, 2.0), Scale(-3.0, 0.5, log=True))
    return SurrogateSpec(model.spec, ("u[0]", "gamma"), ("u[1]",), scales, (Scale(0.2, 3.0),)).build().eval()


def samples(count: int, *points: int) -> torch.Tensor:
    return 0.5 + torch.rand(count, 2, *points, generator=torch.Generator().manual_seed(count))


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


@pytest.mark.parametrize("name", MODELS)
def test_a_program_answers_like_its_model_for_any_number_of_samples(name: str) -> None:
    torch.manual_seed(0)
    predictor = Predictor(surrogate(MODELS[name]()))
    program = exported(predictor, samples(2, 12, 12)).module()
    for count in (1, 2, 5):
        x = samples(count, 12, 12)
        assert relative(program(x), predictor(x)) < 1e-5


@pytest.mark.parametrize("name", ["fno", "ffno", "gt", "factformer", "fano"])
def test_baselines_are_programs_too(name: str) -> None:
    torch.manual_seed(0)
    predictor = Predictor(mondrian.build(f"allen_cahn/{name}").eval())
    x = samples(3, 32, 32)
    assert relative(exported(predictor, samples(2, 32, 32)).module()(x), predictor(x)) < 1e-5


@pytest.mark.parametrize("name", ["staggered", "windows", "point attention"])
def test_onnxruntime_answers_like_the_model(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    predictor = Predictor(surrogate(MODELS[name]()))
    write_program(predictor, tmp_path / "model.onnx", (8, 8))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for count in (1, 4):
        x = samples(count, 8, 8)
        (found,) = session.run(["y"], {"x": x.numpy()})
        assert relative(torch.from_numpy(found), predictor(x)) < 1e-5


def test_a_rollout_at_other_points_needs_torch_alone_and_says_what_it_takes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vertices = Grid(extent=(1.0, 1.0), points=(9, 9), ends=(2, 2))
    predictor = Predictor(surrogate(MODELS["staggered"]()), applications=2, out_grid=vertices)
    write_program(predictor, tmp_path / "model.pt2", (10, 10))
    x = samples(4, 10, 10)
    np.save(tmp_path / "x.npy", x.numpy())
    script = """
import json, sys, numpy as np, torch
about = {"mondrian.json": ""}
program = torch.export.load("model.pt2", extra_files=about).module()
np.save("y.npy", program(torch.from_numpy(np.load("x.npy"))).detach().numpy())
assert "mondrian" not in sys.modules
print(about["mondrian.json"])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert relative(torch.from_numpy(np.load(tmp_path / "y.npy")), predictor(x)) < 1e-5
    about = json.loads(done.stdout)
    assert (about["in"], about["out"]) == (["u[0]", "gamma"], ["u[1]", "u[2]"])
    assert about["grid"]["points"] == [10, 10]
    assert about["out_grid"]["points"] == [9, 9]


def test_the_number_of_samples_does_not_change_the_way_of_a_program_nor_that_of_its_model() -> None:
    """At few samples another evaluation is the cheapest than at many; the program keeps the one it was made with."""
    torch.manual_seed(0)
    model = vit_no(2, 1, subdomains=(2, 2), operator=SeparableMixture(terms=8), **SMALL)
    operators = [part for part in model.modules() if isinstance(part, RidgeOperator)]
    operators[0].evaluation = Evaluation.COLLAPSED
    predictor = Predictor(model.eval())
    program = exported(predictor, samples(2, 16, 16)).module()
    x = samples(300, 16, 16)
    assert relative(program(x), predictor(x)) < 1e-5
    assert [operator.evaluation for operator in operators] == [Evaluation.COLLAPSED, *[None] * (len(operators) - 1)]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    predictor = Predictor(MODELS["staggered"]())
    with pytest.raises(ValueError, match=r"file=.*model.pth must end in .pt2 or .onnx"):
        write_program(predictor, tmp_path / "model.pth", (8, 8))
    with pytest.raises(ValueError, match=r"points has shape \(2, 2, 8\); needed \(batch, 2 channels, 2 space axes\)"):
        write_program(predictor, tmp_path / "model.pt2", (8,))
    fourier = Predictor(mondrian.build("allen_cahn/fno").eval())
    with pytest.raises(ValueError, match=r"model.onnx: .*; needed a model that ONNX can express, or a file in .pt2"):
        write_program(fourier, tmp_path / "model.onnx", (32, 32))
    assert not list(tmp_path.iterdir())


def test_a_program_that_answers_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(MODELS["staggered"]().eval())
    answer = predictor.answer
    monkeypatch.setattr(
        predictor, "answer", lambda x: answer(x) + torch.compiler.is_compiling() * torch.ones((), dtype=x.dtype)
    )
    with pytest.raises(ValueError, match="the program differs from its model by 1"):
        write_program(predictor, tmp_path / "model.pt2", (8, 8))
    assert not list(tmp_path.iterdir())
