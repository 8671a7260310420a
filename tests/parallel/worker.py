"""What each of four processes does: all cases one after the other, so that processes are started once.

Every case leaves numbers that a test looks at. Cases for two processes are run by both pairs of the four: the mesh is
two by two.
"""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path

import torch
import torch.distributed as dist
from benchmarks.spread import counted

from mondrian.benchmark.measure import flops
from mondrian.cli import main
from mondrian.data.sources.base import Field
from mondrian.parallel import Partition, Processes, SpreadModel, device_mesh
from mondrian.parallel.cost import CostModel, Work, numbers_sent
from mondrian.parallel.exchange import fetch
from tests.models.cases import small

NUMBER = 4
POINTS = (8 * 3, 4 * 2)  # of 8 x 4 subdomains; an odd number along the axis of the slabs
EVEN = {2: (0, 4, 8), 4: (0, 2, 4, 6, 8)}
UNEVEN = {2: (0, 3, 8), 4: (0, 1, 2, 5, 8)}
LAYOUTS = ((2, False, False), (4, True, True))  # processes, relative positions, uneven shares
CASES = {
    f"{kind}{' staggered' * stagger}{' periodic' * periodic}{' relative' * relative}, {number} processes"
    f"{' uneven' * uneven}": {
        "kind": kind,
        "stagger": stagger,
        "periodic": periodic,
        "relative": relative,
        "number": number,
        "uneven": uneven,
    }
    for order, kind in enumerate(("swin", "vit", "nbr"))
    for stagger, periodic in product((False, True), (False, True))
    for number, relative, uneven in [LAYOUTS[(order + stagger) % 2]]  # each kind, each stagger, each periodic in both
} | {
    "swin staggered, 2 processes uneven": {"kind": "swin", "stagger": True, "number": 2, "uneven": True},
    "nbr staggered periodic, 4 processes": {"kind": "nbr", "stagger": True, "periodic": True, "number": 4},
    "zero rule, 2 processes": {"kind": "zero", "number": 2},
    "1-D, 4 processes": {"kind": "nbr", "dim": 1, "number": 4, "stagger": True},
    "3-D, 2 processes": {"kind": "swin", "dim": 3, "number": 2, "stagger": True, "periodic": True},
    "spatial heads, 2 processes": {"kind": "vit", "number": 2, "spatial_heads": (3, 1)},
    "whole ring in one window, 2 processes": {"kind": "window", "number": 2, "periodic": True},
    "one row each, 4 processes": {"kind": "nbr", "number": 4, "periodic": True, "rows": 4, "stagger": True},
}

COSTS = [name for name, case in CASES.items() if "relative" in case and not case["stagger"]]


def model_of(case):
    """The same weights on all processes."""
    torch.manual_seed(1)
    kind, dim = case["kind"], case.get("dim", 2)
    counts = (case.get("rows", 8), 4, 2)[:dim]
    more = {key: case[key] for key in ("stagger", "periodic", "relative", "spatial_heads") if key in case}
    if kind in ("zero", "window"):
        from mondrian import Grid, NeighborhoodAttention, RelativeBias, WindowedAttention
        from mondrian.models import TransformerSpec

        attention = NeighborhoodAttention(n_heads=2, radius=1, zero_far=True)
        if kind == "window":
            attention = WindowedAttention(n_heads=2, window=(8, 2), shift=(3, 1))
        grid = Grid(extent=(1.0, 1.0), periodic=(case.get("periodic", False),) * 2)
        spec = TransformerSpec(
            2, 3, hidden_channels=8, n_layers=2, subdomains=counts, attention=attention, positions=(RelativeBias(),),
            grid=grid,
        )  # fmt: skip
        return spec.build()
    return small(kind, dim=dim, subdomains=counts, hidden_channels=16, n_layers=2, **more)


def differences(case, processes):
    """How far outputs and gradients are from those of one process, and whether as many numbers went as should."""
    model = model_of(case)
    grid = model.spec.default_grid
    counts = model.spec.subdomains
    torch.manual_seed(2)
    x = torch.randn(2, 2, *(n * p for n, p in zip(counts, (3, 2, 2), strict=False)), requires_grad=True)
    weights = torch.randn(2, 3, *x.shape[2:])
    bounds = UNEVEN[processes.number] if case.get("uneven") else None
    partition = None if bounds is None else Partition(bounds, ring=grid.periodic[0])
    spread = SpreadModel(model, processes, partition=partition)
    parameters = [x, *model.parameters()]

    expected = model(x)
    wanted = torch.autograd.grad((expected * weights).sum(), parameters)
    output = spread(x)
    gradients = torch.autograd.grad((output * weights).sum(), parameters)
    error = (output - expected).abs().max().item()
    gradient = 0.0
    for mine, true in zip(gradients, wanted, strict=True):
        mean = mine.contiguous() / processes.number
        dist.all_reduce(mean, group=processes.group)
        gradient = max(gradient, ((mean - true).abs().max() / true.abs().max().clamp(min=1e-3)).item())

    whole = grid.with_points(tuple(x.shape[2:]))
    start, stop = spread.points(whole).owned(processes.rank)
    processes.traffic.forward = processes.traffic.backward = 0
    part = spread.on_slab(x[:, :, start:stop], whole)
    part.sum().backward()
    blocks = numbers_sent(
        model.spec, model.spec.decompose(whole), spread.partition(whole), processes.rank, batch=len(x)
    )
    return {
        "output": error,
        "gradient": gradient,
        "received": processes.traffic.forward // 8,
        "expected received": sum(block.received for block in blocks),
        "given back": processes.traffic.backward // 8,
        "expected given back": sum(block.given for block in blocks),
    }


def costs(case, processes):
    """What a training step of this process multiplies, and keeps of each sample, beside what it does alone."""
    spec = model_of(case).spec
    grid = spec.default_grid.with_points(tuple(n * p for n, p in zip(spec.subdomains, (3, 2), strict=True)))
    whole = spec.decompose(grid)
    partition = Partition(UNEVEN[processes.number] if case.get("uneven") else EVEN[processes.number], grid.periodic[0])
    start, stop = partition.scaled(3).owned(processes.rank)

    model = model_of(case)
    on_slab = SpreadModel(model, processes, partition=partition).on_slab

    def alone(batch):
        return model(torch.ones(batch, 2, *grid.points))

    def spread(batch):
        return on_slab(torch.ones(batch, 2, stop - start, grid.points[1]), grid)

    reckoned = CostModel(spec, Work(0), counted(spec, whole.cell_points, training=True), 0)
    multiplied = flops(lambda: spread(2).sum().backward())  # the first time: kernels are made, as after each step
    return {
        "multiplied": multiplied,
        "expected multiplied": reckoned.flops(whole, partition, processes.rank, batch=2, training=True),
        "kept": kept(spread, 2) - kept(spread, 1),
        "kept alone": kept(alone, 2) - kept(alone, 1),
        "share": (stop - start) / grid.points[0],
        "received": sum(part.received for part in numbers_sent(spec, whole, partition, processes.rank, batch=1)),
    }


def kept(apply, batch):
    """How many numbers are kept for the gradient of a batch."""
    sizes = {}

    def note(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        apply(batch)
    return sum(sizes.values())


def sum_of_copies(processes):
    """The gradient of a row is the sum over its copies, to second order too."""
    partition = Partition((0, 3, 4), ring=True)
    wanted = ((-2, 4), (2, 5))  # rows 2 3 0 1 2 3, and 2 3 0
    start, stop = partition.owned(processes.rank)
    u = torch.arange(1.0, 5.0)[start:stop].clone().requires_grad_()
    (rows,) = fetch([u], processes, partition, wanted, dim=0)
    (first,) = torch.autograd.grad((rows**3).sum(), u, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), u)
    copies = torch.tensor([2.0, 1.0, 3.0, 3.0])[start:stop]
    true = torch.arange(1.0, 5.0)[start:stop]
    return {
        "rows": rows.tolist(),
        "first": (first - 3 * copies * true**2).abs().max().item(),
        "second": (second - 6 * copies * true).abs().max().item(),
    }


def data_and_subdomains(mesh):
    """Two pairs with a sample each: the mean gradient of all four is that of both samples in one process."""
    model = model_of({"kind": "swin", "stagger": True})
    torch.manual_seed(3)
    x, target = torch.randn(2, 2, *POINTS), torch.randn(2, 3, *POINTS)
    loss = (model(x) - target).square().mean()
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    own = mesh.get_local_rank("data")
    spread = SpreadModel(model, Processes(mesh.get_group("subdomains")))
    here = (spread(x[own : own + 1]) - target[own : own + 1]).square().mean()
    gradients = torch.autograd.grad(here, list(model.parameters()))
    worst = 0.0
    for mine, true in zip(gradients, wanted, strict=True):
        mean = mine.contiguous() / NUMBER
        dist.all_reduce(mean)
        worst = max(worst, (mean - true).abs().max().item())
    return {"gradient": worst}


def predicted(folder: Path, ports: list[int]) -> list[list[int]]:
    """The command, as torchrun would start it, before anything else here knows of processes; which rows it read."""
    noted, read = set(), Field.read

    def note(self, simulation, steps, rows=slice(None)):
        if not self.is_number:
            noted.add((rows.start, rows.stop))
        return read(self, simulation, steps, rows)

    Field.read = note
    for name, port in zip(("steps.hdf5", "next.npy"), ports, strict=True):  # a port that is just being left may mislead
        os.environ["MASTER_PORT"] = str(port)
        words = ["--steps", "2"] if name == "steps.hdf5" else []
        assert (
            main(["predict", str(folder / "model"), str(folder / "start.hdf5"), "-o", str(folder / name), *words]) == 0
        )
    return [list(rows) for rows in noted]


def refused(processes):
    """What cannot be done is said, by all processes."""
    from mondrian.models import TransformerSpec

    model = TransformerSpec(1, 1, hidden_channels=8, subdomains=(2, 2)).build()
    said = []
    for number, points in ((processes, (4, 4)), (processes, (5, 4))):
        try:
            SpreadModel(model, number)(torch.zeros(1, 1, *points))
        except ValueError as error:
            said.append(str(error))
    return said


def work(rank: int, folder: str, ports: list[int]) -> None:
    """All of it, on one process."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(NUMBER), LOCAL_RANK=str(rank), MASTER_ADDR="localhost")
    rows_read = predicted(Path(folder), ports)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=NUMBER)
    pairs, everybody = device_mesh(torch.device("cpu"), subdomains=2), Processes(dist.group.WORLD)
    groups = {2: Processes(pairs.get_group("subdomains")), 4: everybody}
    measured = {name: differences(case, groups[case["number"]]) for name, case in CASES.items()}
    measured |= {f"cost of {name}": costs(CASES[name], groups[CASES[name]["number"]]) for name in COSTS}
    measured["rows read"] = rows_read
    measured["copies"] = sum_of_copies(groups[2])
    measured["data and subdomains"] = data_and_subdomains(pairs)
    measured["refused"] = refused(everybody)
    (Path(folder) / f"measured_{rank}.json").write_text(json.dumps(measured))
    dist.barrier()
    dist.destroy_process_group()
