r"""AdamW with warm-up and decay.

$$\eta_s = \eta \min\Bigl(1, \frac{s + 1}{w}\Bigr) d\Bigl(\frac{s - w}{S - w}\Bigr), \qquad
d(r) = f + (1 - f)\, c(r)$$

with $w$ steps of warm-up (half of all at most), $S$ steps in all, $r \in [0, 1]$, $f$ the final rate as a part of
$\eta$, and
$c(r) = \tfrac12 (1 + \cos \pi r)$ (`cosine`), $1 - r$ (`linear`) or $1$ (`none`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.optim.lr_scheduler import LambdaLR

from mondrian.support.spec import Spec

DECAYS = {"cosine": lambda r: (1 + math.cos(math.pi * r)) / 2, "linear": lambda r: 1 - r, "none": lambda r: 1.0}


@dataclass(frozen=True)
class AdamW(Spec):
    """The paper's optimiser: `clip` bounds the norm of the gradient (0: not at all).

    >>> AdamW(lr=1e-3, warmup=10, decay="linear").rate(9, 110), AdamW(lr=1e-3, warmup=10, decay="linear").rate(60, 110)
    (0.001, 0.0005)
    """

    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, ...] = (0.9, 0.999)
    warmup: int = 500
    decay: str = "cosine"
    final_lr: float = 0.0
    clip: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay not in DECAYS:
            raise ValueError(f"decay={self.decay} is not known; needed one of {', '.join(DECAYS)}")
        if not self.lr > 0 or not 0 <= self.final_lr <= self.lr:
            raise ValueError(f"lr={self.lr} and final_lr={self.final_lr} must be positive, the final one not larger")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas} must be two numbers from 0 on and below 1")
        if min(self.weight_decay, self.warmup, self.clip) < 0:
            raise ValueError(f"{self} has a negative weight_decay, warmup or clip")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, of `steps` in all."""
        warmup = min(self.warmup, steps // 2)
        warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
        late = min(max((step - warmup) / max(steps - warmup, 1), 0.0), 1.0)
        final = self.final_lr / self.lr if self.decay != "none" else 1.0
        return self.lr * warm * (final + (1 - final) * DECAYS[self.decay](late))

    def build(self, parameters: Iterable[torch.nn.Parameter], steps: int) -> tuple[torch.optim.Optimizer, LambdaLR]:
        """Optimiser and schedule for a training of `steps` steps."""
        beta1, beta2 = self.betas
        optimiser = torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay, betas=(beta1, beta2))
        return optimiser, LambdaLR(optimiser, lambda step: self.rate(step, steps) / self.lr)

    def impose(self, optimiser: torch.optim.Optimizer, schedule: LambdaLR) -> None:
        """Put these settings in the place of those that a checkpoint has restored."""
        beta1, beta2 = self.betas
        schedule.base_lrs = [self.lr] * len(optimiser.param_groups)
        for group, factor in zip(optimiser.param_groups, schedule.lr_lambdas, strict=True):
            group["initial_lr"], group["lr"] = self.lr, self.lr * factor(schedule.last_epoch)
            group["weight_decay"], group["betas"] = self.weight_decay, (beta1, beta2)
