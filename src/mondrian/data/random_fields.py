r"""Gaussian random fields with a given spectrum, the same function of a seed at every resolution.

A field is a sum over the basis functions of a box (real Fourier on periodic axes, cosines on the others),

$$u(x) = \sum_k a(|k|)\, \xi_k\, \varphi_k(x), \qquad \xi_k \sim N(0, 1) \text{ independent.}$$

The number $\xi_k$ depends on the seed and the mode alone. A finer grid adds finer modes and keeps the others; with
given `modes`, all grids sample the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import apply_along, axis_basis, axis_wavenumbers, resolved_modes
from mondrian.grid import Grid

# amplitudes are normalised over the modes of this number of points per axis, whatever the grid
REFERENCE_POINTS = 128
BLOCK = 2**14  # random numbers of a stream that are drawn at once


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

    `std` is the root of the mean variance over the box, summed over the modes of 128 points per axis; `modes` is the
    number of basis functions per axis, by default all that the grid resolves.

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

    Modes are numbered in shells of equal $\max_a k_a$, so that a smaller cube of modes has the numbers of a larger
    one. They come from the raw stream of Philox, which NumPy promises never to change.

    >>> torch.equal(noise([7, 8], (3, 5)), noise([8, 7], (6, 6)).flip(0)[:, :3, :5])
    True
    """
    if not seeds:
        raise ValueError("seeds=() is empty; needed at least one seed")
    for seed in seeds:
        if seed < 0:
            raise ValueError(f"seeds={list(seeds)} must be at least 0; got {seed}")
    position = _positions(modes)
    order = position.argsort()
    uniforms = np.empty((len(seeds), position.size))
    for numbers, seed in zip(uniforms, seeds, strict=True):
        numbers[order] = _uniform(int(seed), position[order])
    return torch.special.ndtri(torch.from_numpy(uniforms)).reshape(len(seeds), *modes)


def _positions(modes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    r"""The position of each mode $k$ of a box, in row-major order, in the order of shells $s = \max_a k_a$.

    It follows the $s^d$ modes of smaller shells and, for each $a$, those modes of its own shell that agree with it in
    the first $a$ numbers and have a smaller $a$-th number: $(s + 1)^{d-a-1}$ for each such number, less the
    $s^{d-a-1}$ that do not reach the shell unless the first $a$ numbers do.
    """
    index = np.indices(modes, sparse=True)
    shell = np.zeros(modes, dtype=np.int64)
    for k in index:
        shell = np.maximum(shell, k)
    position = shell ** len(modes)
    reached = np.zeros(modes, dtype=bool)
    for axis, k in enumerate(index):
        left = len(modes) - axis - 1
        position += k * ((shell + 1) ** left - np.where(reached, 0, shell**left))
        reached |= k == shell
    return position.ravel()


def _uniform(seed: int, position: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1) of the stream of a seed at ascending positions; blocks without a position are skipped."""
    stream, at = np.random.Philox(seed), 0
    raw = np.empty(position.size, dtype=np.uint64)
    block = position // BLOCK
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    for low, high in pairwise([*starts.tolist(), position.size]):
        begin = int(block[low]) * BLOCK
        stream.advance((begin - at) // 4)  # Philox draws four at a time
        raw[low:high] = stream.random_raw(BLOCK)[position[low:high] - begin]
        at = begin + BLOCK
    return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def wavenumber(grid: Grid, modes: tuple[int, ...]) -> Float[Tensor, "*mode"]:
    """The length of the wave vector of every mode, in radians per unit of length."""
    axes = [axis_wavenumbers(grid, axis, count) for axis, count in enumerate(modes)]
    squares = torch.stack([k.square() for k in torch.meshgrid(*axes, indexing="ij")])
    return squares.sum(dim=0).sqrt()


def _mode_counts(grid: Grid, modes: int | None) -> tuple[int, ...]:
    if modes is not None and modes < 1:
        raise ValueError(f"modes={modes} must be at least 1")
    grid.spacing  # noqa: B018  # a grid without points says so
    return tuple(modes or resolved_modes(grid, axis) for axis in range(grid.dim))
