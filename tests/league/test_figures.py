"""Figures of a league: who is who, and nothing is cut off."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mondrian.drawing.style import png_of
from mondrian.league.entrants import Entrant
from mondrian.league.evaluations import EvaluationSummary, RolloutCurve
from mondrian.league.field_panels import ranked
from mondrian.league.figures import draw_curves, draw_rollouts, drawings, looks
from mondrian.league.outcome import Outcome
from mondrian.league.results import Row, Score
from mondrian.league.settings import parse

PROBLEMS = ["allen_cahn", "navier_stokes"]


def rows_of(entrants: Sequence[Entrant]) -> list[Row]:
    rows = []
    for number, entrant in enumerate(entrants, 1):
        scores = {name: Score(0.01 * number * factor, None, 1) for name, factor in (("mae 32x32", 1), ("mae 64x64", 2))}
        outcome = Outcome(samples=(100.0, 200.0 * number), mae=(0.5, 0.01 * number), points=(32, 32))
        evaluation = EvaluationSummary({})
        rows.append(Row(entrant, "time", 10.0 * number, scores, (), (outcome,), final=True, evaluation=evaluation))
    return rows


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_two_of_the_main_part_look_alike_and_baselines_are_dashed(problem: str) -> None:
    entrants = parse([problem]).everyone
    styles = looks(entrants)
    assert len({styles[entrant.name]["color"] for entrant in entrants}) == len(entrants)
    assert all((styles[entrant.name]["linestyle"] == "-") == entrant.ours for entrant in entrants)


def test_of_many_ablations_no_two_look_alike() -> None:
    entrants = parse(["allen_cahn", "part=design_ablation"]).everyone
    assert len({tuple(style.values()) for style in looks(entrants).values()}) == len(entrants)


def test_operators_have_one_colour_under_both_kinds_of_attention() -> None:
    styles = looks(parse(["allen_cahn", "part=ablation"]).everyone)
    operators = [name.removeprefix("vit_") for name in styles if name.startswith("vit_")]
    assert len({styles[f"vit_{operator}"]["color"] for operator in operators}) == 7
    for operator in operators:
        assert styles[f"vit_{operator}"]["color"] == styles[f"swin_{operator}"]["color"]
        assert styles[f"vit_{operator}"]["linestyle"] != styles[f"swin_{operator}"]["linestyle"]


@pytest.mark.parametrize(("problem", "part"), [("allen_cahn", "design_ablation"), ("navier_stokes", "beyond")])
def test_long_names_are_inside_of_the_figure_and_beside_the_lines(problem: str, part: str) -> None:
    entrants = parse([problem, f"part={part}"]).everyone
    figure = draw_curves(rows_of(entrants), styles=looks(entrants))
    png_of(figure)
    (legend,) = figure.legends
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert max(ax.get_tightbbox().x1 for ax in figure.axes) < box.x0
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == [e.label for e in entrants]


@pytest.mark.parametrize("name", ["errors", "curves"])
def test_every_logarithmic_axis_has_numbers_to_read_it_by(name: str) -> None:
    """Also where the values span less than a power of ten."""
    entrants = parse(["navier_stokes"]).everyone
    figure = drawings(entrants)[name](rows_of(entrants[:2]))
    assert figure is not None
    png_of(figure)
    for ax in figure.axes:
        low, high = ax.get_xlim()
        assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 3


def test_rollouts_that_leave_all_bounds_are_drawn() -> None:
    entrants = parse(["navier_stokes"]).everyone[:1]
    (row,) = rows_of(entrants)
    curve = RolloutCurve((0.5, 1.0), relative_l2=(math.inf, math.inf), correlation=(0.0, 0.0), diverged=4)
    row = replace(row, evaluation=EvaluationSummary({}, rollouts={"32x32": curve}))
    figure = draw_rollouts([row], looks(entrants))
    assert figure is not None
    assert figure.axes[0].get_ylim() == (0.0, 1.05)  # the line of a field that has faded away
    png_of(figure)


def test_fields_are_shown_in_the_order_of_the_score_that_they_belong_to() -> None:
    rows = rows_of(parse(["navier_stokes"]).everyone)
    for place, error in {0: 0.4, 2: 0.3, 7: 0.1}.items():
        rows[place].scores["mae 128x128"] = Score(error, None, 1)
    best = ranked(rows, (128, 128))
    assert [rows.index(row) for row in best.values()] == [7, 2, 0, 1, 3, 11]  # those without a score come last
    assert list(best) == [1, 2, 3, 4, 5, 12]
    for place in (0, 2, 7):
        rows[place].scores["correlation time 128x128"] = rows[place].scores["mae 128x128"]
    of_rollouts = ranked(rows, (128, 128), time=10.0)
    assert [rows.index(row) for row in of_rollouts.values()] == [0, 2, 7, 1, 3, 11]
