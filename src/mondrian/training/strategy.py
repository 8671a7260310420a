"""How the ranks of a run share its model: Lightning's strategies, by their names in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

from mondrian.support.process import launched

SHARDED = ("fsdp", "deepspeed", "model_parallel")


def placed(settings: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a trainer with the number of ranks and the strategy that was named.

    Where torchrun or srun started the ranks, `auto` is their number; otherwise one for each GPU, or one.
    """
    devices, machines = settings["devices"], settings["num_nodes"]
    processes = launched(environment)
    if processes is not None:
        devices = processes[0] if devices == "auto" else devices
        machines = processes[1] if machines == "auto" else machines
    machines = 1 if machines == "auto" else machines
    if isinstance(machines, bool) or not isinstance(machines, int) or machines < 1:
        raise ValueError(f"trainer.num_nodes={machines} must be auto or a whole number from 1 on")
    ranks = _count(devices, str(settings["accelerator"])) * machines
    seconds = settings["timeout"]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise ValueError(f"trainer.timeout={seconds} must be a positive number of seconds")
    strategy = _strategy(str(settings["strategy"]), ranks, timedelta(seconds=seconds))
    rest = {key: value for key, value in settings.items() if key != "timeout"}
    return rest | {"devices": devices, "num_nodes": machines, "strategy": strategy}


def _strategy(name: str, ranks: int, timeout: timedelta) -> Any:
    if name == "fsdp":
        # One file a checkpoint, as from a single rank: training resumes on any number of them.
        return ModelParallelStrategy(
            data_parallel_size=ranks, tensor_parallel_size=1, save_distributed_checkpoint=False, timeout=timeout
        )
    if any(kind in name for kind in SHARDED):
        raise ValueError(f"trainer.strategy={name} shards the model in a way that cannot be saved; needed fsdp")
    if name == "ddp" or (name == "auto" and ranks > 1):
        return DDPStrategy(timeout=timeout)
    return name


def _count(devices: Any, accelerator: str) -> int:
    """The ranks on each machine that `devices` stands for."""
    if devices in ("auto", -1, "-1"):
        on_gpu = accelerator in ("auto", "gpu", "cuda") and CUDAAccelerator.is_available()
        return CUDAAccelerator.auto_device_count() if on_gpu else 1
    if isinstance(devices, str):
        devices = int(devices) if devices.isdecimal() else devices.strip("[]").split(",")
    return devices if isinstance(devices, int) else len(devices)
