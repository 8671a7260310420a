"""A page of results in sections, each of which can be measured again by itself."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def keep_large_allocations() -> None:
    """Start the process again with glibc told to keep blocks of up to 4 GiB: else their pages are faulted in anew.

    `keep_large_blocks` of `mondrian.support.process`, which commands use, does so below 2 GiB; some arrays here are
    larger.
    """
    wanted = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, sys.orig_argv, os.environ | wanted)


def run_sections(sections: Mapping[str, Callable[[], str]], wanted: list[str], page: Path, heading: str) -> None:
    """Run the sections that are wanted, or all, print them, and store each on the page."""
    unknown = set(wanted) - set(sections)
    if unknown:
        raise SystemExit(f"no section {unknown.pop()!r}; needed {', '.join(sections)}")
    for name in wanted or sections:
        text = f"{conditions()}\n\n{sections[name]()}"
        print(f"## {name}\n\n{text}\n", flush=True)
        store(name, text, tuple(sections), page, heading)


def conditions() -> str:
    """The machine and versions that a section was measured with."""
    threads = torch.get_num_threads()
    return f"torch {torch.__version__}, " + ("1 thread, processor time." if threads == 1 else f"{threads} threads.")


def store(name: str, text: str, order: tuple[str, ...], page: Path, heading: str) -> None:
    """Replace one section of the stored results."""
    page.parent.mkdir(exist_ok=True)
    stored = page.read_text() if page.exists() else ""
    kept = dict(re.findall(r"^## (\w+)\n\n(.*?)\n*(?=^## |\Z)", stored, re.MULTILINE | re.DOTALL))
    kept[name] = text
    parts = [f"## {section}\n\n{kept[section]}\n" for section in order if section in kept]
    page.write_text("\n".join([f"{heading}\n", *parts]))
