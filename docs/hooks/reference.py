"""Pages of the reference list the public names of a module by themselves.

`<!-- reference mondrian.operators -->` in a page becomes the docstrings of all that `mondrian.operators` offers: the
names in its `__all__`, or what it defines. A name that is offered in two places is documented at its home, the module
that comes nearest to where it is defined; the other place has a link. `<!-- names of mondrian -->` becomes a table of
names with the first line of each docstring.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "reference"
REFERENCE = re.compile(r"^<!-- reference (\S+) -->$", flags=re.MULTILINE)
TABLE = re.compile(r"^<!-- names of (\S+) -->$", flags=re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the names in the place of the comments."""
    markdown = REFERENCE.sub(lambda match: listing(match[1], below(markdown[: match.start()])), markdown)
    return TABLE.sub(lambda match: table(match[1]), markdown)


def path(key: str, value: object, room: str) -> str:
    """Where a name is defined: there is no other object of that path, as there is of `mondrian.training.train`."""
    return f"{getattr(value, '__module__', room)}.{key}"


def below(text: str) -> int:
    """The level of headings at the end of a text."""
    return 3 if re.search(r"^## ", text, flags=re.MULTILINE) else 2


@cache
def rooms() -> tuple[str, ...]:
    """The modules that pages of the reference are about, in the order of the pages."""
    return tuple(name for page in sorted(FOLDER.glob("*.md")) for name in REFERENCE.findall(page.read_text()))


def public(name: str) -> dict[str, object]:
    """What a module offers: its `__all__`, or what it defines; modules are left out."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [
        key for key, value in vars(module).items() if not key.startswith("_") and _defined(value, module)
    ]
    offered = {key: getattr(module, key) for key in names}
    return {key: value for key, value in offered.items() if not isinstance(value, ModuleType)}


def home(key: str, value: object, room: str) -> str:
    """The module among `rooms()` under which a name is documented."""
    defined = getattr(value, "__module__", room)
    offering = [other for other in rooms() if public(other).get(key) is value]
    near = [other for other in offering if f"{defined}.".startswith(f"{other}.")]
    return max(near, key=len) if near else next(iter(offering), room)


def listing(room: str, level: int) -> str:
    """The docstrings of what a module offers under headings of a level, and links to what is documented elsewhere."""
    names = public(room)
    elsewhere = [key for key, value in names.items() if home(key, value, room) != room]
    options = f"    options:\n      heading_level: {level}"
    parts = [f"::: {path(key, names[key], room)}\n{options}" for key in names if key not in elsewhere]
    if elsewhere:
        links = ", ".join(f"[`{key}`][{path(key, names[key], room)}]" for key in elsewhere)
        parts.append(f"`{room}` also offers {links}.")
    return "\n\n".join(parts)


def table(module: str) -> str:
    """The names of a module, each with a link and the first line of its docstring."""
    rows = ["| name | |", "|---|---|"]
    for key, value in public(module).items():
        first = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| [`{key}`][{path(key, value, module)}] | {first} |")
    return "\n".join(rows)


def _defined(value: object, module: ModuleType) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
