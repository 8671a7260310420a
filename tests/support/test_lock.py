"""Locks: one at a time, the second comer learns who is first, and nothing that was killed holds anything."""

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from mondrian.support.lock import Lock, LockedError, locked_numbers

HOLD = """
import sys, time
from pathlib import Path
from mondrian.support.lock import Lock
Lock.of_folder(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.process
def test_the_second_comer_gets_one_line_that_names_the_first_and_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        who = rf"process {first.pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d$"
        with pytest.raises(LockedError, match=f"{tmp_path} is in use by {who}"):
            Lock.of_folder(tmp_path).acquire()
    finally:
        first.kill()
        first.communicate()
    assert str(first.pid) in (tmp_path / ".lock").read_text()  # what the killed process left
    with Lock.of_folder(tmp_path), pytest.raises(LockedError, match=f"process {os.getpid()} "):
        Lock.of_folder(tmp_path).acquire()
    assert not list(tmp_path.iterdir())


def test_a_folder_or_a_file_that_does_not_exist_can_be_held(tmp_path: Path) -> None:
    folder, file = tmp_path / "runs" / "first", tmp_path / "made" / "y.npy"
    with Lock.of_folder(folder), Lock.of_file(file):
        assert [path.name for path in folder.iterdir()] == [".lock"]
        assert [path.name for path in file.parent.iterdir()] == [".y.npy.lock"]
    assert not any(file.parent.iterdir())


def test_one_that_waits_takes_the_lock_when_the_other_releases_it(tmp_path: Path) -> None:
    first, second = Lock.of_folder(tmp_path), Lock.of_folder(tmp_path)
    first.acquire()
    waiting = threading.Thread(target=second.acquire, kwargs={"wait": True})
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    first.release()  # which removes the file that the second one waits at
    waiting.join(60)
    with pytest.raises(LockedError):
        first.acquire()
    second.release()
    first.acquire()
    first.release()


def test_a_forked_child_does_not_hold_what_its_parent_held(tmp_path: Path) -> None:
    lock = Lock.of_folder(tmp_path)
    lock.acquire()
    (child_waits, end), (ready, child_is_ready) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.write(child_is_ready, b".")
        os.read(child_waits, 1)
        os._exit(0)
    try:
        os.read(ready, 1)
        lock.close()  # as at the death of the parent: without a release
        with Lock.of_folder(tmp_path):
            pass
    finally:
        os.close(end)
        os.waitpid(child, 0)
        for descriptor in (child_waits, ready, child_is_ready):
            os.close(descriptor)


@pytest.mark.process
def test_a_program_that_inherits_the_lock_holds_it_on(tmp_path: Path) -> None:
    lock = Lock.of_folder(tmp_path)
    lock.acquire()
    reads = [sys.executable, "-S", "-c", "input()"]
    heir = subprocess.Popen(reads, stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    lock.close()
    try:
        with pytest.raises(LockedError):
            lock.acquire()
    finally:
        heir.communicate(b"\n")
    lock.acquire()
    lock.release()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=f"cannot write {tmp_path / 'file'}: "):
        Lock.of_folder(tmp_path / "file").acquire()


@pytest.mark.parametrize("code, refused", [(errno.ENOLCK, False), (errno.EIO, True)])
def test_a_file_system_without_locks_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, refused: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "no")

    for function in ("fcntl", "lockf"):
        monkeypatch.setattr(fcntl, function, fail)
    numbers = locked_numbers(tmp_path / "numbers", range(3), waiting=lambda: pytest.fail("waited"))
    for lock in (Lock.of_folder(tmp_path), numbers):
        with pytest.raises(OSError, match="no") if refused else nullcontext(), lock:
            pass
