"""Values that are stored in every layout of other people's files."""

import numpy as np
import pytest


@pytest.fixture
def values() -> np.ndarray:
    """Three simulations of five steps on 6 x 4 points."""
    return np.random.default_rng(1).standard_normal((3, 5, 6, 4)).astype(np.float32)
