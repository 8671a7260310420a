"""The order of the rooms that CONTRIBUTING.md states is the one that the code has.

The import graph is read from the source: imports at the top, those inside of functions, those for types only, and those
of stubs for lazy packages. Text and code cannot differ, because the list is read from the page.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mondrian"
LONGEST = 400  # 300 are the goal


@cache
def rooms() -> dict[str, bool]:
    """The rooms in the order of the page, and whether each is a leaf."""
    block = re.search(r"```text\n(support/.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert block, "CONTRIBUTING.md has no list of rooms that begins with support/"
    listed = {}
    for line in block[1].splitlines():
        names, _, about = line.partition("  ")
        for name in names.split():
            listed[name.removesuffix("/").removesuffix(".py")] = "leaf" in about or "leaves" in about
    return listed


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    return module.split(".")[1]


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """The modules of ours that a file imports, with the lines."""
    package = module_of(file) if file.stem == "__init__" else module_of(file).rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.startswith("mondrian."))


@cache
def edges() -> tuple[tuple[Path, int, str, str], ...]:
    """Each import of one room by another: file, line, and both rooms."""
    files = [file for ending in ("py", "pyi") for file in SOURCE.rglob(f"*.{ending}") if file.parent != SOURCE]
    flat = [file for file in SOURCE.glob("*.py") if file.stem not in ("__init__", "__main__")]
    return tuple(
        (file, line, room_of(module_of(file)), room_of(name))
        for file in sorted([*files, *flat])
        for line, name in imported(file)
        if name != "mondrian.__version__" and room_of(name) != room_of(module_of(file))
    )


def said(file: Path, line: int, importing: str, other: str) -> str:
    return f"{file.relative_to(ROOT)}:{line}: {importing} imports {other}"


def test_the_page_lists_every_room_and_no_other() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"conf"}  # settings, no code
    flat = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert packages | flat == set(rooms())


def test_a_room_imports_only_from_rooms_above_it() -> None:
    order = list(rooms())
    wrong = [edge for edge in edges() if edge[3] not in order or order.index(edge[3]) > order.index(edge[2])]
    assert not wrong, "\n".join(["the wrong way round:", *(said(*edge) for edge in wrong)])


def test_a_leaf_is_imported_by_its_command_only() -> None:
    wrong = [edge for edge in edges() if rooms()[edge[3]] and edge[0] != SOURCE / "commands" / f"{edge[3]}.py"]
    assert not wrong, "\n".join(["imports of a leaf:", *(said(*edge) for edge in wrong)])


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {module_of(file): file for file in SOURCE.rglob("*.py")}
    graph = {
        module: {name if name in modules else name.rpartition(".")[0] for _, name in imported(file)} - {module}
        for module, file in modules.items()
        if module != "mondrian"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("folder", ["src", "benchmarks", "examples"])
def test_no_file_is_long(folder: str) -> None:
    lengths = {file: len(file.read_text().splitlines()) for file in (ROOT / folder).rglob("*.py")}
    assert [f"{file.relative_to(ROOT)}: {length}" for file, length in lengths.items() if length > LONGEST] == []
