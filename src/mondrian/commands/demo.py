"""From nothing to a trained, evaluated operator with pictures, in a few minutes.

  mondrian demo                       everything below, in runs/demo
  mondrian demo run=runs/mine         elsewhere

It simulates 928 small Allen-Cahn problems, trains a transformer over 8 x 8 subdomains at 32 x 32, measures its error at
32 x 32, 64 x 64 and 128 x 128, and writes a report. It is the same as

  mondrian train experiment=allen_cahn/gaze scale=demo run=runs/demo
  mondrian evaluate runs/demo
  mondrian report runs/demo

Stopped on the way? The same command resumes. Other settings (`mondrian train --help`) can be added: max_steps=200
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from mondrian.evaluation import Evaluation
from mondrian.settings.compose import parsed, quoted

OVERRIDES = ("experiment=allen_cahn/gaze", "scale=demo")


def run(arguments: list[str]) -> None:
    """Train, evaluate and report."""
    from mondrian.commands import evaluate, report, train

    began = time.perf_counter()
    given = parsed([override for override in arguments if override.startswith("run=")])
    folder = Path(str(given.get("run", "runs/demo")))
    resume = ["resume=true"] if folder.exists() else []
    train.run([*OVERRIDES, f"run={quoted(folder)}", *arguments, *resume])
    evaluate.run([str(folder)])
    report.run([str(folder)])
    print("\nmean absolute error of the model, and how many times larger that of each baseline is:")
    print(ratios(Evaluation.load(folder / "evaluation")))
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    for name, what in {"report.html": "pictures", "evaluation/metrics.csv": "numbers", "artefact": "model"}.items():
        print(f"  {what:<9} {folder / name}")
    print(f"use it:   mondrian predict {shlex.quote(str(folder))} input.npy -o output.npy")


def ratios(evaluation: Evaluation) -> str:
    """A table: the model's error, and its ratio to those of the persistence and training-mean baselines."""
    lines = [f"{'points':<10}{'model':>8}{'persistence':>18}{'training mean':>19}"]
    for entry in evaluation.one_step:
        assert entry.persistence is not None
        assert entry.training_mean is not None
        own = entry.model["mae"].mean
        others = (entry.persistence["mae"].mean / own, entry.training_mean["mae"].mean / own)
        points = " x ".join(map(str, entry.points))
        lines.append(f"{points:<10}{own:>8.4f}{others[0]:>17.1f}x{others[1]:>18.1f}x")
    return "\n".join(lines)
