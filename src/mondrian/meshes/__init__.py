"""Functions on meshes, each mesh another: files of them, training, evaluation and prediction.

MeshSplits      a folder of meshes with fields, in parts            files.py
PerforatedPoisson                                                   poisson.py
                Poisson's equation on squares with holes, solved with finite elements
MeshSurrogate   a `PointOperator` in physical units                 surrogate.py
train_meshes, evaluate_meshes, predict_mesh                         training.py, evaluation.py, prediction.py
"""

from mondrian.meshes.files import MeshFiles, MeshSample, MeshSplits
from mondrian.meshes.poisson import PerforatedPoisson
from mondrian.meshes.surrogate import MeshSurrogate, MeshSurrogateSpec

__all__ = ["MeshFiles", "MeshSample", "MeshSplits", "MeshSurrogate", "MeshSurrogateSpec", "PerforatedPoisson"]
