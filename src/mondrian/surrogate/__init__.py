"""Models in physical units, which know their channels by name: of fields on grids and of functions on meshes."""

from mondrian.surrogate.fields import Surrogate, SurrogateSpec
from mondrian.surrogate.meshes import MeshSurrogate, MeshSurrogateSpec
from mondrian.surrogate.scaled import Scale, ScaledModel, ScaledSpec, evaluating, inference
from mondrian.surrogate.window import Window

__all__ = [
    "MeshSurrogate",
    "MeshSurrogateSpec",
    "Scale",
    "ScaledModel",
    "ScaledSpec",
    "Surrogate",
    "SurrogateSpec",
    "Window",
    "evaluating",
    "inference",
]
