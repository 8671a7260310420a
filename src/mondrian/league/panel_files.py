"""Field panels in files: eight bits a point in `fields.npz`, which is less than a picture can show."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mondrian.grid import Grid
from mondrian.league.compact_json import rounded
from mondrian.league.field_panels import FieldPanels, Panel, Plane
from mondrian.support.spec import Spec

FILE = "fields.npz"


def packed(figures: Mapping[str, FieldPanels]) -> tuple[dict[str, Any], bytes]:
    """What JSON holds of some figures' fields, and the content of `fields.npz`."""
    described, arrays = {}, {}
    for figure, shown in figures.items():
        low, high = float(shown.truth.min()), float(shown.truth.max())
        arrays[f"{figure}/truth"] = np.rint(255 * (shown.truth - low) / ((high - low) or 1.0)).astype(np.uint8)
        entrants = {}
        for name, panel in shown.panels.items():
            if panel.error is None:
                continue
            error = np.nan_to_num(panel.error)
            largest = float(np.abs(error).max())
            arrays[f"{figure}/{name}"] = _eight_bits(error, largest)
            entrants[name] = {
                "subdomains": list(panel.subdomains),
                "largest_error": rounded(largest, 5),
                "mean_error": rounded(panel.mean_error, 5),
            }
        described[figure] = {
            "grid": shown.grid.to_json(),
            "points": list(shown.points),
            "time": shown.time,
            "truth": rounded([low, high], 5),
            "entrants": entrants,
        }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return described, buffer.getvalue()


def unpacked(described: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, FieldPanels]:
    """The figures that `packed` took, to eight bits."""
    figures = {}
    for figure, content in described.items():
        low, high = content["truth"]
        grid = Spec.from_json(content["grid"])
        if not isinstance(grid, Grid):
            raise ValueError(f"grid={grid} of {figure} is no Grid")
        panels = {
            name: Panel(
                name,
                tuple(entrant["subdomains"]),
                _error(arrays[f"{figure}/{name}"], entrant["largest_error"]),
                math.nan if entrant["mean_error"] is None else entrant["mean_error"],
            )
            for name, entrant in content["entrants"].items()
        }
        truth = low + (high - low) * arrays[f"{figure}/truth"].astype(float) / 255
        figures[figure] = FieldPanels(grid, tuple(content["points"]), content["time"], truth, panels)
    return figures


def _eight_bits(error: Plane, largest: float) -> np.ndarray:
    """The signed square root: small errors keep more digits than large ones."""
    return np.rint(127 * np.sign(error) * np.sqrt(np.abs(error) / (largest or 1.0))).astype(np.int8)


def _error(values: np.ndarray, largest: float) -> Plane:
    root = values.astype(float) / 127
    return largest * np.sign(root) * root**2
