from . import attention, data, decomposition, grid, meshes, models, operators, points, quadrature, recipes, resampling
from .artefact import OperatorModel, from_pretrained
from .attention import (
    GlobalAttention,
    LearnedPosition,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    WindowedAttention,
)
from .decomposition import Decomposition
from .grid import Grid
from .meshes import MeshSurrogate
from .models import (
    CrossAttentionTransfer,
    FewerPoints,
    FieldSpec,
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
from .operators import (
    Integral,
    Interpolating,
    LowRank,
    Mixture,
    OperatorSpec,
    PointAttention,
    SeparableMixture,
    Spectral,
    SubdomainOperator,
)
from .points import Boxes, CrossAttention, CrossIntegral, MetisParts, PointOperator, PointSet, point_no
from .quadrature import EndCorrected, Midpoint
from .recipes import build
from .spec import Spec
from .surrogate import Surrogate

__version__: str

__all__ = [
    "Boxes",
    "CrossAttention",
    "CrossAttentionTransfer",
    "CrossIntegral",
    "Decomposition",
    "EndCorrected",
    "FewerPoints",
    "FieldSpec",
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
    "OperatorModel",
    "OperatorSpec",
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
    "SubdomainOperator",
    "Surrogate",
    "TransformerOperator",
    "TransformerSpec",
    "UNetOperator",
    "UNetSpec",
    "WindowedAttention",
    "attention",
    "build",
    "data",
    "decomposition",
    "from_pretrained",
    "grid",
    "meshes",
    "models",
    "nbr_no",
    "operators",
    "point_no",
    "points",
    "quadrature",
    "recipes",
    "resampling",
    "swin_no",
    "unet_no",
    "vit_no",
]
