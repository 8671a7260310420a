"""Every test starts from the same seed; float64 is asked for by the fixture that most of them use."""

import sys
from collections.abc import Iterator
from threading import Thread

import pytest
import torch

from mondrian.support.processor import ensure_half_precision
from tests.markers import Markers

collect_ignore_glob = ["data/fixtures/*.py"]  # scripts that made stored files, with peers of their own
_trial = pytest.StashKey[Thread]()


def pytest_configure(config: pytest.Config) -> None:
    """Watch markers; try bfloat16 and float16 here while tests are collected, or before xdist starts its workers."""
    config.pluginmanager.register(Markers())
    trial = config.stash[_trial] = Thread(target=_try_half_precision, daemon=True)
    trial.start()
    if config.getoption("numprocesses", None):
        trial.join()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_trial].join()


def _try_half_precision() -> None:
    try:
        ensure_half_precision()
    except ValueError as error:  # most tests need neither
        print(f"mondrian: {error}", file=sys.stderr)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def float64() -> Iterator[None]:
    """Make float64 the default while a test runs."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
