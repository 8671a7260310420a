"""The sections with field panels: samples and rollouts on grids, samples on meshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from mondrian.drawing.style import Picture
from mondrian.evaluation import Evaluation
from mondrian.evaluation.arrays import Fields, read_arrays
from mondrian.report.fields import constants, draw_fields
from mondrian.report.meshes import MeshFields, are_of_meshes, draw_meshes, mesh_fields
from mondrian.report.resolutions import size
from mondrian.report.rollouts import draw_frames
from mondrian.report.section import Section

MOST_PICTURES = 8  # of samples, and of rollouts: so that a page has a few megabytes


def field_panels(file: Path, evaluation: Evaluation, prefix: str) -> tuple[Section, Section]:
    """The sections of predicted samples and of rollouts from `fields.npz`; a section without pictures is empty."""
    if are_of_meshes(read_arrays(file)):
        return _of_meshes(mesh_fields(file), evaluation, prefix), Section("Frames of rollouts")
    fields = Fields.load(file)
    return _of_samples(fields, evaluation, prefix), _of_rollouts(fields, evaluation, prefix)


def _of_samples(fields: Fields, evaluation: Evaluation, prefix: str) -> Section:
    samples = min((len(part.truth) for part in fields.one_step.values()), default=0)
    panels = list(product(range(samples), range(len(evaluation.out_channels))))
    pictures = []
    for sample, channel in panels[:MOST_PICTURES]:
        output = evaluation.out_channels[channel]
        several = len(evaluation.out_channels) > 1
        name = f"{prefix}fields-{sample + 1}" + (f"-{channel + 1}" if several else "")
        label = f"Sample {sample + 1}" + (f", {output}" if several else "")
        figure = draw_fields(fields, evaluation.in_channels, evaluation.out_channels, sample=sample, channel=channel)
        numbers = constants(fields, evaluation.in_channels, sample)
        caption = f"{label}{': ' + numbers if numbers else ''}. {_legend(fields)}"
        pictures.append(Picture.of(figure, name=name, label=label, caption=caption))
    return Section("Predictions", _shown(len(panels)), pictures=tuple(pictures), tabs=True)


def _of_meshes(parts: Mapping[str, Sequence[MeshFields]], evaluation: Evaluation, prefix: str) -> Section:
    samples = min(len(meshes) for meshes in parts.values())
    if any(mesh.vertices.shape[1] != 2 for meshes in parts.values() for mesh in meshes):
        return Section("Predictions", "Only meshes of two axes are drawn.")
    panels = list(product(range(samples), range(len(evaluation.out_channels))))
    pictures = []
    for sample, channel in panels[:MOST_PICTURES]:
        several = len(evaluation.out_channels) > 1
        name = f"{prefix}meshes-{sample + 1}" + (f"-{channel + 1}" if several else "")
        label = f"Mesh {sample + 1}" + (f", {evaluation.out_channels[channel]}" if several else "")
        figure = draw_meshes(parts, evaluation.in_channels, evaluation.out_channels, sample=sample, channel=channel)
        caption = f"{label}. Vertices have the colours of their cells. Truth and prediction share one colour scale."
        pictures.append(Picture.of(figure, name=name, label=label, caption=caption))
    return Section("Predictions", _shown(len(panels)), pictures=tuple(pictures), tabs=True)


def _of_rollouts(fields: Fields, evaluation: Evaluation, prefix: str) -> Section:
    names = list(dict.fromkeys(name.partition("[")[0] for name in evaluation.out_channels))
    panels = [
        (points, sample, channel)
        for points, frames in fields.rollout.items()
        for sample, channel in product(range(len(frames.truth)), range(frames.truth.shape[2]))
    ]
    pictures = []
    for points, sample, channel in panels[:MOST_PICTURES]:
        frames = fields.rollout[points]
        count = frames.truth.shape[2]
        name = names[channel] if len(names) == count else f"channel {channel + 1}"
        label = f"{size(points)}, simulation {sample + 1}" + (f", {name}" if count > 1 else "")
        file = f"{prefix}rollout-{'x'.join(map(str, points))}-{sample + 1}" + (f"-{channel + 1}" if count > 1 else "")
        figure = draw_frames(frames, fields.grid, fields.subdomains, sample=sample, channel=channel)
        pictures.append(Picture.of(figure, name=file, label=label, caption=f"{name} at {label}."))
    return Section("Frames of rollouts", _shown(len(panels)), pictures=tuple(pictures), tabs=True)


def _legend(fields: Fields) -> str:
    cuts = f"Thin lines separate the {size(fields.subdomains)} subdomains. " if fields.subdomains else ""
    slices = "The middle slice of the box is shown. " if fields.grid.dim == 3 else ""
    scales = "Truth and prediction share one colour scale, the same in all rows." if fields.grid.dim > 1 else ""
    return f"{cuts}{slices}{scales}".strip()


def _shown(count: int) -> str:
    return f"The first {MOST_PICTURES} of {count} pictures." if count > MOST_PICTURES else ""
