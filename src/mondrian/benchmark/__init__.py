"""How fast models are on this machine, and how much memory they take."""

from mondrian.benchmark.speed import Candidate, Speed, measure_speeds

__all__ = ["Candidate", "Speed", "measure_speeds"]
