"""The record of a run: what is damaged or missing in it is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mondrian import Grid
from mondrian.data import MeshSplits, Splits, WellFiles, Window
from mondrian.training.run import Run

PARTS: dict[str, Callable[[Run], Any]] = {
    "name": lambda run: run.name,
    "config": lambda run: run.config,
    "data": lambda run: run.data(),
}


def opened(folder: Path, content: bytes) -> Run:
    (folder / "run.json").write_bytes(content)
    return Run.open(folder)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "run.json has no {part}; needed the record of a training run"),
        (b"[]", "run.json holds a list; needed the record of a training run"),
        (b"{", "run.json cannot be read: Expecting property name"),
        (b"\xff", "run.json cannot be read: 'utf-8' codec"),
        (b"[" * 100_000, "run.json cannot be read: "),
    ],
)
def test_a_damaged_record_names_the_file_and_what_is_missing(
    part: str, content: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message.format(part=part)):
        PARTS[part](opened(tmp_path, content))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "run.json does not say which data the run was trained on: None is not a spec"),
        ({"spec": "Splitz"}, "run.json does not say which data the run was trained on: spec='Splitz' is not known"),
        (Grid(extent=(1.0,)).to_json(), "run.json has a Grid as its data; needed Splits or MeshSplits"),
    ],
)
def test_data_that_are_none_are_named(data: Any, message: str, tmp_path: Path) -> None:
    run = opened(tmp_path, json.dumps({"name": "test", "data": data}).encode())
    assert run.name == "test"
    with pytest.raises(ValueError, match=message):
        run.data()


def test_data_of_another_kind_are_refused_and_former_names_warn(tmp_path: Path) -> None:
    data = Splits(files=WellFiles(path="data/ac"), window=Window(input=("u",), target=("u",)))
    run = opened(tmp_path, json.dumps({"name": "test", "data": data.to_json()}).encode())
    assert run.data() == run.data(Splits) == data
    with pytest.raises(ValueError, match=r"run\.json has a Splits as its data; needed MeshSplits"):
        run.data(MeshSplits)
    with pytest.warns(DeprecationWarning, match=r"Run\.source\(\) is now Run\.data\(\)"):
        assert run.source() == data
    with pytest.warns(DeprecationWarning, match=r"Run\.meshes\(\) is now Run\.data\(\)"):
        assert run.meshes() == data
    with pytest.warns(DeprecationWarning, match=r"Run\.on_meshes is now isinstance"):
        assert not run.on_meshes
    with (
        pytest.warns(DeprecationWarning, match=r"Run\.model\(\) is now Run\.surrogate\(\)"),
        pytest.raises(ValueError, match="holds no model yet"),
    ):
        run.model()
