"""The operators that the contract is run on: every kind, with and without its options."""

import torch

from mondrian import Integral, Interpolating, LowRank, Mixture, PointAttention, Pointwise, SeparableMixture, Spectral
from mondrian.operators import KernelMethod, OperatorSpec, SubdomainOperator
from mondrian.quadrature import Cell, EndCorrected, Midpoint

SPECS: dict[str, OperatorSpec] = {
    "integral": Integral(hidden=12),
    "low_rank": LowRank(rank=3, hidden=8),
    "spectral": Spectral(modes=4),
    "spectral_skip": Spectral(modes=3, skip=True),
    "interpolating": Interpolating(rank=3, nodes=4),
    "interpolating_no_skip": Interpolating(rank=3, nodes=2, skip=False),
    "attention": PointAttention(n_heads=2),
    "pointwise": Pointwise(),
    "mixture": Mixture(terms=5),
    "mixture_no_skip": Mixture(terms=5, skip=False),
    "separable": SeparableMixture(terms=5),
    "separable_skip": SeparableMixture(terms=5, skip=True),
}
RIDGE = ["integral", "mixture", "mixture_no_skip", "separable", "separable_skip"]

CELLS = {
    "1-D": ((6,), Midpoint()),
    "2-D": ((4, 4), Midpoint()),
    "rectangle": ((5, 3), EndCorrected(terms=1)),
    "3-D": ((3, 4, 2), Midpoint()),
}


def cell_of(name: str) -> Cell:
    points, rule = CELLS[name]
    return Cell.build(points, rule)


def operator(
    spec: OperatorSpec, channels: tuple[int, int] = (4, 6), *, dim: int = 2, bias: bool = True
) -> SubdomainOperator:
    """An operator with weights away from their initial values, so that biases and skips show."""
    built = spec.build(*channels, dim=dim, bias=bias)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return built


def ways(built: SubdomainOperator) -> list[KernelMethod | None]:
    """The fast evaluations that an operator has."""
    return list(KernelMethod) if hasattr(built, "method") else [None]


def choose(built: SubdomainOperator, way: KernelMethod | None, tolerance: float = 1e-11) -> None:
    """Make the operator use one evaluation, with a separation that is nearly exact."""
    if way is not None:
        built.method = way
        built.terms.tolerance = tolerance
