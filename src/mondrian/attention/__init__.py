"""Attention between subdomains: patterns, position encodings, and the attention layer."""

from mondrian.attention.centres import CentreAttention
from mondrian.attention.coordinates import CoordinatePosition
from mondrian.attention.layer import FunctionAttention
from mondrian.attention.patterns import (
    AttentionSpec,
    GlobalAttention,
    NeighborhoodAttention,
    WindowedAttention,
)
from mondrian.attention.position import Gaze, LearnedPosition, Position, RelativeBias, Rotary

__all__ = [
    "AttentionSpec",
    "CentreAttention",
    "CoordinatePosition",
    "FunctionAttention",
    "Gaze",
    "GlobalAttention",
    "LearnedPosition",
    "NeighborhoodAttention",
    "Position",
    "RelativeBias",
    "Rotary",
    "WindowedAttention",
]
