"""Simulations a second of the solvers, against py-pde and jax-cfd on the same core.

    python -m benchmarks.solvers [--jax-python PYTHON] [--compiled] [--write]

PYTHON is an interpreter that has jax-cfd (or the variable MONDRIAN_JAX_CFD_PYTHON); without one its rows are left
out. It is no longer maintained and wants an environment of its own:

    python3 -m venv PATH && PATH/bin/pip install jax jax-cfd

`--compiled` adds py-pde compiled by numba beforehand, which takes minutes: once for all gammas (gamma is then a
second field, which triples the time), and once for each gamma, adaptive or with the longest stable step.
Competitors take turns on one core; times are medians, ratios are medians of the ratios of a round. All times are
of the processor, which on a free core are those of the clock: other work on the machine changes them less.
`--write` puts the table into benchmarks/results/solvers.md.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pde
import torch

from mondrian import Grid
from mondrian.data.solvers import allen_cahn, navier_stokes
from mondrian.data.solvers.navier_stokes import Dealias

ROUNDS = 7
BOX = Grid(extent=(2.0, 2.0), points=(128, 128))
TORUS = Grid(extent=(2 * math.pi, 2 * math.pi), periodic=(True, True))
PAPER_SIMULATIONS = 26_000
FLOAT32 = "mondrian, float32"
DEFAULT_TOLERANCE = "py-pde, tolerance 1e-4 (its default)"
COMPILED = "py-pde, 1e-4, numba, compiled once for all gammas"
COMPILED_EACH = "py-pde, 1e-4, numba, compiled for each gamma"
COMPILED_FIXED = "py-pde, longest stable step, numba, compiled for each gamma"
GAMMAS = [1e-4 + (i + 0.5) / 8 * 4.9e-3 for i in range(8)]  # the paper's range, evenly


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jax-python", default=os.environ.get("MONDRIAN_JAX_CFD_PYTHON"))
    parser.add_argument("--compiled", action="store_true", help="also py-pde compiled by numba")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/solvers.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cores = os.sched_getaffinity(0)
    text = f"# Solvers\n\n{processor()}, torch {torch.__version__}, one thread. Times are of the processor. Made by\n"
    text += commands(arguments)
    text += paper_size()
    os.sched_setaffinity(0, {max(cores)})
    text += against_py_pde(arguments.compiled)
    text += against_jax_cfd(arguments.jax_python)
    print(text)
    if arguments.write:
        target = Path(__file__).parent / "results" / "solvers.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


def commands(arguments: argparse.Namespace) -> str:
    """The command that makes the table again."""
    lines, words = [], ["python -m benchmarks.solvers"]
    if arguments.jax_python:
        lines.append("python3 -m venv JAX && JAX/bin/pip install jax jax-cfd")
        words.append("--jax-python JAX/bin/python")
    words += [f"--{name}" for name in ("compiled", "write") if getattr(arguments, name)]
    return "\n".join(["\n```bash", *lines, " ".join(words), "```", ""])


# ------------------------------------------------------------------------------------------------ Allen-Cahn


def against_py_pde(compiled: bool) -> str:
    u0 = allen_cahn.initial_condition(range(8), BOX, dtype=torch.float64)
    gamma = torch.tensor(GAMMAS, dtype=torch.float64)
    exact = allen_cahn.solve(u0, gamma, BOX, schedule=allen_cahn.Schedule((16,) * 5, (1, 2, 3), last=(16,) * 4))
    single = (u0.float(), gamma.float())
    rows: dict[str, Callable[[], torch.Tensor]] = {
        FLOAT32: lambda: allen_cahn.solve(*single, BOX),
        "mondrian, float64": lambda: allen_cahn.solve(u0, gamma, BOX),
        DEFAULT_TOLERANCE: lambda: py_pde(u0, 1e-4),
        "py-pde, tolerance 1e-6": lambda: py_pde(u0, 1e-6),
    }
    if compiled:
        rows[COMPILED] = py_pde_compiled(u0)
        start = time.process_time()
        rows[COMPILED_EACH] = py_pde_compiled_each(u0, adaptive=True)
        compiling = (time.process_time() - start) / len(u0)
        rows[COMPILED_FIXED] = py_pde_compiled_each(u0, adaptive=False)
    py_pde(u0, 1e-4, until=0.01)  # even its numpy backend compiles a little, once
    seconds, results = take_turns(rows, rounds=5, repeats={FLOAT32: 16})
    lines = [
        "\n## Allen-Cahn, 128 x 128, t = 6, gamma even in [1e-4, 5e-3]\n",
        "| solver | ms a simulation | largest error | mean error | mondrian float32 is faster by (all rounds) |",
        "|---|---|---|---|---|",
    ]
    gains, errors = {}, {}
    for name, times in seconds.items():
        error = (results[name] - exact).abs()
        errors[name] = (error.max().item(), error.mean().item())
        ratios = [t / s for t, s in zip(times, seconds[FLOAT32], strict=True)]
        gains[name], spread = statistics.median(ratios), f"{min(ratios):.1f} to {max(ratios):.1f}"
        each = statistics.median(times) / len(u0) * 1e3
        lines.append(f"| {name} | {each:.1f} | {error.max():.1e} | {error.mean():.1e} | {gains[name]:.1f} ({spread}) |")
    lines.append(
        "\npy-pde: `runge-kutta`, adaptive and numpy backend unless said. Errors: against the limit of small steps on "
        "the same grid.\nSame error: py-pde runs at its default tolerance and is not tightened to our error. At least "
        "as exact as a row, in the largest and in the mean error, is mondrian's float32:"
    )
    for name in rows:
        if "py-pde" in name:
            no_worse = all(a <= b for a, b in zip(errors[FLOAT32], errors[name], strict=True))
            lines.append(f"- {name}: {'yes' if no_worse else 'no'}")
    if compiled:
        by_each, by_fixed = gains[COMPILED_EACH], gains[COMPILED_FIXED]
        lines.append(
            f"\nOur goal is a factor of 30. It is {gains[DEFAULT_TOLERANCE]:.1f} against the numpy backend and "
            f"{gains[COMPILED]:.1f} against numba without compiling anew for a new gamma. Where py-pde compiles each "
            f"gamma ({compiling:.0f} s a gamma, not counted) it is {by_each:.1f}, and {by_fixed:.1f} "
            "if the step is also chosen by hand for each gamma."
        )
    return "\n".join([*lines, ""])


def py_pde(u0: torch.Tensor, tolerance: float, until: float = 6.0) -> torch.Tensor:
    box = pde.CartesianGrid([[0, 2], [0, 2]], BOX.points)
    solutions = []
    for u, gamma in zip(u0, GAMMAS, strict=True):
        equation = pde.PDE({"u": f"{gamma!r} * laplace(u) + u - u**3"}, bc={"derivative": 0})
        settings = {"solver": "runge-kutta", "adaptive": True, "tolerance": tolerance, "backend": "numpy"}
        state = pde.ScalarField(box, u.numpy())
        solutions.append(equation.solve(state, t_range=until, dt=1e-3, tracker=None, **settings).data)
    return torch.from_numpy(np.stack(solutions))


def py_pde_compiled(u0: torch.Tensor) -> Callable[[], torch.Tensor]:
    """One compiled stepper for all gammas, gamma being a second field that stays as it is."""
    box = pde.CartesianGrid([[0, 2], [0, 2]], BOX.points)
    equation = pde.PDE({"u": "g * laplace(u) + u - u**3", "g": "0"}, bc={"derivative": 0})
    solver = pde.RungeKuttaSolver(equation, backend="numba", adaptive=True, tolerance=1e-4)

    def state(u: torch.Tensor, gamma: float) -> pde.FieldCollection:
        fields = [pde.ScalarField(box, u.numpy()), pde.ScalarField(box, gamma)]
        return pde.FieldCollection(fields, labels=["u", "g"])

    step = solver.make_stepper(state(u0[0], GAMMAS[0]), dt=1e-3)
    step(state(u0[0], GAMMAS[0]), 0, 0.01)

    def run() -> torch.Tensor:
        states = [state(u, gamma) for u, gamma in zip(u0, GAMMAS, strict=True)]
        for fields in states:
            step(fields, 0, 6.0)
        return torch.from_numpy(np.stack([fields[0].data for fields in states]))

    return run


def py_pde_compiled_each(u0: torch.Tensor, adaptive: bool) -> Callable[[], torch.Tensor]:
    """A stepper for each gamma, gamma being a number in the equation."""
    box = pde.CartesianGrid([[0, 2], [0, 2]], BOX.points)
    steps = []
    for u, gamma in zip(u0, GAMMAS, strict=True):
        equation = pde.PDE({"u": f"{gamma!r} * laplace(u) + u - u**3"}, bc={"derivative": 0})
        settings = {"adaptive": True, "tolerance": 1e-4} if adaptive else {}
        solver = pde.RungeKuttaSolver(equation, backend="numba", **settings)
        rate = 8 * gamma / BOX.spacing[0] ** 2 + 2  # fastest decay; the method is stable up to 2.78 / rate
        longest = 6.0 / math.ceil(6.0 / min(0.1, 2.7 / rate))
        step = solver.make_stepper(pde.ScalarField(box, u.numpy()), dt=1e-3 if adaptive else longest)
        step(pde.ScalarField(box, u.numpy()), 0, 2 * longest)
        steps.append(step)

    def run() -> torch.Tensor:
        states = [pde.ScalarField(box, u.numpy()) for u in u0]
        for step, state in zip(steps, states, strict=True):
            step(state, 0, 6.0)
        return torch.from_numpy(np.stack([state.data for state in states]))

    return run


def paper_size() -> str:
    """Two single-threaded workers, initial data included, extrapolated to the size of the paper's data set."""
    each = 128
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(make_simulations, [range(8), range(8)], chunksize=1)  # imports and first calls
        start = time.perf_counter()
        processor = max(pool.map(make_simulations, [range(each), range(each, 2 * each)], chunksize=1))
        clock = time.perf_counter() - start
    minutes, by_clock = (PAPER_SIMULATIONS / (2 * each) * seconds / 60 for seconds in (processor, clock))
    return (
        f"\nAllen-Cahn, 128 x 128, float32, with initial data, two single-threaded workers: the paper's "
        f"{PAPER_SIMULATIONS:,} simulations in {minutes:.1f} minutes of processor time a worker, {by_clock:.1f} by the "
        f"clock (from {2 * each} of them; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores).\n"
    )


def make_simulations(seeds: range) -> float:
    torch.set_num_threads(1)
    began = time.process_time()
    for start in range(seeds.start, seeds.stop, 16):
        some = range(start, min(start + 16, seeds.stop))
        gamma = torch.linspace(1e-4, 5e-3, len(some))
        allen_cahn.solve(allen_cahn.initial_condition(some, BOX), gamma, BOX)
    return time.process_time() - began


# --------------------------------------------------------------------------------------------- Navier-Stokes


def against_jax_cfd(python: str | None) -> str:
    peer = start_peer(python)
    lines = [
        "\n## Navier-Stokes, float32, dt = 0.004\n",
        "| points | solver | ms a step and simulation | mondrian is faster by |",
        "|---|---|---|---|",
    ]
    for n, steps in ((64, 40), (128, 16)):
        rows: dict[str, Callable[[], float]] = {
            "mondrian, 12 simulations": lambda n=n, steps=steps: ours(n, 12, steps),
            "mondrian, one simulation": lambda n=n, steps=steps: ours(n, 1, steps),
            "mondrian, jax-cfd's filter": lambda n=n, steps=steps: ours(n, 2, steps, Dealias.JAX_CFD),
        }
        if peer:
            rows["jax-cfd, vmap over 12"] = lambda n=n, steps=steps: ask(peer, n, 12, steps)
            rows["jax-cfd, one simulation"] = lambda n=n, steps=steps: ask(peer, n, 1, steps)
        take_turns(rows, rounds=1)  # compiles, and fills caches
        _, results = take_turns(rows, rounds=ROUNDS, keep_all=True)
        for name, times in results.items():
            gain = statistics.median(t / s for t, s in zip(times, results["mondrian, 12 simulations"], strict=True))
            lines.append(f"| {n} x {n} | {name} | {statistics.median(times) * 1e3:.3f} | {gain:.2f} |")
    if peer and peer.stdin:
        peer.stdin.close()
        peer.wait()
    return "\n".join([*lines, ""])


def ours(n: int, batch: int, steps: int, dealias: Dealias = Dealias.SYMMETRIC) -> float:
    """Seconds per step and simulation."""
    grid = TORUS.with_points((n, n))
    w0 = navier_stokes.initial_vorticity(range(batch), grid)
    start = time.process_time()
    navier_stokes.solve(w0, grid, steps=steps, frames=1, dealias=dealias)
    return (time.process_time() - start) / steps / batch


def start_peer(python: str | None) -> subprocess.Popen[str] | None:
    if not python:
        print("jax-cfd: left out; give --jax-python an interpreter that has it", file=sys.stderr)
        return None
    script = Path(__file__).with_name("solvers_jax_cfd.py")
    return subprocess.Popen([python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(peer: subprocess.Popen[str], n: int, batch: int, steps: int) -> float:
    assert peer.stdin
    assert peer.stdout
    print(n, batch, steps, file=peer.stdin, flush=True)
    return float(peer.stdout.readline()) / steps / batch


def take_turns(
    rows: dict[str, Callable[[], Any]], rounds: int, keep_all: bool = False, repeats: dict[str, int] | None = None
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each round for each row, and what the rows returned: the last, or in all rounds.

    A row that is done in a blink says more if it is timed over several `repeats` in each round, as a mean.
    """
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    results: dict[str, list[Any]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, run in rows.items():
            times = (repeats or {}).get(name, 1)
            start = time.process_time()
            results[name].append([run() for _ in range(times)][-1])
            seconds[name].append((time.process_time() - start) / times)
    return seconds, results if keep_all else {name: values[-1] for name, values in results.items()}


def processor() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
