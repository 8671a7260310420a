"""A small surrogate for the meshes of `conftest.py`."""

import torch

from mondrian.models import point_no
from mondrian.points import Boxes
from mondrian.surrogate import MeshSurrogate, MeshSurrogateSpec, Scale

PLAIN = Scale()


def small_surrogate(source: Scale = PLAIN, u: Scale = PLAIN) -> MeshSurrogate:
    """Untrained, from `source` and `distance` to `u`, always with the same weights."""
    torch.manual_seed(0)
    model = point_no(2, 1, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1, reference=(2, 2))
    spec = MeshSurrogateSpec(model.spec, ("source", "distance"), ("u",), (source, PLAIN), (u,))
    return spec.build().eval()
