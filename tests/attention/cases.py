"""Patterns and lattices that the attention contract is run on."""

import torch

from mondrian import GlobalAttention, NeighborhoodAttention, WindowedAttention
from mondrian.attention.patterns import AttentionSpec
from mondrian.attention.position import GazeBias, OffsetNetwork
from mondrian.decomposition import Lattice

LATTICES = {
    "1-D": Lattice((12,), (False,)),
    "1-D ring": Lattice((12,), (True,)),
    "2-D": Lattice((6, 8), (False, False)),
    "2-D torus": Lattice((6, 8), (True, True)),
    "2-D mixed": Lattice((6, 8), (True, False)),
    "2-D odd": Lattice((7, 9), (False, False)),
    "2-D large": Lattice((13, 16), (False, True)),
    "3-D": Lattice((4, 6, 4), (False, True, False)),
}


def patterns(lattice: Lattice) -> dict[str, AttentionSpec]:
    """Every pattern that fits a lattice."""
    dim = len(lattice.counts)
    window = tuple(
        2 if n % 2 == 0 else n if ring else 3 for n, ring in zip(lattice.counts, lattice.periodic, strict=True)
    )
    specs: dict[str, AttentionSpec] = {
        "global": GlobalAttention(),
        "windowed": WindowedAttention(window=window),
        "shifted": WindowedAttention(window=window, shift=tuple(min(1, n - 1) for n in window)),
        "neighbourhood": NeighborhoodAttention(radius=1),
        "wide neighbourhood": NeighborhoodAttention(radius=2),
        "zero rule": NeighborhoodAttention(radius=1, zero_far=True),
    }
    if dim < 3:
        large = tuple(n // 2 if n % 2 == 0 else n for n in lattice.counts)
        specs["large windows"] = WindowedAttention(window=large, shift=tuple(n // 2 for n in large))
    return specs


CASES = [(place, kind) for place, lattice in LATTICES.items() for kind in patterns(lattice)]


def functions(lattice: Lattice, features: int = 10) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values that need gradients."""
    return tuple(torch.randn(2, 2, lattice.size, features, requires_grad=True) for _ in range(3))


def gaze(lattice: Lattice) -> GazeBias:
    """Heads that look at places between cells, as they do once they have learned."""
    built = GazeBias(0.3, 2, len(lattice.counts))
    torch.nn.init.normal_(built.place, std=1.5)
    return built


def bias(lattice: Lattice) -> OffsetNetwork:
    """A relative bias large enough to matter."""
    network = OffsetNetwork(len(lattice.counts), 6, 2)
    with torch.no_grad():
        network.second.weight *= 5
    return network
