"""Seeds of simulations, and random numbers that belong to a seed and a name."""

from __future__ import annotations

import hashlib


def simulation_seed(seed: int, split: str, index: int) -> int:
    """The seed of one simulation: the first 63 bits of BLAKE2b over `seed/split/index`.

    It does not depend on shards, workers or machines, and neither does the simulation.

    >>> simulation_seed(3, "train", 0) != simulation_seed(3, "test", 0)
    True
    """
    return _digest(f"{seed}/{split}/{index}") >> 1


def uniform(seed: int, name: str) -> float:
    """A random number in [0, 1) that belongs to a seed and a name, independent of all random fields of that seed.

    >>> 0 <= uniform(7, "gamma") < 1
    True
    """
    return (_digest(f"{seed}/{name}") >> 11) / 2**53


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
