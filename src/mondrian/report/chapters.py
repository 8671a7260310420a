"""The sections about one run: which pictures and tables there are, and what stands below them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mondrian.drawing.style import Picture
from mondrian.evaluation import Evaluation
from mondrian.evaluation.arrays import Fields
from mondrian.evaluation.results import FIELDS
from mondrian.report.curves import best, draw_history
from mondrian.report.errors import draw_errors, of_one_run
from mondrian.report.fields import constants, draw_fields
from mondrian.report.meshes import MeshFields, draw_meshes, load_meshes
from mondrian.report.resolutions import name_of, size
from mondrian.report.rollouts import draw_rollouts, draw_strip
from mondrian.report.spectra import draw_spectra
from mondrian.report.summary import tested
from mondrian.report.tables import Column, comparison_table, diverged, errors_table, fields_table
from mondrian.training.run import Run

AGAINST_TIME = (
    "error against time with bootstrap intervals; dotted where the correlation is lost. "
    "Large errors leave the picture; a curve ends where a simulation diverges."
)
MOST_PICTURES = 8  # of samples, and of rollouts: a page stays a few megabytes


@dataclass(frozen=True)
class Section:
    """A heading, a line of text, a table in HTML, and pictures: one below the other, or in tabs."""

    title: str
    note: str = ""
    table: str = ""
    pictures: tuple[Picture, ...] = ()
    tabs: bool = False


def of_run(run: Run, evaluation: Evaluation | None, *, prefix: str = "") -> list[Section]:
    """Everything that there is about one run; `prefix` of its pictures' names."""
    sections, tests = [_losses(run, prefix)], tested(run, evaluation) if evaluation else ""
    if evaluation is None:
        command = shlex.join(["mondrian", "evaluate", str(run.folder)])
        return [*sections, Section("Evaluation", f"There is none yet: `{command}` adds it.")]
    file = run.evaluation / FIELDS
    if any(entry.part for entry in evaluation.one_step):  # meshes
        sections += [_meshes(load_meshes(file), evaluation, prefix)] if file.exists() else []
        return [*sections, _errors(evaluation, tests, prefix)]
    fields = Fields.load(file) if file.exists() else None
    if fields and fields.one_step:
        sections.append(_fields(fields, evaluation, prefix))
    sections.append(_errors(evaluation, tests, prefix))
    if evaluation.rollout:
        sections.append(_rollout_errors(evaluation, prefix))
    if fields and fields.rollout:
        sections.append(_strips(fields, evaluation, prefix))
    sections.append(_spectra(evaluation, prefix))
    return [section for section in sections if section.table or section.pictures]


def _losses(run: Run, prefix: str) -> Section:
    history = run.history()
    if not len(history.get("step", ())):
        return Section("Training", "Nothing has been logged yet.")
    least = best(history)
    circle = f" The circle marks the best validation, at step {least[0]:,}: the model that was kept." if least else ""
    figure = draw_history(history)
    picture = Picture.of(
        figure, name=f"{prefix}loss", label="Loss", caption=f"Loss, and the learning rate below.{circle}"
    )
    return Section("Training", pictures=(picture,))


def _fields(fields: Fields, evaluation: Evaluation, prefix: str) -> Section:
    samples = min(len(part.truth) for part in fields.one_step.values())
    wanted = list(product(range(samples), range(len(evaluation.out_channels))))
    pictures = []
    for sample, channel in wanted[:MOST_PICTURES]:
        output = evaluation.out_channels[channel]
        several = len(evaluation.out_channels) > 1
        name = f"{prefix}fields-{sample + 1}" + (f"-{channel + 1}" if several else "")
        label = f"Sample {sample + 1}" + (f", {output}" if several else "")
        figure = draw_fields(fields, evaluation.in_channels, evaluation.out_channels, sample=sample, channel=channel)
        numbers = constants(fields, evaluation.in_channels, sample)
        caption = f"{label}{': ' + numbers if numbers else ''}. {_legend(fields)}"
        pictures.append(Picture.of(figure, name=name, label=label, caption=caption))
    return Section("Predictions", _of(len(wanted)), pictures=tuple(pictures), tabs=True)


def _meshes(parts: Mapping[str, Sequence[MeshFields]], evaluation: Evaluation, prefix: str) -> Section:
    samples = min(len(meshes) for meshes in parts.values())
    if any(mesh.vertices.shape[1] != 2 for meshes in parts.values() for mesh in meshes):
        return Section("Predictions", "Only meshes of two axes are drawn.")
    wanted = list(product(range(samples), range(len(evaluation.out_channels))))
    pictures = []
    for sample, channel in wanted[:MOST_PICTURES]:
        several = len(evaluation.out_channels) > 1
        name = f"{prefix}meshes-{sample + 1}" + (f"-{channel + 1}" if several else "")
        label = f"Mesh {sample + 1}" + (f", {evaluation.out_channels[channel]}" if several else "")
        figure = draw_meshes(parts, evaluation.in_channels, evaluation.out_channels, sample=sample, channel=channel)
        caption = f"{label}: vertices in the colours of their cells. Truth and prediction share their colours."
        pictures.append(Picture.of(figure, name=name, label=label, caption=caption))
    return Section("Predictions", _of(len(wanted)), pictures=tuple(pictures), tabs=True)


def _legend(fields: Fields) -> str:
    counts = f"Thin lines are the cuts between {size(fields.subdomains)} subdomains. " if fields.subdomains else ""
    slices = "The middle slice of the box is shown. " if fields.grid.dim == 3 else ""
    colours = "Truth and prediction share their colours, and each column those of all its rows."
    return f"{counts}{slices}{colours if fields.grid.dim > 1 else ''}".strip()


def _of(count: int) -> str:
    return f"The first {MOST_PICTURES} of {count} pictures." if count > MOST_PICTURES else ""


def _errors(evaluation: Evaluation, tests: str, prefix: str) -> Section:
    if not evaluation.one_step:
        return Section("Error by resolution")
    samples = ", ".join(f"{entry.samples:,} at {name_of(entry.resolution)}" for entry in evaluation.one_step)
    note = f"Means over {tests} with bootstrap intervals; samples: {samples}."
    series = of_one_run(evaluation)
    others = " and ".join(f"“{title}”" for title in series if title != "model")
    caption = f"The model beside forecasts that know nothing: {others}." if others else "Errors of the model."
    picture = Picture.of(draw_errors(series), name=f"{prefix}errors", label="Error by resolution", caption=caption)
    of_each = fields_table(evaluation)
    note += " The first table is the mean over all fields, the second has each by itself." if of_each else ""
    return Section("Error by resolution", note, errors_table(evaluation) + of_each, (picture,))


def _rollout_errors(evaluation: Evaluation, prefix: str) -> Section:
    figure = draw_rollouts({size(entry.points): entry for entry in evaluation.rollout})
    horizon = max(entry.horizon for entry in evaluation.rollout)
    note = f"The model fed with its own output; means are taken over {horizon} steps."
    errors, notes = zip(*((entry.mean_relative_l2, diverged(entry)) for entry in evaluation.rollout), strict=True)
    columns = [
        Column("", "mean relative L2", errors, better="neither", notes=notes),
        Column("", "correlation time", [entry.correlation_time for entry in evaluation.rollout], better="neither"),
    ]
    table = comparison_table([size(entry.points) for entry in evaluation.rollout], columns, of="points")
    picture = Picture.of(figure, name=f"{prefix}rollouts", label="Rollouts", caption=f"Rollouts: {AGAINST_TIME}")
    return Section("Rollouts", note, table, (picture,))


def _strips(fields: Fields, evaluation: Evaluation, prefix: str) -> Section:
    bases = list(dict.fromkeys(name.partition("[")[0] for name in evaluation.out_channels))
    wanted = [
        (points, sample, channel)
        for points, frames in fields.rollout.items()
        for sample, channel in product(range(len(frames.truth)), range(frames.truth.shape[2]))
    ]
    pictures = []
    for points, sample, channel in wanted[:MOST_PICTURES]:
        frames = fields.rollout[points]
        count = frames.truth.shape[2]
        name = bases[channel] if len(bases) == count else f"channel {channel + 1}"
        label = f"{size(points)}, simulation {sample + 1}" + (f", {name}" if count > 1 else "")
        place = f"{prefix}rollout-{'x'.join(map(str, points))}-{sample + 1}" + (f"-{channel + 1}" if count > 1 else "")
        figure = draw_strip(frames, fields.grid, fields.subdomains, sample=sample, channel=channel)
        pictures.append(Picture.of(figure, name=place, label=label, caption=f"{name} at {label}."))
    return Section("Frames of rollouts", _of(len(wanted)), pictures=tuple(pictures), tabs=True)


def _spectra(evaluation: Evaluation, prefix: str) -> Section:
    pictures = []
    for name, label, entries in (
        ("spectra", "One step", evaluation.one_step),
        ("rollout-spectra", "Last frame of rollouts", evaluation.rollout),
    ):
        spectra = {size(entry.points): (entry.spectrum, entry.bands) for entry in entries if entry.spectrum is not None}
        if spectra:
            caption = f"{label}: energy of truth, prediction and error, and the relative error of bands of wavenumbers."
            pictures.append(Picture.of(draw_spectra(spectra), name=f"{prefix}{name}", label=label, caption=caption))
    return Section("Spectra", pictures=tuple(pictures), tabs=True)
