"""Every model on another device than the default one: tensors without values, whose devices are looked at all the same.

A tensor that is made on the wrong device, or stays there, is an error here as it would be on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mondrian.operators.separation_terms
from mondrian import (
    Gaze,
    Grid,
    Integral,
    Interpolating,
    LearnedPosition,
    LowRank,
    Mixture,
    PointAttention,
    RelativeBias,
    Rotary,
    SeparableMixture,
    Spectral,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.data.datasets import Batch
from mondrian.losses import RelativeL2, Sobolev
from mondrian.models.baselines import FactFormerSpec, FANOSpec, FFNOSpec, FNOSpec, GalerkinSpec
from mondrian.operators import KernelMethod

ELSEWHERE = torch.device("meta")
GPU = torch.device("cuda", 0)
SIZES: dict[str, Any] = {"in_channels": 2, "out_channels": 1, "hidden_channels": 16}
CUT: dict[str, Any] = {**SIZES, "subdomains": (4, 4), "n_layers": 2}
RING = Grid(extent=(1.0, 1.0), periodic=(True, True))
MODELS: dict[str, Callable[[], nn.Module]] = {
    **{
        type(operator).__name__: lambda operator=operator: vit_no(**CUT, operator=operator)  # type: ignore[misc]
        for operator in (
            Integral(hidden=8), LowRank(rank=2, hidden=8), Spectral(modes=2), Interpolating(rank=2), PointAttention(),
            Mixture(terms=4), SeparableMixture(terms=4, skip=True),
        )
    },
    **{
        f"{type(position).__name__} staggered": lambda position=position: vit_no(  # type: ignore[misc]
            **CUT, positions=(position,), stagger=True, n_heads=2
        )
        for position in (LearnedPosition(), RelativeBias(), Gaze(), Rotary())
    },
    "windows": lambda: swin_no(**CUT, window=(2, 2), shift=(1, 1), positions=(RelativeBias(),)),
    "windows on a ring": lambda: swin_no(**CUT, window=(2, 2), shift=(1, 1), grid=RING),
    "neighbours": lambda: nbr_no(**CUT, radius=1, positions=(RelativeBias(),), grid=RING),
    "spatial heads": lambda: vit_no(**CUT, spatial_heads=(2, 2)),
    "fixed points": lambda: vit_no(**CUT, cell_points=(2, 2)),
    "u-net": lambda: unet_no(**CUT, levels=2),
    "fno": lambda: FNOSpec(**SIZES, modes=(4, 4)).build(),
    "ffno": lambda: FFNOSpec(**SIZES, modes=(4, 4)).build(),
    "gt": lambda: GalerkinSpec(**SIZES).build(),
    "factformer": lambda: FactFormerSpec(**SIZES).build(),
    "fano": lambda: FANOSpec(**SIZES, patches=(2, 2)).build(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on values is told; this device has no half precision to be kept from."""
    monkeypatch.setattr(mondrian.operators.separation_terms, "terms_needed", lambda *_, **__: 4)
    original = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda kind, **settings: original("cpu" if kind == ELSEWHERE.type else kind, **settings)
    )


@pytest.mark.parametrize("points", [(16, 16), (18, 14)])
@pytest.mark.parametrize("name", list(MODELS))
def test_answers_stay_where_the_input_is(name: str, points: tuple[int, ...]) -> None:
    model = MODELS[name]().to(ELSEWHERE)
    y = model(torch.randn(2, 2, *points, device=ELSEWHERE))
    assert (y.device, y.shape) == (ELSEWHERE, (2, 1, *points))
    y.sum().backward()
    assert all(weight.grad is None or weight.grad.device == ELSEWHERE for weight in model.parameters())


@pytest.mark.parametrize("way", list(KernelMethod))
@pytest.mark.parametrize("operator", [Integral(hidden=8), Mixture(terms=4), SeparableMixture(terms=4)])
def test_every_evaluation_of_a_kernel_stays_there(operator: Any, way: KernelMethod) -> None:
    model = vit_no(**CUT, operator=operator).to(ELSEWHERE)
    for module in model.modules():
        if hasattr(module, "method"):
            module.method = way
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            assert model(torch.randn(1, 2, 16, 16, device=ELSEWHERE)).device == ELSEWHERE


@pytest.mark.parametrize("loss", [RelativeL2(), Sobolev()])
def test_losses_stay_there(loss: Any) -> None:
    y, truth = torch.randn(2, 2, 1, 16, 16, device=ELSEWHERE)
    assert loss(y, truth, Grid(extent=(1.0, 1.0), points=(16, 16))).device == ELSEWHERE


def test_a_tensor_on_the_wrong_device_would_be_seen() -> None:
    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.ones(3)

    with pytest.raises(RuntimeError, match="device"):
        Wrong()(torch.randn(3, device=ELSEWHERE))


@pytest.mark.parametrize(
    "name", ["PointAttention", "RelativeBias staggered", "Gaze staggered", "windows", "neighbours", "u-net"]
)
def test_masks_lie_in_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's fused kernels take no others; what is left is slower and keeps all scores."""
    masks = []
    original = F.scaled_dot_product_attention

    def watched(*arguments: Any, attn_mask: torch.Tensor | None = None, **settings: Any) -> torch.Tensor:
        masks.append(attn_mask)
        return original(*arguments, attn_mask=attn_mask, **settings)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    with torch.no_grad():
        MODELS[name]()(torch.randn(2, 2, 16, 16))
    present = [mask for mask in masks if mask is not None]
    assert present
    assert all(mask.stride(-1) == 1 for mask in present)


def test_a_batch_is_copied_to_a_gpu_without_waiting_and_back_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_, **options: asked.append(options) or self)
    batch = Batch(x=torch.zeros(1), grid=None)
    for target in (GPU, "cuda:1", "cpu", torch.float64):
        batch.to(target)
    batch.to(device="cuda")
    assert [options.get("non_blocking", False) for options in asked] == [True, True, False, False, True]
