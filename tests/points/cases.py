"""Point sets, meshes and small models for the tests of points."""

import torch

from mondrian import Grid
from mondrian.models import PointOperator, point_no
from mondrian.points import Boxes, Mesh, PointSet
from mondrian.resampling import CrossAttention, CrossIntegral

UNIT = Grid(extent=(1.0, 1.0))
RESAMPLERS = {"attention": CrossAttention(n_heads=2, features=4, hidden=8), "integral": CrossIntegral(ridges=5)}


def cloud(points: int, dim: int = 2, *, seed: int = 0, scale: float = 1.0) -> PointSet:
    """Random points of a box with Voronoi weights, of the unit box if not told."""
    x = torch.rand(points, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return PointSet.estimated(scale * x, Grid(extent=(scale,) * dim))


def square_mesh(n: int, *, jitter: float = 0.0, seed: int = 0) -> Mesh:
    """The unit square in `2 n^2` triangles, the inner vertices moved by up to `jitter` spacings."""
    axis = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    vertices = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1)
    noise = 2 * torch.rand(vertices.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1
    vertices[1:-1, 1:-1] += jitter / n * noise[1:-1, 1:-1]
    number = torch.arange((n + 1) ** 2).view(n + 1, n + 1)
    a, b, c, d = (number[i : n + i, j : n + j].flatten() for i, j in ((0, 0), (1, 0), (0, 1), (1, 1)))
    triangles = torch.cat([torch.stack([a, b, c], dim=1), torch.stack([b, d, c], dim=1)])
    return Mesh(vertices.view(-1, 2), triangles)


def small(partition=None, **more) -> PointOperator:
    """A model with two channels in, three out, in float64, biases away from zero."""
    heads = {} if "attention" in more else {"n_heads": 2}
    settings = {"hidden_channels": 8, "n_layers": 2, "reference": (2, 3)} | heads | more
    settings.setdefault("resampler", RESAMPLERS["attention"])
    model = point_no(2, 3, partition=partition or Boxes((3, 2)), **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def smooth(points: PointSet) -> torch.Tensor:
    """Two smooth functions at the points, `(channel, point)`."""
    x = points.coordinates
    return torch.stack([torch.sin(3 * x).sum(dim=1), torch.exp(x[:, 0]) * torch.cos(2 * x[:, -1])])
