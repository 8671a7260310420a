"""A few fields on grids for pictures: the same simulations at every resolution."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Shaped

from mondrian.data.datasets import WindowDataset, collate
from mondrian.evaluation.parts import Arrays
from mondrian.evaluation.rollouts import Rollout
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.models import TransformerSpec
from mondrian.surrogate import Surrogate

SAMPLES, TRAJECTORIES = 4, 2


def cuts_of(surrogate: Surrogate, grid: Grid) -> tuple[int, ...]:
    """The number of subdomains along each axis of a box; empty for a model without subdomains."""
    spec = surrogate.spec.model
    return spec.decompose(grid).subdomains if isinstance(spec, TransformerSpec) else ()


def box_and_cuts(surrogate: Surrogate, grid: Grid) -> Arrays:
    """The box and the number of subdomains along each axis."""
    cuts = cuts_of(surrogate, grid)
    box = Grid(extent=grid.extent, periodic=grid.periodic, origin=grid.origin)
    return {"grid": np.array(json.dumps(box.to_json())), "subdomains": np.array(cuts, dtype=np.int64)}


def one_step_fields(surrogate: Surrogate, dataset: WindowDataset) -> Arrays:
    """Input, truth and prediction of the first window of simulations that are spread over the data set."""
    first = [index for index in range(len(dataset)) if dataset.locate(index)[1] == 0]
    batch = collate(dataset.__getitems__(_spread_over(first, SAMPLES)))
    prediction = surrogate.predict(batch["x"], batch["grid"])
    fields = {"input": batch["x"], "truth": batch["y"], "prediction": prediction}
    return {f"{size(dataset.grid.points)}/{name}": field.float().cpu().numpy() for name, field in fields.items()}


def rollout_fields(rollout: Rollout) -> Arrays:
    """Truth and prediction of a few rollouts, `(sample, time, channel, *space)`."""
    batch = collate(rollout.dataset.__getitems__(_spread_over(rollout.first, TRAJECTORIES)))
    prediction = torch.stack(list(rollout.predicted(batch["x"], batch["grid"])), dim=1)
    name = size(rollout.dataset.grid.points)
    return {
        f"{name}/rollout_truth": rollout.truth(batch["y"]).float().numpy(),
        f"{name}/rollout_prediction": prediction.float().cpu().numpy(),
        f"{name}/rollout_times": np.array(rollout.times),
    }


def of_first_sample(fields: Mapping[str, Shaped[np.ndarray, "..."]]) -> Arrays:
    """The same arrays with the first sample alone, and with the last frame alone of its rollout."""
    last = (slice(1), slice(-1, None))
    parts = {"rollout_times": last[1:], "rollout_truth": last, "rollout_prediction": last}
    return {
        name: array[parts.get(name.partition("/")[2], last[:1])] if "/" in name else array
        for name, array in fields.items()
    }


def of_one_resolution(fields: Mapping[str, Shaped[np.ndarray, "..."]], points: Sequence[int]) -> Arrays:
    """The arrays of one resolution."""
    return {name: array for name, array in fields.items() if name.rpartition("/")[0] in ("", size(points))}


def _spread_over(indices: list[int], count: int) -> list[int]:
    """Some of the indices, evenly spread, including the first and the last."""
    chosen = np.linspace(0, len(indices) - 1, min(count, len(indices))).round().astype(int)
    return [indices[number] for number in chosen]
