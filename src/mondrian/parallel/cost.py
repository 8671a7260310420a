"""The cost of spreading subdomains over ranks: operations, memory and messages as functions of sizes alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mondrian.attention import AttentionSpec, GlobalAttention, NeighborhoodAttention, WindowedAttention
from mondrian.attention.tiles import best_tile
from mondrian.decomposition import Decomposition, Lattice
from mondrian.lattice import LatticeRows, Rows
from mondrian.layers import Attention
from mondrian.models.transformer import TransformerSpec
from mondrian.parallel.exchange import ExchangePlan, Wanted
from mondrian.parallel.partition import Partition
from mondrian.parallel.slabs import seen_rows


@dataclass(frozen=True)
class Sent:
    """Numbers that one rank receives in one block, and numbers that it sends; their gradients go the other way."""

    received: int
    given: int

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.received + other.received, self.given + other.given)


def numbers_sent(
    spec: TransformerSpec, whole: Decomposition, partition: Partition, rank: int, *, batch: int
) -> tuple[Sent, ...]:
    """The numbers that `rank` exchanges in each block of one forward pass.

    For each row of subdomains that its own rows attend to and another rank holds, the keys and values $2 B C P m$ of
    the $m$ cells of $P$ points in the row. For a staggered block half a row of one function, $B C P m / 2$ (an odd
    number of points is rounded down), there and back.
    """
    sent = []
    points = math.prod(whole.cell_points)
    for block in _blocks(spec, whole, partition):
        moved = Sent(0, 0)
        if block.staggered:
            base, half = partition.scaled(whole.cell_points[0]), partition.moved_points(whole.cell_points[0])
            a_row = batch * spec.hidden_channels * math.prod(whole.grid.points[1:])
            moved = _rows_sent(base, half.all_owned(), rank, a_row) + _rows_sent(half, base.all_owned(), rank, a_row)
        wanted = tuple((rows.start, rows.stop) for rows in block.seen)
        a_row = 2 * batch * spec.hidden_channels * points * math.prod(block.lattice.counts[1:])
        sent.append(_rows_sent(block.owners, wanted, rank, a_row) + moved)
    return tuple(sent)


@dataclass(frozen=True)
class _Block:
    """One block of a model: its attention pattern, its lattice, and the owners of the rows."""

    pattern: AttentionSpec
    lattice: Lattice
    owners: Partition
    staggered: bool

    @property
    def seen(self) -> tuple[Rows, ...]:
        """The rows that each rank attends to."""
        return seen_rows(self.pattern, self.lattice, self.owners)

    def lattice_rows(self, rank: int) -> LatticeRows:
        """The rows of a rank, and the rows that they attend to."""
        return LatticeRows(Rows(self.lattice, *self.owners.owned(rank)), self.seen[rank])


def _blocks(spec: TransformerSpec, whole: Decomposition, partition: Partition) -> Iterator[_Block]:
    opening = [(0, spec.opening, False)] if spec.opening else []
    blocks = [(index, layers, spec.stagger and index % 2 == 1) for index, layers in enumerate(spec.blocks)]
    for index, layers, staggered in (*opening, *blocks):
        for layer in layers:
            if not isinstance(layer, Attention):
                continue
            pattern = layer.pattern or spec.context(index).attention
            if staggered:
                yield _Block(pattern, whole.staggered().lattice, partition.staggered(), True)
            else:
                yield _Block(pattern, whole.lattice, partition, False)


def _rows_sent(partition: Partition, wanted: Wanted, rank: int, a_row: int) -> Sent:
    plan = ExchangePlan.make(partition, wanted, rank)
    given = sum(piece.number for pieces in plan.outgoing for piece in pieces)
    return Sent(plan.foreign * a_row, given * a_row)


def pairs_multiplied(attention: AttentionSpec, span: LatticeRows) -> int:
    """Pairs of cells whose scores are computed: whole windows, and tiles with all of their halo, masked or not."""
    queries, keys = ((rows.number, *span.lattice.counts[1:]) for rows in (span.queries, span.keys))
    match attention:
        case WindowedAttention():
            groups = [math.ceil(count / side) for count, side in zip(keys, attention.window, strict=True)]
            return math.prod(groups) * math.prod(attention.window) ** 2
        case NeighborhoodAttention() if (tile := best_tile(span, attention.radius)) is not None:
            groups = [math.ceil(count / side) for count, side in zip(queries, tile, strict=True)]
            return math.prod(groups) * math.prod(tile) * math.prod(side + 2 * attention.radius for side in tile)
        case GlobalAttention() | NeighborhoodAttention():
            return span.queries.size * span.keys.size
        case _:
            raise ValueError(f"no cost is known for {attention}; needed global, windowed or neighbourhood attention")


@dataclass(frozen=True)
class Machine:
    """The resources of one rank: operations per second, bytes per second from other ranks, bytes of memory."""

    flops: float
    bandwidth: float
    memory: float
    latency: float = 0.0


@dataclass(frozen=True)
class Cost:
    """The cost of a forward pass or a training step for one rank: operations, bytes kept, bytes received, messages."""

    flops: float
    kept: float
    received: float
    messages: int

    def seconds(self, machine: Machine) -> float:
        """Time without overlap: communication is not hidden behind computation."""
        return self.flops / machine.flops + self.received / machine.bandwidth + self.messages * machine.latency


@dataclass(frozen=True)
class Work:
    """Floating-point operations outside attention: those of each cell, and those of the kernels, computed once."""

    a_cell: float
    once: float = 0.0


@dataclass(frozen=True)
class CostModel:
    r"""The cost of a model on a domain of $n = n_0 m$ cells of $P$ points, whose rows are spread over $R$ ranks.

    $$F = f_0 + \tfrac{n}{R} B \bigl( f + 4 L C P\, s \bigr), \qquad
    M = L B C P\, b \bigl( a \tfrac{n}{R} + 2 (\tfrac{n}{R} + k) \bigr), \qquad
    T = 2 L B C P\, b\, k$$

    $F$ are the floating-point operations of a forward pass, $f$ those of a cell outside attention and $f_0$ those that
    do not depend on the cells (both counted), $s$ the cells that a cell is multiplied with (`pairs_multiplied`); $k$
    the cells whose keys and values come from others: $n - n/R$ for global attention, $2 r m$ for neighbourhoods, $w m$
    in every other block for shifted windows. In a training step $f$ and $f_0$ are others, attention costs three times
    as much, and all traffic goes back once more. $M$ is what a step keeps for its gradient: $a$ functions a block
    (measured). That a staggered block between walls has a row of cells more is left out of $F$ and $M$.
    """

    spec: TransformerSpec
    evaluation: Work
    step: Work
    functions_a_block: float
    itemsize: int = 4

    def of(self, whole: Decomposition, processes: int, *, batch: int, training: bool) -> Cost:
        """The largest cost of all ranks."""
        unit = self.spec.attention.window[0] if isinstance(self.spec.attention, WindowedAttention) else 1
        partition = Partition.even(whole.subdomains[0], processes, unit=unit, ring=whole.grid.periodic[0])
        flops = max(self.flops(whole, partition, rank, batch=batch, training=training) for rank in range(processes))
        middle = processes // 2  # has neighbours on both sides among three ranks or more
        cells = max(self._cells(whole, partition, rank) for rank in range(processes))
        field = self._field(whole, batch)
        sent = numbers_sent(self.spec, whole, partition, middle, batch=batch)
        received = sum(block.received for block in sent)
        keys = sum(2 * cells * field + block.received for block in sent)
        blocks = self.spec.n_layers if training else 1
        kept = blocks * self.functions_a_block * cells * field + (keys if training else keys / self.spec.n_layers)
        messages = sum(1 for block in sent if block.received) * (processes - 1 if self._sees_all(whole) else 2)
        back = 2 if training else 1
        return Cost(flops, kept * self.itemsize, back * received * self.itemsize, back * messages)

    def flops(self, whole: Decomposition, partition: Partition, rank: int, *, batch: int, training: bool) -> float:
        """The operations of one rank."""
        work, times = (self.step, 3) if training else (self.evaluation, 1)
        blocks = _blocks(self.spec, whole, partition)
        pairs = sum(pairs_multiplied(block.pattern, block.lattice_rows(rank)) for block in blocks)
        cells = self._cells(whole, partition, rank)
        return work.once + batch * cells * work.a_cell + times * 4 * self._field(whole, batch) * pairs

    def _field(self, whole: Decomposition, batch: int) -> int:
        """The size of one field on one cell: batch, channels and points."""
        return batch * self.spec.hidden_channels * math.prod(whole.cell_points)

    @staticmethod
    def _cells(whole: Decomposition, partition: Partition, rank: int) -> int:
        start, stop = partition.owned(rank)
        return (stop - start) * math.prod(whole.subdomains[1:])

    def _sees_all(self, whole: Decomposition) -> bool:
        return self.spec.attention.seen_by(Rows(whole.lattice, 0, 1)).is_whole
