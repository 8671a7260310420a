"""Transformers over subdomains that learn the solution operators of partial differential equations."""

from mondrian.artefact import from_pretrained
from mondrian.attention import (
    GlobalAttention,
    LearnedPosition,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    WindowedAttention,
)
from mondrian.decomposition import Decomposition
from mondrian.grid import Grid
from mondrian.meshes import MeshSurrogate
from mondrian.models import (
    CrossAttentionTransfer,
    FewerPoints,
    LargerSubdomains,
    OperatorTransfer,
    SmoothTransfer,
    TransformerOperator,
    TransformerSpec,
    UNetOperator,
    UNetSpec,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.operators import (
    Integral,
    Interpolating,
    LowRank,
    Mixture,
    PointAttention,
    SeparableMixture,
    Spectral,
)
from mondrian.points import Boxes, CrossAttention, CrossIntegral, MetisParts, PointOperator, PointSet, point_no
from mondrian.quadrature import EndCorrected, Midpoint
from mondrian.recipes import build
from mondrian.spec import Spec
from mondrian.surrogate import Surrogate

__version__ = "0.1.0"

__all__ = [
    "Boxes",
    "CrossAttention",
    "CrossAttentionTransfer",
    "CrossIntegral",
    "Decomposition",
    "EndCorrected",
    "FewerPoints",
    "GlobalAttention",
    "Grid",
    "Integral",
    "Interpolating",
    "LargerSubdomains",
    "LearnedPosition",
    "LowRank",
    "MeshSurrogate",
    "MetisParts",
    "Midpoint",
    "Mixture",
    "NeighborhoodAttention",
    "OperatorTransfer",
    "PointAttention",
    "PointOperator",
    "PointSet",
    "RelativeBias",
    "Rotary",
    "SeparableMixture",
    "SmoothTransfer",
    "Spec",
    "Spectral",
    "Surrogate",
    "TransformerOperator",
    "TransformerSpec",
    "UNetOperator",
    "UNetSpec",
    "WindowedAttention",
    "build",
    "from_pretrained",
    "nbr_no",
    "point_no",
    "swin_no",
    "unet_no",
    "vit_no",
]
