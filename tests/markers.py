"""Markers say what a test does, so that `make quick` can leave it out. There a test that does more than it says fails.

`process` starts one, `training` trains, `compiled` calls `torch.compile`, `slow` takes more than three seconds of a
processor; `checked` needs the run-time shape checks and is left out without them.
"""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import torch

FIXTURES = {"small_league": "training", "rolled_league": "training"}  # of a session, and what they do
LONG = ("slow", "process", "training")
SECONDS = 3.0  # of a processor, beyond which a test is slow


def _order(item: pytest.Item) -> int:
    """Long tests first, so that no worker is left with one at the end."""
    return min((place for place, name in enumerate(LONG) if item.get_closest_marker(name)), default=len(LONG))


class Markers:
    """Watches the tests of a session."""

    def __init__(self) -> None:
        self.process = os.getpid()  # a fork of it, started by a test that may, does what it likes
        self.item: pytest.Item | None = None
        self.since = 0.0
        self.slow: dict[str, float] = {}
        self.undo: list[Callable[[], None]] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "xdist_group: tests for one worker")  # where xdist does not say so

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """What is made once for a file is made by one worker: with `--dist=loadgroup` its tests stay together."""
        fixtures = getattr(item, "_fixtureinfo", None)
        made = fixtures.name2fixturedefs.values() if fixtures else ()
        for name in FIXTURES.keys() & set(fixtures.names_closure if fixtures else ()):
            item.add_marker(pytest.mark.xdist_group(name))
            item.add_marker(FIXTURES[name])
            return
        if any(definition[-1].scope == "module" for definition in made):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item], config: pytest.Config) -> None:
        if not config.getoption("jaxtyping_packages", None):
            unseen = [item for item in items if item.get_closest_marker("checked")]
            config.hook.pytest_deselected(items=unseen)
            items[:] = [item for item in items if item not in unseen]
        items.sort(key=_order)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        left_out = session.config.option.markexpr
        if "process" in left_out:
            self._watch(subprocess.Popen, "__init__", "process", "starts a process")
            self._watch(BaseProcess, "start", "process", "starts a process")
        if "compiled" in left_out:
            self._watch(torch, "compile", "compiled", "calls torch.compile")
        lightning = sys.modules.get("lightning.pytorch")  # takes seconds to import, and is where it is needed
        if "training" in left_out and lightning is not None:
            self._watch(lightning.Trainer, "fit", "training", "trains")

    def _watch(self, owner: Any, name: str, marker: str, deed: str) -> None:
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def watched(*arguments: Any, **options: Any) -> Any:
            item = self.item if os.getpid() == self.process else None
            if item is not None and item.get_closest_marker(marker) is None:
                pytest.fail(f"{item.nodeid} {deed}; needed @pytest.mark.{marker}")
            return plain(*arguments, **options)

        setattr(owner, name, watched)
        self.undo.append(lambda: setattr(owner, name, plain))

    def pytest_sessionfinish(self) -> None:
        for undo in self.undo:
            undo()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.item, self.since = item, time.process_time()
        try:
            return (yield)
        finally:
            self.item = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        report.seconds = time.process_time() - self.since  # travels with the report from a worker of xdist
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "slow" not in report.keywords and getattr(report, "seconds", 0.0) > SECONDS:
            self.slow[report.nodeid] = report.seconds

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if self.slow and "not slow" in config.option.markexpr:
            terminalreporter.section("tests of more than 3 s that are not marked slow")
            for test, seconds in sorted(self.slow.items(), key=lambda entry: -entry[1]):
                terminalreporter.write_line(f"{seconds:5.1f} s  {test}")
