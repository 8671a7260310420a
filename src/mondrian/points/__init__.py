"""Point sets, meshes, and the cells they are cut into: geometry, nothing learned."""

from mondrian.points.arrangement import Arrangement
from mondrian.points.mesh import Mesh, read_mesh, write_mesh
from mondrian.points.metis import MetisParts, parts_of, with_neighbours
from mondrian.points.partition import Boxes, Partition, PartitionSpec
from mondrian.points.placement import Placement
from mondrian.points.point_set import PointSet
from mondrian.points.tiles import Tiles
from mondrian.points.weights import lumped_masses, voronoi_weights
from mondrian.support.former import former_names

__all__ = [
    "Arrangement",
    "Boxes",
    "Mesh",
    "MetisParts",
    "Partition",
    "PartitionSpec",
    "Placement",
    "PointSet",
    "Tiles",
    "lumped_masses",
    "parts_of",
    "read_mesh",
    "voronoi_weights",
    "with_neighbours",
    "write_mesh",
]

__getattr__ = former_names(__name__)
