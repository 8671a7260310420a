"""JSON that every reader understands, whatever numbers are in it."""

import json
import math
from pathlib import Path

from mondrian.support.files import write_atomically, write_json


def test_what_is_not_finite_is_written_such_that_strict_readers_take_it(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    write_json(file, {"list": [1.5, math.inf, -math.inf, math.nan], "text": "Infinity, NaN", "pair": (1, None)})

    def refuse(name: str) -> float:
        raise AssertionError(name)

    content = json.loads(file.read_text(), parse_constant=refuse)
    assert content == {"list": [1.5, math.inf, -math.inf, None], "text": "Infinity, NaN", "pair": [1, None]}


def test_who_has_the_former_file_open_reads_it_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"former")
    with open(file, "rb") as reader:
        write_atomically(file, b"new")
        assert reader.read() == b"former"
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]
