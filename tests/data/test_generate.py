"""Generation: the same data from any shards, workers and machines; other data in a folder are refused."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.data.small import SPLITS, arrays, few, planned, tiny
from the_well.data import WellDataset
from tqdm import tqdm

from mondrian import Grid
from mondrian.data import store
from mondrian.data.generate import generate, plan
from mondrian.data.manifest import Manifest
from mondrian.data.problems import AllenCahn, KuramotoSivashinsky, NavierStokes, Problem
from mondrian.data.restriction import BlockAverage, FourierTruncation, Linear
from mondrian.data.seeds import simulation_seed, uniform
from mondrian.data.shards import make_shard
from mondrian.data.sources import WellFiles

LINE = AllenCahn(grid=Grid(extent=(2.0,), points=(16,)))
CUBE = AllenCahn(grid=Grid(extent=(2.0, 1.0, 1.5), points=(12, 6, 8)), gamma=(2e-3, 1e-2), time=2.0)
RING = KuramotoSivashinsky(
    grid=Grid(extent=(32.0,), points=(48,), periodic=(True,)), dt=0.1, steps=20, frames=4, spin_up=30
)
SQUARE = NavierStokes(
    grid=Grid(extent=(2 * np.pi, 2 * np.pi), points=(32, 32), periodic=(True, True)), steps=20, frames=4
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("reference")
    return arrays(folder, generate(folder, planned()))


@pytest.mark.process
@pytest.mark.parametrize(("shard_size", "workers"), [(1, 1), (3, 2), (100, 1), (2, 3)])
def test_shards_and_workers_do_not_change_a_byte(
    tmp_path: Path, reference: dict[str, bytes], shard_size: int, workers: int
) -> None:
    manifest = generate(tmp_path, planned(shard_size), workers=workers)
    assert not manifest.missing
    assert arrays(tmp_path, manifest) == reference


def test_another_seed_gives_other_data(tmp_path: Path, reference: dict[str, bytes]) -> None:
    contents = arrays(tmp_path, generate(tmp_path, planned(seed=4)))
    assert not any(contents[key] == reference[key] for key in reference)


def test_machines_share_the_work_without_knowing_each_other(tmp_path: Path, reference: dict[str, bytes]) -> None:
    for number in (2, 0, 1):
        manifest = generate(tmp_path, planned(), share=(number, 3))
    assert not manifest.missing
    assert manifest == Manifest.load(tmp_path)
    assert arrays(tmp_path, manifest) == reference
    with pytest.raises(ValueError, match="share=3/3"):
        generate(tmp_path, planned(), share=(3, 3))


def test_what_exists_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = generate(tmp_path, planned())
    changed = {file: (tmp_path / file).stat().st_mtime_ns for file in manifest.files()}
    (tmp_path / manifest.files()[1]).unlink()
    again = generate(tmp_path, planned())
    assert again == manifest
    times = {file: (tmp_path / file).stat().st_mtime_ns for file in manifest.files()}
    assert [file for file in times if times[file] != changed[file]] == [manifest.files()[1]]


def test_a_damaged_shard_is_named_and_made_again_on_request(tmp_path: Path, reference: dict[str, bytes]) -> None:
    manifest = generate(tmp_path, planned())
    victim = tmp_path / "8x8/data/train/shard_00001.hdf5"
    with h5py.File(victim, "r") as file:
        offset = file["t0_fields/u"].id.get_offset()
    content = bytearray(victim.read_bytes())
    content[offset + 100] ^= 1
    victim.write_bytes(content)
    with pytest.raises(ValueError, match=r"1 damaged files; (.|\n)*train/shard_00001\.hdf5"):
        generate(tmp_path, planned())
    assert generate(tmp_path, planned(), repair=True) == manifest
    assert arrays(tmp_path, manifest) == reference


@pytest.mark.parametrize(
    ("name", "problem", "command"),
    [
        ("mine", tiny(), "data=allen_cahn path={path} scale=... repair=true"),
        ("with space", tiny(), "data=allen_cahn 'path={path}' scale=... repair=true"),
        ("allen_cahn_smoke", tiny(), "data=allen_cahn path={path} scale=smoke repair=true"),  # as `train` calls it
        ("allen_cahn3d_smoke", CUBE, "data=allen_cahn3d path={path} scale=smoke repair=true"),
        ("cube", CUBE, "data=allen_cahn3d path={path} scale=... repair=true"),
        ("kuramoto_sivashinsky", RING, "data=kuramoto_sivashinsky path={path} scale=... repair=true"),
    ],
)
def test_the_command_that_repairs_is_given(tmp_path: Path, name: str, problem: Problem, command: str) -> None:
    folder = tmp_path / name
    points = {"test": [problem.grid.points]}
    manifest = plan(problem, seed=0, simulations={"test": 1}, points=points, shard_size=1)
    (folder / manifest.files()[0]).parent.mkdir(parents=True)
    (folder / manifest.files()[0]).write_bytes(b"damaged")
    with pytest.raises(ValueError, match=re.escape(f"`mondrian generate {command.format(path=folder)}`")):
        generate(folder, manifest)


def test_shards_of_other_simulations_are_not_taken_for_ours(tmp_path: Path) -> None:
    generate(tmp_path / "a", planned(seed=1))
    generate(tmp_path / "b", planned(seed=2))
    name = "8x8/data/train/shard_00001.hdf5"
    os.replace(tmp_path / "b" / name, tmp_path / "a" / name)
    (tmp_path / "a" / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"shard_00001\.hdf5: it holds other simulations: .*'seed': 2"):
        generate(tmp_path / "a", planned(seed=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed was 3, now it is 4"),
        ({"shard_size": 3}, "shard_size was 2, now it is 3"),
        ({"time": 5.0}, r"problem\.time was 6.0, now it is 5.0"),
        ({"restriction": Linear()}, r"problem\.restriction\.spec was BlockAverage, now it is Linear"),
    ],
)
def test_a_folder_keeps_its_arguments(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    generate(tmp_path, planned(), share=(0, 7))
    with pytest.raises(ValueError, match=rf"manifest\.json: {message}"):
        generate(tmp_path, planned(**change))


def test_another_version_takes_what_is_whole_and_makes_nothing_to_go_with_it(tmp_path: Path) -> None:
    old = generate(tmp_path, replace(planned(), version="0.0.0"))
    assert generate(tmp_path, planned()) == Manifest.load(tmp_path) == old
    message = r"version was 0\.0\.0, now it is .*`mondrian generate path=.*`mondrian train data\.path="
    victim = tmp_path / old.files()[0]
    victim.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=message):
        generate(tmp_path, planned(), repair=True)
    victim.unlink()
    with pytest.raises(ValueError, match=message):
        generate(tmp_path, planned())
    assert Manifest.load(tmp_path) == old
    assert generate(tmp_path, replace(planned(), version="0.0.0")) == old


def test_a_folder_without_a_shard_takes_other_arguments(tmp_path: Path, reference: dict[str, bytes]) -> None:
    planned(seed=4, shard_size=100, time=5.0).save(tmp_path)
    manifest = generate(tmp_path, planned())
    assert manifest == Manifest.load(tmp_path)
    assert arrays(tmp_path, manifest) == reference


def test_of_two_that_make_different_data_in_a_folder_the_first_to_have_a_shard_stays(tmp_path: Path) -> None:
    ours, theirs = planned(), planned(seed=4)
    ours.save(tmp_path)
    shard = next(ours.shards())
    unfinished = make_shard(tmp_path, ours, shard)
    next(unfinished)  # simulated, not written
    made = generate(tmp_path, theirs)
    with pytest.raises(ValueError, match=r"manifest\.json: seed was 4, now it is 3"):
        list(unfinished)
    assert generate(tmp_path, theirs) == made


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"version": ')
    with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
        generate(tmp_path, planned())


def test_the_manifest_says_what_was_made(tmp_path: Path) -> None:
    generate(tmp_path, planned())
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert content["seed"] == 3
    assert content["problem"]["spec"] == "AllenCahn"
    assert content["simulations"] == SPLITS
    for file, checksum in content["checksums"].items():
        assert store.stored_checksum(tmp_path / file) == checksum
    assert len(content["checksums"]) == 4 + 2 + 2 * 2


def test_an_unfinished_folder_is_refused_by_the_reader(tmp_path: Path) -> None:
    generate(tmp_path, planned(), share=(1, 2))
    with pytest.raises(ValueError, match=r"unfinished: 2 files of 8x8/data/train/ are missing"):
        WellFiles(path=str(tmp_path), split="train").open()


def test_the_well_and_we_open_what_was_made(tmp_path: Path) -> None:
    generate(tmp_path, planned())
    well = WellDataset(path=str(tmp_path / "16x16"), well_split_name="test")
    source = WellFiles(path=str(tmp_path), split="test", points=(16, 16)).open()
    assert len(well) == len(source) == 4
    for n in range(4):
        ours = source.fields["u"].read(n, slice(0, 2))
        np.testing.assert_array_equal(well[n]["input_fields"].numpy()[0, ..., 0], ours[0, 0])
        np.testing.assert_array_equal(well[n]["output_fields"].numpy()[0, ..., 0], ours[1, 0])
        assert well[n]["constant_scalars"].item() == source.fields["gamma"].read(n, slice(0, 1)).item()
    assert len(WellFiles(path=str(tmp_path), split="train").open()) == 7
    with pytest.raises(ValueError, match=r"at points \(\(8, 8\), \(16, 16\)\); needed points="):
        WellFiles(path=str(tmp_path), split="test").open()
    with pytest.raises(ValueError, match=r"points=\(4, 4\) are not stored"):
        WellFiles(path=str(tmp_path), split="test", points=(4, 4)).open()
    with pytest.raises(ValueError, match="split='validation' is not in"):
        WellFiles(path=str(tmp_path), split="validation").open()


def test_no_two_simulations_of_the_papers_data_set_share_a_seed() -> None:
    splits = {"train": 14000, "valid": 6000, "test": 2000}
    for seed in (0, 3):
        seeds = {split: {simulation_seed(seed, split, n) for n in range(count)} for split, count in splits.items()}
        assert len(set.union(*seeds.values())) == 22000
        assert all(0 <= number < 2**63 for numbers in seeds.values() for number in numbers)


def test_seeds_are_those_of_every_data_set_that_was_ever_made() -> None:
    assert [simulation_seed(0, "train", 0), simulation_seed(3, "test", 7)] == [3168021335108090602, 4536798180530475237]
    assert uniform(simulation_seed(0, "train", 0), "gamma") == 0.5060850213118885


def test_gamma_is_uniform_over_its_range() -> None:
    numbers = np.array([uniform(simulation_seed(0, "train", n), "gamma") for n in range(4000)])
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400)


def test_resolutions_are_restrictions_of_one_simulation(tmp_path: Path) -> None:
    simulations = tiny().simulate([5, 6], [(16, 16), (8, 8)])
    fine, coarse = simulations[(16, 16)].fields["u"], simulations[(8, 8)].fields["u"]
    average = fine.reshape(2, 2, 8, 2, 8, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(coarse, average, atol=1e-6)
    native = tiny(native=True).simulate([5, 6], [(8, 8)])[(8, 8)].fields["u"]
    assert np.abs(native[:, 1] - coarse[:, 1]).max() > 0.01
    with pytest.raises(ValueError, match=r"points=\(32, 32\) are finer than those of the simulation, \(16, 16\)"):
        plan(tiny(), seed=0, simulations={"test": 1}, points={"test": [(32, 32)]}, shard_size=1)


@pytest.mark.parametrize(
    ("problem", "points", "message"),
    [
        (tiny(), (6, 8), r"points=\(6, 8\) must divide the \(16, 16\) points"),
        (tiny(restriction=Linear()), (6, 17), r"points=\(6, 17\) are finer"),
        (tiny(native=True), (0, 8), r"points=\(0, 8\) must be at least 1"),
        (LINE, (5,), r"points=\(5,\) must divide the \(16,\) points"),
        (CUBE, (6, 4, 4), r"points=\(6, 4, 4\) must divide the \(12, 6, 8\) points"),
        (replace(RING, restriction=BlockAverage()), (20,), r"points=\(20,\) must divide the \(48,\) points"),
        (replace(RING, native=True), (3,), r"grid.points=\(3,\) must be at least 4"),
        (replace(SQUARE, restriction=BlockAverage()), (12, 16), r"points=\(12, 16\) must divide the \(32, 32\) points"),
        (replace(SQUARE, native=True), (2, 8), r"grid.points=\(2, 8\) must be at least 4"),
        (replace(SQUARE, grid=Grid(extent=(1.0, 1.0), points=(32, 32))), (16, 16), "two axes, both periodic"),
        (tiny(grid=replace(tiny().grid, periodic=(True, False))), (8, 8), "no periodic axes"),
        (tiny(restriction=FourierTruncation()), (8, 16), r"to points=\(8, 16\) needs periodic axes"),
        (AllenCahn(grid=Grid(extent=(1.0,) * 4, points=(4,) * 4)), (2,) * 4, "has 4 axes; files store at most 3"),
    ],
)
def test_points_that_cannot_be_made_are_refused_before_anything_is(
    problem: Problem, points: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan(problem, seed=0, simulations={"test": 1}, points={"test": [points]}, shard_size=1)


@pytest.mark.parametrize(
    ("problem", "points"),
    [
        (tiny(restriction=Linear()), (6, 7)),
        (tiny(native=True), (6, 17)),
        (LINE, (4,)),
        (RING, (5,)),
        (SQUARE, (12, 5)),
        (CUBE, (4, 3, 1)),
        (tiny(), (16, 16)),
        (tiny(restriction=FourierTruncation()), (16, 16)),
    ],
)
def test_points_that_are_planned_are_made(problem: Problem, points: tuple[int, ...]) -> None:
    plan(problem, seed=0, simulations={"test": 1}, points={"test": [points]}, shard_size=1)
    assert problem.simulate([0], [points])[points].grid.points == points


def test_navier_stokes_in_shards(tmp_path: Path) -> None:
    folders = {}
    for size in (1, 3):
        manifest = plan(SQUARE, seed=1, simulations={"test": 5}, points={"test": [(16, 16)]}, shard_size=size)
        folders[size] = arrays(tmp_path / str(size), generate(tmp_path / str(size), manifest))
    assert folders[1] == folders[3]
    source = WellFiles(path=str(tmp_path / "3"), split="test").open()
    assert source.grid.periodic == (True, True)
    np.testing.assert_allclose(source.times, [0.02, 0.04, 0.06, 0.08], rtol=1e-6)


@pytest.mark.parametrize(("problem", "points"), [(RING, (16,)), (CUBE, (6, 3, 4))])
def test_lines_and_space_in_shards(problem: KuramotoSivashinsky | AllenCahn, points: tuple[int, ...], tmp_path: Path):
    folders = {}
    for size in (1, 3):
        manifest = plan(problem, seed=1, simulations={"test": 5}, points={"test": [points]}, shard_size=size)
        folders[size] = arrays(tmp_path / str(size), generate(tmp_path / str(size), manifest))
    assert folders[1] == folders[3]
    source = WellFiles(path=str(tmp_path / "3"), split="test").open()
    assert source.grid == problem.grid.with_points(points)
    np.testing.assert_allclose(source.times, problem.times, rtol=1e-6)
    well = WellDataset(path=str(tmp_path / "3" / "x".join(map(str, points))), well_split_name="test")
    assert well.metadata.n_spatial_dims == problem.grid.dim


@pytest.mark.process
def test_a_worker_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "8x8").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write .*8x8/data/train/shard_0000\d\.hdf5"):
        generate(folder, planned(), workers=2)


def test_a_simulation_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mondrian.data.solvers import allen_cahn

    monkeypatch.setattr(allen_cahn, "solve", lambda u, *_, **__: u * float("nan"))
    with pytest.raises(ValueError, match=r"allen_cahn, split 'train', simulation 0 and on: u .* is not finite"):
        generate(tmp_path, planned())


def test_the_bar_is_for_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(**options: Any) -> tqdm:
        seen.append(options["disable"])
        return tqdm(**options)

    monkeypatch.setattr("mondrian.data.generate.tqdm", watched)
    for progress in (False, True):
        generate(tmp_path, few(), progress=progress)
    assert seen == [True, None]  # None: on a terminal
