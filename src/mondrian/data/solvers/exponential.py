r"""An exponential Runge-Kutta method for stiff equations whose linear part is diagonal.

$$v' = \lambda v + N(v)$$

ETDRK4 of Cox and Matthews, J. Comput. Phys. 176 (2002), doi:10.1006/jcph.2002.6995: fourth order, exact for $N = 0$.
Its formulas suffer from cancellation where $\lambda \Delta t$ is small; the coefficients are therefore means over a
circle, as in Kassam and Trefethen, SIAM J. Sci. Comput. 26 (2005), doi:10.1137/S1064827502410633.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Float64
from torch import Tensor

# on a circle of radius 1 the rule of 32 points is exact for Taylor coefficients up to the 32nd, of size 1/35!
CIRCLE = 32


def phi(order: int, z: Float64[Tensor, "*mode"]) -> Float64[Tensor, "*mode"]:
    r"""The functions of exponential integrators, $\varphi_k(z) = \bigl(e^z - \sum_{j<k} z^j / j!\bigr) / z^k$.

    They are entire, so that the value at $z$ is the mean over a circle around $z$, on which no point is close to 0. For
    real $z$ half of the circle suffices.

    >>> phi(2, torch.tensor([0.0, 1e-9], dtype=torch.float64)).round(decimals=12)
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """
    angles = (torch.arange(CIRCLE // 2, dtype=torch.float64, device=z.device) + 0.5) * (2 * math.pi / CIRCLE)
    w = z[..., None] + torch.exp(1j * angles)
    series = torch.stack([w**j / math.factorial(j) for j in range(order)]).sum(dim=0) if order else 0.0
    return ((w.exp() - series) / w**order).real.mean(dim=-1)


class ETDRK4:
    r"""Time steps of length `dt` with real eigenvalues $\lambda$ and $z = \lambda \Delta t$.

    $$a = e^{z/2} v + q N(v), \qquad b = e^{z/2} v + q N(a), \qquad c = e^{z/2} a + q \bigl(2 N(b) - N(v)\bigr),$$
    $$v \leftarrow e^z v + f_1 N(v) + f_2 \bigl(N(a) + N(b)\bigr) + f_3 N(c),$$
    $$\frac{q}{\Delta t} = \tfrac12 \varphi_1(\tfrac z2), \quad
    \frac{f_1}{\Delta t} = \varphi_1 - 3 \varphi_2 + 4 \varphi_3, \quad
    \frac{f_2}{\Delta t} = 2 \varphi_2 - 4 \varphi_3, \quad \frac{f_3}{\Delta t} = 4 \varphi_3 - \varphi_2.$$

    Coefficients are computed in float64, then cast to the type and device of `like`.

    >>> decay = torch.tensor([-2.0], dtype=torch.float64)
    >>> step = ETDRK4(decay, dt=0.5, like=decay)
    >>> step(torch.ones_like(decay), lambda v: torch.zeros_like(v))  # exp(-1)
    tensor([0.3679], dtype=torch.float64)
    """

    order = 4

    def __init__(self, eigenvalues: Float[Tensor, "*mode"], dt: float, like: Tensor) -> None:
        if not (math.isfinite(dt) and dt > 0):
            raise ValueError(f"dt={dt} must be positive and finite")
        z = dt * eigenvalues.double()
        phi_1, phi_2, phi_3 = (phi(order, z) for order in (1, 2, 3))
        self.whole, self.half = z.exp().to(like), (z / 2).exp().to(like)
        self.q = (dt / 2 * phi(1, z / 2)).to(like)
        self.first = (dt * (phi_1 - 3 * phi_2 + 4 * phi_3)).to(like)
        self.middle = (dt * (2 * phi_2 - 4 * phi_3)).to(like)
        self.last = (dt * (4 * phi_3 - phi_2)).to(like)

    def __call__(self, v: Tensor, nonlinear: Callable[[Tensor], Tensor]) -> Tensor:
        """`v` after one step; the last axes of `v` are those of the eigenvalues."""
        at_v, halfway = nonlinear(v), self.half * v
        a = halfway + self.q * at_v
        at_a = nonlinear(a)
        at_b = nonlinear(halfway + self.q * at_a)
        at_c = nonlinear(self.half * a + self.q * (2 * at_b - at_v))
        return self.whole * v + self.first * at_v + self.middle * (at_a + at_b) + self.last * at_c
