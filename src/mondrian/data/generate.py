"""Generate a data set: in shards, on several processes and machines, resumable after a crash."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from mondrian import __version__
from mondrian.data.manifest import FILE, Manifest, Shard, collect
from mondrian.data.problems import Problem
from mondrian.data.seeds import simulation_seed
from mondrian.data.shards import agreed_manifest, identity_of, make_shards, problem_of
from mondrian.data.store import damage, read_identity
from mondrian.support.files import remove_partial
from mondrian.support.lock import locked_numbers

LOCK = ".lock"  # a byte for each shard


def plan(
    problem: Problem,
    *,
    seed: int,
    simulations: Mapping[str, int],
    points: Mapping[str, Sequence[tuple[int, ...]]],
    shard_size: int,
) -> Manifest:
    """What a folder is to hold: `simulations` and `points` for each split.

    >>> from mondrian.data.problems import AllenCahn
    >>> manifest = plan(
    ...     AllenCahn(), seed=3, simulations={"train": 40}, points={"train": [(32, 32)]}, shard_size=16
    ... )
    >>> [shard.count for shard in manifest.shards()]
    [16, 16, 8]
    """
    manifest = Manifest(
        problem=problem,
        seed=seed,
        simulations=dict(simulations),
        points={split: tuple(tuple(sizes) for sizes in sizes_of) for split, sizes_of in points.items()},
        shard_size=shard_size,
        version=__version__,
    )
    for sizes_of in manifest.points.values():
        for sizes in sizes_of:
            problem.check(sizes)
    seeds = [simulation_seed(seed, split, n) for split, count in simulations.items() for n in range(count)]
    if len(set(seeds)) != len(seeds):  # about 1 in 10^11 for the paper's data set
        raise ValueError(f"seed={seed} gives two simulations the same seed; needed another seed")
    return manifest


@dataclass(frozen=True)
class SimulatedGrids:
    """The simulations of a manifest, made by so many processes; with `repair` damaged shards are made again."""

    manifest: Manifest
    workers: int = 1
    repair: bool = False

    @property
    def count(self) -> int:
        """Number of simulations, of all parts together."""
        return sum(self.manifest.simulations.values())

    def write(self, folder: Path, *, share: tuple[int, int] = (0, 1), progress: bool = False) -> None:
        """Make the shards that are missing."""
        generate(folder, self.manifest, workers=self.workers, share=share, repair=self.repair, progress=progress)

    def summary(self, folder: Path) -> str:
        """Simulations of each part, and the files that are there."""
        made = Manifest.load(folder)
        size = sum((folder / file).stat().st_size for file in made.checksums)
        counts = ", ".join(f"{split} {count}" for split, count in made.simulations.items())
        return f"{counts} simulations, {len(made.checksums)} files, {size / 1e6:.1f} MB"

    def files(self, folder: Path) -> list[Path]:
        """All files of the complete data set."""
        return [folder / path for path in self.manifest.files()]

    def is_recorded(self, folder: Path) -> bool:
        """Whether the folder's manifest has the checksums of all files."""
        return (folder / FILE).exists() and not Manifest.load(folder).missing


def generate(
    folder: Path,
    manifest: Manifest,
    *,
    workers: int = 1,
    share: tuple[int, int] = (0, 1),
    repair: bool = False,
    progress: bool = False,
) -> Manifest:
    """Make the shards that are missing, write the manifest and return it.

    `share=(i, n)` makes every n-th shard from the i-th on: n machines with a common folder, or folders to be
    merged later, need not know of each other. Shards that exist are checked; a damaged one is an error that
    names it, or is made again with `repair`. Stop it in any way at any time: the next call resumes. It waits for shards
    that another process is making. A folder keeps the arguments that its first shard was made with; another version
    may make none of its shards, but takes what is whole.
    """
    number, total = share
    if not 0 <= number < total:
        raise ValueError(f"share={number}/{total} must be one of 0/{total} to {total - 1}/{total}")
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1")
    shards = list(manifest.shards())
    mine = shards[number::total]
    _, missing = _missing(folder, manifest, mine, repair=repair)
    own = set(missing)

    def waiting() -> None:
        if progress:
            print(f"another process makes {folder}; waiting for it", flush=True)

    numbers = (number for number, shard in enumerate(shards) if shard in own)
    with locked_numbers(folder / LOCK, numbers, waiting=waiting):
        known, missing = _missing(folder, manifest, missing, repair=repair)  # what nobody has made in the meantime
        for shard in missing:
            for file in shard.files().values():
                remove_partial(folder / file)
        bar = tqdm(
            total=sum(shard.count for shard in mine),
            initial=sum(shard.count for shard in mine) - sum(shard.count for shard in missing),
            unit="sim",
            desc=problem_of(manifest).name,
            disable=None if progress else True,
            smoothing=0.1,
        )
        with bar:
            for done in make_shards(folder, manifest, missing, workers):
                bar.update(done)
    return collect(folder, known)


def damaged(folder: Path, manifest: Manifest, shards: Sequence[Shard]) -> dict[str, str]:
    """What is wrong with the files that exist, by their paths."""
    problems = {}
    for shard in shards:
        for file in shard.files().values():
            path = folder / file
            if not path.exists():
                continue
            problem = damage(path, manifest.checksums.get(file))
            if problem is None:
                identity = read_identity(path)
                identity.pop("grid")
                if identity != identity_of(manifest, shard):
                    problem = f"it holds other simulations: {identity}"
            if problem is not None:
                problems[file] = problem
    return problems


def _missing(
    folder: Path, manifest: Manifest, shards: Sequence[Shard], *, repair: bool
) -> tuple[Manifest, list[Shard]]:
    """The folder's manifest, and those of the shards that are to be made: none, if another version made the folder."""
    known = agreed_manifest(folder, manifest, version=False)
    broken = damaged(folder, known, shards)
    if broken and not repair:
        lines = "".join(f"\n  {folder / file}: {what}" for file, what in broken.items())
        raise ValueError(
            f"{len(broken)} damaged files; `{_command(folder, known)}` makes them again, "
            f"with any other settings that the folder was made with:{lines}"
        )
    missing = [
        shard
        for shard in shards
        if any(file in broken or not (folder / file).exists() for file in shard.files().values())
    ]
    return (agreed_manifest(folder, manifest) if missing else known), missing


def _command(folder: Path, manifest: Manifest) -> str:
    """The command that repairs a folder; what the folder does not tell is left as `...`.

    Folders that training makes are called by data set and scale, `allen_cahn3d_smoke`.
    """
    problem = problem_of(manifest)
    data = problem.name + ("3d" if problem.grid.dim == 3 else "")
    name, _, scale = folder.resolve().name.rpartition("_")
    scale = scale if name == data else "..."
    return shlex.join(["mondrian", "generate", f"data={data}", f"path={folder}", f"scale={scale}", "repair=true"])
