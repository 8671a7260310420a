"""What the package offers: names that are loaded when they are first used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mondrian


def test_the_names_are_those_of_the_stub() -> None:
    stub = ast.parse(Path(mondrian.__file__).with_suffix(".pyi").read_text())
    listed = next(ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(mondrian.__all__) == sorted(listed)


@pytest.mark.parametrize("name", mondrian.__all__)
def test_each_name_is_there(name: str) -> None:
    value = getattr(mondrian, name)
    assert value.__name__ in (name, f"mondrian.{name}")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Mistake"):
        mondrian.Mistake  # noqa: B018


@pytest.mark.process
def test_to_import_the_package_is_quick_and_its_names_come_with_their_first_use() -> None:
    program = """
import sys, mondrian
assert "torch" not in sys.modules
assert mondrian.Grid is sys.modules["mondrian.grid"].Grid
assert "mondrian.training" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
