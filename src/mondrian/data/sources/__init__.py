"""Readers of data files: each format becomes a `Source`."""

from mondrian.data.sources.base import Axis, Field, Files, Source
from mondrian.data.sources.files import ArrayFile, PairFile
from mondrian.data.sources.grids import same_grid
from mondrian.data.sources.pdebench import PDEBenchFile
from mondrian.data.sources.well import WellFiles

__all__ = ["ArrayFile", "Axis", "Field", "Files", "PDEBenchFile", "PairFile", "Source", "WellFiles", "same_grid"]
