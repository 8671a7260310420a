"""What an explorer answers: what is stored, what the model says to it, and what the equation says."""

import math
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mondrian import Grid, unet_no
from mondrian.explore import Explorer, Question, Stroke
from mondrian.explore.solving import Solver
from mondrian.models.maps import attention_map
from mondrian.resampling import resample
from mondrian.rollout import rollout
from mondrian.surrogate import Window
from tests.explore.cases import PROBLEMS, data, explorer, surrogate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def phases(folder: Path) -> Explorer:
    return explorer("allen_cahn", folder)


@pytest.fixture(scope="module")
def flow(folder: Path) -> Explorer:
    return explorer("navier_stokes", folder)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_a_stored_sample_is_answered_as_by_the_surrogate_itself(name: str, folder: Path) -> None:
    asked = explorer(name, folder)
    for points, dataset in asked.stored.items():
        sample = dataset[dataset.index(2, 0)]
        answer = asked.ask(Question(points=points, simulation=2))
        assert list(answer.given) == list(dataset.in_channels)
        assert torch.equal(torch.stack(list(answer.given.values())), sample["x"])
        assert torch.equal(torch.stack(list(answer.truth.values())), sample["y"])
        with torch.no_grad():
            expected = asked.surrogate.eval()(sample["x"][None], dataset.grid)[0]
        torch.testing.assert_close(torch.stack(list(answer.predicted.values())), expected)
        first = next(iter(answer.truth))
        mae = (answer.predicted[first] - answer.truth[first]).abs().mean()
        assert answer.errors[first]["mae"] == pytest.approx(float(mae), rel=1e-5)


def test_at_points_that_are_not_stored_the_finest_sample_is_brought_there(phases: Explorer) -> None:
    answer = phases.ask(Question(points=(12, 10), simulation=1))
    fine = phases.ask(Question(points=(16, 16), simulation=1))
    grid = phases.grid.with_points((12, 10))
    for result, whole in ((answer.given["u[0]"], fine.given["u[0]"]), (answer.truth["u[1]"], fine.truth["u[1]"])):
        torch.testing.assert_close(result, resample(whole[None, None], phases.grid, grid)[0, 0])
    assert answer.predicted["u[1]"].shape == (12, 10)


def test_many_applications_go_on_from_what_was_predicted_beside_as_much_truth_as_there_is(flow: Explorer) -> None:
    answer = flow.ask(Question(points=(16, 16), step=1, applications=3))
    names = [f"vorticity[{step}]" for step in range(1, 7)]
    assert list(answer.predicted) == names
    assert list(answer.truth) == names[:3]  # of six frames two are given, from the second on
    dataset = flow.stored[(16, 16)]
    with torch.no_grad():
        expected = rollout(flow.surrogate.eval(), dataset[1]["x"][None], 3, dataset.grid)[0]
    torch.testing.assert_close(torch.stack(list(answer.predicted.values())), expected)
    later = dataset[dataset.index(0, 2)]["y"]  # begins a step later
    assert torch.equal(answer.truth["vorticity[2]"], later[0])
    assert [flow.time(1, step) for step in (-1, 0, 1, 4)] == pytest.approx([0.08, 0.12, 0.16, 0.28])


def test_a_stroke_is_a_bump_at_a_wall_and_goes_smoothly_round_a_ring() -> None:
    grid = Grid(extent=(4.0, 2.0), points=(64, 64), periodic=(True, False))
    x, y = grid.coordinates()
    bump = Stroke(field="u", at=(0.0, 0.25), width=0.1, amount=-3.0).on(grid)
    away = torch.minimum(x, 4 - x) ** 2 + (y - 0.5) ** 2
    torch.testing.assert_close(bump, -3 * torch.exp(-away / (2 * 0.2**2)))  # so narrow that one way round counts
    wide = Stroke(field="u", at=(0.9, 0.5), width=1.0, amount=1.0).on(grid)[:, 32]
    ways = sum(torch.exp(-((x[:, 0] - 3.6 + 4 * turn) ** 2) / (2 * 2.0**2)) for turn in range(-9, 10))
    torch.testing.assert_close(wide, ways * torch.exp(-((y[0, 32] - 1.0) ** 2) / (2 * 2.0**2)))
    slopes = (wide - wide.roll(1)) - (wide.roll(1) - wide.roll(2))
    assert slopes.abs().max() < 3 * slopes.abs().mean()  # no crease where it meets itself


def test_what_is_changed_reaches_the_model_and_has_no_stored_truth(phases: Explorer, flow: Explorer) -> None:
    stroke = Stroke(field="u", at=(0.5, 0.5), width=0.1, amount=1.0)
    plain = phases.ask(Question(points=(8, 8)))
    answer = phases.ask(Question(points=(8, 8), strokes=(stroke, stroke), numbers=(("gamma", 0.004),)))
    grid = phases.grid.with_points((8, 8))
    torch.testing.assert_close(answer.given["u[0]"], plain.given["u[0]"] + 2 * stroke.on(grid))
    assert torch.equal(answer.given["gamma"], torch.full((8, 8), 0.004))
    assert answer.truth == answer.errors == {}
    assert not torch.allclose(answer.predicted["u[1]"], plain.predicted["u[1]"], atol=1e-4)
    moved = replace(stroke, field="vorticity")
    frames = flow.ask(Question(points=(16, 16), strokes=(moved,))).given  # on every frame that is given
    still = flow.ask(Question(points=(16, 16))).given
    bump = moved.on(flow.grid.with_points((16, 16)))
    for name in frames:  # without a mean, which a vorticity on a torus cannot have
        torch.testing.assert_close(frames[name] - still[name], bump - bump.mean(), atol=1e-5, rtol=0)


def test_a_field_without_a_mean_gets_none_where_nobody_can_solve_either(flow: Explorer) -> None:
    blind = copy(flow)
    blind.solver, blind._last = "nobody can", None
    stroke = Stroke(field="vorticity", at=(0.5, 0.5), width=0.1, amount=1.0)
    for values in blind.ask(Question(points=(16, 16), strokes=(stroke,))).given.values():
        assert abs(float(values.mean())) < 1e-6


def test_a_stroke_far_from_the_origin_is_as_smooth_as_near_it() -> None:
    stroke = Stroke(field="u", at=(0.5, 0.25), width=0.1, amount=1.0)
    near, far = (Grid(extent=(10.0, 20.0), points=(64, 32), origin=(x, 0.0)) for x in (0.0, 5e6))
    torch.testing.assert_close(stroke.on(far), stroke.on(near), rtol=1e-5, atol=1e-6)


def test_what_would_be_solved_is_bounded_at_the_points_it_is_solved_at(flow: Explorer, monkeypatch) -> None:
    monkeypatch.setattr("mondrian.explore.explorer.MOST_VALUES", 8 * 8 * 2 * 20)
    few = Question(points=(8, 8), applications=20)
    flow._check(few)
    with pytest.raises(ValueError, match=r"applications=20 at points=\(32, 32\) are 40,960 values"):
        flow.ask(replace(few, solve=True))


def test_where_the_solver_fails_the_model_answers_and_the_reason_is_told(flow: Explorer) -> None:
    stroke = Stroke(field="vorticity", at=(0.5, 0.5), width=0.1, amount=1e6)
    question = Question(points=(16, 16), strokes=(stroke,), solve=True)
    answer, alone = flow.ask(question), flow.ask(replace(question, solve=False))
    assert "is too long a step for this vorticity on (32, 32) points" in answer.unsolved
    assert answer.truth == answer.errors == {}
    assert alone.unsolved == ""
    torch.testing.assert_close(answer.given, alone.given)
    torch.testing.assert_close(answer.predicted, alone.predicted)
    assert len(flow.attention_map(question)) == 2


def test_where_the_solver_fails_what_is_stored_stays_the_truth(flow: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("it blew up")

    monkeypatch.setattr(Solver, "frames", fails)
    answer = flow.ask(Question(points=(16, 16), step=1, applications=3, solve=True))
    assert (list(answer.truth), answer.unsolved) == ([f"vorticity[{step}]" for step in (1, 2, 3)], "it blew up")


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_solved_anew_an_unchanged_sample_is_the_stored_one(name: str, folder: Path) -> None:
    asked = explorer(name, folder)
    assert isinstance(asked.solver, Solver)
    for points in asked.stored:
        question = Question(points=points, simulation=1)
        stored, solved = asked.ask(question), asked._solved(asked.solver, question)
        everything = {**stored.given, **stored.truth}
        assert set(solved) == set(everything) - {"gamma"}
        for name_of_channel, values in solved.items():
            torch.testing.assert_close(values, everything[name_of_channel], rtol=1e-4, atol=1e-4)


def test_what_is_stored_is_not_solved_and_what_is_missing_is(phases: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = phases.ask(Question(points=(8, 8), applications=3, solve=True))
    assert list(longer.truth) == ["u[0]", "u[1]", "u[2]", "u[3]"][1:]  # two frames are stored
    monkeypatch.setattr(Explorer, "_solved", None)
    assert list(phases.ask(Question(points=(8, 8), simulation=2, solve=True)).truth) == ["u[1]"]


def test_solved_for_a_changed_input_the_truth_is_that_of_the_equation(phases: Explorer, flow: Explorer) -> None:
    stroke = Stroke(field="u", at=(0.3, 0.6), width=0.2, amount=0.5)
    answer = phases.ask(Question(points=(16, 16), strokes=(stroke,), numbers=(("gamma", 0.002),), solve=True))
    problem = PROBLEMS["allen_cahn"]
    gamma = torch.tensor([0.002]).numpy()
    end = problem.continued(answer.given["u[0]"][None], {"gamma": gamma}, problem.grid, 1)[0, 0]
    torch.testing.assert_close(answer.truth["u[1]"], end)
    swirl = Stroke(field="vorticity", at=(0.3, 0.6), width=0.1, amount=2.0)
    flowing = flow.ask(Question(points=(32, 32), strokes=(swirl,), applications=2, solve=True))
    frames = PROBLEMS["navier_stokes"].continued(flowing.given["vorticity[-1]"][None], {}, flow.grid, 5)[0]
    torch.testing.assert_close(flowing.given["vorticity[0]"], frames[0])  # what it is given belongs together
    torch.testing.assert_close(torch.stack(list(flowing.truth.values())), frames[1:])
    assert len(flowing.truth) == len(flowing.predicted) == 4


def test_shares_are_those_of_the_question_that_was_asked(phases: Explorer) -> None:
    question = Question(points=(8, 8), strokes=(Stroke(field="u", at=(0.1, 0.1), width=0.3, amount=2.0),))
    maps = phases.attention_map(question)
    x = torch.stack(list(phases.ask(question).given.values()))[None]
    expected = attention_map(phases.surrogate, x, phases.grid.with_points((8, 8)))
    assert [each.block for each in maps] == ["model.blocks.0", "model.blocks.1"]
    for one, other in zip(maps, expected, strict=True):
        assert torch.equal(one.weights, other.weights)
    plain = phases.attention_map(Question(points=(8, 8)))
    assert not torch.allclose(plain[0].weights, maps[0].weights, atol=1e-6)


def test_files_of_others_have_no_solver_and_one_resolution(tmp_path: Path) -> None:
    splits = data("kuramoto_sivashinsky", tmp_path)
    (tmp_path / "kuramoto_sivashinsky" / "manifest.json").unlink()
    (file,) = (tmp_path / "kuramoto_sivashinsky" / "32").rglob("test/*.hdf5")
    alone = replace(splits, files=replace(splits.files, path=str(file)), fractions=(0.34, 0.33, 0.33))
    asked = Explorer(surrogate(alone), alone)
    assert list(asked.stored) == [(32,)]
    assert asked.ask(Question(points=(24,), applications=2)).truth
    with pytest.raises(ValueError, match="solve=True: the data is not of `mondrian generate`"):
        asked.ask(Question(points=(32,), applications=9, solve=True))


def test_a_model_that_is_not_given_the_numbers_is_solved_for_with_those_of_the_simulation(folder: Path) -> None:
    asked = explorer("allen_cahn", folder, Window(input=("u",), target=("u",)))
    stroke = Stroke(field="u", at=(0.3, 0.6), width=0.2, amount=1e-6)
    stored = asked.ask(Question(points=(16, 16), simulation=1))
    solved = asked.ask(Question(points=(16, 16), simulation=1, strokes=(stroke,), solve=True))
    torch.testing.assert_close(solved.truth["u[1]"], stored.truth["u[1]"], rtol=1e-3, atol=1e-3)


def test_a_model_of_numbers_alone_answers(folder: Path) -> None:
    asked = explorer("allen_cahn", folder, Window(input=("gamma",), target=("u",), steps_out=2))
    answer = asked.ask(Question(points=(8, 8), numbers=(("gamma", 0.003),)))
    assert list(answer.predicted) == ["u[0]", "u[1]"]
    assert isinstance(asked.solver, str)
    assert list(asked.ask(Question(points=(8, 8))).truth) == ["u[0]", "u[1]"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions_answer_and_look(dtype: torch.dtype, folder: Path) -> None:
    single, other = explorer("allen_cahn", folder), explorer("allen_cahn", folder)
    other.surrogate.to(dtype)
    question = Question(points=(8, 8))
    tolerance = {"rtol": 0.0, "atol": 1e-5 if dtype is torch.float64 else 0.2}
    torch.testing.assert_close(other.ask(question).predicted, single.ask(question).predicted, **tolerance)
    for one, two in zip(other.attention_map(question), single.attention_map(question), strict=True):
        torch.testing.assert_close(one.weights.float(), two.weights, **tolerance)


def test_subdomains_of_a_size_and_a_unet_are_explored_too(folder: Path) -> None:
    splits = data("navier_stokes", folder)
    sized = surrogate(splits, subdomains=(), subdomain_size=(math.tau / 4, math.tau / 4))
    assert len(Explorer(sized, splits).attention_map(Question(points=(16, 16)), at=(0.1, 0.9))) == 2
    unet = unet_no(
        in_channels=2, out_channels=2, hidden_channels=8, subdomains=(4, 4), levels=2, grid=splits.dataset("test").grid
    )
    spec = replace(surrogate(splits).spec, model=replace(unet.spec, grid=replace(unet.spec.grid, points=())))
    maps = Explorer(spec.build(), splits).attention_map(Question(points=(16, 16)), at=(0.1, 0.9))
    assert {each.lattice.counts for each in maps} == {(4, 4), (2, 2)}


def test_what_is_given_out_can_be_changed_without_harm(phases: Explorer) -> None:
    question = Question(points=(8, 8))
    phases.ask(question).given["u[0]"].add_(1)
    assert phases.ask(question).given["u[0]"].max() < 1


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(points=(2048, 2048)), r"points=\(2048, 2048\) are 4,194,304; needed at most 1,048,576, or stored"),
        (Question(points=(512, 512), applications=100), "applications=100 at .* are 26,214,400 values; needed at most"),
        (Question(points=(8,)), r"points=\(8,\) have 1 axes; needed 2"),
        (Question(points=(8, 8), simulation=3), "simulation=3 must be from 0 to 2"),
        (Question(points=(8, 8), step=1), "step=1 must be from 0 to 0"),
        (Question(points=(8, 8), numbers=(("nu", 1.0),)), "'nu' is not a number of the input; .*: gamma"),
        (Question(points=(8, 8), numbers=(("gamma", -1.0),)), "'gamma' holds -1; needed positive numbers"),
        (
            Question(points=(8, 8), strokes=(Stroke(field="v", at=(0.0, 0.0), width=0.1, amount=1.0),)),
            "'v' is not a field of the input; needed one of: u",
        ),
        (
            Question(points=(8, 8), strokes=(Stroke(field="u", at=(0.0,), width=0.1, amount=1.0),)),
            "needs a position along each of 2 axes",
        ),
        (
            Question(points=(8, 8), strokes=(Stroke(field="u", at=(0.0,), width=0.1, amount=1.0),), solve=True),
            "needs a position along each of 2 axes",
        ),
    ],
)
def test_what_cannot_be_asked_is_named(phases: Explorer, question: Question, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        phases.ask(question)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"\[\] is no Question"),
        ({"points": [8], "strokes": 5}, "strokes=5 must be a list"),
        ({"points": [8], "strokes": [5]}, "5 is no Stroke"),
        ({"points": [8], "numbers": [["gamma", 10**400]]}, "must be finite"),
        ({}, "missing 1 required positional argument: 'points'"),
        ({"points": [8, 8], "pionts": 1}, "Question has no 'pionts'; it takes points, simulation"),
        ({"points": [8, 0]}, r"points=\(8, 0\) must be at least 1"),
        ({"points": "many"}, "Question has points='many'"),
        ({"points": [8], "applications": 0}, "applications=0 must be from 1 to 1000"),
        ({"points": [8], "numbers": [["gamma", float("nan")]]}, "gamma=nan must be finite"),
        ({"points": [8], "strokes": [{"field": "u"}]}, "is no Stroke: .* missing 3"),
        ({"points": [8], "strokes": [{"field": "u", "at": [0.5], "width": 0.0, "amount": 1.0}]}, "a width above 0"),
    ],
)
def test_a_question_that_is_none_is_named(content: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Question.read(content)
