"""Folders of runs with numbers chosen by hand, as `mondrian train` and `mondrian evaluate` would leave them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mondrian import Grid
from mondrian.training.run import Run

HISTORY = """step,seconds,train_loss,learning_rate,samples_per_second,valid_loss,valid_mae
0,0.0,1.0,0.001,,,
10,2.0,0.5,0.002,40.0,0.6,0.3
20,4.0,0.25,0.001,60.0,0.3,0.2
30,6.0,0.125,0.0,50.0,0.4,0.25
"""


def estimate(mean: float) -> dict[str, float]:
    """A mean with an interval of a tenth to both sides."""
    return {"mean": mean, "low": 0.9 * mean, "high": 1.1 * mean, "count": 4}


def of_spectrum(shells: int) -> dict[str, Any]:
    truth = [float(2.0**-k) for k in range(shells)]
    spectrum = {"wavenumber": list(range(shells)), "truth": truth, "prediction": truth, "error": [0.1] * shells}
    bands = [{"low": 0, "high": 2, "relative_error": estimate(0.1)}, {"low": 2, "high": shells, "relative_error": None}]
    return {"spectrum": spectrum, "bands": bands}


def metrics(points: Sequence[tuple[int, ...]], *, level: float = 1.0, rollout: bool = True) -> dict[str, Any]:
    """MAE of 0.0123 at the first resolution, twice that at the second and so on, times `level`."""
    one_step = [
        {
            "points": list(n),
            "samples": 4,
            "model": {"mae": estimate(0.0123 * k * level), "relative_l2": estimate(0.045 * k * level)},
            "persistence": {"mae": estimate(0.123 * k), "relative_l2": estimate(0.45)},
            "training_mean": None,
            **of_spectrum(n[0] // 2),
            "part": "",
        }
        for k, n in enumerate(points, start=1)
    ]
    times = [0.5, 1.0, 1.5, 2.0]
    rolled = {
        "points": list(points[0]),
        "simulations": 4,
        "times": times,
        "horizon": 2,
        "start": 0.0,
        "diverged": 0,
        "mae": [estimate(0.1 * t) for t in times],
        "relative_l2": [estimate(0.2 * t * level) for t in times],
        "correlation": [estimate(1 - 0.2 * t) for t in times],
        "mean_relative_l2": estimate(0.15 * level),
        "correlation_time": {"mean": 1.25 / level, "low": 1.0, "high": 1.5, "count": 4},
        **of_spectrum(points[0][0] // 2),
    }
    return {
        "format": 1,
        "run": "name",
        "data": "data/ac",
        "split": "test",
        "simulations": 4,
        "seed": 0,
        "channels": {"in": ["u[0]", "gamma"], "out": ["u[1]"]},
        "one_step": one_step,
        "rollout": [rolled] if rollout else [],
        "skipped": [],
    }


def fields(points: Sequence[tuple[int, ...]], *, rollout: bool = True) -> dict[str, Any]:
    """Sines; predictions off by 0.1 everywhere and by 0.3 at the first point."""
    dim = len(points[0])
    box = Grid(extent=(2.0, 1.0, 1.0)[:dim])
    arrays: dict[str, Any] = {"grid": json.dumps(box.to_json()), "subdomains": np.array((2, 4, 2)[:dim])}
    for n in points:
        phase = box.with_points(n).coordinates().sum(0).numpy()
        truth = np.stack([np.sin(phase + sample) for sample in range(2)])[:, None]
        prediction = truth + 0.1
        prediction[(..., *(0,) * dim)] += 0.2
        gamma = np.broadcast_to(np.array([0.0012, 0.0034]).reshape(2, *(1,) * (dim + 1)), truth.shape)
        name = "x".join(map(str, n))
        arrays[f"{name}/input"] = np.concatenate([0.5 * truth, gamma], axis=1).astype(np.float32)
        arrays[f"{name}/truth"] = truth.astype(np.float32)
        arrays[f"{name}/prediction"] = prediction.astype(np.float32)
    if rollout:
        name = "x".join(map(str, points[0]))
        frames = np.repeat(arrays[f"{name}/truth"][:, None], 4, axis=1)
        arrays[f"{name}/rollout_truth"] = frames
        arrays[f"{name}/rollout_prediction"] = frames + np.float32(0.1)
        arrays[f"{name}/rollout_times"] = np.array([0.5, 1.0, 1.5, 2.0])
    return arrays


def make_run(
    folder: Path,
    *,
    name: str = "allen_cahn/vit",
    points: Sequence[tuple[int, ...]] = ((8, 8), (16, 16)),
    level: float = 1.0,
    rollout: bool = True,
    evaluated: bool = True,
    data: str = "data/ac",
    measured: dict[str, Any] | None = None,
) -> Run:
    """A run of three validations, and its evaluation; `measured` is what that says of the data, `split` for example."""
    run = Run(folder)
    run.write(
        {
            "name": name,
            "overrides": ["experiment=allen_cahn/vit", "scale=smoke"],
            "config": {
                "model": {
                    "_target_": "mondrian.vit_no",
                    "subdomains": [2, 4],
                    "operator": {"_target_": "mondrian.Mixture"},
                },
                "seed": 7,
            },
            "data": {"files": {"path": data}, "window": {"input": ["u", "gamma"], "target": ["u"]}},
            "parameters": 12345,
            "versions": {"mondrian": "0.1.0"},
        }
    )
    run.history_file.write_text(HISTORY)
    if evaluated:
        run.evaluation.mkdir()
        content = metrics(points, level=level, rollout=rollout) | (measured or {})
        (run.evaluation / "metrics.json").write_text(json.dumps(content))
        np.savez(run.evaluation / "fields.npz", **fields(points, rollout=rollout))
    return run
