"""Locks on files and folders: one process at a time, also on shared file systems."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from mondrian.support.files import writing

NAME = ".lock"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of file systems of some clusters
_FIRST = 1 << 30  # the locked bytes lie beyond the text, which everybody may read


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    >>> print(Holder(process=4711, machine="node3", since="2026-01-31 12:00:00"))
    process 4711 on node3, since 2026-01-31 12:00:00
    """

    process: int
    machine: str
    since: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.machine}, since {self.since}"


class LockedError(OSError):
    """Another process holds the lock."""


class Lock:
    """The lock of a folder, `.lock` in it, or of a file, `.NAME.lock` beside it.

    with Lock.of_folder(folder):
        ...  # another process gets a `LockedError` that names this one

    The kernel holds the lock, so that it ends with its process in every case; the file only names the holder. A forked
    child does not hold the locks of its parent; a program that inherits `descriptor` does (`pass_fds`).
    File systems without locks keep nobody out: there `enforced` stays False.
    """

    def __init__(self, path: Path, *, target: Path) -> None:
        self.path, self.target = path, target
        self.descriptor = -1
        self.enforced = False

    @classmethod
    def of_folder(cls, folder: Path) -> Lock:
        """The lock of a folder, which is made if it is not there yet."""
        return cls(folder / NAME, target=folder)

    @classmethod
    def of_file(cls, file: Path) -> Lock:
        """The lock of a file that is about to be written."""
        return cls(file.with_name(f".{file.name}{NAME}"), target=file)

    def acquire(self, *, wait: bool = False) -> None:
        """Take the lock; if another process holds it, `wait` until it is free or raise `LockedError`."""
        with writing(self.target):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        while self.descriptor < 0:
            with writing(self.target):
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                self.enforced = _take(descriptor, 0, wait=wait)
                if self._removed(descriptor):  # by the process that held it before
                    os.close(descriptor)
                else:
                    self.descriptor = descriptor
            except BlockingIOError:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise LockedError(f"{self.target} is in use by {holder or 'another process'}") from None
            except BaseException:
                os.close(descriptor)
                raise
        _OPEN.add(self)
        holder = Holder(os.getpid(), socket.gethostname(), f"{datetime.now():%Y-%m-%d %H:%M:%S}")
        with writing(self.target):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, json.dumps(asdict(holder)).encode(), 0)

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self.descriptor >= 0:
            with suppress(OSError):
                self.path.unlink()
            self.close()

    def close(self) -> None:
        """Close the lock in this process only: a program that inherited it still holds it."""
        descriptor, self.descriptor = self.descriptor, -1
        _OPEN.discard(self)
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _removed(self, descriptor: int) -> bool:
        try:
            return not os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return True


@contextmanager
def locked_numbers(path: Path, numbers: Iterable[int], *, waiting: Callable[[], None]) -> Iterator[None]:
    """Lock some `numbers`, ascending, of the lock file `path`: other processes that need one of them wait.

    `waiting` is called before this process waits.
    """
    with open(path, "wb") as file:
        for number in numbers:
            try:
                _take(file.fileno(), number, wait=False)
            except BlockingIOError:
                waiting()
                _take(file.fileno(), number, wait=True)
        yield


def _take(descriptor: int, number: int, *, wait: bool) -> bool:
    """Lock one byte of a file; `BlockingIOError` if another process has it, False if the file system has no locks."""
    try:
        _lock(descriptor, _FIRST + number, wait=wait)
    except OSError as error:
        if error.errno == errno.EACCES:  # for EAGAIN, on some systems
            raise BlockingIOError(*error.args) from error
        if error.errno not in _WITHOUT_LOCKS:
            raise
        return False
    return True


def _lock(descriptor: int, start: int, *, wait: bool) -> None:
    """On Linux a lock of the open file, elsewhere one of the process.

    A lock of the process would be lost whenever the process opens and closes the file once more.
    """
    if sys.platform == "linux":
        request = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, request)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, start)


def _holder(descriptor: int) -> Holder | None:
    """The holder that is written in a lock file; None while the file is empty."""
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return None


_OPEN: WeakSet[Lock] = WeakSet()  # of this process: its forked children must not keep them after its end


def _close_all() -> None:
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_all)
