"""Fields larger than one memory: the subdomains of a sample spread over ranks, or computed slab by slab."""

from mondrian.parallel.exchange import Processes, Traffic
from mondrian.parallel.mesh import launched_processes, mesh_of, sharing_subdomains
from mondrian.parallel.model import SpreadModel
from mondrian.parallel.partition import Partition
from mondrian.parallel.streaming import needed_rows, stream

__all__ = [
    "Partition",
    "Processes",
    "SpreadModel",
    "Traffic",
    "launched_processes",
    "mesh_of",
    "needed_rows",
    "sharing_subdomains",
    "stream",
]
