"""Windows and neighbourhoods on 32 x 32 subdomains: whole models, one layer, and the minimum work of a layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timed_steps import forward_run, training_step
from mondrian import LowRank, RelativeBias, SeparableMixture, nbr_no, swin_no
from mondrian.attention import AttentionSpec, FunctionAttention
from mondrian.attention.groups import Groups, mask_of
from mondrian.attention.patterns import Bias
from mondrian.attention.tiles import best_tile, tiles, windows
from mondrian.benchmark.measure import interleaved
from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows
from mondrian.support.text import markdown_table

TURNS = 5


@dataclass(frozen=True)
class NoAttention(AttentionSpec):
    """Every cell sees itself only: what a model costs besides attention."""

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
        return v


def models_on_many_subdomains() -> str:
    """Windowed and neighbourhood models on 32 x 32 subdomains against a full masked score matrix."""
    rows = []
    for width, operator in product((32, 64), (LowRank(), SeparableMixture(terms=64))):
        settings = {"hidden_channels": width, "subdomains": (32, 32), "operator": operator}
        for label, model in {
            "windowed, 4 x 4": swin_no(2, 1, window=(4, 4), shift=(2, 2), **settings),
            "neighbourhood, radius 2": nbr_no(2, 1, radius=2, **settings),
        }.items():
            masked, without = copy.deepcopy(model), copy.deepcopy(model)
            for module in masked.modules():
                if isinstance(module, FunctionAttention):
                    module.plain = True
            for module in without.modules():
                if isinstance(module, FunctionAttention):
                    module.spec = NoAttention(n_heads=model.spec.attention.n_heads)
            for task, make in {"forward": forward_run, "training step": training_step}.items():
                models = {"fast": model, "masked": masked, "without": without}
                time = interleaved({kind: make(each, 1, 128) for kind, each in models.items()}, rounds=8, seconds=25)
                fast, full, none = (time[kind] for kind in models)
                rows.append(
                    [
                        f"{label}, {type(operator).__name__}, {width} channels, {task}",
                        *(f"{part * 1e3:.0f} ms" for part in (full, fast, none)),
                        f"{full / fast:.1f}x",
                        f"{(full - none) / (fast - none):.1f}x" if fast > 1.05 * none else "not told apart",
                    ]
                )
    note = "32 x 32 subdomains of 4 x 4 points, four blocks, batch 1:\n\n"
    return note + markdown_table(
        ["", "full masked matrix", "library", "without attention", "ratio", "of attention alone"], rows
    )


def explicit(q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None) -> Tensor:
    """Attention by explicit products and a softmax, instead of torch's fused kernel."""
    score = q @ k.mT
    return torch.softmax(score if attn_mask is None else score + attn_mask, dim=-1) @ v


def tiled_run(groups: Groups, attend: Callable[..., Tensor], width: int, training: bool) -> Callable[[], None]:
    """Attention of one layer with four heads, in these tiles."""
    # memory layout of a layer: the features of all heads of a cell together
    shape = (1, len(groups.back), 4, 4 * width)
    q, k, v = (torch.randn(shape, requires_grad=training).transpose(1, 2) for _ in range(3))

    def run() -> None:
        parts = ((q, groups.queries), (k, groups.keys), (v, groups.keys))
        mask = mask_of(groups.hidden, None, q)
        y = groups.join(attend(*(groups.split(*part) for part in parts), attn_mask=mask))
        if training:
            torch.autograd.grad(y.sum(), (q, k, v))

    return run


def tiling() -> str:
    """Attention to neighbours alone, in tiles of several sizes, by the fused kernel and by explicit products."""
    lattice, radius = Lattice((32, 32), (False, False)), 2
    sizes, rows = ((2, 4), (4, 4), (4, 8), (8, 8), (4, 16), (16, 16)), []
    kinds = {"fused kernel": F.scaled_dot_product_attention, "explicit products": explicit}
    for width, training in product((32, 64), (False, True)):
        cases: dict[str, Callable[[], Any]] = {}
        for tile, kind in product(sizes, kinds):
            groups = tiles(lattice, radius, torch.device("cpu"), tile)
            assert groups is not None
            cases[f"{tile} {kind}"] = tiled_run(groups, kinds[kind], width, training)
        time = interleaved(cases, rounds=9, seconds=20)
        for kind in kinds:
            task = "forward and backward" if training else "forward"
            measured = (f"{time[f'{tile} {kind}'] * 1e3:.1f}" for tile in sizes)
            rows.append([f"{width} channels, {task}, {kind}", *measured])
    chosen = "x".join(map(str, best_tile(lattice, radius) or ()))
    note = f"One layer on 32 x 32 subdomains of 4 x 4 points, radius 2, in ms; the library takes {chosen}, fused:\n\n"
    return note + markdown_table(["tiles of", *("x".join(map(str, tile)) for tile in sizes)], rows)


def windowed_run(groups: Groups, width: int, training: bool, *, fused: bool) -> Callable[[], None]:
    """Attention of one layer with four heads in these windows, by the library's choice or by torch's fused kernel."""
    bias, scale = RelativeBias().build(width, 4, 2), (4 * width) ** -0.5
    shape = (1, len(groups.back), 4, 4 * width)
    q, k, v = (torch.randn(shape, requires_grad=training).transpose(1, 2) for _ in range(3))

    def run() -> None:
        with torch.set_grad_enabled(training):
            added = bias(groups.offsets, (3, 3))
            y = (groups.by_kernel if fused else groups.attend)(q, k, v, added, scale)
            if training:
                torch.autograd.grad(y.sum(), (q, k, v, *bias.parameters()))

    return run


def least_run(groups: Groups, width: int, training: bool) -> Callable[[], None]:
    """Copies into groups and back, and products of matrices: nothing else, and into memory that is there.

    Forward three copies, two products and a copy; backward as many copies the other way, and four products.
    """
    heads, (number, inner), features = 4, groups.queries.shape, 4 * width
    rows = (groups.queries[:, None, :] * heads + torch.arange(heads)[:, None]).flatten()
    given = [torch.randn(len(rows), features) for _ in range(8 if training else 4)]
    copied = [torch.empty(number * heads, inner, features) for _ in given]
    score, results = torch.empty(number * heads, inner, inner), [torch.empty_like(u) for u in copied[:4]]

    def run() -> None:
        for u, place in zip(given, copied, strict=True):
            torch.index_select(u, 0, rows, out=place.view(len(rows), features))
        q, k, v, gradient = copied[:4]
        torch.bmm(q, k.mT, out=score)
        torch.bmm(score, v, out=results[0])
        if training:
            torch.bmm(gradient, v.mT, out=score)
            for u, place in zip((q, k, gradient), results[1:], strict=True):
                torch.bmm(score, u, out=place)

    return run


def repeated(run: Callable[[], None], times: int) -> None:
    """Several times without a break, because another case has filled the caches before the first."""
    for _ in range(times):
        run()


def windowing() -> str:
    """Attention in windows alone, with its learned bias, and the copies and products that it needs at least."""
    groups, rows = windows(Lattice((32, 32), (True, True)), (4, 4), (0, 0), torch.device("cpu")), []
    for width, training in product((32, 64), (False, True)):
        cases = {
            "library": windowed_run(groups, width, training, fused=False),
            "kernel": windowed_run(groups, width, training, fused=True),
            "least": least_run(groups, width, training),
        }
        if not training:
            del cases["kernel"]  # the library chooses it
        several = {case: partial(repeated, run, TURNS) for case, run in cases.items()}
        time = interleaved(several, rounds=15, seconds=20)
        library, kernel, least = (
            f"{time[case] / TURNS * 1e3:.1f}" if case in time else "the same" for case in ("library", "kernel", "least")
        )
        rows.append([f"{width} channels, {'forward and backward' if training else 'forward'}", library, kernel, least])
    note = "One layer on 32 x 32 subdomains of 4 x 4 points, windows of 4 x 4 subdomains, in ms:\n\n"
    return note + markdown_table(["", "library", "the engine's kernel", "copies and products alone"], rows)
