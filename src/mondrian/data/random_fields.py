r"""Gaussian random fields with a given spectrum, one function a seed at every resolution.

A field is a sum over the basis functions of a box (real Fourier on periodic axes, cosines on the others),

$$u(x) = \sum_k a(|k|)\, \xi_k\, \varphi_k(x), \qquad \xi_k \sim N(0, 1) \text{ independent.}$$

The number $\xi_k$ depends on the seed and the mode alone. A finer grid adds finer modes and leaves the others
as they are; with `modes` given, all grids sample one and the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import apply_along, axis_basis, axis_wavenumbers, resolved_modes
from mondrian.grid import Grid

# Amplitudes are normalised on the modes of this many points an axis, so that they don't change with the grid.
REFERENCE_POINTS = 128


def gaussian_random_field(
    seeds: Sequence[int],
    grid: Grid,
    *,
    power: float = 3.0,
    std: float = 0.54,
    modes: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "batch *space"]:
    r"""Fields of mean zero with $E|\hat u_k|^2 \propto |k|^{-\mathrm{power}}$, $\hat u_0 = 0$.

    `std` is the root of the mean variance over the box, counted over the modes of 128 points an axis; `modes`
    is the number of basis functions an axis, all that the grid resolves if None.

    >>> coarse = Grid(extent=(2.0, 2.0), points=(4, 4))
    >>> fine = coarse.with_points((12, 12))  # every third point of it is a point of the coarse grid
    >>> u, v = (gaussian_random_field([5], grid, modes=64) for grid in (coarse, fine))
    >>> torch.allclose(u, v[:, 1::3, 1::3], atol=1e-6)
    True
    """
    if not std > 0:
        raise ValueError(f"std={std} must be positive")

    def amplitude(k: Tensor) -> Tensor:
        return torch.where(k > 0, k.clamp(min=torch.finfo(k.dtype).tiny) ** (-power / 2), 0.0)

    reference = grid.with_points((REFERENCE_POINTS,) * grid.dim)
    norm = amplitude(wavenumber(reference, _mode_counts(reference, None))).square().sum().sqrt()
    field = random_field(seeds, grid, lambda k: amplitude(k) * (std / norm), modes=modes)
    return field.to(device=device, dtype=dtype or torch.get_default_dtype())


def random_field(
    seeds: Sequence[int],
    grid: Grid,
    amplitude: Callable[[Float[Tensor, "*mode"]], Float[Tensor, "*mode"]],
    *,
    modes: int | None = None,
) -> Float[Tensor, "batch *space"]:
    r"""The field $\sum_k a(|k|) \xi_k \varphi_k$ on the points of `grid`, in float64."""
    counts = _mode_counts(grid, modes)
    u = noise(seeds, counts) * amplitude(wavenumber(grid, counts))
    for axis in range(grid.dim):
        u = apply_along(axis_basis(grid, axis, counts[axis]).values, u, axis)
    return u


def noise(seeds: Sequence[int], modes: tuple[int, ...]) -> Float[Tensor, "batch *mode"]:
    r"""Standard normal numbers $\xi_k$, in float64, each a function of its seed and its mode.

    Modes are counted in shells of equal $\max_a k_a$, so that the numbers of a smaller cube of modes are those
    of a larger one. They come from the raw stream of Philox, which NumPy promises never to change.

    >>> torch.equal(noise([7, 8], (3, 5)), noise([8, 7], (6, 6)).flip(0)[:, :3, :5])
    True
    """
    if not seeds:
        raise ValueError("seeds=() is empty; needed at least one seed")
    for seed in seeds:
        if seed < 0:
            raise ValueError(f"seeds={list(seeds)} must not be negative; {seed} is")
    side = max(modes)
    position = _positions(side, len(modes))
    raw = np.stack([np.random.Philox(int(seed)).random_raw(position.size)[position] for seed in seeds])
    uniform = torch.from_numpy(((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    cube = torch.special.ndtri(uniform).reshape(len(seeds), *(side,) * len(modes))
    return cube[(slice(None), *(slice(count) for count in modes))]


@lru_cache(maxsize=4)
def _positions(side: int, dim: int) -> npt.NDArray[np.intp]:
    """Where each mode of a cube, in row-major order, stands in the order of shells."""
    index = np.indices((side,) * dim).reshape(dim, -1)
    order = np.lexsort((*index[::-1], index.max(axis=0)))
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    return position


def wavenumber(grid: Grid, modes: tuple[int, ...]) -> Float[Tensor, "*mode"]:
    """Length of the wave vector of every mode, in radians a unit of length."""
    axes = [axis_wavenumbers(grid, axis, count) for axis, count in enumerate(modes)]
    squares = torch.stack([k.square() for k in torch.meshgrid(*axes, indexing="ij")])
    return squares.sum(dim=0).sqrt()


def _mode_counts(grid: Grid, modes: int | None) -> tuple[int, ...]:
    if modes is not None and modes < 1:
        raise ValueError(f"modes={modes} must be at least 1")
    grid.spacing  # noqa: B018  # a grid without points says so
    return tuple(modes or resolved_modes(grid, axis) for axis in range(grid.dim))
