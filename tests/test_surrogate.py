"""Surrogates: physical units by hand, inverses, artefacts."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mondrian
from mondrian import Grid, vit_no
from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.data import Window
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec


@dataclass(frozen=True)
class SumSpec(ModelSpec):
    """A model that answers the sum of its channels times a weight."""

    in_channels: int = 2
    out_channels: int = 1

    @property
    def default_grid(self) -> Grid:
        return Grid(extent=(1.0,))

    def build(self) -> OperatorModel:
        return Sum(self)


class Sum(OperatorModel):
    def __init__(self, spec: SumSpec) -> None:
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return self.weight * x.sum(dim=1, keepdim=True)


def surrogate(out: Scale) -> Surrogate:
    scales = (Scale(shift=1.0, factor=2.0), Scale(shift=-3.0, factor=0.5, log=True))
    return SurrogateSpec(SumSpec(), ("u[0]", "gamma"), ("u[1]",), scales, (out,)).build()


def test_input_and_output_are_scaled_as_the_formula_says() -> None:
    x = torch.tensor([[[5.0], [1e-2]]])  # (5 - 1) / 2 = 2, (log10(0.01) + 3) / 0.5 = 2
    assert surrogate(Scale()).scaled_input(x).flatten().tolist() == pytest.approx([2.0, 2.0])
    assert surrogate(Scale(shift=10.0, factor=3.0))(x).item() == pytest.approx(10 + 3 * 4)
    assert surrogate(Scale(shift=-2.0, factor=0.5, log=True))(x).item() == pytest.approx(10 ** (-2 + 0.5 * 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_keeps_exact_scales(dtype: torch.dtype) -> None:
    """A pressure: half precision rounds it by many of its deviations, or cannot hold it at all."""
    pressure = Scale(shift=101325.0, factor=3.0)
    both = SurrogateSpec(SumSpec(), ("p[0]", "q[0]"), ("p[1]",), (pressure, Scale()), (pressure,)).build().to(dtype)
    assert both(torch.tensor([[[101328.0], [1.0]]])).item() == 101325.0 + 3 * (1 + 1)
    model = surrogate(pressure).to(dtype)
    assert model.physical_output(torch.zeros(1, 1, 1, dtype=dtype)).item() == 101325.0
    assert model.scaled_output(torch.full((1, 1, 1), 101328.0)).item() == 1.0
    assert model.float().physical_output(torch.ones(1, 1, 1)).item() == 101328.0


@pytest.mark.parametrize("scale", [Scale(), Scale(1.0, 3.0), Scale(0.5, 2.0, log=True)])
def test_physical_output_is_the_inverse_of_scaled_output(scale: Scale) -> None:
    model = surrogate(scale)
    y = torch.rand(3, 1, 7, dtype=torch.float64) + 0.1
    torch.testing.assert_close(model.physical_output(model.scaled_output(y)), y)


def test_half_precision_inside_keeps_a_field_with_an_offset() -> None:
    z = torch.linspace(-2, 2, 9, dtype=torch.bfloat16).reshape(1, 1, 9)
    y = surrogate(Scale(shift=300.0)).physical_output(z)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, 300 + z.float())


def test_an_artefact_keeps_units_names_and_window(tmp_path: Path) -> None:
    network = vit_no(in_channels=2, out_channels=1, hidden_channels=8, n_layers=1, subdomains=(2, 2))
    window = Window(input=("u", "gamma"), target=("u",))
    scales = (Scale(0.5, 2.0), Scale(-3.0, 0.4, log=True))
    spec = SurrogateSpec(network.spec, ("u[0]", "gamma"), ("u[1]",), scales, (Scale(0.1, 0.9),), window)
    saved = spec.build()
    saved.save_pretrained(tmp_path)
    loaded = mondrian.from_pretrained(tmp_path)
    assert loaded.spec == spec
    x = torch.rand(2, 2, 8, 8) + 0.1
    assert torch.equal(loaded(x), saved(x))


def test_the_wrong_number_of_channels_is_named() -> None:
    with pytest.raises(ValueError, match=r"x has 3 channels; needed 2: \('u\[0\]', 'gamma'\)"):
        surrogate(Scale())(torch.ones(1, 3, 4))
    with pytest.raises(ValueError, match=r"in_names=\('u\[0\]',\) and 2 in_scales; the model has in_channels=2"):
        SurrogateSpec(SumSpec(), ("u[0]",), ("u[1]",), (Scale(), Scale()), (Scale(),))
    with pytest.raises(ValueError, match=r"factor=0\.0"):
        Scale(factor=0.0)
