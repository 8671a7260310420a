"""A transformer operator whose subdomains are spread over ranks."""

from __future__ import annotations

from jaxtyping import Float, Shaped
from torch import Tensor

from mondrian.artefact import OperatorModel
from mondrian.attention import WindowedAttention
from mondrian.decomposition import Decomposition
from mondrian.grid import Grid
from mondrian.models.fields import check_input
from mondrian.models.transformer import TransformerOperator
from mondrian.models.unet import UNetOperator
from mondrian.parallel.exchange import Processes, fetch
from mondrian.parallel.partition import Partition
from mondrian.parallel.slabs import SlabDecomposition


class SpreadModel:
    """A model that several ranks apply together; each holds a slab of every sample.

    `on_slab` maps the slab of a rank to its slab of the output: no rank holds more of a field. Called like the model
    itself it maps whole fields to whole fields, of which each rank computes its slab.

    The weights are the model's. If every rank computes the loss of the whole field, the mean over ranks of the weights'
    gradients, which data parallelism takes anyway, is the gradient of that loss.
    """

    def __init__(self, model: OperatorModel, processes: Processes, *, partition: Partition | None = None) -> None:
        self.model = with_subdomains(model)
        self.processes = processes
        self._partition = partition

    def partition(self, grid: Grid) -> Partition:
        """The owners of the rows of subdomains: the partition that was given, or an even one."""
        return self._partition or even_partition(self.model, grid, self.processes.number)

    def points(self, grid: Grid) -> Partition:
        """The owners of the rows of points of a grid."""
        return self.partition(grid).scaled(decomposed(self.model, grid).cell_points[0])

    def on_slab(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid
    ) -> Float[Tensor, "batch out_channel *space"]:
        """Map this rank's slab of the input to its slab of the output; `grid` is the whole grid, with its points."""
        whole = decomposed(self.model, grid)
        return self.model(x, slab=SlabDecomposition(whole, self.partition(grid), self.processes))

    def __call__(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channel *space"]:
        check_input(x, self.model.spec.in_channels, self.model.spec.dim, grid)
        whole = (grid or self.model.spec.default_grid).with_points(tuple(x.shape[2:]))
        points = self.points(whole)
        start, stop = points.owned(self.processes.rank)
        y = self.on_slab(x.narrow(2, start, stop - start), whole)
        everything = ((0, points.total),) * points.processes
        return fetch([y], self.processes, points, everything, dim=2)[0]


def check_spread(model: OperatorModel, grid: Grid, processes: int) -> None:
    """Refuse a model or a grid that so many ranks cannot share, before they synchronise."""
    even_partition(with_subdomains(model), grid, processes)


def with_subdomains(model: OperatorModel) -> TransformerOperator:
    """The model, if it has subdomains that can be spread."""
    if not isinstance(model, TransformerOperator):
        raise ValueError(f"a {type(model).__name__} has no subdomains to spread; needed a TransformerOperator")
    if isinstance(model, UNetOperator) and model.spec.levels > 1:
        raise ValueError(f"a U-Net of levels={model.spec.levels} cannot be cut into slabs; needed levels=1")
    if model.detail is not None:
        raise ValueError(f"cell_points={model.spec.cell_points} resample the whole field; needed a model without them")
    for layer in (*model.spec.opening, *model.spec.layers):
        if not layer.on_slabs or (layer.norm or model.spec.norm) == "domain":
            raise ValueError(f"{layer} needs the whole domain; to work on slabs needed layers and norms on cells alone")
    return model


def decomposed(model: TransformerOperator, grid: Grid) -> Decomposition:
    """The decomposition of a grid whose own points are those of the cells."""
    whole = model.spec.decompose(grid)
    if whole.grid != grid:
        raise ValueError(
            f"subdomains={whole.subdomains} do not divide the points={grid.points} of the grid (ends={grid.ends}), "
            "which slabs need"
        )
    return whole


def even_partition(model: TransformerOperator, grid: Grid, processes: int) -> Partition:
    """As equal a partition of the rows as possible, in whole windows where there are enough of them."""
    attention, rows = model.spec.attention, decomposed(model, grid).subdomains[0]
    unit = attention.window[0] if isinstance(attention, WindowedAttention) else 1
    return Partition.even(rows, processes, unit=unit, ring=grid.periodic[0])
