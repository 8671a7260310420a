"""List the recipes with the size of their models.

  mondrian models                     a table of all recipes
  mondrian models navier_stokes       those whose name contains this
  mondrian models --json              the same as JSON: [{"name": ..., "parameters": ...}, ...]

A recipe's model in Python:  mondrian.build("allen_cahn/vit_mo")
"""

from __future__ import annotations

import json
from typing import Any

import torch

from mondrian.settings.models import ModelSettings
from mondrian.settings.recipes import recipe_names, recipes


def run(arguments: list[str]) -> None:
    """Print the table, or JSON."""
    parts = [argument for argument in arguments if argument != "--json"]
    unknown = [part for part in parts if part.startswith("-")]
    if unknown:
        raise ValueError(f"unknown option {unknown[0]}; needed --json, --help or a part of a recipe's name")
    names = [name for name in recipe_names() if all(part in name for part in parts)]
    if not names:
        raise ValueError(f"no recipe contains {' and '.join(map(repr, parts))}")
    rows = [describe(name, config["model"]) for name, config in recipes(names).items()]
    if "--json" in arguments:
        print(json.dumps(rows, indent=2))
        return
    width = max(len(name) for name in names)
    print(f"{'recipe':<{width}}  {'parameters':>10}  {'width':>5}  {'subdomains':<10}  model")
    for row in rows:
        counts = " x ".join(map(str, row.get("subdomains", ["-"])))
        start = f"{row['name']:<{width}}  {row['parameters']:>10,}  {row['hidden_channels']:>5}"
        print(f"{start}  {counts:<10}  {row['model']}")


def describe(name: str, model: dict[str, Any]) -> dict[str, Any]:
    """Name, parameter count and main settings of a recipe; its model is never filled with numbers."""
    spec: Any = ModelSettings(model).spec()
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in spec.build().parameters())
    row = {"name": name, "parameters": parameters, "hidden_channels": spec.hidden_channels, "model": model["spec"]}
    if "partition" in model:
        row["subdomains"] = list(model["partition"].get("subdomains") or [model["partition"]["parts"]])
        row["model"] += ", " + model["partition"]["spec"]
    elif "subdomains" in model:  # one of ours, not a baseline
        row["subdomains"] = list(spec.counts())
        row["model"] += ", " + model["operator"]["spec"]
    return row
