"""Rows from other ranks: one collective for halos, whole fields and everything between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from mondrian.parallel.partition import Partition, Piece

Wanted = tuple[tuple[int, int], ...]  # of each rank: the first row that it needs, and the one after the last


@dataclass
class Traffic:
    """Bytes that this rank has received from others, in forward and in backward passes."""

    forward: int = 0
    backward: int = 0


@dataclass(frozen=True, eq=False)
class Processes:
    """The group of ranks that share the subdomains of each sample."""

    group: dist.ProcessGroup
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def rank(self) -> int:
        """The rank of this process in the group."""
        return dist.get_rank(self.group)

    @property
    def number(self) -> int:
        """The number of ranks in the group."""
        return dist.get_world_size(self.group)


@dataclass(frozen=True)
class ExchangePlan:
    """Which rows each rank sends to which other rank, from the point of view of one of them.

    `outgoing[r]` are the own rows that rank `r` needs, `incoming[r]` the rows of rank `r` that this rank needs, `order`
    all rows that this rank needs, in their order. `silent` is true if no rank needs rows of another.
    """

    outgoing: tuple[tuple[Piece, ...], ...]
    incoming: tuple[tuple[Piece, ...], ...]
    order: tuple[Piece, ...]
    silent: bool

    @staticmethod
    def make(partition: Partition, wanted: Wanted, rank: int) -> ExchangePlan:
        if len(wanted) != partition.processes:
            raise ValueError(f"wanted has the rows of {len(wanted)} ranks; needed those of {partition.processes}")
        pieces = [partition.pieces(start, stop) for start, stop in wanted]
        ranks = range(partition.processes)

        def of(owner: int, reader: int) -> tuple[Piece, ...]:
            return tuple(piece for piece in pieces[reader] if piece.owner == owner != reader)

        return ExchangePlan(
            outgoing=tuple(of(rank, reader) for reader in ranks),
            incoming=tuple(of(owner, rank) for owner in ranks),
            order=tuple(pieces[rank]),
            silent=all(piece.owner == reader for reader in ranks for piece in pieces[reader]),
        )

    @property
    def foreign(self) -> int:
        """The number of rows that come from other ranks."""
        return sum(piece.number for pieces in self.incoming for piece in pieces)


plan_of = lru_cache(maxsize=1024)(ExchangePlan.make)


def fetch(
    functions: Sequence[Float[Tensor, "..."]],
    processes: Processes,
    partition: Partition,
    wanted: Wanted,
    *,
    dim: int,
    width: int = 1,
) -> tuple[Float[Tensor, "..."], ...]:
    """The rows that this rank needs of functions that are spread over ranks. This is a collective: all ranks call it.

    Rows lie along `dim`, each of them `width` entries long, and `partition` says which rank owns which. One rank sends
    another a single message. The gradient of a row is the sum of the gradients of all its copies.
    """
    rank = processes.rank
    plan = plan_of(partition, wanted, rank)
    first, last = partition.owned(rank)
    for function in functions:
        if function.shape[dim] != (last - first) * width:
            raise ValueError(
                f"a function has shape {tuple(function.shape)}; rank {rank} owns {last - first} rows of {width} "
                f"along axis {dim}"
            )

    def own(function: Tensor, piece: Piece) -> Tensor:
        return function.narrow(dim, piece.start * width, piece.number * width)

    if plan.silent:
        parts_of = ([own(function, piece) for piece in plan.order] for function in functions)
        return tuple(parts[0] if len(parts) == 1 else torch.cat(parts, dim) for parts in parts_of)
    a_row = [function.numel() // (last - first) for function in functions]
    sent = [own(function, piece).flatten() for pieces in plan.outgoing for piece in pieces for function in functions]
    # The empty parts tie every rank to the exchange; without them its backward pass would skip the collective.
    received = exchange(
        torch.cat([functions[0].narrow(dim, 0, 0).flatten(), *sent]),
        processes,
        outgoing=_sizes(plan.outgoing, a_row),
        incoming=_sizes(plan.incoming, a_row),
    )
    parts = iter(received.split([piece.number * n for pieces in plan.incoming for piece in pieces for n in a_row]))
    arrived: dict[int, list[tuple[Tensor, ...]]] = {
        owner: [tuple(next(parts) for _ in functions) for _ in pieces] for owner, pieces in enumerate(plan.incoming)
    }
    rows: list[list[Tensor]] = [[_shaped(received[:0], function, dim, 0)] for function in functions]
    for piece in plan.order:
        foreign = None if piece.owner == rank else arrived[piece.owner].pop(0)
        for number, function in enumerate(functions):
            here = (
                own(function, piece)
                if foreign is None
                else _shaped(foreign[number], function, dim, piece.number * width)
            )
            rows[number].append(here)
    return tuple(torch.cat(parts, dim) for parts in rows)


def exchange(
    sent: Float[Tensor, " sent"], processes: Processes, *, outgoing: Sequence[int], incoming: Sequence[int]
) -> Float[Tensor, " received"]:
    """Send `outgoing[r]` numbers to each rank `r` and receive `incoming[r]`, in the order of ranks. Differentiable."""
    received: Tensor = _Exchange.apply(sent, tuple(outgoing), tuple(incoming), processes, False)
    return received


class _Exchange(torch.autograd.Function):
    """A permutation of numbers over ranks; its adjoint is its inverse."""

    @staticmethod
    def forward(
        ctx: Any, sent: Tensor, outgoing: tuple[int, ...], incoming: tuple[int, ...], processes: Processes, back: bool
    ) -> Tensor:
        ctx.sizes, ctx.processes, ctx.is_back = (outgoing, incoming), processes, back
        received = sent.new_empty(sum(incoming))
        dist.all_to_all_single(received, sent.contiguous(), list(incoming), list(outgoing), group=processes.group)
        if back:
            processes.traffic.backward += received.nbytes
        else:
            processes.traffic.forward += received.nbytes
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        outgoing, incoming = ctx.sizes
        back = _Exchange.apply(gradients[0], incoming, outgoing, ctx.processes, not ctx.is_back)
        return back, None, None, None, None


def _sizes(pieces: Sequence[Sequence[Piece]], a_row: Sequence[int]) -> list[int]:
    return [sum(piece.number for piece in of_one) * sum(a_row) for of_one in pieces]


def _shaped(numbers: Tensor, function: Tensor, dim: int, length: int) -> Tensor:
    return numbers.view(*function.shape[:dim], length, *function.shape[dim + 1 :])
