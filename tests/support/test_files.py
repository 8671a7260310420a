"""JSON that every reader understands, whatever numbers are in it, and locks where there are any."""

import errno
import fcntl
import json
import math
from pathlib import Path

import pytest

from mondrian.support.files import holding, write_json


def test_what_is_not_finite_is_written_such_that_strict_readers_take_it(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    write_json(file, {"list": [1.5, math.inf, -math.inf, math.nan], "text": "Infinity, NaN", "pair": (1, None)})

    def refuse(name: str) -> float:
        raise AssertionError(name)

    content = json.loads(file.read_text(), parse_constant=refuse)
    assert content == {"list": [1.5, math.inf, -math.inf, None], "text": "Infinity, NaN", "pair": [1, None]}


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: int) -> None:
        def lock(*_: object) -> None:
            raise OSError(code, "no")

        monkeypatch.setattr(fcntl, "lockf", lock)

    waits: list[None] = []
    refuse(errno.ENOLCK)
    with holding(tmp_path / "lock", range(3), waiting=lambda: waits.append(None)):
        assert not waits
    refuse(errno.EIO)
    with pytest.raises(OSError, match="no"), holding(tmp_path / "lock", range(3), waiting=lambda: None):
        pass
