"""A model sharded over all ranks: PyTorch's `fully_shard` (FSDP2), a block at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor


def shard(model: nn.Module, mesh: DeviceMesh) -> None:
    """Cut every weight along its first axis, in place. Blocks are gathered one after the other as they are needed."""
    kinds = {parameter.dtype for parameter in model.parameters()}
    if len(kinds) > 1:
        names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        raise ValueError(f"trainer.strategy=fsdp cannot shard weights of several kinds ({names}); needed ddp")
    blocks = getattr(model, "blocks", ())
    for unit in (*blocks, model):
        fully_shard(unit, mesh=mesh, reshard_after_forward=True)


def count_steps(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Let the version counters of gathered weights rise with each step of the optimiser.

    FSDP2 gathers new values into old tensors and leaves their version counters as they were. What is kept between
    calls (`KernelCache`, `SeparationTerms`) would not notice that the weights are others. Within a step the counters
    must stay: a graph that spans several applications has the weights of all of them.
    """
    units = [module for module in model.modules() if isinstance(module, FSDPModule)]
    outdated: set[nn.Module] = set()

    def renew(unit: nn.Module, _: Any) -> None:
        if unit in outdated:
            outdated.discard(unit)
            increment_version([weight for weight in unit.parameters() if not isinstance(weight, DTensor)])

    for unit in units:
        assert isinstance(unit, nn.Module)
        unit.register_forward_pre_hook(renew)
    optimiser.register_step_post_hook(lambda *_: outdated.update(units))


def own_part(weight: Tensor) -> Tensor:
    """The shard of a weight on this rank."""
    return weight.to_local() if isinstance(weight, DTensor) else weight
