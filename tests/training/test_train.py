"""Whole runs: what a configuration asks for happens, and bad input is named."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian.data.datasets import Sample, WindowDataset
from mondrian.settings.recipes import recipe_names
from mondrian.settings.training import configure
from mondrian.training.checkpoints import saved
from mondrian.training.optimiser import AdamW
from mondrian.training.train import train_config
from tests.training.cases import TINY, losses, refused, same, weights

pytestmark = pytest.mark.training

# What a run leaves


def test_a_run_leaves_its_record_history_checkpoints_and_best_model(words: list[str]) -> None:
    run = train_config(words)
    history = run.history()
    assert history["step"].tolist() == [1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
    assert history["samples"].tolist() == [4 * step for step in history["step"]]
    assert [path.name[:13] for path in saved(run.checkpoints)] == ["step_00000008", "step_00000006"]
    assert run.config["max_steps"] == 8
    assert set(run.facts["versions"]) >= {"mondrian", "torch", "python"}
    assert list((run.folder / "tensorboard").glob("events*"))
    surrogate = run.surrogate()
    assert surrogate.spec.in_names == ("u[0]", "gamma")
    assert surrogate.spec.in_scales[1].log
    data = run.data().dataset("valid")
    batch = [data[n] for n in range(len(data))]
    x, y = (torch.stack([sample[key] for sample in batch]) for key in ("x", "y"))
    best = min(value for value in history["valid_loss"] if not math.isnan(value))
    with torch.no_grad():
        prediction = surrogate(x, data.grid)
        scaled = (surrogate.scaled_output(prediction) - surrogate.scaled_output(y)).square().mean().item()
    assert scaled == pytest.approx(best, rel=1e-5)
    at_best = history["valid_loss"] == best
    assert (prediction - y).abs().mean().item() == pytest.approx(history["valid_mae"][at_best][0], rel=1e-5)


def test_training_is_the_same_each_time_and_differs_by_seed(words: list[str], tmp_path: Path) -> None:
    first = train_config(words)
    again = train_config([*words, f"run={tmp_path / 'again'}"])
    other = train_config([*words, f"run={tmp_path / 'other'}", "seed=1"])
    assert same(weights(first), weights(again))
    assert losses(first) == losses(again)
    assert not same(weights(first), weights(other))


def test_portions_of_a_batch_make_the_same_step(words: list[str], tmp_path: Path) -> None:
    words = [*words, "trainer.precision=64-true"]  # Adam makes full steps of gradients that are nothing but rounding
    whole = train_config(words)
    portions = train_config([*words, f"run={tmp_path / 'two'}", "trainer.accumulate_grad_batches=2"])
    for name in ("step", "train_loss", "valid_loss"):
        assert portions.history()[name] == pytest.approx(whole.history()[name], rel=1e-8, nan_ok=True)


@pytest.mark.parametrize("extra", [(), ("trainer.accumulate_grad_batches=2",)])
def test_the_history_has_the_rate_that_each_step_used(words: list[str], extra: tuple[str, ...]) -> None:
    run = train_config([*words, "optimizer.lr=4e-3", "optimizer.warmup=3", "optimizer.decay=linear", *extra])
    rates = run.history()["learning_rate"]
    schedule = AdamW(lr=4e-3, warmup=3, decay="linear", final_lr=run.config["optimizer"]["final_lr"])
    assert rates[~np.isnan(rates)] == pytest.approx([schedule.rate(step, 8) for step in range(8)])


def test_it_learns(words: list[str]) -> None:
    run = train_config([*words, "max_steps=60", "validate_every=20", "optimizer.lr=5e-3", "optimizer.warmup=5"])
    valid_losses = [value for value in run.history()["valid_loss"] if not math.isnan(value)]
    assert valid_losses[-1] < 0.5  # of the variance of the target, which is 1 in these units


# Autoregressive


def test_unrolled_noisy_training_of_a_simulation_in_time(navier_stokes: Path, tmp_path: Path) -> None:
    words = [
        "data=files", "scale=smoke", f"data.path={navier_stokes}", "data.input=[vorticity]", "data.target=[vorticity]",
        "data.steps_in=2", "data.steps_out=1", "data.symmetries=[rotations,translations]", "unroll=3", "grow_every=2",
        "noise=0.05", "augment=[rotations,translations]", "max_steps=6", "batch_size=2", "validate_every=4",
        "checkpoint_every=2", "log_every=1", "loss=h1", f"run={tmp_path / 'run'}",
    ]  # fmt: skip
    run = train_config(words)
    surrogate = run.surrogate()
    assert surrogate.spec.in_names == ("vorticity[-1]", "vorticity[0]")
    assert surrogate.spec.out_names == ("vorticity[1]",)
    assert surrogate.spec.model.subdomains == (4, 4)
    assert surrogate.spec.default_grid.periodic == (True, True)
    assert run.history()["step"].tolist() == [1, 2, 3, 4, 4, 5, 6, 6]  # a last validation after the last step


# Bad input


def test_bad_input_is_named(words: list[str], tmp_path: Path) -> None:
    refused(words, "data=burgers is not known; needed one of allen_cahn, allen_cahn3d, files, ", "data=burgers")
    refused(words, "scale=huge is not known; needed one of cpu, demo, paper, smoke", "scale=huge")
    refused(words, "'resume' is no setting; needed key=value", "resume")
    refused(words, "max_steps=0 must be a whole number from 1 on", "max_steps=0")
    refused(words, r"batch_size=1\.5 must be a whole number", "batch_size=1.5")
    refused(words, "model.in_channels=3; the data set has 2: u.0., gamma", "model.in_channels=3")
    refused(words, "has no field 'v'; it has", "data.input=[v]")
    refused(words, "must be a list of strings", "data.input=u")
    refused(words, "nowhere does not exist", f"data.path={tmp_path / 'nowhere'}", error=OSError)
    refused(words, r"points=\(8, 8\) are not stored", "data.train_points=[8,8]")
    refused(words, r"train_points=32 must list the points of each axis, for example", "data.train_points=32")
    refused(words, r"fractions=0\.5 must be a list of numbers, for example", "data.fractions=0.5")
    for value in ("0", "two", "1.5"):
        setting = f"trainer.accumulate_grad_batches={value}"
        refused(words, f"{setting} must be a whole number from 1 on", setting)
    refused(words, r"betas=\(0\.9,\) must be two numbers from 0 on and below 1", "optimizer.betas=[0.9]")
    refused(words, "decay=sudden is not known", "optimizer.decay=sudden")
    refused(words, "AdamW has lr='fast'; needed float", "optimizer.lr=fast")
    refused(words, "simulations=100 is more than the 12 of ", "data.simulations=100")
    refused(words, "unroll=3: steps_in=1 and steps_out=3 need 4 steps", "unroll=3")
    fixed = r"unroll=2 needs targets that change in time; of \('u', 'gamma'\) gamma do not"
    refused(words, fixed, "unroll=2", "data.target=[u,gamma]")
    refused(words, "data.parity=2 must be 1 or -1, or that for each field", "data.parity=2")
    refused(words, "data.parity names 'v'; the fields are u, gamma", "data.parity={v: -1}")
    refused(words, r"no setting 'max_step'; did you mean max_steps\?", "max_step=3")
    refused(words, r"no setting 'optimizer.learning'", "optimizer.learning=3")
    refused(
        words,
        r"no recipe 'allen_cahn/vit_sepmoo'; did you mean allen_cahn/vit_sepmo",
        "experiment=allen_cahn/vit_sepmoo",
    )
    refused([], "nothing to train is named")
    refused([], "nope holds no run to resume", f"run={tmp_path / 'nope'}", "resume=true")
    refused(words, r"noise=0\.1 is in units of the fields' deviations", "noise=0.1", "normalise=none")
    refused(words, "trainer.strategy=deepspeed shards the model", "trainer.strategy=deepspeed")
    refused(words, "trainer.precision=16-true: .* needed 16-mixed, bf16-mixed or", "trainer.precision=16-true")
    refused(words, "trainer.compile=true does not know the exchanges", "trainer.compile=true", "trainer=fsdp")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("extra", [(), ("unroll=2", "pushforward=true"), ("unroll=2",)])
def test_mixed_precision_trains_every_parameter(navier_stokes: Path, tmp_path: Path, extra: tuple[str, ...]) -> None:
    words = ["experiment=navier_stokes/vit_sepmo", "scale=smoke", f"data.path={navier_stokes}", "model.n_layers=1",
             "model.subdomains=[4,4]", "data.steps_out=2", "max_steps=2", "trainer.precision=bf16-mixed"]  # fmt: skip
    run = train_config([*words, *extra, f"run={tmp_path / 'run'}"])
    assert np.isfinite(run.history()["train_loss"]).any()
    torch.manual_seed(0)
    untrained = run.surrogate().spec.build().state_dict()
    trained = weights(run)
    moved = [not torch.equal(trained[f"surrogate.{key}"], value) for key, value in untrained.items()]
    assert sum(moved) > 0.9 * len(moved)


def test_in_half_precision_fields_are_scaled_before_they_are_rounded(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field far from zero beside its deviation: rounded as it comes, all of its values would be the same."""
    original = WindowDataset.__getitems__

    def with_offset(self: WindowDataset, indices: Sequence[int]) -> list[Sample]:
        samples = original(self, indices)
        for sample in samples:
            sample["x"][0] += 1e4
            sample["y"] += 1e4
        return samples

    monkeypatch.setattr(WindowDataset, "__getitems__", with_offset)
    single, half = (
        train_config([*words, f"trainer.precision={kind}", "max_steps=2", f"run={tmp_path / kind}"])
        for kind in ("32-true", "bf16-true")
    )
    assert {weight.dtype for weight in weights(half).values()} == {torch.bfloat16}
    for name in ("train_loss", "valid_loss", "valid_mae"):
        np.testing.assert_allclose(half.history()[name], single.history()[name], rtol=0.05)


def test_in_double_precision_fields_are_read_as_they_are_stored(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", 1e8 + np.random.default_rng(0).normal(size=(10, 4, 16)))
    reader = f"{{spec: ArrayFile, path: {tmp_path / 'p.npy'}, axes: [simulation,time,space], extent: [1.0]}}"
    words = ["data=files", f"data.reader={reader}", "data.input=[u]", "data.target=[u]", "scale=smoke", "max_steps=2"]
    words += ["model.hidden_channels=8", "model.n_layers=1", "batch_size=2", f"run={tmp_path / 'run'}"]
    refused(words, "'u' has mean 1e\\+08 and deviation .* of which float32 would lose")
    run = train_config([*words, "trainer.precision=64-true"])
    assert 0.1 < np.nanmin(run.history()["valid_loss"]) < 10  # of noise that is there


def test_a_sign_in_mirrors_can_be_said_for_each_field(words: list[str]) -> None:
    mirrors = ["augment=[reflections]", "data.parity={u: -1}", "max_steps=1"]
    run = train_config([*words, *mirrors])
    assert run.config["data"]["parity"] == {"u": -1}
    refused(words, r"data\.parity was {'u': -1} when .* began", "resume=true", *mirrors, "data.parity=1")


@pytest.mark.compiled
def test_a_compiled_model_trains_to_the_same_losses(words: list[str], tmp_path: Path, monkeypatch) -> None:
    original = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: original(self, backend="aot_eager"))
    plain = train_config(words)
    compiled = train_config([*words, "trainer.compile=true", f"run={tmp_path / 'compiled'}"])
    losses, expected = (run.history()["train_loss"] for run in (compiled, plain))
    assert np.isfinite(expected).sum() > 1
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_an_empty_part_is_named(allen_cahn: Path, tmp_path: Path) -> None:
    words = [*TINY, f"run={tmp_path / 'run'}", f"data.path={tmp_path / 'empty'}"]
    (tmp_path / "empty" / "data" / "train").mkdir(parents=True)
    with pytest.raises(OSError, match=r"data/train holds no \.hdf5 or \.h5 file"):
        train_config(words)


@pytest.mark.slow
def test_every_recipe_and_scale_can_be_configured() -> None:
    for experiment in (*recipe_names(), "custom"):
        for scale in ("paper", "cpu", "smoke"):
            config = configure([f"experiment={experiment}", f"scale={scale}"])
            assert config.run == f"runs/{experiment}" + ("" if scale == "paper" else f"_{scale}")
            assert config.max_steps <= {"paper": 100_000, "cpu": 3000, "smoke": 20}[scale]
    paper = configure(["experiment=allen_cahn/vit_sepmo"])
    assert (paper.max_steps, paper.batch_size, paper.optimizer.lr, paper.optimizer.clip) == (30000, 128, 1e-3, 0.5)
    assert (paper.optimizer.weight_decay, paper.optimizer.decay, paper.optimizer.final_lr) == (0.01, "cosine", 1e-8)
    turbulence = configure(["experiment=navier_stokes/vit_sepmo"])
    assert (turbulence.max_steps, turbulence.batch_size, turbulence.augment) == (100000, 32, ["rotations"])
    assert (turbulence.optimizer.weight_decay, turbulence.optimizer.decay) == (1e-4, "linear")
