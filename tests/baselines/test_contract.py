"""What every baseline must do, whatever its method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mondrian import Grid, build, from_pretrained
from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.models.baselines import (
    ConcatCoordinates,
    FactFormerSpec,
    FANOSpec,
    FFNOSpec,
    FNOSpec,
    GalerkinSpec,
)
from mondrian.settings.recipes import recipe, recipe_names

SMALL = {"in_channels": 2, "out_channels": 3, "hidden_channels": 8, "n_layers": 2}
POINTS = {1: (16,), 2: (16, 12), 3: (8, 6, 4)}


def small(dim: int) -> dict[str, ModelSpec]:
    """One of each method in `dim` dimensions."""
    points = POINTS[dim]
    return {
        "fno": FNOSpec(**SMALL, modes=(4,) * dim, edge_channels=16),
        "ffno": FFNOSpec(**SMALL, modes=(4,) * dim, edge_channels=16),
        "ffno-plain": FFNOSpec(**SMALL, modes=(4,) * dim, layer_norm=False),
        "gt-add": GalerkinSpec(**SMALL, n_heads=2, dim=dim),
        "gt-concat": GalerkinSpec(**SMALL, n_heads=2, dim=dim, position=ConcatCoordinates()),
        "factformer": FactFormerSpec(**SMALL, n_heads=2, dim=dim),
        "factformer-updown": FactFormerSpec(**SMALL, n_heads=2, dim=dim, resolution=points),
        "fano": FANOSpec(**SMALL, n_heads=2, patches=(2,) * dim, modes=2),
    }


CASES = [pytest.param(spec, id=f"{name}-{dim}d") for dim in POINTS for name, spec in small(dim).items()]
FLAT = [pytest.param(spec, id=name) for name, spec in small(2).items()]


def model_of(spec: ModelSpec) -> OperatorModel:
    torch.manual_seed(0)
    return spec.build()


def field(spec: ModelSpec, **kind: torch.dtype) -> Tensor:
    return torch.randn(2, 2, *POINTS[spec.dim], generator=torch.Generator().manual_seed(1), **kind)


@pytest.mark.parametrize("spec", CASES)
def test_every_parameter_shapes_the_output(spec):
    model = model_of(spec)
    y = model(field(spec))
    assert y.shape == (2, 3, *POINTS[spec.dim])
    y.square().mean().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert idle == []


@pytest.mark.parametrize("spec", CASES)
def test_artefact_round_trip_is_bitwise(spec, tmp_path):
    model = model_of(spec).eval()
    model.save_pretrained(tmp_path)
    again = from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert again.spec == spec
    assert all(torch.is_tensor(value) for value in model.state_dict().values())
    assert torch.equal(again(field(spec)), model(field(spec)))


@pytest.mark.parametrize("spec", FLAT)
def test_same_seed_same_model(spec):
    first, second = model_of(spec), model_of(spec)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert torch.equal(first(field(spec)), second(field(spec)))


@pytest.mark.parametrize("spec", FLAT)
def test_precisions_agree(spec):
    model = model_of(spec)
    exact = model.to(torch.float64)(field(spec, dtype=torch.float64))
    assert exact.dtype == torch.float64
    single = model.to(torch.float32)(field(spec, dtype=torch.float64).float())
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-4)
    half = model.to(torch.bfloat16)(field(spec, dtype=torch.float64).bfloat16())
    assert half.dtype == torch.bfloat16
    assert (half.double() - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize("spec", FLAT)
def test_float64_is_float64_throughout(spec):
    model = model_of(spec).double()
    x = field(spec, dtype=torch.float64).requires_grad_()
    way = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    step = 1e-5
    (slope,) = torch.autograd.grad(model(x).square().sum(), x)
    difference = (model(x + step * way).square().sum() - model(x - step * way).square().sum()) / (2 * step)
    torch.testing.assert_close((slope * way).sum(), difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spec", FLAT)
def test_a_sample_does_not_see_the_others(spec):
    model, x = model_of(spec).double(), field(spec, dtype=torch.float64)
    torch.testing.assert_close(model(x)[1:], model(x[1:]))


@pytest.mark.parametrize("spec", [case for case in FLAT if case.id != "factformer-updown"])
@pytest.mark.parametrize("points", [(2, 2), (6, 4), (30, 2)])
def test_fewer_points_than_modes_and_other_shapes(spec, points):
    y = model_of(spec)(torch.randn(1, 2, *reversed(points)).mT)
    assert y.shape == (1, 3, *points)
    assert y.isfinite().all()


@pytest.mark.parametrize("spec", FLAT)
def test_automatic_mixed_precision(spec):
    model, x = model_of(spec), field(spec)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(x)
    assert (mixed - model(x)).norm() < 0.1 * model(x).norm()


@pytest.mark.parametrize("spec", [case for case in FLAT if case.id in ("fno", "ffno", "factformer")])
def test_translations_commute_on_a_torus(spec):
    model, x = model_of(spec).double(), field(spec, dtype=torch.float64)
    torus = Grid(extent=(2.0, 1.0), periodic=(True, True))
    moved = model(x.roll((3, -5), dims=(2, 3)), grid=torus)
    torch.testing.assert_close(moved, model(x, grid=torus).roll((3, -5), dims=(2, 3)))
    cylinder = Grid(extent=(2.0, 1.0), periodic=(True, False))
    torch.testing.assert_close(model(x.roll(3, dims=2), grid=cylinder), model(x, grid=cylinder).roll(3, dims=2))
    assert not torch.allclose(model(x.roll(3, dims=3), grid=cylinder), model(x, grid=cylinder).roll(3, dims=3))


@pytest.mark.parametrize("spec", [case for case in FLAT if case.id in ("fno", "ffno", "factformer")])
def test_the_spec_says_where_a_call_without_a_grid_lives(spec):
    torus = Grid(extent=(1.0, 1.0), periodic=(True, True))
    model, x = model_of(spec), field(spec)
    on_torus = type(spec)(**{**vars(spec), "grid": torus}).build()
    on_torus.load_state_dict(model.state_dict())
    assert torch.equal(on_torus(x), model(x, grid=torus))
    assert not torch.allclose(on_torus(x), model(x))


@pytest.mark.parametrize("spec", FLAT)
def test_bad_input_is_refused_by_name(spec):
    model = model_of(spec)
    x = field(spec)
    with pytest.raises(ValueError, match=r"x has shape \(2, 1, 16, 12\); needed \(batch, 2 channels, 2 space axes\)"):
        model(x[:, :1])
    with pytest.raises(ValueError, match=r"needed .batch, 2 channels, 2 space axes"):
        model(x[..., 0])
    with pytest.raises(ValueError, match="at least one sample"):
        model(x[:0])
    with pytest.raises(ValueError, match=r"x has dtype torch\.float64, the model torch\.float32; needed the same"):
        model(x.double())
    with pytest.raises(ValueError, match=r"torch.int64; needed a floating-point tensor"):
        model(x.long())
    with pytest.raises(ValueError, match="grid has 1 axes; the model has 2"):
        model(x, grid=Grid(extent=(1.0,)))
    with pytest.raises(ValueError, match=r"extent.*must hold finite positive lengths; got nan"):
        model(x, grid=Grid(extent=(float("nan"), 1.0)))


@pytest.mark.parametrize("spec", FLAT)
@pytest.mark.parametrize("name", ["in_channels", "out_channels", "hidden_channels", "n_layers"])
def test_sizes_below_one_are_refused(spec, name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        type(spec)(**{**vars(spec), name: 0})


@pytest.mark.parametrize("spec", FLAT)
def test_a_grid_of_other_dimension_is_refused(spec):
    with pytest.raises(ValueError, match="grid has 3 axes; the model has 2"):
        type(spec)(**{**vars(spec), "grid": Grid(extent=(1.0, 1.0, 1.0))})


METHODS = ("fno", "ffno", "gt", "factformer", "factformer_updown", "fano")


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("method", METHODS)
def test_recipes_build(problem, method):
    name = f"{problem}/{method}"
    assert name in recipe_names()
    with torch.device("meta"):
        model = build(name)
    assert isinstance(model, OperatorModel)
    assert (model.spec.in_channels, model.spec.out_channels) == (2, {"allen_cahn": 1, "navier_stokes": 2}[problem])
    assert model.spec.grid.periodic == ((problem == "navier_stokes"),) * 2
    assert recipe(name)["model"]["hidden_channels"] == model.spec.hidden_channels


COUNTS = {
    "allen_cahn/fno": 1_201_825,
    "navier_stokes/fno": 305_874,
    "allen_cahn/ffno": 357_825,
    "navier_stokes/ffno": 26_286_082,
    "allen_cahn/gt": 2_236_673,
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_those_of_the_trained_models(name):
    with torch.device("meta"):
        assert sum(p.numel() for p in build(name).parameters()) == COUNTS[name]


@pytest.mark.compiled
@pytest.mark.parametrize("spec", [case for case in FLAT if case.id not in ("ffno-plain", "gt-concat")])
def test_compiled_model_is_the_model(spec):
    torch.compiler.reset()
    model = model_of(type(spec)(**{**vars(spec), "n_layers": 1})).double()
    x = field(spec, dtype=torch.float64)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))
