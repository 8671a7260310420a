"""Subdomain operators: what stands in a transformer over functions where a linear layer stands over vectors."""

from mondrian.operators.base import FeedForward, OperatorSpec, SubdomainOperator, use_definitions
from mondrian.operators.evaluation import Evaluation
from mondrian.operators.integral import Integral
from mondrian.operators.interpolating import Interpolating
from mondrian.operators.low_rank import LowRank
from mondrian.operators.mixture import Mixture
from mondrian.operators.point_attention import PointAttention
from mondrian.operators.separable_mixture import SeparableMixture
from mondrian.operators.spectral import Spectral

__all__ = [
    "Evaluation",
    "FeedForward",
    "Integral",
    "Interpolating",
    "LowRank",
    "Mixture",
    "OperatorSpec",
    "PointAttention",
    "SeparableMixture",
    "Spectral",
    "SubdomainOperator",
    "use_definitions",
]
