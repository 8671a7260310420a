"""From the points of one grid to those of another, one matrix product an axis."""

from mondrian.resampling.grid_to_grid import ORDER, resample

__all__ = ["ORDER", "resample"]
