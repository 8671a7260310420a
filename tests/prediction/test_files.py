"""Files that are there whole or not at all, made in bounded memory from models and names that were checked."""

import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data.arrays import ContiguousArray
from mondrian.data.store import Simulations, write_shard
from mondrian.prediction import Predictor, load_model, predict, predict_file
from mondrian.prediction import fields as prediction_fields
from mondrian.support.lock import LockedError
from mondrian.surrogate import Surrogate
from mondrian.training.run import Run
from tests.prediction.cases import ARRAYS, save


class Cheap(Surrogate):
    """Quick, and counts what it is given."""

    most = 0

    def forward(self, x, grid=None):
        self.most = max(self.most, len(x))
        return x[:, :1].clone()


@pytest.mark.parametrize("target", [*ARRAYS, "hdf5"])
@pytest.mark.parametrize("source", [*ARRAYS, "hdf5"])
def test_memory_does_not_grow_with_the_samples(surrogate, tmp_path, source, target):
    model = Cheap(surrogate.spec)
    points = (64, 32)
    peaks = []
    for count in (8, 32, 1024):  # the first brings modules, which count as memory
        file = tmp_path / f"{count}.{source}"
        if source == "hdf5":
            zeros = np.zeros((count, 2, *points), dtype=np.float32)
            grid = Grid(extent=(1.0, 1.0), points=points)
            gamma = np.full(count, 1e-3)
            data = Simulations(grid=grid, times=np.arange(2.0), fields={"u": zeros}, scalars={"gamma": gamma})
            write_shard(file, data, name="test", identity={})
            del data
        else:
            zeros = np.full((count, 3, *points), 1e-3, dtype=np.float32)
            save(file, zeros)
        del zeros
        tracemalloc.start()
        predict_file(model, file, tmp_path / f"y.{target}", batch_size=8)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    sample = 3 * 64 * 32 * 4
    assert model.most == 8
    assert peaks[2] < peaks[1] + 16 * sample < 1024 * sample / 10


def test_reads_are_no_larger_than_a_piece(surrogate, samples, tmp_path, monkeypatch):
    reads = []
    genuine = ContiguousArray._bytes

    def watched(self, start, count):
        reads.append(count)
        return genuine(self, start, count)

    monkeypatch.setattr(ContiguousArray, "_bytes", watched)
    predict_file(surrogate, save(tmp_path / "x.npy", samples), tmp_path / "y.npy", batch_size=2)
    assert reads == [2 * 96, 2 * 96, 2 * 96, 96]


@pytest.mark.parametrize("target", [*ARRAYS, "hdf5"])
def test_a_failure_in_the_middle_leaves_the_old_file_alone(surrogate, samples, tmp_path, target):
    samples[5, 0] = np.nan
    made = tmp_path / f"y.{target}"
    made.write_bytes(b"old")
    with pytest.raises(ValueError, match="sample 5"):
        predict_file(surrogate, save(tmp_path / "x.npy", samples), made, batch_size=2)
    assert made.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", made.name]


SLOW = """
import sys, time
from pathlib import Path
from mondrian.prediction import Predictor, load_model, predict_file
genuine = Predictor.__call__
def slow(self, x, *, first=0):
    if first:
        Path(sys.argv[4]).touch()
        time.sleep(60)
    return genuine(self, x, first=first)
Predictor.__call__ = slow
predict_file(load_model(sys.argv[1]), sys.argv[2], sys.argv[3], batch_size=2)
"""


@pytest.mark.process
@pytest.mark.parametrize("target", ["npy", "hdf5"])
def test_a_killed_prediction_leaves_no_file_and_the_next_one_cleans_up(surrogate, samples, tmp_path, target):
    surrogate.save_pretrained(tmp_path / "model")
    given, made, sign = save(tmp_path / "x.npy", samples), tmp_path / "out" / f"y.{target}", tmp_path / "sign"
    process = subprocess.Popen([sys.executable, "-c", SLOW, tmp_path / "model", given, made, sign])
    deadline = time.monotonic() + 60
    while not sign.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sign.exists()
    assert not made.exists()
    assert {path.suffix for path in made.parent.iterdir()} == {".partial", ".lock"}
    predict_file(surrogate, given, made)
    assert [path.name for path in made.parent.iterdir()] == [made.name]


@pytest.mark.parametrize("target", ["npy", "hdf5"])
def test_of_two_predictions_to_one_file_the_second_is_refused_and_harms_nothing(
    surrogate, samples, tmp_path, monkeypatch, target
):
    given, made = save(tmp_path / "x.npy", samples), tmp_path / f"y.{target}"
    genuine, refused = Predictor.__call__, []

    def another(self, x, *, first=0):
        monkeypatch.setattr(Predictor, "__call__", genuine)
        with pytest.raises(LockedError, match=f"{made.name} is in use by process {os.getpid()} on "):
            predict_file(surrogate, given, made)
        refused.append(made.exists())
        return genuine(self, x, first=first)

    monkeypatch.setattr(Predictor, "__call__", another)
    predict_file(surrogate, given, made)
    assert refused == [False]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", made.name]


FULL = """
import sys
from mondrian.prediction import load_model, predict_file
for target in sys.argv[3:]:
    try:
        predict_file(load_model(sys.argv[1]), sys.argv[2], target, batch_size=2)
    except OSError as error:
        print(error)
"""


@pytest.mark.process
def test_a_full_disk_is_an_error_that_names_the_file(surrogate, samples, tmp_path):
    surrogate.save_pretrained(tmp_path / "model")
    given = save(tmp_path / "x.npy", np.tile(samples, (1, 1, 8, 8)))
    targets = [tmp_path / "out" / f"y.{kind}" for kind in (*ARRAYS, "hdf5")]

    def limit() -> None:  # fails in the same system call as a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, 2**15))

    words = [sys.executable, "-c", FULL, tmp_path / "model", given, *targets]
    run = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    for line, target in zip(run.stdout.splitlines(), targets, strict=True):
        assert f"cannot write {target}: File too large" in line
    assert os.listdir(tmp_path / "out") == []


# Models and names of files


def test_a_model_comes_from_an_artefact_or_a_run(surrogate, samples, tmp_path):
    run = Run(tmp_path / "run")
    run.write({"name": "test"})
    with pytest.raises(ValueError, match="holds no model yet"):
        load_model(run.folder)
    surrogate.save_pretrained(run.artefact)
    for folder in (run.folder, run.artefact):
        np.testing.assert_array_equal(predict(load_model(folder), samples), predict(surrogate, samples))
    with pytest.raises(FileNotFoundError, match="needed an artefact or a training run"):
        load_model(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"x\.npy is a file; needed the folder of an artefact or of a training run"):
        load_model(save(tmp_path / "x.npy", samples))
    with pytest.raises(ValueError, match="device=quantum cannot be used"):
        load_model(run.folder, device="quantum")


def test_names_of_files_are_checked_before_anything_is_computed(surrogate, samples, tmp_path, monkeypatch):
    given = save(tmp_path / "x.npy", samples)
    (tmp_path / "x.txt").write_text("1")
    (tmp_path / "broken.npy").write_bytes(b"no array")
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    (tmp_path / "broken.pt").write_bytes(b"no tensor")
    (tmp_path / "folder.npy").mkdir()
    torch.save([1, 2], tmp_path / "list.pt")
    monkeypatch.setattr(Predictor, "__call__", lambda *_, **__: pytest.fail("computed"))
    cases = [
        (given, "y.txt", "ends in '.txt'; needed one of .npy, .npz, .pt, .hdf5, .h5"),
        (given, "x.npy", "is the input"),
        (given, "folder.npy", "cannot write .*folder.npy: it is a folder"),
        (given, "x.npy/y.npy", "cannot write .*x.npy/y.npy: "),
        (tmp_path / "none.npy", "y.npy", "none.npy does not exist; needed samples in .npy"),
        (tmp_path / "x.txt", "y.npy", "ends in '.txt'; needed .npy"),
        (tmp_path / "broken.npy", "y.npy", "cannot be read as .npy"),
        (tmp_path / "broken.npz", "y.npy", "cannot be read as .npz"),
        (tmp_path / "broken.pt", "y.npy", "cannot be read as .pt"),
        (tmp_path / "list.pt", "y.npy", "holds a list; needed a tensor"),
        (tmp_path, "y.npy", "holds no .hdf5 or .h5 file"),
    ]
    for source, target, message in cases:
        with pytest.raises((ValueError, OSError), match=message):
            predict_file(surrogate, source, tmp_path / target)


def test_progress_is_shown_only_where_asked(surrogate, samples, tmp_path, monkeypatch):
    seen = []
    genuine = prediction_fields.tqdm

    def watched(**options):
        seen.append(options["disable"])
        return genuine(**options)

    monkeypatch.setattr(prediction_fields, "tqdm", watched)
    given = save(tmp_path / "x.npy", samples)
    for progress in (False, True):
        predict_file(surrogate, given, tmp_path / "y.npy", progress=progress)
    assert seen == [True, None]  # None: on a terminal
