"""Do the tests see a mistake? Faults of one line each, put into a copy of the library and run against their tests.

    python -m benchmarks.mutants [operators/low_rank 3,7] [--jobs 2] [--write]

Names are parts of files, numbers those of the table; without any all faults are tried. A fault is caught if a test of
its area fails that passes without it. One that stops the library from being imported counts as a broken fault, as does
one whose line is gone or stands twice. `--write` puts the table into benchmarks/results/mutants.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from benchmarks.mutations import FAULTS, Fault
from mondrian.support.processor import ensure_half_precision

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mondrian"
RESULTS = Path(__file__).parent / "results" / "mutants.md"
PATIENCE = 1800.0
BROKEN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "UnboundLocalError", "AttributeError")
HEADING = """# Mutants

`python -m benchmarks.mutants --write`: mistakes of one line in a copy of the library, each run against the tests of its
area. Caught means that a test failed which passes without the mistake. The seconds passed
until then, of a machine that may have had other work."""


class FaultError(ValueError):
    """A fault that cannot be tried: its line is gone, or is not the only one."""


@dataclass(frozen=True)
class Place:
    """A fault and where its line stands."""

    number: int
    fault: Fault
    file: Path
    line: int

    @property
    def name(self) -> str:
        return self.file.relative_to(SOURCE).as_posix()


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: the test that failed, or why it does not count."""

    place: Place
    test: str
    trouble: str
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wanted", nargs="*", help="parts of file names, or numbers with commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/mutants.md")
    arguments = parser.parse_args()
    ensure_half_precision()  # once, not in each process
    chosen = choose(placed(FAULTS, SOURCE), arguments.wanted)
    targets = sorted({test for place in chosen for test in place.fault.tests})
    with copy_of_source() as source:
        began = time.perf_counter()
        failing = {test for test, _ in run(source, targets, stop=False)}
        print(f"{len(targets)} files of tests without a fault: {time.perf_counter() - began:.0f} s", flush=True)
    if failing:
        print(f"fail without a fault, and are left out: {', '.join(sorted(failing))}", flush=True)
    with ThreadPoolExecutor(arguments.jobs) as pool, tqdm(total=len(chosen), desc="mutants") as bar:
        outcomes = []
        for outcome in pool.map(lambda place: attempt(place, failing), chosen):
            outcomes.append(outcome)
            bar.update()
            bar.write(f"{outcome.place.number:3d} {outcome.place.name}: {outcome.test or outcome.trouble}")
    text = table(outcomes)
    print(text)
    if arguments.write:
        RESULTS.write_text(f"{HEADING}\n\n{text}\n")
    sys.exit(any(outcome.trouble for outcome in outcomes))


def placed(faults: tuple[Fault, ...], source: Path) -> list[Place]:
    """Where the lines of the faults stand; refuses those that stand nowhere or twice."""
    places: dict[str, list[tuple[Path, int]]] = {fault.line: [] for fault in faults}
    for file in sorted(source.rglob("*.py")):
        for number, line in enumerate(file.read_text().splitlines()):
            if line.strip() in places:
                places[line.strip()].append((file, number))
    for fault in faults:
        if len(places[fault.line]) != 1:
            where = ", ".join(f"{file.relative_to(source)}:{n + 1}" for file, n in places[fault.line]) or "nowhere"
            raise FaultError(f"{fault.what!r}: needed one line {fault.line!r}; it stands {where}")
    return [Place(number, fault, *places[fault.line][0]) for number, fault in enumerate(faults, start=1)]


def choose(places: list[Place], wanted: list[str]) -> list[Place]:
    """Those of the wanted numbers and files."""
    if not wanted:
        return places
    numbers = {int(n) for word in wanted for n in word.split(",") if n.isdigit()}
    names = [word for word in wanted if not word.replace(",", "").isdigit()]
    chosen = [place for place in places if place.number in numbers or any(name in place.name for name in names)]
    if not chosen:
        raise SystemExit(f"no fault is {' or '.join(wanted)}; needed 1 to {len(places)}, or a part of a file's name")
    return chosen


def attempt(place: Place, failing: set[str]) -> Outcome:
    """Try one fault in a copy of its own."""
    began = time.perf_counter()
    with copy_of_source() as source:
        file = source / "mondrian" / place.name
        lines = file.read_text().splitlines(keepends=True)
        lines[place.line] = lines[place.line].replace(place.fault.line, place.fault.faulty)
        file.write_text("".join(lines))
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        try:
            failed = run(source, list(place.fault.tests), stop=True, without=failing)
        except RuntimeError as error:
            return Outcome(place, "", str(error), time.perf_counter() - began)
    seconds = time.perf_counter() - began
    if not failed:
        return Outcome(place, "", "not caught", seconds)
    test, reason = failed[0]
    return Outcome(place, test, "" if reason not in BROKEN else f"a broken fault: {reason} in {test}", seconds)


@contextmanager
def copy_of_source() -> Iterator[Path]:
    """A temporary copy of `src`, compiled files included: only what is changed has to be compiled again."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "src"
        shutil.copytree(SOURCE, source / "mondrian")
        yield source


def run(source: Path, tests: list[str], *, stop: bool, without: set[str] = frozenset()) -> list[tuple[str, str]]:
    """The tests that fail with the library in `source`, and the kinds of their errors."""
    report = source.parent / "failed.json"
    request = {"source": str(source), "tests": tests, "stop": stop, "without": sorted(without), "report": str(report)}
    variables = {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    program = "import json, sys; from benchmarks.mutants import child; child(**json.loads(sys.argv[1]))"
    command = [sys.executable, "-c", program, json.dumps(request)]
    process = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=PATIENCE
    )
    if not report.exists():
        raise RuntimeError(f"the tests did not run:\n{process.stdout[-2000:]}{process.stderr[-2000:]}")
    return [(test, reason) for test, reason in json.loads(report.read_text())]


def child(source: str, tests: list[str], stop: bool, without: list[str], report: str) -> None:
    """Run tests in this process with the library in `source`, and report what failed."""
    import pytest

    import mondrian

    assert mondrian.__file__.startswith(source), (mondrian.__file__, source)
    watcher = Watcher()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--strict-markers", "--tb=no"]
    options += ["-x"] if stop else []
    options += [f"--deselect={test}" for test in without]
    pytest.main([*options, *tests], plugins=[watcher])
    Path(report).write_text(json.dumps(watcher.failed))


class Watcher:
    """Notes which tests fail, and by which error."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    def pytest_exception_interact(self, node: object, call: object, report: object) -> None:
        self.failed.append((report.nodeid, call.excinfo.typename))  # type: ignore[attr-defined]


def table(outcomes: list[Outcome]) -> str:
    """All outcomes, with their number in front."""
    caught = sum(not outcome.trouble for outcome in outcomes)
    total = sum(outcome.seconds for outcome in outcomes)
    rows = [
        f"| {o.place.number} | {o.place.fault.what} | `{o.place.name}` | {verdict(o)} | {o.seconds:.0f} |"
        for o in outcomes
    ]
    head = f"{caught} of {len(outcomes)} caught, in {total / 60:.1f} minutes."
    return "\n".join([head, "", "| | fault | file | caught by | s |", "|--:|:--|:--|:--|--:|", *rows])


def verdict(outcome: Outcome) -> str:
    """The test that failed, without its parameters, or what went wrong."""
    if outcome.trouble:
        return f"**{outcome.trouble.splitlines()[0]}**"
    return f"`{outcome.test.removeprefix('tests/').split('[')[0]}`"


if __name__ == "__main__":
    main()
