"""Pages of the site that stand elsewhere in the repository, and the links that lead to them.

The README is the home page; examples, measurements, the changelog, the help of each command and every source file to
which a page links become pages. Links in the sources lead to files, as a reader of the repository needs them; here they
are turned into links to those pages.
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
LANGUAGES = {".py": "python", ".pyi": "python", ".yaml": "yaml", ".toml": "toml", ".txt": "text"}


def elsewhere() -> dict[str, str]:
    """Files of the repository that become pages: where each stands, and its place in the site."""
    pages = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
    measured = sorted(path.name for path in ROOT.glob("benchmarks/results/*.md"))
    pages |= {f"benchmarks/results/{name}": f"benchmarks/{name}" for name in measured}
    texts = [ROOT / source for source in pages] + sorted((ROOT / "docs").rglob("*.md"))
    linked = {file for text in texts for file in sources(text)} | {
        f"examples/{p.name}" for p in ROOT.glob("examples/*.py")
    }
    return pages | {file: page_of(file) for file in sorted(linked)}


def sources(text: Path) -> list[str]:
    """The source files to which a page links, from the root of the repository."""
    prose = FENCED.sub("", text.read_text(encoding="utf-8"))
    targets = [target for _, target, _ in LINK.findall(prose) if "://" not in target]
    files = [(text.parent / target).resolve() for target in targets]
    return [f.relative_to(ROOT).as_posix() for f in files if f.is_file() and f.suffix in LANGUAGES]


def page_of(file: str) -> str:
    """The place of a source file in the site."""
    place = posixpath.splitext(file)[0] + ".md"
    return place if file.startswith("examples/") else f"source/{place}"


PAGES = elsewhere()
SOURCES = {page: source for source, page in PAGES.items()}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if (suffix := posixpath.splitext(source)[1]) != ".md":
            hidden = "" if source.startswith("examples/") else "---\nsearch:\n  exclude: true\n---\n"
            text = f"{hidden}# {source}\n\n~~~{LANGUAGES[suffix]}\n{text}~~~\n"
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
    source = SOURCES.get(place, f"docs/{place}")
    if not source.endswith(".md"):
        return markdown
    folder = posixpath.dirname(source)

    def between_pages(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        wanted = PAGES.get(file, file.removeprefix("docs/"))
        return before + posixpath.relpath(wanted, posixpath.dirname(place) or ".") + after

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(between_pages, part) for part in parts)
