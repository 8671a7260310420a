"""Regrouping the cells of a lattice into windows, and into tiles with a halo.

The groups are folded into the head axis, `(batch, group head, cell, feature)`, so that one mask serves every
sample of a batch.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch.nn import functional as F

from mondrian.decomposition import Lattice

COPY = 48  # scores that cost as much as the copy of one key and value: an estimate from bandwidth and peak


def group(
    u: Shaped[Tensor, "batch head cell feature"],
    counts: tuple[int, ...],
    padded: tuple[int, ...],
    size: tuple[int, ...],
    shift: tuple[int, ...],
) -> Shaped[Tensor, "batch group_head inner feature"]:
    """Cells to groups of `size` cells, after padding the lattice with zeros and rolling it back by `shift`."""
    dim = len(counts)
    v = u.unflatten(2, counts)
    if padded != counts:
        ends = [n - count for n, count in zip(padded, counts, strict=True)]
        v = F.pad(v, [0, 0, *(side for end in reversed(ends) for side in (0, end))])
    if any(shift):
        v = torch.roll(v, [-s for s in shift], dims=list(range(2, 2 + dim)))
    pairs = [part for n, s in zip(padded, size, strict=True) for part in (n // s, s)]
    v = v.reshape(*u.shape[:2], *pairs, u.shape[-1])
    outer, inner = [2 + 2 * a for a in range(dim)], [3 + 2 * a for a in range(dim)]
    v = v.permute(0, *outer, 1, *inner, v.ndim - 1)
    return v.reshape(u.shape[0], -1, math.prod(size), u.shape[-1])


def ungroup(
    u: Shaped[Tensor, "batch group_head inner feature"],
    counts: tuple[int, ...],
    padded: tuple[int, ...],
    size: tuple[int, ...],
    shift: tuple[int, ...],
) -> Shaped[Tensor, "batch head cell feature"]:
    """The inverse of `group`."""
    dim = len(counts)
    groups = [n // s for n, s in zip(padded, size, strict=True)]
    v = u.reshape(u.shape[0], *groups, -1, *size, u.shape[-1])
    pairs = [axis for a in range(dim) for axis in (1 + a, 2 + dim + a)]
    v = v.permute(0, 1 + dim, *pairs, v.ndim - 1).reshape(u.shape[0], -1, *padded, u.shape[-1])
    if any(shift):
        v = torch.roll(v, shift, dims=list(range(2, 2 + dim)))
    for axis, (count, n) in enumerate(zip(counts, padded, strict=True)):
        v = v if count == n else v.narrow(2 + axis, 0, count)
    return v.flatten(2, 1 + dim)


def halo_places(
    lattice: Lattice, padded: tuple[int, ...], tile: tuple[int, ...], radius: int, device: torch.device
) -> tuple[list[Int[Tensor, "_tile _key"]], Bool[Tensor, "group key"]]:
    """Along each axis the cells that a tile and its halo cover; and which keys of each tile exist."""
    places, exist = [], []
    for count, n, t, ring in zip(lattice.counts, padded, tile, lattice.periodic, strict=True):
        start = torch.arange(0, n, t, device=device)
        place = start[:, None] + torch.arange(-radius, t + radius, device=device)
        places.append(place % count if ring else place.clamp(0, count - 1))
        # past the end of a ring that the tiles do not divide, only the halo of the last real cell is asked for
        exist.append((place < count + radius) if ring else (place >= 0) & (place < count))
    there = exist[0]
    for along in exist[1:]:
        there = (there[:, None, :, None] & along[None, :, None, :]).flatten(2).flatten(0, 1)
    return places, there


def gather_halo(
    u: Shaped[Tensor, "batch head cell feature"],
    counts: tuple[int, ...],
    places: list[Int[Tensor, "_tile _key"]],
) -> Shaped[Tensor, "batch group_head key feature"]:
    """The cells at `places`, grouped like the tiles."""
    dim = len(counts)
    v = u.unflatten(2, counts)
    for axis, place in enumerate(places):
        v = v.index_select(2 + axis, place.flatten())
    pairs = [part for place in places for part in place.shape]
    v = v.reshape(*u.shape[:2], *pairs, u.shape[-1])
    outer, inner = [2 + 2 * a for a in range(dim)], [3 + 2 * a for a in range(dim)]
    v = v.permute(0, *outer, 1, *inner, v.ndim - 1)
    return v.reshape(u.shape[0], math.prod([p.shape[0] for p in places]) * u.shape[1], -1, u.shape[-1])


def best_tile(lattice: Lattice, radius: int) -> tuple[int, ...] | None:
    """The tile with the least work: scores, and copies of keys, which cost about as much as `COPY` scores each.

    None where no tile does less than the full score matrix, or where a halo would meet itself round a ring.
    """
    if any(ring and 2 * radius + 1 > n for n, ring in zip(lattice.counts, lattice.periodic, strict=True)):
        return None
    best, least = None, float(lattice.size**2)
    for side in range(1, max(lattice.counts) + 1):
        tile = tuple(min(side, n) for n in lattice.counts)
        tiles = math.prod([math.ceil(n / t) for n, t in zip(lattice.counts, tile, strict=True)])
        keys = math.prod([t + 2 * radius for t in tile])
        work = float(tiles * keys * (math.prod(tile) + COPY))
        if work < least:
            best, least = tile, work
    return best
