"""Problems: why a simulation is restricted and not made on the coarse grid, and how it continues from a state."""

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data.problems import AllenCahn, KuramotoSivashinsky, NavierStokes, Problem


def test_solutions_on_a_coarse_grid_are_other_solutions():
    restricted, native = (
        AllenCahn(native=native).simulate(range(32), [(32, 32)])[(32, 32)].fields["u"][:, 1] for native in (False, True)
    )
    norms = [np.linalg.norm(u.reshape(len(u), -1), axis=1) for u in (restricted - native, restricted)]
    assert np.mean(norms[0] / norms[1]) > 0.04


@pytest.mark.parametrize(
    "problem",
    [
        AllenCahn(grid=Grid(extent=(2.0, 2.0), points=(16, 16))),
        NavierStokes(grid=Grid(extent=(6.3, 6.3), points=(32, 32), periodic=(True, True)), steps=40, frames=4),
        KuramotoSivashinsky(grid=Grid(extent=(32.0,), points=(64,), periodic=(True,)), steps=40, frames=4, spin_up=50),
    ],
)
def test_a_stored_frame_becomes_those_that_are_stored_after_it(problem: Problem) -> None:
    fields, scalars = problem.solve([3, 4], problem.grid)
    frames = fields[problem.unknown]
    later = problem.continued(frames[:, 0], scalars, problem.grid, frames.shape[1] - 1)
    assert not torch.allclose(frames[:, 1], frames[:, 0], atol=1e-3)
    torch.testing.assert_close(later, frames[:, 1:], rtol=1e-4, atol=1e-4)  # frames are stored in float32
    twice = problem.continued(frames[:, 0], scalars, problem.grid, 2)
    again = problem.continued(twice[:, 0], scalars, problem.grid, 1)
    torch.testing.assert_close(again[:, 0], twice[:, 1], rtol=1e-4, atol=1e-4)
