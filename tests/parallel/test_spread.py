"""Subdomains spread over two and four processes: outputs, gradients and traffic. All cases run in one start of them."""

import json
import socket

import h5py
import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from mondrian import Grid, nbr_no
from mondrian.data.store import Simulations, write_shard
from mondrian.prediction import load_model
from mondrian.rollout import rollout
from mondrian.surrogate import Scale, SurrogateSpec
from tests.parallel.worker import CASES, COSTS, NUMBER, work

pytestmark = pytest.mark.process

BOX = Grid(extent=(2.0, 1.0), periodic=(True, False))
GRID = BOX.with_points((24, 8))


def surrogate():
    model = nbr_no(2, 1, hidden_channels=8, n_layers=2, radius=1, subdomains=(8, 4), grid=BOX, stagger=True).spec
    scale = Scale(0.3, 2.0)
    return SurrogateSpec(model, ("u[0]", "gamma"), ("u[1]",), (scale, Scale(-3.0, 0.5, log=True)), (scale,)).build()


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The folder of the ranks, and the measurements of each."""
    folder = tmp_path_factory.mktemp("spread")
    torch.manual_seed(0)
    surrogate().save_pretrained(folder / "model")
    random = np.random.default_rng(0)
    simulations = Simulations(
        grid=GRID,
        times=np.array([0.0, 1.0]),
        fields={"u": random.standard_normal((3, 2, *GRID.points)).astype(np.float32)},
        scalars={"gamma": 10 ** random.uniform(-4, -2, 3)},
    )
    write_shard(folder / "start.hdf5", simulations, name="start", identity={})
    mp.start_processes(work, (str(folder), [free_port(), free_port()]), nprocs=NUMBER, start_method="fork")
    return folder, [json.loads((folder / f"measured_{rank}.json").read_text()) for rank in range(NUMBER)]


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_are_those_of_one_process(measured, case):
    for numbers in (of_rank[case] for of_rank in measured[1]):
        assert numbers["output"] < 1e-10
        assert numbers["gradient"] < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_the_traffic_is_that_of_the_formula(measured, case):
    for numbers in (of_rank[case] for of_rank in measured[1]):
        assert numbers["received"] == numbers["expected received"]
        assert numbers["given back"] == numbers["expected given back"]


def test_only_shifted_windows_exchange_rows_where_windows_lie_in_a_slab(measured):
    # 2 x 2 windows of 8 x 4 cells of 6 points and 16 channels, two samples: of two blocks the second is shifted
    case = "swin, 2 processes"
    a_row = 2 * 2 * 16 * 6 * 4
    assert [numbers[case]["received"] for numbers in measured[1]] == [a_row] * 4
    # round the ring both ends of each slab share a window with the other process
    assert measured[1][0]["swin periodic, 2 processes"]["received"] == 2 * a_row


@pytest.mark.parametrize("case", COSTS)
def test_the_operations_are_those_of_the_cost_model(measured, case):
    """Operations outside attention are counted elsewhere; the bias of positions, some thousands, is left out."""
    for numbers in (of_rank[f"cost of {case}"] for of_rank in measured[1]):
        assert numbers["multiplied"] == pytest.approx(numbers["expected multiplied"], rel=2e-3)


@pytest.mark.parametrize("case", COSTS)
def test_a_rank_keeps_its_share_of_each_sample_and_what_it_received(measured, case):
    for numbers in (of_rank[f"cost of {case}"] for of_rank in measured[1]):
        share = numbers["share"] * numbers["kept alone"]
        assert numbers["kept"] < numbers["kept alone"]
        assert abs(numbers["kept"] - share) < 4 * numbers["received"]  # keys and values, and how they are grouped


def test_gradients_of_copies_add_up_to_second_order(measured):
    for rank, of_rank in enumerate(measured[1]):
        numbers = of_rank["copies"]
        assert numbers["rows"] == ([3, 4, 1, 2, 3, 4], [3, 4, 1])[rank % 2]
        assert numbers["first"] < 1e-12
        assert numbers["second"] < 1e-12


def test_data_and_subdomains_together(measured):
    assert all(of_rank["data and subdomains"]["gradient"] < 1e-12 for of_rank in measured[1])


def test_all_ranks_refuse_what_cannot_be_shared(measured):
    for of_rank in measured[1]:
        few, uneven = of_rank["refused"]
        assert "2 rows of subdomains cannot be shared by 4 ranks" in few
        assert "do not divide the points=(5, 4)" in uneven


def test_the_command_under_torchrun_writes_what_one_process_predicts(measured):
    folder = measured[0]
    model = load_model(folder / "model")
    with h5py.File(folder / "start.hdf5") as file:
        u, gamma = file["t0_fields/u"][:, 0], file["scalars/gamma"][:]
    x = torch.tensor(np.stack([u, np.broadcast_to(gamma[:, None, None], u.shape).astype(np.float32)], axis=1))
    with torch.no_grad():
        expected = rollout(model, x, 2, GRID).numpy()
    with h5py.File(folder / "steps.hdf5") as file:
        np.testing.assert_allclose(file["t0_fields/u"][:], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(file["scalars/gamma"][:], gamma)
    np.testing.assert_allclose(np.load(folder / "next.npy"), expected[:, :1], rtol=1e-4, atol=1e-5)
    assert not list(folder.glob(".*.partial"))
    assert [of_rank["rows read"] for of_rank in measured[1]] == [[[0, 6]], [[6, 12]], [[12, 18]], [[18, 24]]]
