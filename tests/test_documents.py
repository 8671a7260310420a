"""The pages: their programs and commands run as they stand, their links lead somewhere, the reference is complete."""

import re
import runpy
import sys

import numpy as np
import pytest

from mondrian.training import train
from tests import forked
from tests.pages import ROOT, blocks, execute, prose

FOLDERS = ("docs", "docs/tutorials", "docs/ways")
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}/*.md")))]
# docs/data.md needs a data set: tests/data/test_generate_command.py runs it with one
EXECUTED = [page for page in PAGES if page.name != "data.md" and any(blocks(page))]
WRITTEN = [
    *PAGES,
    ROOT / "docs/results/README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs/reference").glob("*.md")),
]


@pytest.mark.process
@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.stem)
def test_what_a_page_shows_runs_from_top_to_bottom(page, tmp_path):
    run = forked.run(lambda: execute(page), cwd=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_a_page_has_one_sentence_a_line_and_no_long_line(page):
    lines = prose(page)
    assert [line for line in lines if len(line) > 200] == []
    assert [line for line in lines if re.search(r"[a-z0-9)`*][.?!] [A-Z]", line)] == []


def test_the_readme_is_short_and_names_the_targets():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    for target in ("test", "quick", "demo", "bench", "docs"):
        assert f"make {target}" in text


def test_links_lead_somewhere_and_every_picture_is_shown():
    shown = set()
    folders = ("docs/reference", "docs/results", "benchmarks/results")
    for path in [*PAGES, *(path for folder in folders for path in ROOT.glob(f"{folder}/*.md"))]:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)", text):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"
                shown.add((path.parent / target).resolve())
    assert set(ROOT.glob("docs/images/*.*")) <= shown


def test_every_public_name_has_a_place_in_the_reference():
    reference = runpy.run_path(str(ROOT / "docs/hooks/reference.py"))
    rooms, public, home = reference["rooms"](), reference["public"], reference["home"]
    assert [key for key, value in public("mondrian").items() if home(key, value, "mondrian") == "mondrian"] == []
    source = ROOT / "src/mondrian"
    packages = [path.parent for path in source.glob("*/__init__.py*")]
    modules = [
        path.with_suffix("") for path in source.glob("*.py") if path.stem.strip("_") not in ("init", "main", "cli")
    ]
    offering = [f"mondrian.{path.name}" for path in {*packages, *modules} if path.name not in ("conf", "support")]
    missing = [name for name in sorted(offering) if name not in rooms and public(name)]
    assert missing == [], "docs/reference/*.md: <!-- reference MODULE -->"


def test_the_tables_of_the_results_are_those_of_the_leagues():
    page = (ROOT / "docs/results/README.md").read_text()
    rendered = runpy.run_path(str(ROOT / "docs/results/tables.py"))["rendered"]
    assert rendered(page) == page, "python docs/results/tables.py writes them again"
    assert rendered(page.replace("0.171 ± 0.002", "0.161 ± 0.002", 1)) == page


def example(name, folder, *words):
    """Run an example in an empty folder."""
    run = forked.run_script(ROOT / "examples" / name, *words, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.process
def test_the_allen_cahn_example_goes_from_nothing_to_a_report(tmp_path):
    """A few steps only: `make demo` is where it learns."""
    out = example("allen_cahn.py", tmp_path, "max_steps=3", "model.n_layers=1")
    assert "mean absolute error" in out
    assert (tmp_path / "runs/allen_cahn/vit_sepmo_smoke/report.html").exists()


@pytest.mark.training
@pytest.mark.process
def test_the_example_of_attention_reads_any_run_with_subdomains(tmp_path):
    run = train("allen_cahn/gaze", "scale=smoke", "max_steps=2", "model.n_layers=2", f"run={tmp_path / 'gaze'}",
                f"data.path={tmp_path / 'data'}", "+data.make=true")  # fmt: skip
    lines = example("who_looks_at_whom.py", tmp_path, str(run.folder)).splitlines()
    assert len(lines) == 3
    for line in lines[1:]:  # heads that begin by looking at neighbours do so after two steps
        least, most, equal = (float(number) for number in re.findall(r"([\d.]+)%", line))
        assert equal < least <= most <= 100
    everything = example("who_looks_at_whom.py", tmp_path, str(run.folder), "8").splitlines()[1]
    assert everything.count("100.0%") == 3


@pytest.mark.process
def test_the_example_with_own_arrays_trains_and_rolls_out(tmp_path):
    out = example("own_arrays.py", tmp_path, "runs/burgers", "12")
    assert "ten steps at 128 points" in out


def test_the_arrays_of_the_example_solve_burgers_equation():
    """By central differences on smooth frames: second order in space and time."""
    sys.path.insert(0, str(ROOT / "examples"))
    import own_arrays

    u = own_arrays.burgers(4, 512, 5, seed=0).astype("float64")
    residuals = []
    for n in (256, 512):
        w = u.reshape(4, 5, n, -1).mean(axis=-1)[:, 3]
        convection = (np.roll(w**2, -1, -1) - np.roll(w**2, 1, -1)) * n / 4
        diffusion = 0.01 * (np.roll(w, -1, -1) - 2 * w + np.roll(w, 1, -1)) * n**2
        residuals.append(convection - diffusion)
    coarse = residuals[1].reshape(4, 256, 2).mean(axis=-1)
    rate = (u[:, 4] - u[:, 2]) / 0.1
    assert np.abs(residuals[0] - coarse).max() < 0.05 * np.abs(coarse).max()
    assert np.abs(rate + residuals[1]).max() < 0.2 * np.abs(rate).max()


@pytest.mark.process
def test_the_example_of_a_larger_domain_trains_on_a_square_and_runs_on_two(tmp_path):
    out = example("larger_domain.py", tmp_path, "runs/larger", "16", "4")
    square, long = re.findall(r"\[0, (\d)\] x \[0, 2\]: mean absolute error ([\d.]+)", out)
    assert (square[0], long[0]) == ("2", "4")
    assert (tmp_path / "runs/larger/larger_domain.png").stat().st_size > 10_000
