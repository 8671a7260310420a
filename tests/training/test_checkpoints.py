"""Checkpoints: whole or not there, and back to the one before if the newest is not."""

from pathlib import Path

import pytest
import torch

from mondrian.training.checkpoints import AtomicCheckpoints, newest, saved


def write(folder: Path, step: int) -> Path:
    AtomicCheckpoints().save_checkpoint({"step": torch.tensor(step)}, folder / f"step_{step:08d}")
    return next(path for path in saved(folder) if f"{step:08d}" in path.name)


def test_the_newest_is_found_and_can_be_read(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None
    for step in (5, 100, 20):
        write(tmp_path, step)
    checkpoint = newest(tmp_path)
    assert checkpoint is not None
    assert torch.load(checkpoint, weights_only=True)["step"] == 100
    assert [path.name[:13] for path in saved(tmp_path)] == ["step_00000100", "step_00000020", "step_00000005"]


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_a_damaged_newest_gives_way_to_the_one_before_and_is_named(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = write(tmp_path, 1), write(tmp_path, 2)
    content = newer.read_bytes()
    middle = len(content) // 2
    newer.write_bytes(
        {
            "truncated": content[:-10],
            "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    assert newest(tmp_path) == older
    assert f"{newer} is damaged; resuming from {older.name} instead" in capsys.readouterr().err
    assert not newer.exists()


def test_only_damaged_ones_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"no checkpoint in {tmp_path} is intact: {path.name}"):
        newest(tmp_path)


def test_what_a_killed_process_left_is_cleaned_up(tmp_path: Path) -> None:
    write(tmp_path, 1)
    leftover = tmp_path / ".step_00000002_0123456789abcdef.ckpt.0badf00d.partial"
    leftover.write_bytes(b"half")
    newest(tmp_path)
    assert not leftover.exists()
