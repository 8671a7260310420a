"""The peer's side of benchmarks/solvers.py, run by a Python that has jax-cfd.

Reads lines "points batch steps" and answers each with the processor seconds that those steps took, compiled beforehand.
"""

import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import jax_cfd.base as cfd
import jax_cfd.spectral as spectral


def compiled(points: int, batch: int, steps: int):
    """A function without arguments that takes `steps` steps of `batch` simulations, and waits for them."""
    grid = cfd.grids.Grid((points, points), domain=((0.0, 2 * jnp.pi),) * 2)
    step = spectral.time_stepping.crank_nicolson_rk4(spectral.equations.NavierStokes2D(1e-3, grid), 0.004)
    flows = [
        cfd.initial_conditions.filtered_velocity_field(jax.random.PRNGKey(seed), grid, 3.0, 4.0)
        for seed in range(batch)
    ]
    states = jnp.stack([jnp.fft.rfftn(cfd.finite_differences.curl_2d(v).data) for v in flows])
    repeated = cfd.funcutils.repeated(step, steps)
    run, state = (jax.jit(repeated), states[0]) if batch == 1 else (jax.jit(jax.vmap(repeated)), states)
    run(state).block_until_ready()
    return lambda: run(state).block_until_ready()


def main() -> None:
    ready = {}
    for line in sys.stdin:
        sizes = tuple(int(word) for word in line.split())
        if sizes not in ready:
            ready[sizes] = compiled(*sizes)
        start = time.process_time()
        ready[sizes]()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
