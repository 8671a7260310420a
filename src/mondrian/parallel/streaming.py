"""Fields larger than memory on one machine: slab after slab, each with the rows that its output depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from mondrian.artefact import OperatorModel
from mondrian.decomposition import Decomposition, back_axis, cut, join, move_axis
from mondrian.grid import Grid
from mondrian.lattice import Rows, Slab
from mondrian.layers import Attention, LayerSpec
from mondrian.models.transformer import TransformerSpec
from mondrian.parallel.model import decomposed, with_subdomains

Read = Callable[[int, int], Shaped[Tensor, "batch channel *space"]]


@dataclass(frozen=True)
class IsolatedSlab:
    """Rows of a decomposition, treated as if walls stood at both ends."""

    whole: Decomposition
    rows: Rows

    @property
    def lattice(self) -> Slab:
        return Slab(self.rows.lattice, self.rows.start, self.rows.stop)

    @property
    def cell_points(self) -> tuple[int, ...]:
        return self.whole.cell_points

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of subdomains of the slab along each axis."""
        return (self.rows.number, *self.whole.subdomains[1:])

    def cut(self, u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch cell channel point"]:
        return cut(u, self.counts)

    def join(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch channel *space"]:
        return join(cells, self.counts, self.cell_points)

    def staggered(self) -> IsolatedStaggeredSlab:
        return IsolatedStaggeredSlab(self)


@dataclass(frozen=True)
class IsolatedStaggeredSlab:
    """The slab moved by half a subdomain: one row more, the first and the last completed by mirror images."""

    base: IsolatedSlab

    @property
    def lattice(self) -> Slab:
        moved = moved_rows(self.base.whole, self.base.rows)
        return Slab(moved.lattice, moved.start, moved.stop)

    def move(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch moved channel point"]:
        u = self.base.join(cells)
        for axis, (points, ring) in enumerate(self._axes):
            u = move_axis(u, axis, points, ring=ring)
        return cut(u, self._counts)

    def back(self, cells: Float[Tensor, "batch moved channel point"]) -> Float[Tensor, "batch cell channel point"]:
        u = join(cells, self._counts, self.base.cell_points)
        for axis, (points, ring) in enumerate(self._axes):
            u = back_axis(u, axis, points, ring=ring)
        return self.base.cut(u)

    @property
    def _axes(self) -> list[tuple[int, bool]]:
        rings = (False, *self.base.whole.grid.periodic[1:])
        return list(zip(self.base.cell_points, rings, strict=True))

    @property
    def _counts(self) -> tuple[int, ...]:
        return (self.base.rows.number + 1, *self.lattice.counts[1:])


def moved_rows(whole: Decomposition, rows: Rows) -> Rows:
    """The rows of the staggered decomposition that overlap some rows of the base.

    On a ring row `i` reaches from the middle of row `i` of the base to that of row `i + 1`, otherwise from the middle
    of row `i - 1` to that of row `i`.
    """
    lattice = whole.staggered().lattice
    if whole.grid.periodic[0]:
        return Rows.within(lattice, rows.start - 1, rows.stop)
    return Rows.within(lattice, rows.start, rows.stop + 1)


def touched_rows(whole: Decomposition, moved: Rows) -> Rows:
    """The rows of the base that overlap some rows of the staggered decomposition."""
    if whole.grid.periodic[0]:
        return Rows.within(whole.lattice, moved.start, moved.stop + 1)
    return Rows.within(whole.lattice, moved.start - 1, moved.stop)


def needed_rows(spec: TransformerSpec, whole: Decomposition, rows: Rows) -> Rows:
    """The rows of the input that the given rows of the output depend on."""
    for index, layers in reversed(list(enumerate(spec.blocks))):
        staggered = spec.stagger and index % 2 == 1
        rows = moved_rows(whole, rows) if staggered else rows
        for layer in reversed(layers):
            rows = layer.seen_by(rows, spec.context(index))
        rows = touched_rows(whole, rows) if staggered else rows
    for layer in reversed(spec.opening):
        rows = layer.seen_by(rows, spec.context(0))
    return rows


def stream(
    model: OperatorModel, read: Read, grid: Grid, *, rows: int
) -> Iterator[tuple[int, Float[Tensor, "batch out_channel *space"]]]:
    """The output slab by slab, `rows` rows of subdomains at a time: the first row of points, and the values.

    `read(start, stop)` returns these rows of points of the input, `(batch, channel, stop - start, ...)`. Memory holds
    one slab at a time, with the rows on both sides that its output depends on.
    """
    operator = with_subdomains(model)
    spec, whole = operator.spec, decomposed(operator, grid)
    count, points = whole.subdomains[0], whole.cell_points[0]
    if rows < 1:
        raise ValueError(f"rows={rows} of subdomains at a time are too few; needed at least 1")
    reaching = [layer for layer in (*spec.opening, *spec.layers) if _sees_all(layer, spec, whole)]
    if reaching and count > 1:
        pattern = getattr(reaching[0], "pattern", None) or spec.attention
        kind = type(pattern if isinstance(reaching[0], Attention) else reaching[0]).__name__
        raise ValueError(f"{kind} attends to all {count} rows at once; needed windows or neighbourhoods")
    everything: Tensor | None = None
    for start in range(0, count, rows):
        wanted = Rows(whole.lattice, start, min(start + rows, count))
        held = needed_rows(spec, whole, wanted)
        if held.is_whole and everything is None:
            everything = operator(read(0, count * points), grid)
        if everything is not None:  # computed once, it serves all slabs that follow
            y, skipped = everything, start * points
        else:
            x = torch.cat([read(first * points, last * points) for first, last in stretches(held)], dim=2)
            y = operator(x, slab=IsolatedSlab(whole, held))
            skipped = (start - held.start) * points
        yield start * points, y.narrow(2, skipped, wanted.number * points)


def _sees_all(layer: LayerSpec, spec: TransformerSpec, whole: Decomposition) -> bool:
    return layer.seen_by(Rows(whole.lattice, 0, 1), spec.context(0)).is_whole


def stretches(rows: Rows) -> list[tuple[int, int]]:
    """Rows as stretches that do not cross an end of the lattice.

    >>> from mondrian.decomposition import Lattice
    >>> stretches(Rows(Lattice((8,), (True,)), -2, 3))
    [(6, 8), (0, 3)]
    """
    count = rows.counts[0]
    if rows.start < 0:
        return [(rows.start + count, count), (0, rows.stop)]
    if rows.stop > count:
        return [(rows.start, count), (0, rows.stop - count)]
    return [(rows.start, rows.stop)]
