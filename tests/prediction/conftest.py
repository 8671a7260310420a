"""A surrogate, samples and simulations for it."""

import numpy as np
import pytest

from mondrian import Grid
from mondrian.data.store import Simulations
from mondrian.surrogate import Surrogate
from tests.prediction.cases import build


@pytest.fixture
def surrogate() -> Surrogate:
    """u[-1], u[0], gamma -> u[1]."""
    return build(("u[-1]", "u[0]", "gamma"), ("u[1]",))


@pytest.fixture
def samples() -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.standard_normal((7, 3, 8, 4)).astype(np.float32)
    x[:, 2] = 10 ** random.uniform(-4, -2, (7, 1, 1))
    return x


@pytest.fixture
def simulations() -> Simulations:
    random = np.random.default_rng(1)
    return Simulations(
        grid=Grid(extent=(4.0, 1.0), points=(8, 4), periodic=(True, True)),  # not the box of the model
        times=np.array([0.0, 6.0, 9.0, 12.0]),
        fields={"u": random.standard_normal((5, 4, 8, 4)).astype(np.float32)},
        scalars={"gamma": 10 ** random.uniform(-4, -2, 5)},
    )
