"""Generation that is killed at any moment resumes, and processes that make the same data wait for each other."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data.small import arrays, few

from mondrian import Grid
from mondrian.data.generate import generate
from mondrian.data.manifest import Manifest
from mondrian.data.problems import AllenCahn
from mondrian.support import files, lock


def die_at(event: int, folder: Path, leave: Callable[[int], None]) -> None:
    """Generate in this process, and kill it at the given one of all writes, syncs and renames."""
    events = 0

    def reached() -> None:
        nonlocal events
        events += 1
        if events == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            reached()
            result = function(*arguments)
            reached()
            return result

        return call

    class Halves:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> "Halves":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, content: bytes) -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            reached()
            self.file.write(content[len(content) // 2 :])

    files.open = lambda path, mode: Halves(open(path, mode))  # type: ignore[attr-defined]  # noqa: SIM115
    os.fsync, os.replace = watched(os.fsync), watched(os.replace)
    generate(folder, few())
    leave(0)


@pytest.mark.process
def test_killed_at_every_write_sync_and_rename_it_resumes(tmp_path: Path) -> None:
    expected = arrays(tmp_path / "whole", generate(tmp_path / "whole", few()))
    context = multiprocessing.get_context("fork")

    def run(event: int, folder: Path) -> bool:
        process = context.Process(target=die_at, args=(event, folder, os._exit))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0

    event, restarts = 1, 0
    while run(event, folder := tmp_path / str(event)):
        if event % 3 == 0:
            restarts += run(event, folder)  # the second run has less to do, and dies somewhere else
        manifest = generate(folder, few())
        assert not manifest.missing
        assert arrays(folder, manifest) == expected
        assert not list(folder.rglob("*.hdf5.*.partial"))
        event += 1
    assert event == 1 + 7 * (4 + 2)  # four shards, the manifest before and after; seven events for each
    assert restarts > 5


def pause_at_a_shard(folder: Path, share: tuple[int, int], ready: Any, go: Any, leave: Callable[[int], None]) -> None:
    """Generate in this process, and pause where the first shard is written and not yet renamed."""
    sync = os.fsync

    def paused(descriptor: int) -> None:
        if not ready.is_set() and list(folder.rglob(".shard_*.partial")):
            ready.set()
            go.wait(60)
        sync(descriptor)

    os.fsync = paused
    generate(folder, few(), share=share)
    leave(0)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[[tuple[int, int]], tuple[Any, Any]]]:
    """Another process that generates, and has paused; an event lets it continue."""
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    started = []

    def start(share: tuple[int, int]) -> tuple[Any, Any]:
        process = context.Process(target=pause_at_a_shard, args=(tmp_path, share, ready, go, os._exit))
        process.start()
        started.append(process)
        assert ready.wait(60)
        return process, go

    yield start
    go.set()
    for process in started:
        process.join()


@pytest.mark.process
def test_of_two_that_make_the_same_data_the_second_waits_and_finds_them(
    tmp_path: Path, other: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process, go = other((0, 1))
    simulated: list[int] = []
    solve = AllenCahn.solve

    def watched(problem: AllenCahn, seeds: list[int], grid: Grid) -> Any:
        simulated.extend(seeds)
        return solve(problem, seeds, grid)

    def locked(path: Path, numbers: Iterator[int], *, waiting: Callable[[], None]) -> Any:
        return lock.locked_numbers(path, numbers, waiting=lambda: (waiting(), go.set()))

    monkeypatch.setattr(AllenCahn, "solve", watched)
    monkeypatch.setattr("mondrian.data.generate.locked_numbers", locked)  # the other continues when this one waits
    manifest = generate(tmp_path, few(), progress=True)
    process.join()
    assert process.exitcode == 0  # its file was there when it was to be renamed
    assert not simulated
    assert capsys.readouterr().out == f"another process makes {tmp_path}; waiting for it\n"
    assert not manifest.missing


@pytest.mark.process
def test_shares_of_a_folder_do_not_wait_for_each_other(
    tmp_path: Path, other: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    process, go = other((0, 2))
    assert generate(tmp_path, few(), share=(1, 2), progress=True).missing
    assert process.is_alive()
    assert not capsys.readouterr().out
    go.set()
    process.join()
    assert process.exitcode == 0
    assert not Manifest.load(tmp_path).missing
