"""Functions on meshes: files of them, and a problem that is solved on meshes.

MeshSplits          a folder of meshes with fields, in parts            files.py
PerforatedPoisson   Poisson's equation on squares with holes            poisson.py
"""

from mondrian.data.meshes.files import MeshFiles, MeshSample, MeshSplits
from mondrian.data.meshes.poisson import PerforatedPoisson

__all__ = ["MeshFiles", "MeshSample", "MeshSplits", "PerforatedPoisson"]
