"""Programs in a process of their own that does not import everything again: a fork of the tests' own process.

Python with torch and Lightning takes 4 s of a processor to start, a fork takes hundredths. What is imported, drawn or
set there is forgotten at its end, as by any process. One test of each kind still starts Python itself.
"""

import multiprocessing
import os
import random
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import config

import mondrian.drawing.style
import mondrian.training.train  # noqa: F401 -- with Lightning, before any fork

CONTEXT = multiprocessing.get_context("fork")


class Forked:
    """A process that runs `work`; like `subprocess.Popen` with the text of both streams."""

    def __init__(
        self, work: Callable[[], object], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("out", "err")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks beside threads
            self.process = CONTEXT.Process(target=_child, args=(work, cwd, env, self._files))
            self.process.start()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()

    def wait(self, timeout: float = 300.0) -> int:
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"took more than {timeout:g} s:\n{''.join(self.said())}")
        return code

    def said(self) -> tuple[str, str]:
        """What stands on its standard output and error so far."""
        out, err = (file.read_text() if file.exists() else "" for file in self._files)
        return out, err

    def communicate(self, timeout: float = 300.0) -> tuple[str, str]:
        self.wait(timeout)
        return self.said()

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self._folder.cleanup()


def run(work: Callable[[], object], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `work` to its end in a fork, as `subprocess.run` would."""
    with Forked(work, **options) as process:
        code = process.wait()
        return subprocess.CompletedProcess([], code, *process.said())


def run_script(script: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a file as `python script words` does."""

    def work() -> None:
        sys.argv = [str(script), *words]
        sys.path[0] = str(script.parent)
        runpy.run_path(str(script), run_name="__main__")

    return run(work, **options)


def run_text(program: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a text as `python -c` does."""

    def work() -> None:
        sys.argv = ["-c"]
        sys.path[0] = ""
        exec(compile(program, "<text>", "exec"), {"__name__": "__main__"})

    return run(work, **options)


def _child(work: Callable[[], object], cwd: Path | None, env: Mapping[str, str] | None, files: list[Path]) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    if cwd is not None:
        os.chdir(cwd)
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    config.update("jaxtyping_disable", True)  # as a user runs it
    torch.set_default_dtype(torch.float32)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    forkserver._forkserver.__init__()  # type: ignore[misc] -- that of the tests is no child of this process
    sys.path.insert(0, "")  # the place of a script's folder
    code = 0
    try:
        work()
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)
