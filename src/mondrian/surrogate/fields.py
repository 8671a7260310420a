"""A scaled model of fields on grids, with its window."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Shaped
from torch import Tensor

from mondrian.grid import Grid
from mondrian.models.on_grid import apply_on
from mondrian.surrogate.scaled import ScaledModel, ScaledSpec
from mondrian.surrogate.window import Window


@dataclass(frozen=True)
class SurrogateSpec(ScaledSpec):
    """A scaled model of fields on grids; `window` says which fields and steps of a simulation the channels are."""

    window: Window | None = None

    @property
    def default_grid(self) -> Grid:
        """The box that a call without `grid` assumes."""
        grid: Grid = self.model.default_grid  # type: ignore[attr-defined]
        return grid

    def build(self) -> Surrogate:
        return Surrogate(self)


class Surrogate(ScaledModel):
    r"""A model in physical units: $y = S_{out}^{-1}\, G(S_{in}\, x)$ with the channel-wise scales $S$.

    The prediction is at the points of the input, or at those of `out_grid`.

    >>> import torch
    >>> from mondrian import vit_no
    >>> model = vit_no(in_channels=2, out_channels=1, hidden_channels=8, subdomains=(2, 2)).spec
    >>> from mondrian.surrogate import Scale
    >>> spec = SurrogateSpec(model, ("u[0]", "gamma"), ("u[1]",), (Scale(), Scale(-3.0, 0.4, log=True)), (Scale(),))
    >>> spec.build()(torch.full((1, 2, 8, 8), 1e-3)).shape
    torch.Size([1, 1, 8, 8])
    """

    spec: SurrogateSpec

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None, out_grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channel *points"]:
        return self.physical_output(apply_on(self.model, self.scaled_input(x), grid, out_grid))
