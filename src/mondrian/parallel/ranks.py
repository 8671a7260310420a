"""How ranks share the work: different samples, and the subdomains of one sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from mondrian.parallel.exchange import Processes
from mondrian.parallel.peers import check_restarts, naming_lost_peers
from mondrian.support.process import rank

DATA, SUBDOMAINS = "data", "subdomains"


def device_mesh(device: torch.device, *, subdomains: int) -> DeviceMesh:
    """All ranks as a device mesh `(data, subdomains)`; ranks of the same row share their samples."""
    world = dist.get_world_size()
    check_shares(world, subdomains)
    return init_device_mesh(device.type, (world // subdomains, subdomains), mesh_dim_names=(DATA, SUBDOMAINS))


def sharing_subdomains(device: torch.device, *, subdomains: int) -> Processes:
    """The ranks that hold the slabs of the same samples as this one."""
    return Processes(device_mesh(device, subdomains=subdomains).get_group(SUBDOMAINS))


def check_shares(processes: int, subdomains: int) -> None:
    """Refuse a number of ranks that is no multiple of `subdomains`."""
    if processes % subdomains:
        raise ValueError(
            f"parallel.subdomains={subdomains} does not divide the number of ranks, {processes}; needed a multiple, "
            "for example by torchrun --nproc-per-node"
        )


@contextmanager
def launched_processes(
    environment: Mapping[str, str], *, device: str, timeout: float
) -> Iterator[tuple[Processes | None, str]]:
    """The ranks that torchrun started, which all share the subdomains, and the device of this one; None for one alone.

    A rank that waits for another longer than `timeout` seconds raises `PeersLost`.
    """
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout={timeout} must be a positive number of seconds")
    number, ranks = rank(environment)
    if ranks == 1:
        yield None, device
        return
    if "MASTER_ADDR" not in environment:
        raise ValueError(f"{ranks} processes were started that cannot find each other; needed torchrun")
    check_restarts(environment)
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        place = int(environment.get("LOCAL_RANK", environment.get("SLURM_LOCALID", "0")))
        there = torch.cuda.device_count()
        place = 0 if there == 1 and "LOCAL_RANK" not in environment else place  # srun may show each task its own
        if place >= there:
            raise ValueError(
                f"rank {place} of this machine finds {there} GPUs; needed one for each rank, or --device cpu"
            )
        device = f"cuda:{place}"
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    with naming_lost_peers(number, ranks, patience=f"timeout={timeout:g} s", advice="Nothing was written"):
        dist.init_process_group(backend, rank=number, world_size=ranks, timeout=timedelta(seconds=timeout))
        try:
            assert dist.group.WORLD is not None
            yield Processes(dist.group.WORLD), device
        finally:
            dist.destroy_process_group()
