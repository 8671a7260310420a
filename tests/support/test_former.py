"""Former modules and names still import, with a warning that says the new name."""

import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import mondrian
from mondrian.support.former import MODULES, NAMES, RENAMED

SOURCE = Path(mondrian.__file__).parent.parent


@pytest.fixture(autouse=True)
def modules_are_forgotten_again(monkeypatch):
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("former", MODULES)
def test_a_former_module_imports_with_a_warning_and_has_what_the_new_ones_have(former: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # a former package warns of itself
        import_module(former.rpartition(".")[0])
    with pytest.warns(DeprecationWarning, match=f"{former} is now {MODULES[former][0]}"):
        stand_in = import_module(former)
    for place in MODULES[former]:
        module = import_module(place)
        names = [name for name in vars(module) if not name.startswith("_")]
        assert names
        assert all(hasattr(stand_in, name) for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'mistake'"):
        stand_in.mistake  # noqa: B018


@pytest.mark.parametrize("former", MODULES)
def test_no_module_stands_where_a_former_one_is_listed(former: str) -> None:
    path = SOURCE / former.replace(".", "/")
    assert not path.with_suffix(".py").exists()
    assert not (path / "__init__.py").exists()


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in NAMES for name in NAMES[module]])
def test_a_name_that_moved_is_still_there_with_a_warning(module: str, name: str) -> None:
    place = NAMES[module][name]
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is now {place}.{name}"):
        former = getattr(import_module(module), name)
    assert former is getattr(import_module(place), name)


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in RENAMED for name in RENAMED[module]])
def test_a_renamed_name_is_still_there_with_a_warning(module: str, name: str) -> None:
    new = RENAMED[module][name]
    place, _, current = new.rpartition(".")
    with warnings.catch_warnings(action="ignore"):  # a former module warns of itself
        home = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is now {new}"):
        former = getattr(home, name)
    assert former is getattr(import_module(place), current)


@pytest.mark.parametrize("module", sorted({*NAMES, *RENAMED} - set(MODULES)))
def test_other_names_are_no_attributes(module: str) -> None:
    with pytest.raises(AttributeError, match=r"attribute '?mistake"):
        import_module(module).mistake  # noqa: B018


def test_modules_do_not_warn_of_names_that_are_not_used() -> None:
    with warnings.catch_warnings(record=True) as caught:
        import_module("mondrian.points")
        import_module("mondrian.models.points")
    assert not caught


@pytest.mark.process
def test_the_warning_names_the_line_that_imports_and_nothing_is_loaded_before_its_use(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    lines = [
        "import sys",
        "import mondrian.extras",
        "assert not {'torch', 'numpy', 'mondrian.support.libraries'} & set(sys.modules)",
        "from mondrian.points import CrossAttention",
    ]
    program.write_text("\n".join(lines))
    run = subprocess.run([sys.executable, "-W", "always", program], capture_output=True, text=True, check=True)
    assert (
        f"{program}:2: DeprecationWarning: the module mondrian.extras is now mondrian.support.libraries" in run.stderr
    )
    assert f"{program}:4: DeprecationWarning: mondrian.points.CrossAttention is now" in run.stderr
