"""A model of functions on points with everything that its use needs: physical units, and the names of its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.models.points import PointOperator
from mondrian.points.mesh import naming
from mondrian.points.placement import Placement
from mondrian.points.point_set import PointSet
from mondrian.surrogate.scaled import ScaledModel, ScaledSpec


@dataclass(frozen=True)
class MeshSurrogateSpec(ScaledSpec):
    """A model on points and the scale and name of each of its channels.

    `inputs` and `targets` are the fields of meshes whose components the channels are; without them a channel is a field
    of its own. `box` holds the domains, if they share one.
    """

    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    box: Grid | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inputs", self.inputs or self.in_names)
        object.__setattr__(self, "targets", self.targets or self.out_names)

    def build(self) -> MeshSurrogate:
        return MeshSurrogate(self)


class MeshSurrogate(ScaledModel):
    r"""A model on points in physical units: $y = S_{out}^{-1}\, G(S_{in}\, x)$ with the channel-wise scales $S$.

    Called like the `PointOperator` inside.

    >>> import torch
    >>> from mondrian.models import point_no
    >>> from mondrian.points import Boxes
    >>> from mondrian.surrogate import Scale
    >>> model = point_no(2, 1, partition=Boxes((2, 2)), hidden_channels=8).spec
    >>> spec = MeshSurrogateSpec(model, ("f", "d"), ("u",), (Scale(), Scale(0.0, 10.0)), (Scale(1.0, 0.1),))
    >>> points = PointSet.of_grid(Grid(extent=(1.0, 1.0), points=(6, 6)))
    >>> spec.build()(torch.zeros(3, 2, 36), points).shape
    torch.Size([3, 1, 36])
    """

    spec: MeshSurrogateSpec

    def forward(
        self,
        values: Float[Tensor, "batch channel point"] | Sequence[Float[Tensor, "channel _"]],
        points: PointSet | Sequence[PointSet] | Placement,
        out_points: PointSet | Sequence[PointSet] | Placement | None = None,
    ) -> Float[Tensor, "batch out_channel wanted"] | list[Float[Tensor, "out_channel _"]]:
        if isinstance(values, Tensor):
            return self.physical_output(self.points_model(self.scaled_input(values), points, out_points))
        scaled = [self.scaled_input(function[None])[0] for function in values]
        answers = self.points_model(scaled, points, out_points)
        return [self.physical_output(answer[None])[0] for answer in answers]

    def at_vertices(
        self, x: Float[Tensor, "channel vertex"], points: PointSet, *, name: str
    ) -> Float[Tensor, "out_channel vertex"]:
        """The answer for one function, computed in the model's precision and on its device, on the CPU.

        It is given in single precision at least: numbers with a unit may not fit into less.
        """
        for channel, values, scale in zip(self.spec.in_names, x, self.spec.in_scales, strict=True):
            if scale.log and not bool((values > 0).all()):
                raise ValueError(f"{name} has values of {channel!r} without a logarithm; needed positive ones")
        with naming(name):  # the mesh may be too small to be cut, say
            answer = self(x[None].to(self.points_model.project.skip.weight.device, self.physical_dtype), points)
        assert isinstance(answer, Tensor)
        return answer[0].to("cpu", self.physical_dtype)

    @property
    def physical_dtype(self) -> torch.dtype:
        """What values with a unit are given in: a model of half precision halves them once they are scaled."""
        return torch.promote_types(self.points_model.project.skip.weight.dtype, torch.float32)

    @property
    def points_model(self) -> PointOperator:
        """The model between scaled functions."""
        assert isinstance(self.model, PointOperator)
        return self.model
