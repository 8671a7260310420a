"""Subdomain operators: they replace the linear layers of a transformer, for functions in place of vectors."""

from mondrian.operators.base import FeedForward, OperatorSpec, SubdomainOperator, use_definitions
from mondrian.operators.integral import Integral
from mondrian.operators.interpolating import Interpolating
from mondrian.operators.kernel_method import KernelMethod
from mondrian.operators.low_rank import LowRank
from mondrian.operators.mixture import Mixture
from mondrian.operators.point_attention import PointAttention
from mondrian.operators.pointwise import Pointwise
from mondrian.operators.separable_mixture import SeparableMixture
from mondrian.operators.spectral import Spectral
from mondrian.support.former import former_names

__all__ = [
    "FeedForward",
    "Integral",
    "Interpolating",
    "KernelMethod",
    "LowRank",
    "Mixture",
    "OperatorSpec",
    "PointAttention",
    "Pointwise",
    "SeparableMixture",
    "Spectral",
    "SubdomainOperator",
    "use_definitions",
]

__getattr__ = former_names(__name__)
