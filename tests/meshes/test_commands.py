"""The commands and the example, from nothing to pictures."""

import subprocess
import sys
from pathlib import Path

import pytest

import mondrian
from mondrian.cli import main
from mondrian.surrogate import MeshSurrogate
from tests import forked

EXAMPLE = Path(__file__).parents[2] / "examples" / "poisson_mesh.py"


@pytest.mark.process
def test_the_example_goes_from_nothing_to_a_page(tmp_path):
    run = forked.run_script(EXAMPLE, "--scale", "smoke", "--recipe", "poisson/metis", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "a domain with more holes: relative L2 error" in run.stdout
    assert (tmp_path / "runs/example/poisson/metis/report.html").stat().st_size > 10_000
    assert isinstance(mondrian.from_pretrained(tmp_path / "runs/example/poisson/metis/artefact"), MeshSurrogate)


@pytest.mark.training
def test_the_commands_know_meshes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def said(*words):
        code = main(list(words))
        text = capsys.readouterr()
        return code, text.out + text.err

    assert said("generate", "data=poisson", "scale=smoke", "path=data/poisson_smoke")[0] == 0
    code, text = said("train", "experiment=poisson/boxes", "scale=smoke", "max_steps=2")
    assert code == 0, text
    run = "runs/poisson/boxes_smoke"
    code, text = said("evaluate", run)
    assert code == 0, text
    assert "8 simulations" in text
    assert "relative L2 error" in text
    code, text = said("evaluate", f"{run}/artefact", "path=data/poisson_smoke", "out=again", "split=valid")
    assert code == 0, text
    assert "4 simulations" in text
    assert "in     source, distance at the vertices" in said("predict", run)[1]
    code, text = said("predict", run, "data/poisson_smoke/test/00000.vtu", "-o", "answer.vtu")
    assert code == 0, text
    assert "answer.vtu: 1 sample, u at" in text
    code, text = said("report", run)
    assert code == 0, text
    for words, message in {
        ("evaluate", run, "points=[[8,8]]"): "is for fields on grids",
        ("predict", run, "data/poisson_smoke/test/00000.vtu", "-o", "b.vtu", "--steps", "3"): "steps=3 is for fields",
        ("predict", run, "nothing.vtu", "-o", "b.vtu"): "nothing.vtu",
        ("predict", run, "answer.vtu", "-o", "./answer.vtu"): "answer.vtu is the input",
    }.items():
        code, text = said(*words)
        assert code != 0
        assert message in text


@pytest.mark.process
def test_a_model_opens_in_a_new_process(tmp_path):
    """What `mondrian train` wrote is read by `import mondrian` alone."""
    from mondrian import vit_no
    from mondrian.surrogate import Scale, SurrogateSpec

    model = vit_no(1, 1, hidden_channels=4, subdomains=(2, 2), n_layers=1).spec
    SurrogateSpec(model, ("u[0]",), ("u[1]",), (Scale(),), (Scale(),)).build().save_pretrained(tmp_path)
    code = f"import mondrian; print(type(mondrian.from_pretrained({str(tmp_path)!r})).__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "Surrogate", run.stderr


@pytest.mark.parametrize("name", ["poisson/boxes", "poisson/metis"])
def test_recipes_are_built_by_name(name):
    assert mondrian.build(name, "model.hidden_channels=8").spec.hidden_channels == 8


def test_a_missing_library_is_one_line_that_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "meshio", None)
    assert main(["generate", "data=poisson", "scale=smoke", f"path={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert "this needs the library meshio: pip install -c constraints.txt -e '.[mesh]'" in error
    assert error.count("\n") == 1
