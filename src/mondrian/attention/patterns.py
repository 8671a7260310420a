"""Which subdomains attend to which: all to all, inside windows, or within a radius.

Each pattern defines `sees`, the plain mask, and `attend`, which computes only what the mask keeps.
Queries, keys and values are `(batch, head, cell, feature)`; scores are products over features, times a scale.
In place of a lattice a pattern also takes `LatticeRows`: rows of queries with all rows that they attend to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from mondrian.attention.groups import hide, mask_of
from mondrian.attention.tiles import tiles, windows
from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows, Rows
from mondrian.operators.base import OperatorSpec
from mondrian.support.spec import Spec

Bias = Callable[[Int[Tensor, "row column axis"], tuple[int, ...], tuple[int, ...]], Float[Tensor, "head row column"]]


@dataclass(frozen=True)
class AttentionSpec(Spec):
    """Base of the patterns: heads over channels and over space, and optionally an operator of its own.

    `spatial_heads` cuts each cell into parts that attend separately; empty means one part. `operator` computes queries,
    keys, values and output; by default it is the operator of the model.
    """

    n_heads: int = 4
    spatial_heads: tuple[int, ...] = ()
    operator: OperatorSpec | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_heads < 1 or any(parts < 1 for parts in self.spatial_heads):
            raise ValueError(f"n_heads={self.n_heads} and spatial_heads={self.spatial_heads} must be at least 1")

    def in_block(self, index: int) -> AttentionSpec:
        """The pattern of block number `index`."""
        return self

    def check(self, lattice: Lattice) -> None:
        """Raise `ValueError` if the pattern does not fit the lattice."""

    def sees(self, lattice: Lattice | LatticeRows, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
        """Whether the first cell attends to the second."""
        raise NotImplementedError

    def width(self, axis: int, count: int) -> int:
        """How many of the `count` cells along an axis a cell may attend to."""
        return count

    def rings(self, lattice: Lattice) -> tuple[int, ...]:
        """The number of cells along each periodic axis that attention spans entirely; 0 for other axes.

        Only there may the length of the ring matter: a pattern with a shorter reach must not depend on it.
        """
        axes = enumerate(zip(lattice.counts, lattice.periodic, strict=True))
        return tuple(n if ring and self.width(axis, n) >= n else 0 for axis, (n, ring) in axes)

    def seen_by(self, rows: Rows) -> Rows:
        """All rows with a cell that some cell of `rows` attends to."""
        raise NotImplementedError

    def attend(
        self,
        q: Float[Tensor, "batch head query feature"],
        k: Float[Tensor, "batch head key feature"],
        v: Float[Tensor, "batch head key feature"],
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Float[Tensor, "batch head query feature"]:
        """Softmax attention over the visible cells; scores are `scale` times the products of queries and keys."""
        raise NotImplementedError

    def definition(
        self,
        q: Float[Tensor, "batch head query feature"],
        k: Float[Tensor, "batch head key feature"],
        v: Float[Tensor, "batch head key feature"],
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Float[Tensor, "batch head query feature"]:
        """The same by a full, masked score matrix."""
        return self.weights(q, k, lattice, bias, scale=scale) @ v

    def weights(
        self,
        q: Float[Tensor, "batch head query feature"],
        k: Float[Tensor, "batch head key feature"],
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Float[Tensor, "batch head query key"]:
        """The attention weights: the softmax of the masked scores."""
        span = LatticeRows.of(lattice)
        self.check(span.lattice)
        score = torch.einsum("bhif,bhjf->bhij", scale * q, k)
        if bias is not None:
            score = score + bias(span.offsets(q.device), span.lattice.reach, self.rings(span.lattice))
        return torch.softmax(self.hide(score, span), dim=-1)

    def hide(
        self, score: Float[Tensor, "batch head query key"], span: LatticeRows
    ) -> Float[Tensor, "batch head query key"]:
        """Mask the scores of cells that are not attended to."""
        return score.masked_fill(~self.sees(span, score.device), -torch.inf)


@dataclass(frozen=True)
class GlobalAttention(AttentionSpec):
    """Every subdomain attends to every other (Algorithm 1)."""

    def sees(self, lattice: Lattice | LatticeRows, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
        span = LatticeRows.of(lattice)
        return torch.ones(span.queries.size, span.keys.size, dtype=torch.bool, device=device)

    def seen_by(self, rows: Rows) -> Rows:
        return Rows(rows.lattice, 0, rows.counts[0])

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        span = LatticeRows.of(lattice)
        mask = None
        if bias is not None:
            mask = bias(span.offsets(q.device), span.lattice.reach, self.rings(span.lattice))[None].to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


@dataclass(frozen=True)
class WindowedAttention(AttentionSpec):
    """Attention inside windows of `window` subdomains (Algorithm 2), shifted by `shift` in every other block.

    On a periodic axis windows wrap around, and `window` must divide the number of subdomains. Otherwise cells at
    opposite ends never share a window, and windows at the ends may be smaller.
    """

    window: tuple[int, ...] = (4, 4)
    shift: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shift", self.shift or (0,) * len(self.window))
        if len(self.shift) != len(self.window) or any(w < 1 for w in self.window):
            raise ValueError(f"window={self.window} must be positive, shift={self.shift} of the same length")
        if any(not 0 <= s < w for s, w in zip(self.shift, self.window, strict=True)):
            raise ValueError(f"shift={self.shift} must be at least 0 and less than window={self.window}")

    def in_block(self, index: int) -> WindowedAttention:
        return self if index % 2 else replace(self, shift=(0,) * len(self.window))

    def check(self, lattice: Lattice) -> None:
        if len(self.window) != len(lattice.counts):
            raise ValueError(
                f"window={self.window} has {len(self.window)} axes; the decomposition {len(lattice.counts)}"
            )
        for w, count, ring in zip(self.window, lattice.counts, lattice.periodic, strict=True):
            if w > count:
                raise ValueError(f"window={self.window} is larger than the {lattice.counts} subdomains")
            if ring and count % w:
                raise ValueError(f"window={self.window} must divide the {lattice.counts} subdomains on a periodic axis")

    def sees(self, lattice: Lattice | LatticeRows, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
        span = LatticeRows.of(lattice)
        queries, keys = (self._windows(part, device) for part in (span.queries, span.keys))
        return (queries[:, None] == keys[None, :]).all(dim=-1)

    def _windows(self, rows: Rows, device: torch.device | None) -> Int[Tensor, "cell axis"]:
        """The index of the window of each cell along each axis."""
        place = rows.positions(device)
        for axis, (w, s, ring) in enumerate(zip(self.window, self.shift, rows.periodic, strict=True)):
            moved = place[:, axis] - s
            moved = moved % rows.counts[axis] if ring else moved
            place[:, axis] = torch.div(moved, w, rounding_mode="floor")
        return place

    def width(self, axis: int, count: int) -> int:
        return self.window[axis]

    def seen_by(self, rows: Rows) -> Rows:
        w, s = self.window[0], self.shift[0]
        first = s + (rows.start - s) // w * w
        last = s + math.ceil((rows.stop - s) / w) * w
        return Rows.within(rows.lattice, first, last)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        span = LatticeRows.of(lattice)
        self.check(span.lattice)
        groups = windows(span, self.window, self.shift, q.device)
        reach = tuple(w - 1 for w in self.window)
        values = None if bias is None else bias(groups.offsets, reach, self.rings(span.lattice))
        return groups.attend(q, k, v, values, scale)


@dataclass(frozen=True)
class NeighborhoodAttention(AttentionSpec):
    """Attention to the subdomains within `radius` along every axis (Algorithm 3), wrapping on periodic axes.

    Subdomains beyond it are masked. `zero_far=True` follows the paper's algorithm literally instead: their scores are
    set to zero before the softmax, so they still contribute with weight $e^0$.
    """

    radius: int = 2
    zero_far: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius < 0:
            raise ValueError(f"radius={self.radius} must be at least 0")

    def check(self, lattice: Lattice) -> None:
        if self.radius > max(lattice.counts) - 1:
            raise ValueError(
                f"radius={self.radius} is too large for {lattice.counts} subdomains; at most {max(lattice.counts) - 1}"
            )

    def sees(self, lattice: Lattice | LatticeRows, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
        return LatticeRows.of(lattice).offsets(device).abs().amax(dim=-1) <= self.radius

    def hide(
        self, score: Float[Tensor, "batch head query key"], span: LatticeRows
    ) -> Float[Tensor, "batch head query key"]:
        return score.masked_fill(~self.sees(span, score.device), 0.0 if self.zero_far else -torch.inf)

    def width(self, axis: int, count: int) -> int:
        return 2 * self.radius + 1

    def seen_by(self, rows: Rows) -> Rows:
        reach = rows.counts[0] if self.zero_far else self.radius
        return Rows.within(rows.lattice, rows.start - reach, rows.stop + reach)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        span = LatticeRows.of(lattice)
        self.check(span.lattice)
        groups = tiles(span, self.radius, q.device)
        offsets = span.offsets(q.device) if groups is None else groups.offsets
        reach = (self.radius,) * len(span.lattice.counts)
        near_by = offsets.clamp(-self.radius, self.radius)  # farther ones are masked
        values = None if bias is None else bias(near_by, reach, self.rings(span.lattice))
        if groups is None:  # the halo would cover everything: tiles save nothing
            near = offsets.abs().amax(dim=-1) <= self.radius
            return self._softmax(q, k, v, mask_of(hide(near[None]), values, q), v, scale)
        if not self.zero_far:
            return groups.attend(q, k, v, values, scale)
        queries, keys, near = (
            groups.split(part, cells) for part, cells in ((q, groups.queries), (k, groups.keys), (v, groups.keys))
        )
        return groups.join(self._softmax(queries, keys, near, mask_of(groups.hidden, values, q), v, scale))

    def _softmax(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, everywhere: Tensor, scale: float
    ) -> Tensor:
        if not self.zero_far or mask is None:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        # the far cells, each of weight exp(0), are all cells minus the near ones
        score = (scale * q) @ k.mT + mask
        seen = torch.isfinite(mask).to(q.dtype)
        number = everywhere.shape[-2]
        some_far = seen.sum(dim=-1, keepdim=True) < number
        largest = score.detach().amax(dim=-1, keepdim=True)
        top = torch.where(some_far, largest.clamp_min(0), largest)
        far = torch.where(some_far, torch.exp(-largest.clamp_min(0)), 0)
        total = everywhere.sum(dim=-2, keepdim=True).repeat_interleave(q.shape[0] // everywhere.shape[0], dim=0)
        weights = torch.exp(score - top) - far * seen
        normaliser = weights.sum(dim=-1, keepdim=True) + far * number
        return (weights @ v + far * total) / normaliser
