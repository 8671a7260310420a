"""The mistakes that `benchmarks.mutants` puts into the library: each has its line, is Python, and has tests."""

from pathlib import Path

import pytest
from benchmarks.mutants import ROOT, SOURCE, FaultError, placed
from benchmarks.mutations import FAULTS, Fault


def test_every_fault_has_one_line_of_the_library_and_files_of_tests() -> None:
    places = placed(FAULTS, SOURCE)
    assert len(places) == 40
    for place in places:
        lines = place.file.read_text().splitlines()
        lines[place.line] = lines[place.line].replace(place.fault.line, place.fault.faulty)
        compile("\n".join(lines), place.file, "exec")
        assert place.fault.faulty != place.fault.line
        assert all((ROOT / test).is_file() for test in place.fault.tests)


@pytest.mark.parametrize(("text", "where"), [("y = 1\n", "nowhere"), ("x = 1\nif x:\n    x = 1\n", "a.py:1, a.py:3")])
def test_a_line_that_is_gone_or_stands_twice_is_named(text: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(FaultError, match=f"'another number': needed one line 'x = 1'; it stands {where}"):
        placed((Fault("another number", "x = 1", "x = 2", ()),), tmp_path)
