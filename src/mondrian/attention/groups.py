"""Attention inside groups of cells.

Groups are folded into the batch axis, `(batch group, head, cell, feature)`. The features of a cell stay contiguous: the
cells of all samples are rows of one matrix, a group copies some of these rows, and heads need no further copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Groups:
    """The query and key cells of each group, and the offsets between them.

    Groups at an end of the lattice may be padded: `queries` and `keys` then name an arbitrary cell, which is masked for
    all real queries, and `back` skips it. `hidden` is minus infinity where a query does not attend to a key and zero
    elsewhere, or None if every query attends to every key.
    """

    queries: Int[Tensor, "group query"]
    keys: Int[Tensor, "group key"]
    back: Int[Tensor, " cell"]
    offsets: Int[Tensor, "query key axis"]
    hidden: Float[Tensor, "group query key"] | None

    def attend(
        self,
        q: Shaped[Tensor, "batch head query_cell feature"],
        k: Shaped[Tensor, "batch head key_cell feature"],
        v: Shaped[Tensor, "batch head key_cell feature"],
        bias: Float[Tensor, "head query key"] | None,
        scale: float,
    ) -> Shaped[Tensor, "batch head query_cell feature"]:
        """Softmax attention inside each group.

        On a CPU, a bias that needs a gradient goes through explicit products: the fused CPU kernel of PyTorch has no
        gradient for a mask, and its fallback copies everything once more. In half precision the fused kernel is more
        accurate and is kept.
        """
        single = q.dtype.itemsize >= torch.float32.itemsize
        if bias is not None and bias.requires_grad and q.device.type == "cpu" and single:
            return self.by_products(q, k, v, bias, scale)
        return self.by_kernel(q, k, v, bias, scale)

    def by_kernel(
        self,
        q: Shaped[Tensor, "batch head query_cell feature"],
        k: Shaped[Tensor, "batch head key_cell feature"],
        v: Shaped[Tensor, "batch head key_cell feature"],
        bias: Float[Tensor, "head query key"] | None,
        scale: float,
    ) -> Shaped[Tensor, "batch head query_cell feature"]:
        """By `scaled_dot_product_attention`."""
        queries, keys, values = self.split(q, self.queries), self.split(k, self.keys), self.split(v, self.keys)
        mask = mask_of(self.hidden, bias, q)
        return self.join(F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale))

    def by_products(
        self,
        q: Shaped[Tensor, "batch head query_cell feature"],
        k: Shaped[Tensor, "batch head key_cell feature"],
        v: Shaped[Tensor, "batch head key_cell feature"],
        bias: Float[Tensor, "head query key"],
        scale: float,
    ) -> Shaped[Tensor, "batch head query_cell feature"]:
        """By two matrix products with a softmax in between."""
        queries = self.split_heads(q, self.queries)
        keys, values = (self.split_heads(u, self.keys) for u in (k, v))
        score = (queries @ keys.mT).unflatten(0, (q.shape[0], -1))
        added = bias if self.hidden is None else self.hidden[:, None] + bias
        weights = torch.add(added.to(q.dtype), score, alpha=scale).flatten(0, 1).softmax(dim=-1)
        return self.join_heads(weights @ values)

    def split(
        self, u: Shaped[Tensor, "batch head cell feature"], cells: Int[Tensor, "group inner"]
    ) -> Shaped[Tensor, "batch_group head inner feature"]:
        """The functions on `cells`, which are `queries` or `keys`."""
        batch, heads, size, features = u.shape
        rows = _rows(u).index_select(0, _in_all(cells, batch, size))
        return rows.view(batch * len(cells), -1, heads, features).transpose(1, 2)

    def join(self, u: Shaped[Tensor, "batch_group head query feature"]) -> Shaped[Tensor, "batch head cell feature"]:
        """From the queries of the groups back to the cells."""
        _, heads, _, features = u.shape
        batch = u.shape[0] // len(self.queries)
        rows = _rows(u).index_select(0, _in_all(self.back, batch, self.queries.numel()))
        return rows.view(batch, -1, heads, features).transpose(1, 2)

    def split_heads(
        self, u: Shaped[Tensor, "batch head cell feature"], cells: Int[Tensor, "group inner"]
    ) -> Shaped[Tensor, "batch_group head inner feature"]:
        """`split` with the features of each head contiguous in memory."""
        batch, heads, size, features = u.shape
        position = _in_all(cells, batch, size).view(-1, 1, cells.shape[1])
        row = position * heads + torch.arange(heads, device=u.device)[:, None]
        return u.transpose(1, 2).reshape(-1, features).index_select(0, row.flatten()).view(*row.shape, features)

    def join_heads(
        self, u: Shaped[Tensor, "batch_group head query feature"]
    ) -> Shaped[Tensor, "batch head cell feature"]:
        """The inverse of `split_heads`, for queries."""
        _, heads, inner, features = u.shape
        batch = u.shape[0] // len(self.queries)
        position = _in_all(self.back, batch, self.queries.numel())[:, None]
        row = (position // inner * heads + torch.arange(heads, device=u.device)) * inner + position % inner
        return u.reshape(-1, features).index_select(0, row.flatten()).view(batch, -1, heads, features).transpose(1, 2)


def hide(seen: Bool[Tensor, "*places"]) -> Float[Tensor, "*places"]:
    """An additive mask: zero where a query attends, minus infinity elsewhere."""
    return torch.where(seen, 0.0, -torch.inf)


def mask_of(
    hidden: Float[Tensor, "group query key"] | None,
    bias: Float[Tensor, "head query key"] | None,
    q: Shaped[Tensor, "batch head cell feature"],
) -> Float[Tensor, "#batch_group #head query key"] | None:
    """The additive mask for all groups of all samples."""
    if hidden is None:
        return None if bias is None else bias[None].to(q.dtype)
    mask = (hidden[:, None] if bias is None else hidden[:, None] + bias).to(q.dtype)
    alone = q.shape[0] == 1 and not torch.compiler.is_compiling()  # a compiled graph must serve any batch size
    return mask if alone or len(mask) == 1 else mask.repeat(q.shape[0], 1, 1, 1)


def _rows(u: Shaped[Tensor, "batch head cell feature"]) -> Shaped[Tensor, "row head_feature"]:
    """The features of each cell of each sample as one row; no copy if they are contiguous."""
    return u.transpose(1, 2).flatten(2).flatten(0, 1)


def _in_all(cells: Int[Tensor, "*place"], batch: int, size: int) -> Int[Tensor, " row"]:
    """The rows of these cells in every sample, each of which has `size` rows."""
    first = size * torch.arange(batch, device=cells.device)
    return (first[:, None] + cells.flatten()).flatten()
