"""Report runs in one HTML file: losses, field panels, errors, rollouts, spectra, and a table of several runs.

  mondrian report runs/first                       runs/first/report.html, and runs/first/report/*.png
  mondrian report runs/first runs/second           report.html, and report/*.png: a table for each data set,
                                                   with the best of each column in bold
  mondrian report runs/* out=tables/all.html       another file, and tables/all/*.png

The page is self-contained: it can be mailed, archived and read without a network. A run that is still training has its
loss curves; an evaluation adds the rest:

  mondrian evaluate runs/first
  mondrian report runs/first

In Python:  mondrian.report.write_report([Run.open("runs/first")], Path("report.html"))
"""

from __future__ import annotations

from pathlib import Path

from mondrian.training.run import Run


def run(arguments: list[str]) -> None:
    """Write the report and say where it is."""
    folders, file = _parse(arguments)
    runs = [Run.open(folder) for folder in folders]
    if file is None:
        file = runs[0].folder / "report.html" if len(runs) == 1 else Path("report.html")

    from mondrian.report import write_report  # matplotlib takes a second to import

    page, *pictures = write_report(runs, file)
    print(page)
    if pictures:
        print(f"{page.with_suffix('')}/*.png: {len(pictures)} pictures")


def _parse(arguments: list[str]) -> tuple[list[str], Path | None]:
    folders, files = [], []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key == "out" and equals:
            files.append(value)
        elif argument.startswith("-") or (equals and not Path(argument).exists()):
            raise ValueError(f"unknown argument {argument}; needed folders of runs, out=FILE.html or --help")
        else:
            folders.append(argument)
    if not folders:
        raise ValueError("no run is given; needed the folder of at least one, for example mondrian report runs/first")
    if len(files) > 1:
        raise ValueError(f"out is given {len(files)} times: {', '.join(files)}")
    if files and not files[0].endswith(".html"):
        raise ValueError(f"out={files[0]} must end in .html")
    return folders, Path(files[0]) if files else None
