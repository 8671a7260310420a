"""Kill any rank at any moment: does the run end with the same model?

    python -m benchmarks.faults [--strategy ddp|fsdp] [--kills 20] [--write]

A small training on two gloo ranks under `torchrun --max-restarts=1` runs once undisturbed, then many times with one
rank killed after a random fraction of the undisturbed time, imports and set-up included. A run passes if it ends by
itself with the same checkpoint, best model and losses, bit for bit. `--write` stores the table of each strategy in
benchmarks/results/faults.md, row by row.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.sections import store
from mondrian import Grid
from mondrian.data import AllenCahn
from mondrian.data.generate import generate, plan
from mondrian.support.text import markdown_table
from mondrian.training.checkpoints import newest
from mondrian.training.run import Run

OVERRIDES = (
    "experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden_channels=8", "model.n_layers=2",
    "model.subdomains=[4,4]", "max_steps=150", "batch_size=4", "validate_every=30", "checkpoint_every=7", "log_every=5",
    "augment=[rotations]", "noise=0.01", "trainer.accelerator=cpu", "trainer.timeout=300", "resume=true",
)  # fmt: skip
PATIENCE = 900.0  # on a quiet machine a run takes about fifteen seconds
STRATEGIES = ("ddp", "fsdp")
RESULTS = Path(__file__).parent / "results" / "faults.md"
HEADING = """# Faults

`python -m benchmarks.faults --write`: two gloo processes under `torchrun --standalone --max-restarts=1 -m mondrian
train ... resume=true`, one rank killed by SIGKILL after a random part of the time that the undisturbed run takes. The
end is the same if checkpoint and best model are equal bit for bit, and all logged losses. The step is that of the last
row of the history when the rank was killed."""


@dataclass(frozen=True)
class Outcome:
    """A disturbed run: the killed rank, when it was killed and at which step, and whether the results are the same."""

    rank: int
    seconds: float
    step: int
    total: float
    same: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strategy", choices=STRATEGIES, action="append")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/faults.md")
    arguments = parser.parse_args()
    for strategy in arguments.strategy or STRATEGIES:
        text = ""
        with tempfile.TemporaryDirectory() as name:
            for text in measure(Path(name), strategy, arguments.kills, random.Random(arguments.seed)):
                if arguments.write:
                    store(strategy, text, STRATEGIES, RESULTS, HEADING)
        print(f"## {strategy}\n\n{text}\n", flush=True)


def measure(folder: Path, strategy: str, kills: int, draw: random.Random) -> Iterator[str]:
    """The table of results after each kill."""
    data = simulate(folder / "data")
    overrides = [*OVERRIDES, f"data.path={data}", f"trainer={strategy}"]
    began = time.perf_counter()
    whole = Run(folder / "whole")
    process = start(overrides, whole)
    if process.wait(PATIENCE) != 0:
        raise RuntimeError(log_of(whole).read_text())
    alone = time.perf_counter() - began
    outcomes: list[Outcome] = []
    numbers = itertools.count()
    with tqdm(total=kills, desc=f"killing under {strategy}") as bar:
        while len(outcomes) < kills:
            run = Run(folder / f"killed_{next(numbers)}")
            outcome = disturb(overrides, run, whole, rank=draw.randrange(2), after=draw.uniform(0.0, alone))
            if outcome is None:
                continue
            if not outcome.same:
                bar.write(f"{outcome}\n{log_of(run).read_text()}")
            outcomes.append(outcome)
            bar.update()
            yield summary(alone, outcomes)


def disturb(overrides: list[str], run: Run, whole: Run, *, rank: int, after: float) -> Outcome | None:
    """Kill a rank after some seconds, or once it has started; None if the run ended before."""
    began = time.perf_counter()
    process = start(overrides, run)
    time.sleep(after)
    while process.poll() is None and rank not in (ranks := workers(process.pid)):
        time.sleep(0.01)
    if process.poll() is not None:
        return None
    step = last_step(run)
    seconds = time.perf_counter() - began
    os.kill(ranks[rank], signal.SIGKILL)
    try:
        ended = process.wait(PATIENCE) == 0
    except subprocess.TimeoutExpired:
        process.terminate()  # the agent stops its workers
        ended = process.wait() == 0
    return Outcome(rank, seconds, step, time.perf_counter() - began, ended and same(run, whole))


def start(overrides: list[str], run: Run) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*launcher, "-m", "mondrian", "train", *overrides, f"run={run.folder}"]
    with open(log_of(run), "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def log_of(run: Run) -> Path:
    return run.folder.with_suffix(".log")


def workers(agent: int) -> dict[int, int]:
    """The process id of each rank that torchrun has started."""
    ranks: dict[int, int] = {}
    for child in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            ranks |= {int(word[5:]): int(child) for word in variables if word.startswith(b"RANK=")}
    return ranks


def last_step(run: Run) -> int:
    rows = run.history_file.read_text().splitlines()[1:] if run.history_file.exists() else []
    return int(rows[-1].split(",")[0]) if rows else 0


def same(run: Run, whole: Run) -> bool:
    """Whether two runs ended with the same weights, the same best model and the same losses."""
    one, other = (torch.load(newest(each.checkpoints), weights_only=True)["state_dict"] for each in (run, whole))
    best = [(each.artefact / "model.safetensors").read_bytes() for each in (run, whole)]
    weights = one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
    return weights and best[0] == best[1] and losses(run) == losses(whole)


def losses(run: Run) -> list[tuple[str, ...]]:
    with open(run.history_file) as file:
        return [(r["step"], r["train_loss"], r["valid_loss"], r["valid_mae"]) for r in csv.DictReader(file)]


def simulate(folder: Path) -> Path:
    problem = AllenCahn(grid=Grid(extent=(2.0, 2.0), points=(32, 32)))
    points = {split: [(16, 16)] for split in ("train", "valid", "test")}
    generate(
        folder, plan(problem, seed=1, simulations={"train": 12, "valid": 4, "test": 4}, points=points, shard_size=4)
    )
    return folder


def summary(alone: float, outcomes: list[Outcome]) -> str:
    rows = [
        [str(number + 1), str(o.rank), f"{o.seconds:.1f}", str(o.step), f"{o.total:.1f}", "yes" if o.same else "NO"]
        for number, o in enumerate(outcomes)
    ]
    good = sum(o.same for o in outcomes)
    head = f"{good} of {len(outcomes)} kills end the same. Undisturbed: {alone:.1f} s.\n\n"
    return head + markdown_table(["kill", "rank", "after s", "at step", "whole run s", "same end"], rows)


if __name__ == "__main__":
    main()
