"""Fields larger than one memory: the subdomains of a sample spread over ranks, or computed slab by slab."""

from mondrian.parallel.exchange import Processes, Traffic
from mondrian.parallel.model import SpreadModel
from mondrian.parallel.partition import Partition
from mondrian.parallel.ranks import device_mesh, launched_processes, sharing_subdomains
from mondrian.parallel.streaming import needed_rows, stream
from mondrian.support.former import former_names

__all__ = [
    "Partition",
    "Processes",
    "SpreadModel",
    "Traffic",
    "device_mesh",
    "launched_processes",
    "needed_rows",
    "sharing_subdomains",
    "stream",
]

__getattr__ = former_names(__name__)
