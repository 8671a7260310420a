"""Lattices cut into groups: windows, and tiles that look at a halo around them."""

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

COPY = 48  # scores that cost as much as the copy of one key and value: an estimate from bandwidth and peak
SIDES = (1, 2, 4, 8, 16)  # of tiles that are tried, besides the whole axis


@constant
def windows(
    lattice: Lattice | LatticeRows, window: tuple[int, ...], shift: tuple[int, ...], device: torch.device
) -> Groups:
    """Windows of cells, the first one starting at `shift`; those that reach over an end hold two parts.

    Of `LatticeRows` these are the windows of the keys, among which those of every query must be complete.
    """
    span = LatticeRows.of(lattice)
    lattice, rows = span.lattice, span.keys
    counts = (rows.number, *lattice.counts[1:])
    rings = (lattice.periodic[0] and rows.is_whole, *lattice.periodic[1:])
    starts = ((shift[0] - rows.start) % window[0], *shift[1:])
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
    row = span.queries.place_of(places[0] + rows.start)
    elsewhere = (row < 0) | (row >= span.queries.number)
    looking = [row.clamp(0, span.queries.number - 1), *places[1:]]
    queries = _together(looking, (span.queries.number, *counts[1:]))
    missing = missing | (_together([elsewhere.long(), *map(torch.zeros_like, places[1:])], (2,) * len(window)) > 0)
    return Groups(queries, cells, _inverse(queries, missing, span.queries.size), offsets, hidden)


@constant
def tiles(
    lattice: Lattice | LatticeRows, radius: int, device: torch.device, tile: tuple[int, ...] | None = None
) -> Groups | None:
    """Tiles of cells that look at all cells within `radius`; None where the full score matrix is no more work.

    `tile` is how many cells they have along each axis, if it is not to be chosen by the work.
    """
    span = LatticeRows.of(lattice)
    tile = tile or best_tile(span, radius)
    if tile is None:
        return None
    lattice = span.lattice
    looking, held = ((rows.number, *lattice.counts[1:]) for rows in (span.queries, span.keys))
    inside, around, beyond, hidden = [], [], [], []
    for axis, (count, t) in enumerate(zip(looking, tile, strict=True)):
        start = torch.arange(0, count, t, device=device)[:, None]
        place, key = start + torch.arange(t, device=device), start + torch.arange(-radius, t + radius, device=device)
        inside.append(place.clamp(max=count - 1))
        beyond.append((place >= count).long())
        if axis == 0:
            found = span.keys.place_of(key + span.queries.start)
        else:
            found = key % count if lattice.periodic[axis] else key
        around.append(found.clamp(0, held[axis] - 1))
        # past the last cell that looks only its halo is wanted: a ring that the tiles do not divide comes round again
        hidden.append(((found < 0) | (found >= held[axis]) | (key >= count + radius)).long())
    dim = len(tile)
    queries, keys = _together(inside, looking), _together(around, held)
    inner, outer = (
        Lattice(size, (False,) * dim).positions(device) for size in (tile, tuple(t + 2 * radius for t in tile))
    )
    offsets = outer[None, :, :] - radius - inner[:, None, :]
    seen = (offsets.abs().amax(dim=-1) <= radius) & (_together(hidden, (2,) * dim) == 0)[:, None, :]
    # a query beyond the domain may look at anything: it is cut off afterwards, and must not be nan
    seen = seen | ~seen.any(dim=-1, keepdim=True)
    back = _inverse(queries, _together(beyond, (2,) * dim) > 0, span.queries.size)
    return Groups(queries, keys, back, offsets, hide(seen))


def _together(axes: Sequence[Int[Tensor, "_group _inner"]], sizes: Sequence[int]) -> Int[Tensor, "group inner"]:
    """Numbers along each axis as one number, the last axis counting fastest."""
    number = axes[0]
    for along, size in zip(axes[1:], sizes[1:], strict=True):
        number = (number[:, None, :, None] * size + along[None, :, None, :]).flatten(2).flatten(0, 1)
    return number


def _inverse(
    cells: Int[Tensor, "group inner"], missing: Bool[Tensor, "group inner"], size: int
) -> Int[Tensor, " cell"]:
    """Where each cell is found; the places that are missing are none."""
    return torch.where(missing, size, cells).flatten().argsort()[:size]


def best_tile(lattice: Lattice | LatticeRows, radius: int) -> tuple[int, ...] | None:
    """The tile with the least work: scores, and copies of keys, which cost about as much as `COPY` scores each.

    None where no tile does less than the full score matrix, or where a halo would meet itself round a ring.
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
