"""The `mondrian` command: one subcommand a module of `mondrian.commands`.

Each module's docstring is its help (first line: the summary), and `run(arguments)` does the work. Bad input ends with
exit code 2 and one line; `MONDRIAN_DEBUG=1` shows the traceback too. Commands import their libraries when they run, so
that help appears at once.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.resources import files

from mondrian import __version__
from mondrian.support.plugins import load_plugins
from mondrian.support.process import keep_large_blocks
from mondrian.support.text import one_line

COMMANDS = (
    "models",
    "generate",
    "train",
    "evaluate",
    "predict",
    "export",
    "report",
    "explore",
    "sweep",
    "benchmark",
    "league",
    "demo",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    label = f"mondrian {arguments[0]}" if arguments and arguments[0] in COMMANDS else "mondrian"
    keep_large_blocks()
    try:
        _run(arguments)
        sys.stdout.flush()  # a closed pipe is caught here, but not at exit
    except KeyboardInterrupt:
        print(f"{label}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _bad_input() as error:
        if os.environ.get("MONDRIAN_DEBUG") == "1":
            raise
        print(f"{label}: {one_line(error)}", file=sys.stderr)
        return 2
    return 0


def _run(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return
    if arguments[0] == "--version":
        print(f"mondrian {__version__}")
        return
    name, *rest = arguments
    if name not in COMMANDS:
        raise ValueError(f"no command {name!r}; needed one of {', '.join(COMMANDS)}")
    if {"-h", "--help"} & set(rest):
        print(help_of(name))
    else:
        load_plugins()
        importlib.import_module(f"mondrian.commands.{name}").run(rest)


def _bad_input() -> tuple[type[Exception], ...]:
    """Errors whose message suffices, without a traceback."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from mondrian.support.libraries import MissingLibrary

    return ValueError, OSError, MissingLibrary, HydraException, OmegaConfBaseException


def help_of(name: str) -> str:
    """The docstring of a command, read from its source, because importing all commands takes seconds."""
    source = (files("mondrian.commands") / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def _overview() -> str:
    width = max(len(name) for name in COMMANDS)
    return "\n".join(
        [
            "mondrian: learn solution operators of partial differential equations",
            "",
            *(f"  mondrian {name:<{width}}  {help_of(name).splitlines()[0]}" for name in COMMANDS),
            "",
            "`mondrian COMMAND --help` explains a command by examples.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
