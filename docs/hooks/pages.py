"""Pages of the site that stand elsewhere in the repository, and the links that lead to them.

The README is the home page; examples, measurements, the changelog and the help of each command become pages. Links in
the sources lead to files, as a reader of the repository needs them; here they are turned into links to those pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
FENCED = re.compile(r"(^```.*?^```)", flags=re.DOTALL | re.MULTILINE)


def elsewhere() -> dict[str, str]:
    """Files of the repository that become pages: where each stands, and its place in the site."""
    pages = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
    measured = sorted(path.name for path in ROOT.glob("benchmarks/results/*.md"))
    examples = sorted(path.stem for path in ROOT.glob("examples/*.py"))
    pages |= {f"benchmarks/results/{name}": f"benchmarks/{name}" for name in measured}
    return pages | {f"examples/{name}.py": f"examples/{name}.md" for name in examples}


PAGES = elsewhere()
SOURCES = {page: source for source, page in PAGES.items()}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".py"):
            text = f"# {source}\n\n```python\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    return files


def commands() -> str:
    """What each command says to `--help`."""
    from mondrian.cli import COMMANDS, help_of

    parts = [f"## mondrian {name}\n\n```text\n{help_of(name)}\n```\n" for name in COMMANDS]
    return "\n".join(["# Commands\n\nWhat each command says to `--help`.\n", *parts])


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Links to files of the repository become links between pages."""
    place = page.file.src_uri
    folder = posixpath.dirname(SOURCES.get(place, f"docs/{place}"))

    def between_pages(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        wanted = PAGES.get(file, file.removeprefix("docs/"))
        return before + posixpath.relpath(wanted, posixpath.dirname(place) or ".") + after

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(between_pages, part) for part in parts)
