"""Lattices cut into groups: windows, and tiles that attend to a halo around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mondrian.attention.groups import Groups, hide
from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows
from mondrian.support.constants import constant

COPY = 48  # scores that cost as much as copying one key and value: estimated from bandwidth and peak
SIDES = (1, 2, 4, 8, 16)  # tile sizes to try, besides the whole axis


@constant
def windows(
    lattice: Lattice | LatticeRows, window: tuple[int, ...], shift: tuple[int, ...], device: torch.device
) -> Groups:
    """Windows of cells, the first one starting at `shift`; a window across an end holds two separate parts.

    Of `LatticeRows` these are the windows of the keys; the window of every query must be complete among them.
    """
    span = LatticeRows.of(lattice)
    lattice, keys = span.lattice, span.keys
    counts = (keys.number, *lattice.counts[1:])
    rings = (lattice.periodic[0] and keys.is_whole, *lattice.periodic[1:])
    starts = ((shift[0] - keys.start) % window[0], *shift[1:])
    places, parts = [], []
    for count, w, s, ring in zip(counts, window, starts, rings, strict=True):
        padded = math.ceil(count / w) * w
        place = (torch.arange(padded, device=device).view(-1, w) + s) % padded
        places.append(place.clamp(max=count - 1))
        parts.append(torch.where(place >= count, 2, torch.zeros_like(place) if ring else (place < s).long()))
    cells, part = _together(places, counts), _together(parts, (3,) * len(window))
    missing = torch.stack([part // 3**axis % 3 == 2 for axis in range(len(window))]).any(dim=0)
    whole = all(
        count % w == 0 and (ring or s == 0) for count, w, s, ring in zip(counts, window, starts, rings, strict=True)
    )
    hidden = None if whole else hide(part[:, :, None] == part[:, None, :])
    offsets = Lattice(window, (False,) * len(window)).offsets(device)
    for axis, (count, ring) in enumerate(zip(lattice.counts, lattice.periodic, strict=True)):
        if ring:  # a window as long as the ring: the shorter way round
            offsets[..., axis] = (offsets[..., axis] + count // 2) % count - count // 2
    row = span.queries.local_row(places[0] + keys.start)
    elsewhere = (row < 0) | (row >= span.queries.number)
    query_places = [row.clamp(0, span.queries.number - 1), *places[1:]]
    queries = _together(query_places, (span.queries.number, *counts[1:]))
    missing = missing | (_together([elsewhere.long(), *map(torch.zeros_like, places[1:])], (2,) * len(window)) > 0)
    return Groups(queries, cells, _inverse(queries, missing, span.queries.size), offsets, hidden)


@constant
def tiles(
    lattice: Lattice | LatticeRows, radius: int, device: torch.device, tile: tuple[int, ...] | None = None
) -> Groups | None:
    """Tiles of cells that attend to all cells within `radius`; None where the full score matrix costs no more.

    `tile` is the number of cells along each axis; by default the cheapest one.
    """
    span = LatticeRows.of(lattice)
    tile = tile or best_tile(span, radius)
    if tile is None:
        return None
    lattice = span.lattice
    query_counts, key_counts = ((part.number, *lattice.counts[1:]) for part in (span.queries, span.keys))
    inside, around, beyond, hidden = [], [], [], []
    for axis, (count, t) in enumerate(zip(query_counts, tile, strict=True)):
        start = torch.arange(0, count, t, device=device)[:, None]
        place, key = start + torch.arange(t, device=device), start + torch.arange(-radius, t + radius, device=device)
        inside.append(place.clamp(max=count - 1))
        beyond.append((place >= count).long())
        if axis == 0:
            position = span.keys.local_row(key + span.queries.start)
        else:
            position = key % count if lattice.periodic[axis] else key
        around.append(position.clamp(0, key_counts[axis] - 1))
        # past the last query only its halo counts: a ring that the tiles do not divide would come round again
        hidden.append(((position < 0) | (position >= key_counts[axis]) | (key >= count + radius)).long())
    dim = len(tile)
    queries, keys = _together(inside, query_counts), _together(around, key_counts)
    inner, outer = (
        Lattice(size, (False,) * dim).positions(device) for size in (tile, tuple(t + 2 * radius for t in tile))
    )
    offsets = outer[None, :, :] - radius - inner[:, None, :]
    seen = (offsets.abs().amax(dim=-1) <= radius) & (_together(hidden, (2,) * dim) == 0)[:, None, :]
    # padded queries may attend to anything: they are dropped afterwards, but must not be nan
    seen = seen | ~seen.any(dim=-1, keepdim=True)
    back = _inverse(queries, _together(beyond, (2,) * dim) > 0, span.queries.size)
    return Groups(queries, keys, back, offsets, hide(seen))


def _together(axes: Sequence[Int[Tensor, "_group _inner"]], sizes: Sequence[int]) -> Int[Tensor, "group inner"]:
    """Indices along each axis as one flat index, the last axis fastest."""
    number = axes[0]
    for along, size in zip(axes[1:], sizes[1:], strict=True):
        number = (number[:, None, :, None] * size + along[None, :, None, :]).flatten(2).flatten(0, 1)
    return number


def _inverse(
    cells: Int[Tensor, "group inner"], missing: Bool[Tensor, "group inner"], size: int
) -> Int[Tensor, " cell"]:
    """The position of each cell in the groups; `missing` positions are padding."""
    return torch.where(missing, size, cells).flatten().argsort()[:size]


def best_tile(lattice: Lattice | LatticeRows, radius: int) -> tuple[int, ...] | None:
    """The cheapest tile: scores, plus copies of keys, each of which costs about as much as `COPY` scores.

    None where no tile is cheaper than the full score matrix, or where a halo would overlap itself on a ring.
    """
    span = LatticeRows.of(lattice)
    whole, counts = span.lattice, (span.queries.number, *span.lattice.counts[1:])
    if any(ring and 2 * radius + 1 > n for n, ring in zip(whole.counts, whole.periodic, strict=True)):
        return None
    best, least = None, float(span.queries.size * span.keys.size)
    for tile in product(*([side for side in SIDES if side < n] + [n] for n in counts)):
        number = math.prod([math.ceil(n / t) for n, t in zip(counts, tile, strict=True)])
        keys = math.prod([t + 2 * radius for t in tile])
        work = float(number * keys * (math.prod(tile) + COPY))
        if work < least:
            best, least = tile, work
    return best
