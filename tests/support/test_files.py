"""JSON that every reader understands, whatever numbers are in it."""

import json
import math
from pathlib import Path

from mondrian.support.files import write_json


def test_what_is_not_finite_is_written_such_that_strict_readers_take_it(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    write_json(file, {"list": [1.5, math.inf, -math.inf, math.nan], "text": "Infinity, NaN", "pair": (1, None)})

    def refuse(name: str) -> float:
        raise AssertionError(name)

    content = json.loads(file.read_text(), parse_constant=refuse)
    assert content == {"list": [1.5, math.inf, -math.inf, None], "text": "Infinity, NaN", "pair": [1, None]}
