"""The examples in README and docs run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# docs/data.md needs a data set: tests/data/test_generate_command.py runs it with one
DOCUMENTS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if path.name != "data.md"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_examples_run_one_after_the_other(path, tmp_path):
    program = "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def test_the_allen_cahn_example_goes_from_data_to_picture(tmp_path):
    """A few steps only: `make demo` is where it learns."""
    words = ["--simulations", "32", "--epochs", "2", "--folder", str(tmp_path)]
    script = ROOT / "examples" / "allen_cahn.py"
    run = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(" x ") == 3
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", "fields.png"}
