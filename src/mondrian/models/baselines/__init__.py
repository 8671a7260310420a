"""The baselines of the paper, with the interface of our own models."""

from mondrian.models.baselines.factformer import FactFormer, FactFormerSpec, factformer
from mondrian.models.baselines.fano import FANO, FANOSpec, fano
from mondrian.models.baselines.ffno import FFNO, FFNOSpec, ffno
from mondrian.models.baselines.fno import FNO, FNOSpec, fno
from mondrian.models.baselines.galerkin import (
    AddCoordinates,
    ConcatCoordinates,
    GalerkinSpec,
    GalerkinTransformer,
    galerkin_transformer,
)

__all__ = [
    "FANO",
    "FFNO",
    "FNO",
    "AddCoordinates",
    "ConcatCoordinates",
    "FANOSpec",
    "FFNOSpec",
    "FNOSpec",
    "FactFormer",
    "FactFormerSpec",
    "GalerkinSpec",
    "GalerkinTransformer",
    "factformer",
    "fano",
    "ffno",
    "fno",
    "galerkin_transformer",
]
