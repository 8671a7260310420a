"""Problems: why a simulation is restricted and not made on the coarse grid."""

import numpy as np

from mondrian.data.problems import AllenCahn


def test_solutions_on_a_coarse_grid_are_other_solutions():
    restricted, native = (
        AllenCahn(native=native).simulate(range(32), [(32, 32)])[(32, 32)].fields["u"][:, 1] for native in (False, True)
    )
    norms = [np.linalg.norm(u.reshape(len(u), -1), axis=1) for u in (restricted - native, restricted)]
    assert np.mean(norms[0] / norms[1]) > 0.04
