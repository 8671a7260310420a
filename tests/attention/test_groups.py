"""Attention inside groups: two ways to the same numbers, in every precision."""

import pytest
import torch

from mondrian.attention.groups import Groups
from mondrian.attention.tiles import tiles, windows
from mondrian.decomposition import Lattice

CPU = torch.device("cpu")


def groups_of(kind: str) -> Groups:
    lattice = Lattice((6, 4), (True, False))
    groups = windows(lattice, (3, 2), (1, 1), CPU) if kind == "windows" else tiles(lattice, 1, CPU, (2, 2))
    assert groups is not None
    return groups


def inputs(groups: Groups, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    qkv = [normal(3, 2, len(groups.back), 5) for _ in range(3)]
    return [*qkv, normal(2, groups.queries.shape[1], groups.keys.shape[1])]


@pytest.mark.parametrize("kind", ["windows", "tiles"])
def test_products_and_the_engines_kernel_agree_in_values_and_all_gradients(kind: str) -> None:
    groups = groups_of(kind)
    parts = inputs(groups, torch.float64)
    results = []
    for attend in (groups.by_kernel, groups.by_products, groups.attend):
        u = attend(*parts, 0.4)
        results.append((u, *torch.autograd.grad(u.sin().sum(), parts)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["windows", "tiles"])
def test_in_half_precision_only_the_result_is_rounded(kind: str) -> None:
    groups = groups_of(kind)
    rounded = inputs(groups, torch.bfloat16)
    truth = groups.by_kernel(*(part.double() for part in rounded), 2.0)  # of the same rounded numbers
    error = (groups.attend(*rounded, 2.0).double() - truth).norm()
    assert error < 2**-8 * truth.norm()  # by products, with rounded scores, it would be more than twice that
