"""Every kind of model in every command: trained, saved, and evaluated at resolutions that it was not trained at."""

import re
from pathlib import Path

import numpy as np
import pytest

from mondrian.evaluation import evaluate
from mondrian.training.train import train_config

pytestmark = pytest.mark.training

OURS = ("vit_sepmo", "vit_mo", "swin_interpolating", "nbr_low_rank", "unet_sepmo")
BASELINES = ("fno", "ffno", "gt", "factformer", "factformer_updown", "fano")
SHORT = ("model.hidden_channels=16", "model.n_layers=1", "max_steps=2", "batch_size=2", "validate_every=2")


def words(experiment: str) -> list[str]:
    kind = experiment.split("/")[1]
    extra = {
        "factformer_updown": ["model.resolution=[16,16]"],
        "fno": ["model.modes=[4,4]"],
        "ffno": ["model.modes=[4,4]"],
        "swin_interpolating": ["model.subdomains=[4,4]", "model.window=[2,2]", "model.shift=[1,1]"],
        "vit_sepmo": ["model.subdomains=[4,4]"],
        "vit_mo": ["model.subdomains=[4,4]"],
        "nbr_low_rank": ["model.subdomains=[4,4]", "model.radius=1"],
        "unet_sepmo": ["model.subdomains=[4,4]"],
    }
    return [f"experiment={experiment}", *SHORT, *extra.get(kind, [])]


@pytest.mark.parametrize("name", (*OURS, *BASELINES))
def test_a_model_of_allen_cahn_is_trained_and_evaluated(name: str, allen_cahn: Path, tmp_path: Path) -> None:
    run = train_config([*words(f"allen_cahn/{name}"), f"data.path={allen_cahn}", f"run={tmp_path / 'run'}"])
    evaluation = evaluate(run.surrogate(), run.data())
    resolutions = [(16, 16)] if name == "factformer_updown" else [(16, 16), (32, 32)]
    assert [entry.points for entry in evaluation.one_step] == resolutions
    assert all(0 < entry.model["mae"].mean < 10 for entry in evaluation.one_step)


@pytest.mark.parametrize("model", ["staggered", "vit", "swin", "nbr", "unet", "fno"])
def test_any_model_fits_itself_to_any_data(model: str, navier_stokes: Path, tmp_path: Path) -> None:
    fields = ["data.input=[vorticity]", "data.target=[vorticity]"]
    extra = {
        "swin": ["model.window=[2,2]", "model.shift=[1,1]"],
        "nbr": ["model.radius=1"],
        "fno": ["model.modes=[4,4]"],
    }
    words = ["data=files", f"data.path={navier_stokes}", *fields, f"model={model}", *extra.get(model, []), *SHORT]
    run = train_config([*words, f"run={tmp_path / 'run'}"])
    assert run.surrogate().spec.default_grid.periodic == (True, True)


@pytest.mark.parametrize(
    "model, advice",
    [
        ("fno", "model.modes=[16,16]; the grid of the data has 1 axes: needed for example model.modes=[16]"),
        ("swin", "model.window=[4,4] model.shift=[2,2]; .* needed for example model.window=[4] model.shift=[2]"),
        ("gt", "model.spec=GalerkinSpec has another dim; .* needed for example +model.dim=1"),
    ],
)
def test_a_model_of_a_plane_says_what_it_needs_on_a_line(model: str, advice: str, tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.random.default_rng(0).normal(size=(10, 4, 32)).astype(np.float32))
    reader = f"{{spec: ArrayFile, path: {tmp_path / 'u.npy'}, axes: [simulation,time,space], extent: [1.0]}}"
    words = ["data=files", f"data.reader={reader}", "data.input=[u]", "data.target=[u]", f"model={model}", *SHORT]
    words.append(f"run={tmp_path / 'run'}")
    with pytest.raises(ValueError, match=re.sub(r"([\[\]+])", r"\\\1", advice) + "$"):
        train_config(words)
    train_config([*words, *advice.partition("for example ")[2].split()])


def test_what_is_wrong_with_a_model_is_said_in_its_own_words(navier_stokes: Path, tmp_path: Path) -> None:
    fields = ["data.input=[vorticity]", "data.target=[vorticity]", "model=nbr", "model.radius=9"]
    with pytest.raises(ValueError, match=r"^model\.spec=NbrNO: radius=9 is too large"):
        train_config(["data=files", f"data.path={navier_stokes}", *fields, *SHORT, f"run={tmp_path / 'run'}"])


@pytest.mark.parametrize("name", (*OURS, *BASELINES))
def test_a_model_of_navier_stokes_is_trained_and_rolled_out(name: str, navier_stokes: Path, tmp_path: Path) -> None:
    run = train_config([*words(f"navier_stokes/{name}"), f"data.path={navier_stokes}", f"run={tmp_path / 'run'}"])
    evaluation = evaluate(run.surrogate(), run.data())
    assert [entry.points for entry in evaluation.rollout] == [(16, 16)]
    assert len(evaluation.rollout[0].mae) == 4
