"""What spreading subdomains costs: numbers to multiply, to keep and to send, as functions of sizes alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mondrian.attention import AttentionSpec, GlobalAttention, NeighborhoodAttention, WindowedAttention
from mondrian.decomposition import Decomposition, Lattice
from mondrian.models.transformer import TransformerSpec
from mondrian.parallel.exchange import Plan, Wanted
from mondrian.parallel.partition import Partition
from mondrian.parallel.slabs import seen_rows


@dataclass(frozen=True)
class Sent:
    """Numbers that one process receives from others in one block, and those that it gives: gradients go back."""

    received: int
    given: int

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.received + other.received, self.given + other.given)


def numbers_sent(
    spec: TransformerSpec, whole: Decomposition, partition: Partition, rank: int, *, batch: int
) -> tuple[Sent, ...]:
    """What process `rank` exchanges in each block of one evaluation, in numbers.

    For each row of subdomains that its own see and another process holds, the keys and values $2 B C P m$ of the $m$
    cells of $P$ points in the row. For a staggered block half a row of one function, $B C P m / 2$ (an odd number of
    points is rounded down), there and back.
    """
    sent = []
    points = math.prod(whole.cell_points)
    for index in range(spec.n_layers):
        pattern, lattice, owners = spec.attention.in_block(index), whole.lattice, partition
        moved = Sent(0, 0)
        if spec.stagger and index % 2:
            lattice, owners = whole.staggered().lattice, partition.staggered()
            base, half = partition.scaled(whole.cell_points[0]), partition.moved_points(whole.cell_points[0])
            a_row = batch * spec.hidden_channels * math.prod(whole.grid.points[1:])
            moved = _rows_sent(base, half.all_owned(), rank, a_row) + _rows_sent(half, base.all_owned(), rank, a_row)
        wanted = tuple((rows.start, rows.stop) for rows in seen_rows(pattern, lattice, owners))
        a_row = 2 * batch * spec.hidden_channels * points * math.prod(lattice.counts[1:])
        sent.append(_rows_sent(owners, wanted, rank, a_row) + moved)
    return tuple(sent)


def _rows_sent(partition: Partition, wanted: Wanted, rank: int, a_row: int) -> Sent:
    plan = Plan.make(partition, wanted, rank)
    given = sum(piece.number for pieces in plan.outgoing for piece in pieces)
    return Sent(plan.foreign * a_row, given * a_row)


def keys_seen(attention: AttentionSpec, lattice: Lattice) -> int:
    """How many cells a cell in the middle of a lattice attends to."""
    match attention:
        case WindowedAttention():
            return math.prod(attention.window)
        case NeighborhoodAttention() if not attention.zero_far:
            return math.prod([min(2 * attention.radius + 1, count) for count in lattice.counts])
        case GlobalAttention() | NeighborhoodAttention():
            return lattice.size
        case _:
            raise ValueError(f"no cost is known for {attention}; needed global, windowed or neighbourhood attention")


@dataclass(frozen=True)
class Machine:
    """What a process has: products a second, bytes a second from others, and bytes of memory."""

    flops: float
    bandwidth: float
    memory: float
    latency: float = 0.0


@dataclass(frozen=True)
class Cost:
    """One evaluation, or one training step, by one process: products, bytes kept, bytes received, messages."""

    flops: float
    kept: float
    received: float
    messages: int

    def seconds(self, machine: Machine) -> float:
        """Work, then waiting: nothing of the exchange is hidden behind the work."""
        return self.flops / machine.flops + self.received / machine.bandwidth + self.messages * machine.latency


@dataclass(frozen=True)
class CostModel:
    r"""The cost of a model on a domain of $n = n_0 m$ cells of $P$ points, spread over $R$ processes by rows.

    $$F = \tfrac{n}{R} \bigl( f + 4 L B C P\, s \bigr), \qquad
    M = L B C P\, b \bigl( a \tfrac{n}{R} + 2 (\tfrac{n}{R} + k) \bigr), \qquad
    T = 2 L B C P\, b\, k$$

    $F$ are the floating-point operations of an evaluation, $f$ those of one cell outside attention (counted), $s$ the
    cells that a cell sees; $k$ the cells whose keys and values come from others: $n - n/R$ for global attention,
    $2 r m$ for neighbourhoods, $w m$ in every other block for shifted windows. A training step has three times the
    operations and twice the traffic. $M$ is what a step keeps for its gradient: $a$ functions a block (measured).
    """

    spec: TransformerSpec
    flops_a_cell: float
    functions_a_block: float
    itemsize: int = 4

    def of(self, whole: Decomposition, processes: int, *, batch: int, training: bool) -> Cost:
        """The largest cost of all processes."""
        unit = self.spec.attention.window[0] if isinstance(self.spec.attention, WindowedAttention) else 1
        partition = Partition.even(whole.subdomains[0], processes, unit=unit, ring=whole.grid.periodic[0])
        middle = processes // 2  # has neighbours on both sides where there are three processes or more
        rows = max(stop - start for start, stop in partition.all_owned())
        cells, points = rows * math.prod(whole.subdomains[1:]), math.prod(whole.cell_points)
        field = batch * self.spec.hidden_channels * points  # numbers a cell
        seen = keys_seen(self.spec.attention, whole.lattice)
        flops = cells * (batch * self.flops_a_cell + 4 * self.spec.n_layers * field * seen)
        sent = numbers_sent(self.spec, whole, partition, middle, batch=batch)
        received = sum(block.received for block in sent)
        keys = sum(2 * cells * field + block.received for block in sent)
        blocks = self.spec.n_layers if training else 1
        kept = blocks * self.functions_a_block * cells * field + (keys if training else keys / self.spec.n_layers)
        messages = sum(1 for block in sent if block.received) * (processes - 1 if self._sees_all(whole) else 2)
        times = 3 if training else 1
        back = 2 if training else 1
        return Cost(times * flops, kept * self.itemsize, back * received * self.itemsize, back * messages)

    def _sees_all(self, whole: Decomposition) -> bool:
        return keys_seen(self.spec.attention, whole.lattice) == whole.lattice.size
