"""The pages of the documentation as tests see them: programs and commands that run, and prose."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from mondrian.cli import main

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?P<skipped><!-- not run.*?-->\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A program, or commands, of a page; with a title it is a file of that name."""

    language: str
    title: str | None
    code: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """What runs of a page: Python everywhere, and in tutorials the commands too, but for what says `<!-- not run`."""
    text = page.read_text(encoding="utf-8")
    is_tutorial = page.parent.name == "tutorials" or page.name == "quickstart.md"
    for match in BLOCK.finditer(text):
        if match["language"] in (("python", "bash") if is_tutorial else ("python",)) and not match["skipped"]:
            yield Block(match["language"], match["title"], match["code"], text.count("\n", 0, match.start("code")))


def execute(page: Path) -> None:
    """Run the blocks one after the other in this process and in the working directory, as one program."""
    module = ModuleType("page_of_the_documentation")
    sys.modules[module.__name__] = module  # where dataclasses look for the names in annotations
    for block in blocks(page):
        if block.language == "bash":
            for command in block.code.replace("\\\n", " ").splitlines():
                run_command(command)
        elif block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
        else:
            code = "\n" * block.line + block.code  # errors name the line of the page
            exec(compile(code, str(page), "exec"), module.__dict__)


def run_command(command: str) -> None:
    """`mondrian ...` or `export NAME=value`, in this process."""
    words = shlex.split(command, comments=True)
    if not words:
        return
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        os.environ[name] = value
        return
    assert words[0] == "mondrian", f"{command!r} is no command that the tests run; mark the block <!-- not run -->"
    assert main(words[1:]) == 0, command


def prose(page: Path) -> list[str]:
    """The lines of a page without code, tables, equations, markers of lists and addresses of links."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *(\d+\.|-) ", "", re.sub(r"\]\([^)]*\)", "]", text), flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines() if not line.lstrip().startswith(("|", "$$", "<!--"))]
