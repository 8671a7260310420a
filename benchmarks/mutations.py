"""Forty single-line faults for `benchmarks.mutants`: what is wrong, the line, the line with the fault, and the tests.

A line is given without its indentation and is looked for in the whole of `src/mondrian`, where it must stand once: so
a fault moves with its code. The tests are those of its area, which must pass without the fault and fail with it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A line of the library, and the same line with a mistake in it that a person might make."""

    what: str
    line: str
    faulty: str
    tests: tuple[str, ...]


CONTRACT = ("tests/operators/test_contract.py",)
OPERATORS = ("tests/operators/test_operators.py", *CONTRACT)

CORE = (
    Fault(
        "quadrature weights replaced by a mean",
        "weighted = psi * cell.weights[:, None, None]",
        "weighted = psi / cell.size",
        CONTRACT,
    ),
    Fault(
        "first Chebyshev coefficient not halved",
        "scale = torch.where(index == 0, 0.5, 1.0)",
        "scale = torch.where(index == 0, 1.0, 1.0)",
        ("tests/operators/test_ridge.py",),
    ),
    Fault(
        "Nyquist frequency kept",
        "if all(2 * abs(k) < n for k, n in zip(mode, points, strict=True))  # no alias",
        "if all(2 * abs(k) <= n for k, n in zip(mode, points, strict=True))",
        OPERATORS,
    ),
    Fault(
        "hats fall off towards the wall",
        "inside = x.clamp(-1 + 1 / nodes, 1 - 1 / nodes)",
        "inside = x.clamp(-1, 1)",
        OPERATORS,
    ),
    Fault(
        "attention between points without quadrature weights",
        "bias = offset_table(self.offset_bias, cell) + cell.weights.log()",
        "bias = offset_table(self.offset_bias, cell)",
        CONTRACT,
    ),
    Fault(
        "a cached kernel is used although the weights have changed",
        "if entry is None or entry[0] != key:",
        "if entry is None:",
        ("tests/operators/test_cached_kernels.py", *CONTRACT),
    ),
    Fault(
        "another basis function taken for the constant one",
        "shift, constant = moments[..., 0] @ mean, self.constant()  # the basis starts with the constant function",
        "shift, constant = moments[..., 1] @ mean, self.constant()",
        CONTRACT,
    ),
    Fault(
        "a head's part of a cell integrated with the measure of the whole cell",
        "scale /= part.size",
        "scale /= cell.size",
        ("tests/attention/test_layer.py",),
    ),
    Fault(
        "not the shorter way round a ring",
        "way = torch.stack([step - n * (step / n).round() if n else step for step, n in along], dim=-1)",
        "way = torch.stack([step - n * (step / n).floor() if n else step for step, n in along], dim=-1)",
        ("tests/attention/test_position.py",),
    ),
    Fault(
        "a tile sees one row beyond the wall",
        "hidden.append(((position < 0) | (position >= key_counts[axis]) | (key >= count + radius)).long())",
        "hidden.append(((position < 0) | (position > key_counts[axis]) | (key >= count + radius)).long())",
        ("tests/attention/test_patterns.py", "tests/attention/test_tiles.py"),
    ),
    Fault(
        "boundary not mirrored at the lower wall",
        "return torch.cat([start.flip(dim), u, end.flip(dim)], dim=dim)",
        "return torch.cat([start, u, end.flip(dim)], dim=dim)",
        ("tests/test_decomposition.py", "tests/test_staggered.py"),
    ),
    Fault(
        "moved cells of an odd number of points cut one point off",
        "return u.narrow(dim, points - half, u.shape[dim] - points)",
        "return u.narrow(dim, half, u.shape[dim] - points)",
        ("tests/test_decomposition.py", "tests/test_staggered.py"),
    ),
    Fault(
        "end correction not mirrored",
        "weights[points - stencil :] -= correction.flip(0)  # the mirror image: an odd derivative changes its sign",
        "weights[points - stencil :] -= correction",
        ("tests/test_quadrature.py",),
    ),
    Fault(
        "interpolation one point short of the wall",
        "first = first.clamp(0, source.count - taps)",
        "first = first.clamp(0, max(source.count - taps - 1, 0))",
        ("tests/resampling/test_interpolation.py",),
    ),
    Fault(
        "block averages without the width of the block",
        "weights = (right - left) / width",
        "weights = right - left",
        ("tests/resampling/test_means.py",),
    ),
    Fault(
        "variance of a group summed over its channels",
        "weights = Cell.build(cell.points, cell.quadrature, dtype=wide, device=v.device).weights / groups.shape[3]",
        "weights = Cell.build(cell.points, cell.quadrature, dtype=wide, device=v.device).weights",
        ("tests/layers/test_norm.py",),
    ),
    Fault(
        "reference points coarser than the grid",
        "return tuple(part * math.ceil(n / (count * part)) for n, count, part in pairs)",
        "return tuple(part * max(1, n // (count * part)) for n, count, part in pairs)",
        ("tests/models/test_resolutions.py",),
    ),
    Fault(
        "each simplex gives its volume to the corners of others",
        "masses = (simplex_volumes(vertices, simplices) / corners).repeat_interleave(corners)",
        "masses = (simplex_volumes(vertices, simplices) / corners).repeat(corners)",
        ("tests/points/test_mesh.py",),
    ),
    Fault(
        "loss of slope: extrapolation of first order at a wall",
        "left = 3 * at(0) - 3 * at(1) + at(2)",
        "left = 2 * at(0) - at(1)",
        ("tests/test_losses.py",),
    ),
)

DATA = (
    Fault(
        "half a flow owed from the step before counted twice",
        "reaction = length / 2",
        "reaction = length",
        ("tests/data/test_allen_cahn.py",),
    ),
    Fault(
        "extrapolation in the step instead of its square",
        "return tuple(math.prod((r * r / (r * r - s * s) for s in rs if s != r), start=1.0) for r in rs)",
        "return tuple(math.prod((r / (r - s) for s in rs if s != r), start=1.0) for r in rs)",
        ("tests/data/test_allen_cahn.py",),
    ),
    Fault(
        "diffusion of a whole step in every stage",
        "mu = 0.5 * dt * (end - start) * viscosity * advection.laplacian",
        "mu = 0.5 * dt * viscosity * advection.laplacian",
        ("tests/data/test_navier_stokes.py",),
    ),
    Fault(
        "a wrong coefficient that costs an order of the time step",
        "self.middle = (dt * (2 * phi_2 - 4 * phi_3)).to(like)",
        "self.middle = (dt * (2 * phi_2 - 2 * phi_3)).to(like)",
        ("tests/data/test_exponential.py",),
    ),
    Fault(
        "restriction moved by half a cell",
        "position = (torch.arange(m, dtype=torch.float64) + 0.5) * (n / m) - 0.5",
        "position = (torch.arange(m, dtype=torch.float64) + 0.5) * (n / m)",
        ("tests/data/test_restriction.py",),
    ),
    Fault(
        "spectrum of the energy taken for that of the amplitude",
        "return torch.where(k > 0, k.clamp(min=torch.finfo(k.dtype).tiny) ** (-power / 2), 0.0)",
        "return torch.where(k > 0, k.clamp(min=torch.finfo(k.dtype).tiny) ** (-power), 0.0)",
        ("tests/data/test_random_fields.py",),
    ),
    Fault(
        "last window of each simulation lost",
        "return steps - needed + 1 if self._steps_in else 1  # later windows would have the same x and another y",
        "return max(steps - needed, 1) if self._steps_in else 1",
        ("tests/data/test_datasets.py",),
    ),
    Fault(
        "a shard without a checksum accepted",
        "if needed is not None and actual != needed:",
        "if needed and actual != needed:",
        ("tests/data/test_store.py",),
    ),
)

TRAINING = (
    Fault(
        "deviation between chunks forgotten",
        "self.squares += float((values - mean).square().sum()) + difference**2 * self.count * count / total",
        "self.squares += float((values - mean).square().sum())",
        ("tests/training/test_normalisation.py",),
    ),
    Fault(
        "decay counted from the start of the warm-up",
        "late = min(max((step - warmup) / max(steps - warmup, 1), 0.0), 1.0)",
        "late = min(max(step / max(steps, 1), 0.0), 1.0)",
        ("tests/training/test_optimiser.py",),
    ),
    Fault(
        "ranks train on each other's samples",
        "first = (number * self.ranks + self.rank) * self.share",
        "first = (number + self.rank) * self.share",
        ("tests/training/test_order.py",),
    ),
    Fault(
        "a loader that is resumed twice forgets the first time",
        "self._given = self._batches.start",
        "self._given = 0",
        ("tests/training/test_order.py",),
    ),
    Fault(
        "damaged checkpoint taken for whole",
        "if _checksum(path) == match[2]:",
        "if _checksum(path) is not None:",
        ("tests/training/test_checkpoints.py",),
    ),
    Fault(
        "file overwritten in place instead of renamed",
        "os.replace(partial, path)",
        "path.write_bytes(partial.read_bytes())",
        ("tests/support/test_files.py",),
    ),
    Fault(
        "pushforward trains every application",
        "counts = last or not pushforward",
        "counts = True",
        ("tests/training/test_unroll.py",),
    ),
    Fault(
        "parity of a permutation forgotten",
        "result = -1 if inversions % 2 else 1",
        "result = 1",
        ("tests/training/test_symmetries.py",),
    ),
)

PREDICTION = (
    Fault(
        "shift and factor in the wrong order",
        "return self._where_log(z * factor + shift, lambda part: 10**part)",
        "return self._where_log((z + shift) * factor, lambda part: 10**part)",
        ("tests/test_surrogate.py",),
    ),
    Fault(
        "a last batch that is not full forgotten",
        "pieces = [slice(start, start + batch_size) for start in range(0, len(batch), batch_size)]",
        "pieces = [slice(start, start + batch_size) for start in range(0, len(batch) - batch_size + 1, batch_size)]",
        ("tests/prediction/test_predictor.py",),
    ),
    Fault(
        "undefined errors counted in the mean",
        "np.add.at(self._counts[name], rows, defined.sum(axis=1))",
        "np.add.at(self._counts[name], rows, np.ones_like(defined).sum(axis=1))",
        ("tests/evaluation/test_one_step.py", "tests/evaluation/test_trajectories.py"),
    ),
    Fault(
        "a rollout that blew up comes back",
        "blown_up = blown_up.to(frame.device) | ~frame.flatten(1).isfinite().all(dim=1)",
        "blown_up = ~frame.flatten(1).isfinite().all(dim=1)",
        ("tests/evaluation/test_trajectories.py",),
    ),
    Fault(
        "a ring's higher modes taken for its highest ones",
        "mode = torch.minimum(mode, n - mode) if ring else mode",
        "mode = torch.minimum(mode, n - mode - 1) if ring else mode",
        ("tests/evaluation/test_spectra.py",),
    ),
)

FAULTS = (*CORE, *DATA, *TRAINING, *PREDICTION)
