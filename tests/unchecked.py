"""Run a test as a user runs the library: without the run-time type checks of the test suite."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import config


@contextmanager
def unchecked() -> Iterator[None]:
    """Arguments of a wrong type reach the library's own checks. Also a decorator: `@unchecked()`."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
