"""Functions on point clouds and unstructured meshes: points, partitions, learned resamplers, and the model."""

from mondrian.points.attention import Arrangement, CentreAttention
from mondrian.points.cross_attention import CrossAttention
from mondrian.points.cross_integral import CrossIntegral
from mondrian.points.mesh import Mesh, read_mesh, write_mesh
from mondrian.points.metis import MetisParts, parts_of, with_neighbours
from mondrian.points.model import PointOperator, PointSpec, point_no
from mondrian.points.partition import Boxes, Partition, PartitionSpec
from mondrian.points.placement import Placement
from mondrian.points.point_set import PointSet
from mondrian.points.position import CoordinatePosition
from mondrian.points.resampler import LearnedResampler, ResamplerSpec
from mondrian.points.tiles import Tiles
from mondrian.points.weights import lumped_masses, voronoi_weights

__all__ = [
    "Arrangement",
    "Boxes",
    "CentreAttention",
    "CoordinatePosition",
    "CrossAttention",
    "CrossIntegral",
    "LearnedResampler",
    "Mesh",
    "MetisParts",
    "Partition",
    "PartitionSpec",
    "Placement",
    "PointOperator",
    "PointSet",
    "PointSpec",
    "ResamplerSpec",
    "Tiles",
    "lumped_masses",
    "parts_of",
    "point_no",
    "read_mesh",
    "voronoi_weights",
    "with_neighbours",
    "write_mesh",
]
