"""Models with everything that their use needs: physical units in and out, the names of their channels, their window."""

from mondrian.surrogate.fields import Surrogate, SurrogateSpec
from mondrian.surrogate.meshes import MeshSurrogate, MeshSurrogateSpec
from mondrian.surrogate.scaled import Scale, ScaledModel, ScaledSpec, evaluating
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
]
