"""Figures of a league: who is who, and nothing is cut off."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from mondrian.drawing.style import png_of
from mondrian.evaluation.entries import Spectrum, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.league.entrants import Entrant
from mondrian.league.figures import draw_curves, draw_errors, draw_rollouts, looks
from mondrian.league.outcome import Outcome
from mondrian.league.results import Row, Score
from mondrian.league.settings import read
from mondrian.league.strips import _ranked

PROBLEMS = ["allen_cahn", "navier_stokes"]


def rows_of(entrants: Sequence[Entrant]) -> list[Row]:
    found = []
    for number, entrant in enumerate(entrants, 1):
        scores = {name: Score(0.01 * number * factor, None, 1) for name, factor in (("mae 32x32", 1), ("mae 64x64", 2))}
        outcome = Outcome(samples=(100.0, 200.0 * number), mae=(0.5, 0.01 * number), points=(32, 32))
        found.append(Row(entrant, "time", 10.0 * number, scores, (), (outcome,), final=True))
    return found


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_two_of_the_main_part_look_alike_and_baselines_are_dashed(problem: str) -> None:
    entrants = read([problem]).everyone
    styles = looks(entrants)
    assert len({styles[entrant.name]["color"] for entrant in entrants}) == len(entrants)
    assert all((styles[entrant.name]["linestyle"] == "-") == entrant.ours for entrant in entrants)


def test_of_many_guesses_no_two_look_alike() -> None:
    entrants = read(["allen_cahn", "part=reasons"]).everyone
    assert len({tuple(style.values()) for style in looks(entrants).values()}) == len(entrants)


def test_operators_have_one_colour_under_both_kinds_of_attention() -> None:
    styles = looks(read(["allen_cahn", "part=ablation"]).everyone)
    operators = [name.removeprefix("vit_") for name in styles if name.startswith("vit_")]
    assert len({styles[f"vit_{operator}"]["color"] for operator in operators}) == 7
    for operator in operators:
        assert styles[f"vit_{operator}"]["color"] == styles[f"swin_{operator}"]["color"]
        assert styles[f"vit_{operator}"]["linestyle"] != styles[f"swin_{operator}"]["linestyle"]


@pytest.mark.parametrize(("problem", "part"), [("allen_cahn", "reasons"), ("navier_stokes", "beyond")])
def test_long_names_are_inside_of_the_figure_and_beside_the_lines(problem: str, part: str) -> None:
    entrants = read([problem, f"part={part}"]).everyone
    figure = draw_curves(rows_of(entrants), styles=looks(entrants))
    png_of(figure)
    (legend,) = figure.legends
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert max(ax.get_tightbbox().x1 for ax in figure.axes) < box.x0
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == [e.label for e in entrants]


@pytest.mark.parametrize("draw", [draw_errors, partial(draw_curves, styles=looks(read(["navier_stokes"]).everyone))])
def test_every_logarithmic_axis_has_numbers_to_read_it_by(draw: Callable[[Sequence[Row]], Figure]) -> None:
    """Also where the values span less than a power of ten."""
    rows = rows_of(read(["navier_stokes"]).everyone[:2])
    figure = draw(rows)
    png_of(figure)
    for ax in figure.axes:
        low, high = ax.get_xlim()
        assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 3


def test_rollouts_that_leave_all_bounds_are_drawn() -> None:
    entrants = read(["navier_stokes"]).everyone[:1]
    (row,) = rows_of(entrants)
    lost = Summary(math.inf, math.inf, math.inf, count=4)
    over_time = (lost, lost)
    rollout = Trajectories(
        (32, 32), 4, 2, 0.0, (0.5, 1.0), 4, over_time, over_time, over_time, lost, lost, Spectrum((), (), (), ()), ()
    )
    object.__setattr__(row, "evaluation", SimpleNamespace(rollout=(rollout,)))
    figure = draw_rollouts([row], looks(entrants))
    assert figure is not None
    assert figure.axes[0].get_ylim() == (0.0, 1.05)  # the line of a field that has faded away
    png_of(figure)


def test_fields_are_shown_in_the_order_of_the_score_that_they_belong_to() -> None:
    rows = rows_of(read(["navier_stokes"]).everyone)
    for place, error in {0: 0.4, 2: 0.3, 7: 0.1}.items():
        rows[place].scores["mae 128x128"] = Score(error, None, 1)
    shown, places = _ranked(rows, "mae 128x128")
    assert [rows.index(row) for row in shown] == [7, 2, 0, 1, 3, 11]  # who has none comes last
    assert places == [1, 2, 3, 4, 5, 12]
    assert [rows.index(row) for row in _ranked(rows, "mae 128x128", largest=True)[0]] == [0, 2, 7, 1, 3, 11]
