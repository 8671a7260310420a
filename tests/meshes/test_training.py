"""Whole runs on meshes: they learn, resume after a stop to the same end, and refuse what is for grids."""

import signal

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

from mondrian import Grid, PointSet, vit_no
from mondrian.evaluation import evaluate
from mondrian.metrics import mean_square_error
from mondrian.points import Boxes, Mesh, write_mesh
from mondrian.report import write_report
from mondrian.surrogate import Scale
from mondrian.training import Stopped, fit_scales
from mondrian.training.checkpoints import newest
from mondrian.training.meshes import MeshBatch, MeshTraining
from mondrian.training.train import train_config, train_model
from tests.meshes.cases import PLAIN, small_surrogate

pytestmark = pytest.mark.training

TINY = (
    "experiment=poisson/boxes", "scale=smoke", "max_steps=6", "batch_size=2", "validate_every=3", "checkpoint_every=2",
    "log_every=1", "model.hidden_channels=4", "model.n_layers=1", "model.partition.subdomains=[2,2]",
    "model.reference=[2,2]",
)  # fmt: skip


@pytest.fixture
def words(folder, tmp_path):
    return [*TINY, f"data.path={folder}", f"run={tmp_path / 'run'}"]


def state(run):
    return torch.load(newest(run.checkpoints), weights_only=True)["state_dict"]


def test_a_stopped_run_resumes_to_the_same_end(words, tmp_path, monkeypatch):
    whole = train_config([*words, f"run={tmp_path / 'whole'}"])
    step = MeshTraining.training_step

    def stopped(self, batch, batch_idx):
        if self.global_step == 3 and not self.trainer.fit_loop.restarting:
            signal.raise_signal(signal.SIGTERM)
        return step(self, batch, batch_idx)

    monkeypatch.setattr(MeshTraining, "training_step", stopped)
    with pytest.raises(Stopped):
        train_config(words)
    monkeypatch.undo()
    run = train_config([f"run={tmp_path / 'run'}", "resume=true"])
    one, other = state(whole), state(run)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    np.testing.assert_array_equal(run.history()["train_loss"], whole.history()["train_loss"])


def test_a_process_that_reads_changes_nothing(words, tmp_path):
    one, other = (train_config([*words, f"workers={n}", f"run={tmp_path / str(n)}"]) for n in range(2))
    np.testing.assert_array_equal(one.history()["train_loss"], other.history()["train_loss"])


def test_training_makes_the_error_smaller_and_the_report_shows_it(words, tmp_path):
    run = train_config([*words, "max_steps=60", "validate_every=20", "model.hidden_channels=8"])
    losses = run.history()["valid_loss"]
    losses = losses[np.isfinite(losses)]
    assert losses[-1] < 0.95 * losses[0]
    evaluation = evaluate(run.surrogate(), run.data())
    assert [entry.samples for entry in evaluation.one_step] == [3, 2]
    assert evaluation.one_step[0].points < evaluation.one_step[1].points
    for entry in evaluation.one_step:
        assert entry.model["relative_l2"].mean < entry.training_mean["relative_l2"].mean
    evaluation.save(run.evaluation)
    page, *pictures = write_report([run], tmp_path / "report.html")
    assert "Error by resolution" in page.read_text()
    assert {path.stem for path in pictures} >= {"meshes-1", "errors", "loss"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("unroll=2", r"unroll=2 is for fields on grids; on meshes needed unroll=1"),
        ("augment=[rotations]", r"augment=.* is for fields on grids"),
        ("parallel.subdomains=2", r"parallel.subdomains=2 is for fields on grids"),
        ("loss=h1", r"needs fields on a grid; on meshes needed loss=mse or loss=relative_l2"),
        ("data.input=[u]", r"model.in_channels=2; the data set has 1: u"),
        ("noise=0.1", r"noise=0.1 is for fields on grids"),
        ("pushforward=true", r"pushforward=True is for fields on grids"),
        ("trainer.compile=true", r"trainer.compile=True is for fields on grids"),
    ],
)
def test_what_is_for_grids_or_does_not_fit_is_refused_before_a_folder_is_made(words, tmp_path, word, message):
    with pytest.raises(ValueError, match=message):
        train_config([*words, word])
    assert not (tmp_path / "run").exists()


def test_a_folder_has_to_be_named(tmp_path):
    with pytest.raises(ValueError, match=r"data\.path is missing; needed a folder of meshes"):
        train_config(["data=meshes", "data.input=[u]", "data.target=[u]", "scale=smoke", f"run={tmp_path / 'run'}"])


def test_any_folder_of_meshes_can_be_trained_on(folder, tmp_path):
    words = ["data=meshes", f"data.path={folder / 'train'}", "data.input=[source]", "data.target=[u,distance]"]
    run = train_config(
        [*words, "scale=smoke", "max_steps=2", f"run={tmp_path / 'run'}", "data.fractions=[0.4,0.3,0.3]"]
    )
    assert run.surrogate().spec.out_names == ("u", "distance")


def test_scales_are_those_of_all_vertices(splits):
    meshes = splits.meshes("train")
    (source, _), _ = fit_scales(meshes, method="standard")
    values = torch.cat([meshes[n].x[0] for n in range(len(meshes))]).double()
    assert source.shift == pytest.approx(values.mean().item(), rel=1e-6)
    assert source.factor == pytest.approx(values.std(correction=0).item(), rel=1e-6)
    assert fit_scales(meshes, method="scale")[1][0].shift == 0
    assert fit_scales(meshes, method="none")[1][0] == Scale()
    with pytest.raises(ValueError, match=r"data\.log names 'nope'"):
        fit_scales(meshes, method="standard", log=("nope",))


def test_a_surrogate_is_its_model_between_scales(splits):
    scaled = small_surrogate(source=Scale(1.0, 2.0), u=Scale(-1.0, 3.0))
    plain = small_surrogate()
    sample = splits.meshes("test")[0]
    x = sample.x.clone()
    x[0] = (x[0] - 1) / 2
    with torch.no_grad():
        torch.testing.assert_close(scaled(sample.x[None], sample.points), 3 * plain(x[None], sample.points) - 1)
        (one,) = scaled([sample.x], [sample.points])
        torch.testing.assert_close(one, scaled(sample.x[None], sample.points)[0])


def test_the_loss_of_a_batch_is_the_mean_of_those_of_its_meshes(splits):
    train = splits.meshes("train", partition=Boxes((2, 2)))
    module = MeshTraining(small_surrogate())
    together = module.training_step(MeshBatch.of([train[0], train[1]]), 0)
    alone = [module.training_step(MeshBatch.of([train[n]]), 0) for n in range(2)]
    torch.testing.assert_close(together, torch.stack(alone).mean())
    sample = train[0]
    with torch.no_grad():
        answer = module.surrogate(sample.x[None], sample.points)[0]
    error = mean_square_error(answer[None], sample.y[None], sample.points.weights)
    assert alone[0].item() == pytest.approx(error.item(), rel=1e-5)


def test_validation_is_the_mean_over_meshes_in_physical_units(words):
    run = train_config([*words, "max_steps=3"])
    entry = evaluate(run.surrogate(), run.data(), split="valid").one_step[0]  # three meshes in batches of two
    history = run.history()
    assert history["valid_mae"][-1] == pytest.approx(entry.model["mae"].mean, rel=1e-5)


def test_in_double_precision_coordinates_and_weights_are_double_too(splits):
    train = splits.meshes("train", partition=Boxes((2, 2)))
    module = MeshTraining(small_surrogate().double())
    sample = train[0]
    loss = module.training_step(MeshBatch.of([sample]).to(torch.device("cpu")), 0)
    with torch.no_grad():
        answer = module.surrogate(sample.x[None].double(), sample.points)[0]
    error = mean_square_error(answer[None], sample.y[None].double(), sample.points.weights)
    assert loss.item() == pytest.approx(error.item(), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_values_are_scaled_before_they_are_rounded(splits, dtype):
    """A pressure: rounded to half precision as it comes, it would be the same everywhere."""
    sample = splits.meshes("train", partition=Boxes((2, 2)))[0]
    pressure = 101325 + 5 * torch.randn_like(sample.y)
    deviation = (pressure - 101325) / 5
    module = MeshTraining(small_surrogate(u=Scale(101325.0, 5.0)).to(dtype))
    batch = MeshBatch((sample.x,), (pressure,), (sample.points.weights,), MeshBatch.of([sample]).placement)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    loss = module.training_step(batch, 0)  # of the answer zero
    assert loss.dtype == torch.float32
    weights = sample.points.weights
    assert loss.item() == pytest.approx(((deviation.square() * weights).sum() / weights.sum()).item(), rel=1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("u", [PLAIN, Scale(300.0, 2.0)], ids=["plain", "scaled"])
def test_a_model_in_half_precision_answers_nearly_the_same_in_single(splits, dtype, u):
    sample = splits.meshes("test")[0]
    x = sample.x * torch.tensor([[5.0], [1.0]]) + torch.tensor([[101325.0], [0.0]])
    model = small_surrogate(source=Scale(101325.0, 5.0), u=u).eval()
    with torch.no_grad():
        expected = model.predict(x[None], sample.points)
        answer = model.to(dtype).predict(x[None], sample.points)
    assert answer.dtype == expected.dtype == torch.float32
    assert (answer - expected).abs().max() < 0.03 * (expected - expected.mean()).abs().max()


def test_a_wrong_number_of_channels_is_refused_by_scales(splits):
    sample = splits.meshes("test")[0]
    with pytest.raises(ValueError, match="x has 1 channels; needed 2"):
        small_surrogate(source=Scale(1.0, 2.0))(sample.x[None, :1], sample.points)


def test_a_model_and_meshes_of_ones_own_are_trained_from_python(splits, tmp_path):
    words = ["scale=smoke", "max_steps=2", f"run={tmp_path / 'run'}"]
    run = train_model(small_surrogate().spec.model, splits, *words)
    assert run.surrogate().spec.model == small_surrogate().spec.model
    train_model(small_surrogate().spec.model, splits, *words[:1], "max_steps=4", words[2], "resume=true")
    with pytest.raises(ValueError, match=r"model\.spec=TransformerSpec is for grids; on meshes needed a PointSpec"):
        train_model(vit_no(2, 1, subdomains=(2, 2)).spec, splits, f"run={tmp_path / 'other'}")


@pytest.mark.parametrize("dim", [1, 3])
def test_lines_and_tetrahedra_are_learned_as_well(tmp_path, dim):
    grid = Grid(extent=(1.0,) * dim, points=(4,) * dim)
    vertices = PointSet.of_grid(grid).coordinates
    simplices = (
        torch.from_numpy(Delaunay(vertices.numpy()).simplices) if dim > 1 else torch.tensor([[0, 1], [1, 2], [2, 3]])
    )
    for number in range(6):
        u = torch.sin(vertices.sum(dim=1) + number).float()
        write_mesh(tmp_path / f"meshes/{number}.vtu", Mesh(vertices, simplices.long(), {"u": u, "twice": 2 * u}))
    words = ["data=meshes", f"data.path={tmp_path / 'meshes'}", "data.input=[u]", "data.target=[twice]", "scale=smoke"]
    words += ["data.fractions=[0.4,0.3,0.3]", f"model.reference={[2] * dim}", "max_steps=2", f"run={tmp_path / 'run'}"]
    run = train_config([*words, f"model.partition.subdomains={[2] * dim}"])
    evaluation = evaluate(run.surrogate(), run.data())
    evaluation.save(run.evaluation)
    page, *_ = write_report([run], tmp_path / "report.html")
    assert "Only meshes of two axes are drawn" in page.read_text()
