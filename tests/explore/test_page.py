"""The page in a real browser: it asks, draws, paints, looks and says what is wrong."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from mondrian.explore.server import Server
from mondrian.surrogate import Window
from tests.browser import Visit, needs_browser, visit
from tests.explore.cases import explorer

pytestmark = [needs_browser, pytest.mark.process]

WAIT = "const settled = async () => { while (running) await new Promise((done) => setTimeout(done, 20)); };"
POINT = """
const point = (kind, x, y) => {
  const box = panels.given.box.getBoundingClientRect();
  const where = { clientX: box.left + x * box.width, clientY: box.top + y * box.height, pointerId: 1 };
  panels.given.box.dispatchEvent(new PointerEvent(kind, where));
};
panels.given.box.setPointerCapture = () => {}; // there is no real pointer
"""


def opened(name: str, folder: Path, actions: str, window: Window | None = None) -> Visit:
    """The page of an explorer, after a script has worked on it; what it `tell`s stands in the title."""
    with Server(explorer(name, folder, window)) as server:
        steps = f"{WAIT} {POINT} const said = []; const tell = (...words) => said.push(words.join(' '));"
        acting = f"begin().then(async () => {{ {steps} {actions} await settled(); document.title = said.join('; '); }})"
        script = server.pages["/page.js"].decode()
        assert script.count("begin()") == 1
        server.pages["/page.js"] = script.replace("begin()", acting).encode()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            return visit(server.address, folder, "--virtual-time-budget=30000")
        finally:
            server.shutdown()
            thread.join()


def told(seen: Visit) -> list[str]:
    match = re.search(r"<title>(.*?)</title>", seen.dom)
    assert match is not None
    return match[1].split("; ")


@pytest.mark.parametrize("name", ["allen_cahn", "allen_cahn3d", "navier_stokes", "kuramoto_sivashinsky"])
def test_the_page_opens_without_an_error_and_asks_nobody_else(name: str, tmp_path: Path) -> None:
    seen = opened(name, tmp_path, "tell($('panels').children.length, $('message').textContent || 'fine');")
    assert seen.console == []
    assert {re.sub(r".*:\d+/", "/", url).partition("?")[0] for url in seen.requests} >= {"/page.js", "/about", "/ask"}
    assert all(url.startswith("http://127.0.0.1:") for url in seen.requests)
    assert told(seen) == ["4 fine"]
    assert "parameters, 3 simulations" in seen.dom
    assert re.search(r"mean [\d.e-]+, relative L2 [\d.e-]+", seen.dom)


def test_painting_changes_the_answer_and_is_solved_and_taken_back(tmp_path: Path) -> None:
    seen = opened(
        "allen_cahn",
        tmp_path,
        """
        const different = (one, other) => one.some((value, place) => value !== other[place]);
        const before = answer.predicted["u[1]"], truth = answer.truth["u[1]"];
        $("strength").value = 4;
        $("width").value = 0.2;
        point("pointerdown", 0.3, 0.3); point("pointermove", 0.5, 0.3); point("pointermove", 0.501, 0.3);
        await settled();
        tell(strokes.length, different(answer.predicted["u[1]"], before), Object.keys(answer.truth).length);
        point("pointerup", 0.5, 0.3);
        await settled();
        tell(different(answer.truth["u[1]"], truth), strokes.map(({ at }) => at.map((value) => value.toFixed(2))));
        $("undo").click();
        await settled();
        tell(strokes.length, different(answer.predicted["u[1]"], before), different(answer.truth["u[1]"], truth));
        """,
    )
    assert seen.console == []
    # two bumps, 0.3 of the shorter side apart, the next place being too near; while one paints nothing is solved; the
    # second axis points up
    assert told(seen) == ["2 true 0", "true 0.30,0.70,0.45,0.70", "0 false false"]


def test_a_solver_that_fails_says_so_in_the_place_of_the_truth(tmp_path: Path) -> None:
    seen = opened(
        "kuramoto_sivashinsky",
        tmp_path,
        """
        strokes = [{ field: "u", at: [0.5], width: 0.1, amount: 1e4 }];
        refresh();
        await settled();
        tell(panels.truth.none.hidden, panels.truth.none.textContent);
        tell(panels.prediction.none.hidden, $("message").textContent || "fine");
        """,
    )
    assert seen.console == []
    reason = "dt=0.05 is too long a step for these values on (32,) points: they blew up"
    assert told(seen) == [f"false No truth: {reason}.", "true fine"]


def test_other_points_numbers_and_frames(tmp_path: Path) -> None:
    seen = opened(
        "allen_cahn",
        tmp_path,
        """
        const press = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("input")); };
        $("points").value = "12x10"; $("points").dispatchEvent(new Event("change"));
        await settled();
        tell(answer.points, panels.prediction.pixels.width, panels.prediction.pixels.height);
        press("number-gamma", Math.log10(0.002));
        await settled();
        tell(answer.numbers.gamma.toFixed(4), $("number-gamma-value").textContent);
        press("applications", 3); await settled(); press("frame", 2);
        tell($("frame-value").textContent, panels.prediction.title.textContent, "u[3]" in answer.truth);
        $("points").value = "12"; $("points").dispatchEvent(new Event("change"));
        await settled();
        tell($("message").textContent.replace(";", ","));
        $("points").value = "12 by 9"; $("points").dispatchEvent(new Event("change"));
        await settled();
        tell($("message").textContent.replace(";", ","));
        """,
    )
    assert all("400 (Bad Request)" in line for line in seen.console)  # of the last question alone
    assert told(seen) == [
        "12,10 12 10",
        "0.0020 0.002",
        "3 of 3, t = 18 prediction u, t = 18 true",
        "points=(12,) have 1 axes, needed 2",
        "12 by 9 is not a number of points for each axis, needed for example 48x48",
    ]


def test_a_click_shows_who_looks_at_whom_where_they_are(tmp_path: Path) -> None:
    """On the canvas of a head the lightest place is that of the subdomain with the largest weight."""
    seen = opened(
        "navier_stokes",
        tmp_path,
        """
        $("look").click();
        point("pointerdown", 0.9, 0.9);
        await settled();
        const { blocks } = await request("/attention", { question: question(), at: [0.9, 0.1] });
        tell(blocks.map((block) => block.subdomain), $("blocks").querySelectorAll("canvas").length);
        const canvas = $("blocks").querySelector("canvas"), [block] = blocks, weights = floats(block.weights[0]);
        const largest = weights.indexOf(weights.reduce((a, b) => Math.max(a, b))), box = block.boxes[largest];
        const middle = box.map(([low, high]) => (low + high) / 2);
        const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const at = (x, y) => {
          const first = 4 * (Math.floor((1 - y) * height) * width + Math.floor(x * width));
          return [...data.slice(first, first + 3)];
        };
        const lightest = [...about.colours.magma.slice(-3)];
        tell(at(...middle).join() === lightest.join(), at((middle[0] + 0.5) % 1, middle[1]).join() === lightest.join());
        $("raise").click();
        tell($("attention").hidden);
        """,
    )
    assert seen.console == []
    assert told(seen) == ["2,3 8", "true false", "true"]  # two blocks of four heads; the second goes round the ring


def test_the_keyboard_paints_and_looks_as_the_pointer_does(tmp_path: Path) -> None:
    seen = opened(
        "kuramoto_sivashinsky",
        tmp_path,
        """
        const press = (key) => panels.given.box.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
        press("ArrowRight"); press("ArrowRight"); press("ArrowUp"); press("Enter");
        await settled();
        tell(strokes.length, strokes[0].at[0].toFixed(2), strokes[0].at.length, $("undo").disabled);
        """,
    )
    assert seen.console == []
    assert told(seen) == ["1 0.54 1 false"]


def test_a_model_of_numbers_alone_has_nothing_to_paint_on(tmp_path: Path) -> None:
    script = "tell(panels.given.figure.hidden, $('acting').hidden, panels.prediction.pixels.width);"
    seen = opened("allen_cahn", tmp_path, script, Window(input=("gamma",), target=("u",), steps_out=2))
    assert seen.console == []
    assert told(seen) == ["true true 8"]
