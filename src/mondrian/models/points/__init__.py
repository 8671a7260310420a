"""The transformer operator on arbitrary points."""

from mondrian.models.points.factory import PointNO, point_no
from mondrian.models.points.model import PointOperator, PointSpec

__all__ = ["PointNO", "PointOperator", "PointSpec", "point_no"]
