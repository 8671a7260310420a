"""Poisson's equation on the unit square with holes (discs), by linear finite elements (`scikit-fem`)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64

from mondrian.points.mesh import Mesh
from mondrian.support.libraries import library

Points = Float64[np.ndarray, "point axis"]
Discs = Float64[np.ndarray, "disc x_y_radius"]


def distance(x: Points, discs: Discs) -> Float64[np.ndarray, " point"]:
    """The distance of each point to the boundary; negative inside a disc."""
    walls = np.minimum(x, 1 - x).min(axis=1)
    holes = np.linalg.norm(x[:, None] - discs[None, :, :2], axis=2) - discs[:, 2]
    return np.minimum(walls, holes.min(axis=1, initial=np.inf))


def triangulate(discs: Discs, spacing: float) -> Mesh:
    """A Delaunay mesh outside the discs: vertices on walls and circles, and a hexagonal pattern between them."""
    from scipy.spatial import Delaunay  # slow to import

    vertices = np.concatenate([_walls(spacing), *(_circle(disc, spacing) for disc in discs), _inside(discs, spacing)])
    triangles = Delaunay(vertices).simplices
    corners = vertices[triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    keep = (distance(corners.mean(axis=1), discs) > 0) & (area > 1e-3 * spacing**2)
    used, triangles = np.unique(triangles[keep], return_inverse=True)
    return Mesh(torch.from_numpy(vertices[used]), torch.from_numpy(triangles.reshape(-1, 3)))


def _walls(spacing: float) -> Points:
    side = np.linspace(0, 1, round(1 / spacing) + 1)
    floor, corner = np.stack([side, 0 * side], axis=1), np.ones(2)
    return np.concatenate([floor, corner - floor, floor[1:-1, ::-1], corner - floor[1:-1, ::-1]])


def _circle(disc: Float64[np.ndarray, " x_y_radius"], spacing: float) -> Points:
    x, y, radius = disc
    count = max(8, round(2 * np.pi * radius / spacing))
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)


def _inside(discs: Discs, spacing: float) -> Points:
    step = spacing * np.sqrt(3) / 2
    column, row = np.meshgrid(np.arange(0, 1 + spacing, spacing), np.arange(0, 1 + step, step))
    row_is_odd = np.arange(len(row))[:, None] % 2
    points = np.stack([column + row_is_odd * spacing / 2, row], axis=-1).reshape(-1, 2)
    return points[distance(points, discs) > 0.6 * spacing]


def solve_poisson(mesh: Mesh, source: Float64[np.ndarray, " vertex"]) -> Float64[np.ndarray, " vertex"]:
    """The solution by linear elements, zero on the boundary; the source is linear on each triangle too."""
    skfem, models = library("skfem", extra="mesh"), library("skfem.models.poisson", extra="mesh")
    triangles = skfem.MeshTri(mesh.vertices.T.contiguous().numpy(), mesh.simplices.T.contiguous().numpy())
    basis = skfem.Basis(triangles, skfem.ElementTriP1())
    stiffness, masses = models.laplace.assemble(basis), models.mass.assemble(basis)
    solution: Float64[np.ndarray, " vertex"] = skfem.solve(
        *skfem.condense(stiffness, masses @ source, D=mesh.boundary().numpy())
    )
    return solution
