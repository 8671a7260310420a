"""A scaled model of functions on meshes, with the fields that its channels come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.models.points import PointOperator
from mondrian.points.mesh import naming
from mondrian.points.placement import Placement
from mondrian.points.point_set import PointSet
from mondrian.support.former import warn_renamed
from mondrian.surrogate.scaled import ScaledModel, ScaledSpec


@dataclass(frozen=True)
class MeshSurrogateSpec(ScaledSpec):
    """A scaled model of functions on meshes.

    The channels are the components of the fields `inputs` and `targets`; by default each channel is a field. `box`
    holds all domains; without it each mesh has its bounding box.
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

    It is called like the `PointOperator` that it scales.

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

    def predict(
        self, x: Float[Tensor, "batch channel point"], domain: PointSet, *, name: str = "the input"
    ) -> Float[Tensor, "batch out_channel point"]:
        for channel, values, scale in zip(self.spec.in_names, x.unbind(1), self.spec.in_scales, strict=True):
            if scale.log and not bool((values > 0).all()):
                raise ValueError(f"{name} has values of {channel!r} without a logarithm; needed positive ones")
        with naming(name):  # for example if the mesh has fewer points than the model has parts
            return super().predict(x, domain, name=name)

    def at_vertices(
        self, x: Float[Tensor, "channel vertex"], points: PointSet, *, name: str
    ) -> Float[Tensor, "out_channel vertex"]:
        """Former name of `predict` for one function; it goes with the next release."""
        warn_renamed("MeshSurrogate.at_vertices(x, points)", "MeshSurrogate.predict(x[None], points)[0].cpu()")
        return self.predict(x[None], points, name=name)[0].cpu()

    @property
    def points_model(self) -> PointOperator:
        """The model between scaled functions."""
        assert isinstance(self.model, PointOperator)
        return self.model
