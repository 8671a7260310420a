"""Every test starts from the same seed; float64 is asked for by the fixture that most of them use."""

from collections.abc import Iterator

import pytest
import torch

collect_ignore_glob = ["data/fixtures/*.py"]  # scripts that made stored files, with peers of their own


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
