"""`mondrian generate`: examples of its help, errors, pictures, and a process that is really killed."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from mondrian.cli import main
from mondrian.data.manifest import Manifest
from mondrian.data.restriction import FourierTruncation, Linear
from mondrian.settings import generation
from mondrian.settings.compose import plain

TINY = ["data.problem.grid.points=[16,16]", "data.points.train=[[8,8]]", "data.points.valid=[[8,8]]"]
TINY += ["data.points.test=[[8,8],[16,16]]", "workers=1"]


def test_the_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.count("  mondrian generate ") > 5
    assert "repair=true" in text


@pytest.mark.parametrize(
    ("arguments", "check"),
    [
        (
            ["scale=paper", "seed=3"],
            lambda c: dict(c.simulations) == {"train": 14000, "valid": 6000, "test": 2000},
        ),
        (
            ["simulations.train=5000", "shard_size=100"],
            lambda c: (c.simulations.train, c.shard_size) == (5000, 100),
        ),
        (["data=navier_stokes", "scale=smoke"], lambda c: c.data.problem.steps == 300),
        (
            ["data=navier_stokes", "scale=smoke", "data.problem.steps=500"],
            lambda c: c.data.problem.steps == 500,
        ),
        (["data.problem.gamma=[1e-5,5e-3]"], lambda c: generation.problem(plain(c)).gamma == (1e-5, 5e-3)),
        (["restrict=linear"], lambda c: generation.problem(plain(c)).restriction == Linear()),
        (["data=navier_stokes"], lambda c: generation.problem(plain(c)).restriction == FourierTruncation()),
        (["native=true"], lambda c: generation.problem(plain(c)).native),
    ],
)
def test_overrides(arguments: list[str], check) -> None:
    assert check(generation.configure(arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "path is missing"),
        (["path=p", "scale=huge"], "scale=huge is not known; needed one of cpu, demo, paper, smoke"),
        (
            ["path=p", "data=burgers"],
            "data=burgers cannot be generated; needed one of allen_cahn, allen_cahn3d, kuramoto_sivashinsky, ",
        ),
        (["path=p", "restrict=cubic"], "restrict=cubic is not known; needed one of average, linear, fourier"),
        (
            ["path=p", "scale=smoke", "restrict=fourier"],
            "FourierTruncation() from (128, 128) to points=(32, 32) needs periodic axes",
        ),
        (["path=p", "worker=2"], "no setting 'worker'; did you mean workers?"),
        (["path=p", "seed=-1"], "seed=-1 must be a whole number from 0 on"),
        (["path=p", "repair"], "'repair' is no setting; needed key=value"),
        (["path=p", "shard=4/4"], "shard=4/4 must be i/n with i from 0 to n - 1"),
        (["path=p", "shard=one"], "shard=one must be i/n"),
        (["path=p", "data.problem.gama=[1,2]"], "gama"),
        (["path=p", "data.points.test=[[256,256]]"], "finer than those of the simulation, (128, 128)"),
        (["path=p", "data.points.test=[[128]]"], "points=(128,) have 1 entries"),
        (["path=p", "data.points.test=[128,128]"], "data.points.test=[128, 128] must list resolutions"),
        (["path=p", "data.points.test=[[0,128]]"], "data.points.test=[[0, 128]] must list resolutions"),
        (["path=p", "data.points.test=[[a,b]]"], "data.points.test=[['a', 'b']] must list resolutions"),
        (["path=p", "seed=three"], "seed=three must be a whole number"),
        (["path=p", "seed=1.5"], "seed=1.5 must be a whole number"),
        (["path=p", "seed=true"], "seed=True must be a whole number"),
        (["path=p", "seed=null"], "seed=None must be a whole number"),
        (["path=p", "shard_size=0"], "shard_size=0 must be a whole number from 1 on"),
        (["path=p", "workers=two"], "workers=two must be a whole number from 1 on"),
        (["path=p", "workers=0"], "workers=0 must be a whole number from 1 on"),
        (["path=p", "simulations.train=many"], "simulations.train=many must be a whole number from 0 on"),
        (["path=p", "simulations=5"], "simulations=5 must give a value for each split"),
        (["path=p", "repair=no"], "repair=no must be true or false"),
        (["path=p", "native=1"], "native=1 must be true or false"),
        (["path=p", "data.problem.time=six"], "AllenCahn has time='six'"),
        (["path=p", "data.problem.time=nan"], "time=nan must be positive"),
        (["path=p", "data.problem.gamma=[1,2,3]"], "gamma=(1, 2, 3)"),
        (["path=p", "data=navier_stokes", "data.problem.steps=0"], "steps=0 must be a positive multiple"),
        (["path=p", "data=kuramoto_sivashinsky", "data.problem.spin_up=-1"], "spin_up=-1 must be at least 0"),
    ],
)
def test_bad_arguments_leave_with_code_two(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["generate", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["generate", f"path={tmp_path / 'file'}", "scale=smoke", *TINY]) == 2
    assert f"cannot write {tmp_path / 'file' / 'manifest.json'}" in capsys.readouterr().err


def test_smoke_with_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", f"path={tmp_path}", "scale=smoke", "preview=true", *TINY]) == 0
    out, err = capsys.readouterr()
    assert "train 24, valid 8, test 8 simulations, 6 files" in out
    assert not err  # no bar in the log
    with Image.open(tmp_path / "preview" / "test.png") as picture:
        assert min(picture.size) > 200
        assert len(set(picture.convert("RGB").resize((64, 64)).get_flattened_data())) > 50
    assert main(["generate", f"path={tmp_path}", "scale=smoke", *TINY]) == 0  # nothing left to do


def test_a_trajectory_becomes_a_film(tmp_path: Path) -> None:
    settings = ["data.problem.grid.points=[32,32]", "data.problem.steps=24", "workers=1"]
    points = "data.points={train:[[16,16]],valid:[[16,16]],test:[[16,16]]}"
    arguments = ["data=navier_stokes", "scale=smoke", "preview=true", points, *settings]
    assert main(["generate", f"path={tmp_path}", *arguments]) == 0
    with Image.open(tmp_path / "preview" / "test.gif") as film:
        assert film.n_frames == 6
    assert sorted(path.name for path in (tmp_path / "preview").iterdir()) == ["test.gif", "test.png"]


def test_pictures_of_lines_are_space_time_diagrams_and_of_space_are_slices(tmp_path: Path) -> None:
    ring = ["data=kuramoto_sivashinsky", "data.problem.grid.points=[64]", "data.problem.spin_up=100", "workers=1"]
    ring += ["data.points.train=[[32]]", "data.points.valid=[[32]]", "data.points.test=[[64]]"]
    cube = ["data=allen_cahn3d", "data.problem.grid.points=[12,12,12]", "data.problem.time=1.0", "workers=1"]
    cube += [f"data.points.{split}=[[6,6,6]]" for split in ("train", "valid", "test")]
    for name, settings in {"ring": ring, "cube": cube}.items():
        assert main(["generate", f"path={tmp_path / name}", "scale=smoke", "preview=true", *settings]) == 0
        assert [path.name for path in (tmp_path / name / "preview").iterdir()] == ["test.png"]
        with Image.open(tmp_path / name / "preview" / "test.png") as picture:
            assert min(picture.size) > 200
            assert len(set(picture.convert("RGB").resize((64, 64)).get_flattened_data())) > 50


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "4"}, (2, 4)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}, (1, 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "3"}, (0, 1)),  # a batch script, not srun
    ],
)
def test_ranks_of_torchrun_and_slurm(environment: dict[str, str], share: tuple[int, int]) -> None:
    assert generation.rank(environment) == share


def test_ranks_that_are_no_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="RANK=first, WORLD_SIZE=2 in the environment must be whole numbers"):
        generation.rank({"RANK": "first", "WORLD_SIZE": "2"})


def test_ranks_make_their_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        assert main(["generate", f"path={tmp_path}", "scale=smoke", *TINY]) == 0
        assert ("share 0/2 is done; 2 files of other shares are missing" in capsys.readouterr().out) == (rank == 0)
    assert not Manifest.load(tmp_path).missing


def alive(group: int) -> bool:
    """Whether a process of the group still runs; one that is dead and not yet buried does not."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = process.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            return True
    return False


@pytest.mark.process
def test_killed_with_its_workers_at_work_it_resumes_and_ends_the_same(tmp_path: Path) -> None:
    settings = ["scale=smoke", "shard_size=2", "simulations.train=60", "data.problem.grid.points=[64,64]"]
    settings += ["data.points.train=[[16,16],[32,32]]", "data.points.test=[[32,32]]", "workers=2"]

    def start(folder: Path) -> subprocess.Popen[bytes]:
        call = [sys.executable, "-m", "mondrian.cli", "generate", f"path={folder}", *settings]
        return subprocess.Popen(call, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)

    def files(folder: Path) -> list[Path]:
        return sorted(folder.rglob("*.hdf5"))

    killed = tmp_path / "killed"
    target = 9
    process = start(killed)
    while len(files(killed)) < target and process.poll() is None:
        time.sleep(0.005)
    process.kill()  # the parent alone: its workers have to notice
    assert process.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(process.pid)
    assert process.stderr is not None
    process.stderr.close()
    assert target <= len(files(killed)) < 68
    process = start(killed)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    assert main(["generate", f"path={tmp_path / 'whole'}", *settings, "workers=1"]) == 0
    one, other = (Manifest.load(folder) for folder in (killed, tmp_path / "whole"))
    assert len(one.checksums) == 2 * 30 + 4 + 4
    assert one == other  # checksums are of the content of the files: every array, byte for byte


def test_the_examples_of_the_page_on_data_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    monkeypatch.chdir(tmp_path)
    (made,) = re.findall(r"```bash\nmondrian (generate .*)\n```", page)
    assert main([*made.split(), "workers=1"]) == 0
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    exec("\n".join(blocks), {})
