"""Models as programs that run without this library: their answers are those of the model."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    NeighborhoodAttention,
    PointAttention,
    RelativeBias,
    Rotary,
    SeparableMixture,
    Spectral,
    TransformerSpec,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.artefact import OperatorModel
from mondrian.attention.tiles import best_tile
from mondrian.decomposition import Lattice
from mondrian.operators import KernelMethod
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.prediction import Predictor
from mondrian.prediction.program import exported, samples, write_program
from mondrian.quadrature import Cell, Midpoint
from mondrian.surrogate import Scale, SurrogateSpec

pytestmark = pytest.mark.compiled  # traced: the run-time shape checks would be too

SMALL: dict[str, Any] = {"hidden_channels": 8, "n_layers": 1, "n_heads": 2}
TWO: dict[str, Any] = SMALL | {"n_layers": 2}  # blocks: the second one is staggered or shifted
RING = Grid(extent=(1.0,), periodic=(True,))
FAR = NeighborhoodAttention(n_heads=2, radius=1, zero_far=True)
# Models, and the points of their input; where a lattice of 16 x 16 cells is needed, its neighbourhoods come in tiles.
MODELS: dict[str, tuple[Callable[[], OperatorModel], tuple[int, ...]]] = {
    "integral": (lambda: vit_no(2, 1, subdomains=(2, 2), operator=Integral(hidden=4), **SMALL), (12, 12)),
    "low rank": (lambda: vit_no(2, 1, subdomains=(2, 2), operator=LowRank(rank=2), **SMALL), (12, 12)),
    "spectral": (lambda: vit_no(2, 1, subdomains=(2, 2), operator=Spectral(modes=2), **SMALL), (8, 8)),
    "interpolating": (lambda: vit_no(2, 1, subdomains=(2, 2), operator=Interpolating(rank=2), **SMALL), (13, 11)),
    "point attention": (lambda: vit_no(2, 1, subdomains=(2, 2), operator=PointAttention(), **SMALL), (8, 8)),
    "staggered": (lambda: vit_no(2, 1, subdomains=(2, 2), positions=(RelativeBias(),), stagger=True, **TWO), (8, 8)),
    "fixed points": (lambda: vit_no(2, 1, subdomains=(2, 2), cell_points=(4, 4), **SMALL), (12, 12)),
    "ring": (lambda: vit_no(2, 1, subdomains=(4,), positions=(Rotary(),), grid=RING, stagger=True, **TWO), (13,)),
    "space": (lambda: vit_no(2, 1, subdomains=(2, 2, 2), **SMALL), (6, 6, 6)),
    "windows": (lambda: swin_no(2, 1, subdomains=(4, 4), window=(2, 2), operator=Mixture(terms=4), **TWO), (8, 8)),
    "neighbourhoods": (lambda: nbr_no(2, 1, subdomains=(16, 16), radius=1, **SMALL), (16, 16)),
    "far scores": (lambda: TransformerSpec(2, 1, 8, 1, subdomains=(16, 16), attention=FAR).build(), (16, 16)),
    "hierarchy": (lambda: unet_no(2, 1, subdomains=(4, 4), **SMALL), (8, 8)),
}


def predictor_of(name: str, **settings: Any) -> tuple[Predictor, tuple[int, ...]]:
    """One of the models with scales that are not trivial, a logarithm and an offset among them, and its points."""
    torch.manual_seed(0)
    make, points = MODELS[name]
    scales = (Scale(0.1, 2.0), Scale(-3.0, 0.5, log=True))
    spec = SurrogateSpec(make().spec, ("u[0]", "gamma"), ("u[1]",), scales, (Scale(0.2, 3.0),))
    return Predictor(spec.build().eval(), **settings), points


def relative(result: torch.Tensor, wanted: torch.Tensor) -> float:
    return ((result - wanted).abs().max() / wanted.abs().max()).item()


def test_the_neighbourhoods_here_come_in_tiles() -> None:
    assert best_tile(Lattice((16, 16), (False, False)), 1) is not None


@pytest.mark.parametrize("name", MODELS)
def test_a_program_answers_like_its_model_for_any_number_of_samples(name: str) -> None:
    predictor, points = predictor_of(name)
    program = exported(predictor, points).module()
    for count in (1, 2, 5):
        x = samples(predictor, points, count)
        assert relative(program(x), predictor(x)) < 1e-5


@pytest.mark.parametrize("name", ["fno", "ffno", "gt", "factformer", "fano"])
def test_baselines_are_programs_too(name: str) -> None:
    torch.manual_seed(0)
    predictor = Predictor(mondrian.build(f"allen_cahn/{name}").eval())
    x = samples(predictor, (32, 32), 3)
    assert relative(exported(predictor, (32, 32)).module()(x), predictor(x)) < 1e-5


@pytest.mark.parametrize("name", ["staggered", "windows", "ring"])  # for spectral operators see the last test
def test_onnxruntime_answers_like_the_model(name: str, tmp_path: Path) -> None:
    predictor, points = predictor_of(name)
    write_program(predictor, tmp_path / "model.onnx", points)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for count in (1, 4):
        x = samples(predictor, points, count)
        (result,) = session.run(["y"], {"x": x.numpy()})
        assert relative(torch.from_numpy(result), predictor(x)) < 1e-5
    about = json.loads(session.get_modelmeta().custom_metadata_map["mondrian"])
    assert (about["in"], about["out"], about["grid"]["points"]) == (["u[0]", "gamma"], ["u[1]"], list(points))


@pytest.mark.process
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_a_rollout_on_another_box_at_other_points_needs_no_mondrian(kind: str, tmp_path: Path) -> None:
    box = Grid(extent=(2.0, 3.0))
    vertices = Grid(extent=(2.0, 3.0), points=(9, 9), ends=(2, 2))
    predictor, _ = predictor_of("interpolating", grid=box, out_grid=vertices, applications=2)
    write_program(predictor, tmp_path / f"model.{kind}", (10, 11))
    x = samples(predictor, (10, 11), 4)
    np.save(tmp_path / "x.npy", x.numpy())
    run = {
        "pt2": """
import torch
about = {"mondrian.json": ""}
program = torch.export.load("model.pt2", extra_files=about).module()
with torch.no_grad():
    np.save("y.npy", program(torch.from_numpy(np.load("x.npy"))).numpy())
print(about["mondrian.json"])
""",
        "onnx": """
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
np.save("y.npy", session.run(["y"], {"x": np.load("x.npy")})[0])
print(session.get_modelmeta().custom_metadata_map["mondrian"])
""",
    }[kind]
    script = f"import sys\nimport numpy as np\n{run}\nassert 'mondrian' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert relative(torch.from_numpy(np.load(tmp_path / "y.npy")), predictor(x)) < 1e-5
    about = json.loads(done.stdout)
    assert about["out"] == ["u[1]", "u[2]"]
    assert (about["grid"]["points"], about["grid"]["extent"]) == ([10, 11], [2.0, 3.0])
    assert about["out_grid"]["points"] == [9, 9]


def test_the_number_of_samples_does_not_change_the_way_through_a_program() -> None:
    """For fifty samples another evaluation is the cheapest than for two, which the program was made with and keeps."""
    torch.manual_seed(0)
    model = vit_no(2, 1, subdomains=(2, 2), operator=SeparableMixture(terms=8), **SMALL).eval()
    operators = [part for part in model.modules() if isinstance(part, RidgeOperator)]
    cell = Cell.build((10, 10), Midpoint())
    with torch.no_grad():
        assert any(operator.choose(8, cell) != operator.choose(200, cell) for operator in operators)
    operators[-1].method = KernelMethod.COLLAPSED
    predictor = Predictor(model)
    program = exported(predictor, (20, 20)).module()
    for count in (1, 50):
        x = samples(predictor, (20, 20), count)
        assert relative(program(x), predictor(x)) < 1e-4  # evaluations differ by their tolerance
    assert [operator.method for operator in operators] == [*[None] * (len(operators) - 1), KernelMethod.COLLAPSED]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    predictor, _ = predictor_of("staggered")
    with pytest.raises(ValueError, match=r"file=.*model.pth must end in .pt2 or .onnx"):
        write_program(predictor, tmp_path / "model.pth", (8, 8))
    with pytest.raises(ValueError, match=r"points=\(8,\) must give at least one point along each of 2 axes"):
        write_program(predictor, tmp_path / "model.pt2", (8,))
    fourier = Predictor(mondrian.build("allen_cahn/ffno").eval())
    with pytest.raises(ValueError, match=r"model.onnx: .*; needed a model that .onnx can express, or the other"):
        write_program(fourier, tmp_path / "model.onnx", (32, 32))
    assert not list(tmp_path.iterdir())


def test_float64_goes_to_torch_but_not_to_onnxruntime(tmp_path: Path) -> None:
    predictor = Predictor(predictor_of("interpolating")[0].model.double())
    write_program(predictor, tmp_path / "model.pt2", (8, 8))
    x = samples(predictor, (8, 8), 3)
    assert relative(torch.export.load(tmp_path / "model.pt2").module()(x), predictor(x)) < 1e-12
    with pytest.raises(ValueError, match=r"model.onnx: .*; needed a model that .onnx can express"):
        write_program(predictor, tmp_path / "model.onnx", (8, 8))


@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.bfloat16, "scaled"), (torch.float16, "plain"), (torch.bfloat16, "bare")]
)
def test_half_precision_is_written_and_says_what_it_takes(dtype: torch.dtype, kind: str, tmp_path: Path) -> None:
    """With units single precision goes in and comes out; a bare model takes its own."""
    scaled, points = predictor_of("interpolating")
    plain = SurrogateSpec(scaled.model.model.spec, ("a", "b"), ("c",), (Scale(), Scale()), (Scale(),)).build().eval()  # type: ignore[union-attr]
    model = {"scaled": scaled.model, "plain": plain, "bare": plain.model}[kind]
    taken = dtype if kind == "bare" else torch.float32
    predictor, about = Predictor(model.to(dtype)), {"mondrian.json": ""}
    write_program(predictor, tmp_path / "model.pt2", points)
    program = torch.export.load(tmp_path / "model.pt2", extra_files=about).module()
    assert json.loads(about["mondrian.json"])["dtype"] == str(taken).removeprefix("torch.")
    x = samples(predictor, points, 4)
    assert x.dtype is taken
    assert relative(program(x), predictor(x)) < 4 * torch.finfo(dtype).eps


def test_a_model_is_left_as_it_was_also_after_an_error(tmp_path: Path) -> None:
    elsewhere = Grid(extent=(1.0, 1.0), points=(8, 8), origin=(5.0, 0.0))
    predictor, points = predictor_of("staggered", out_grid=elsewhere)
    model = predictor.model.train()
    model.model.lift.eval()  # type: ignore[union-attr]
    modes = [part.training for part in model.modules()]
    with pytest.raises(ValueError, match="needed to stay within the source"):
        write_program(predictor, tmp_path / "model.pt2", points)
    assert [part.training for part in model.modules()] == modes
    assert all(part.method is None for part in model.modules() if isinstance(part, RidgeOperator))
    pickle.dumps(model)  # no hook is left


@pytest.mark.parametrize(("kind", "dtype"), [("pt2", torch.float32), ("onnx", torch.float32), ("pt2", torch.bfloat16)])
def test_a_program_that_answers_something_else_is_not_written(
    kind: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is in a channel with an offset of 300 and a range of a hundredth: small beside the offset."""
    torch.manual_seed(0)
    model = vit_no(1, 2, subdomains=(2, 2), operator=Spectral(modes=2), **SMALL)
    far = (Scale(), Scale(300.0, 0.01))
    predictor = Predictor(SurrogateSpec(model.spec, ("a",), ("b", "c"), (Scale(),), far).build().to(dtype).eval())
    if kind == "onnx":
        write_program(predictor, tmp_path / f"right.{kind}", (8, 8))
    answer = predictor.answer

    def wrong(x: torch.Tensor) -> torch.Tensor:
        y = answer(x)
        mean = y.mean(dim=0, keepdim=True).expand_as(y)
        return torch.cat([y[:, :1], mean[:, 1:]], dim=1) if torch.compiler.is_compiling() else y

    monkeypatch.setattr(predictor, "answer", wrong)
    with pytest.raises(ValueError, match=r"channel 1 of the program differs from its model by"):
        write_program(predictor, tmp_path / f"wrong.{kind}", (8, 8))
    assert not list(tmp_path.glob("*wrong*"))
