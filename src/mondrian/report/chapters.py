"""The sections about one run."""

from __future__ import annotations

import shlex

from mondrian.drawing.style import Picture
from mondrian.evaluation import Evaluation
from mondrian.evaluation.results import FIELDS
from mondrian.report.curves import best, draw_history
from mondrian.report.errors import draw_errors, of_one_run
from mondrian.report.panels import field_panels
from mondrian.report.resolutions import name_of, size
from mondrian.report.rollouts import draw_rollouts
from mondrian.report.section import Section
from mondrian.report.spectra import draw_spectra
from mondrian.report.summary import evaluated_on
from mondrian.report.tables import Column, comparison_table, diverged, errors_table, fields_table
from mondrian.training.run import Run

AGAINST_TIME = (
    "errors against time with bootstrap intervals; a dotted line marks the correlation time. "
    "Large errors are cut off; a curve ends where a simulation diverges."
)


def of_run(run: Run, evaluation: Evaluation | None, *, prefix: str = "") -> list[Section]:
    """All sections that a run has content for; `prefix` begins the names of its pictures."""
    losses = _losses(run, prefix)
    if evaluation is None:
        command = shlex.join(["mondrian", "evaluate", str(run.folder)])
        return [losses, Section("Evaluation", f"The run is not evaluated yet: `{command}` adds the evaluation.")]
    file = run.evaluation / FIELDS
    samples, rollouts = field_panels(file, evaluation, prefix) if file.exists() else (Section(""), Section(""))
    sections = [
        samples,
        _errors(evaluation, evaluated_on(run, evaluation), prefix),
        _rollout_errors(evaluation, prefix),
        rollouts,
        _spectra(evaluation, prefix),
    ]
    return [losses, *(section for section in sections if section.note or section.table or section.pictures)]


def _losses(run: Run, prefix: str) -> Section:
    history = run.history()
    if not len(history.get("step", ())):
        return Section("Training", "Nothing has been logged yet.")
    least = best(history)
    circle = f" The circle marks the smallest validation loss, at step {least[0]:,}: the saved model." if least else ""
    caption = f"Loss (above) and learning rate (below).{circle}"
    picture = Picture.of(draw_history(history), name=f"{prefix}loss", label="Loss", caption=caption)
    return Section("Training", pictures=(picture,))


def _errors(evaluation: Evaluation, samples: str, prefix: str) -> Section:
    if not evaluation.one_step:
        return Section("Error by resolution")
    counts = ", ".join(f"{entry.samples:,} at {name_of(entry.resolution)}" for entry in evaluation.one_step)
    note = f"Means over {samples} with bootstrap intervals. Samples: {counts}."
    series = of_one_run(evaluation)
    baselines = " and ".join(title for title in series if title != "model")
    caption = f"Errors of the model beside baselines: {baselines}." if baselines else "Errors of the model."
    picture = Picture.of(draw_errors(series), name=f"{prefix}errors", label="Error by resolution", caption=caption)
    of_each = fields_table(evaluation)
    note += " The first table has means over all fields, the second the errors of each field." if of_each else ""
    return Section("Error by resolution", note, errors_table(evaluation) + of_each, (picture,))


def _rollout_errors(evaluation: Evaluation, prefix: str) -> Section:
    if not evaluation.rollout:
        return Section("Rollouts")
    figure = draw_rollouts({size(entry.points): entry for entry in evaluation.rollout})
    horizon = max(entry.horizon for entry in evaluation.rollout)
    note = f"Each prediction is the next input. Means are taken over {horizon} steps."
    errors, notes = zip(*((entry.mean_relative_l2, diverged(entry)) for entry in evaluation.rollout), strict=True)
    columns = [
        Column("", "mean relative L2", errors, better="neither", notes=notes),
        Column("", "correlation time", [entry.correlation_time for entry in evaluation.rollout], better="neither"),
    ]
    table = comparison_table([size(entry.points) for entry in evaluation.rollout], columns, of="points")
    picture = Picture.of(figure, name=f"{prefix}rollouts", label="Rollouts", caption=f"Rollouts: {AGAINST_TIME}")
    return Section("Rollouts", note, table, (picture,))


def _spectra(evaluation: Evaluation, prefix: str) -> Section:
    pictures = []
    for name, label, entries in (
        ("spectra", "One step", evaluation.one_step),
        ("rollout-spectra", "Last frame of rollouts", evaluation.rollout),
    ):
        spectra = {size(entry.points): (entry.spectrum, entry.bands) for entry in entries if entry.spectrum is not None}
        if spectra:
            caption = f"{label}: energy spectra of truth, prediction and error, and relative errors by wavenumber band."
            pictures.append(Picture.of(draw_spectra(spectra), name=f"{prefix}{name}", label=label, caption=caption))
    return Section("Spectra", pictures=tuple(pictures), tabs=True)
