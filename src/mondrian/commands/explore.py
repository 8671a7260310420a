"""Explore a trained model in the browser: paint on its input, change resolution and numbers, see attention maps.

  mondrian explore runs/allen_cahn/vit_sepmo_cpu              prints the address of a page on this machine
  mondrian explore runs/ns split=valid                        samples of another split
  mondrian explore runs/ac path=data/other                    another data set, or the same one at another place
  mondrian explore runs/ac/artefact path=data/other           a model without its run
  mondrian explore runs/ac port=8000 open=true                a fixed port, and the page opens at once

The page shows input, prediction, truth and error for every simulation of the test split and at any resolution, stored
or not. Paint bumps on the input and the prediction follows. If the data was made by `mondrian generate` and the split
is stored at the points of the solver, the equation is solved for the painted input. For a model with subdomains, a
click shows how much a subdomain attends to the others, for each block and head. Ctrl-C ends it.

Only those who have the address can open the page, on this machine. For a model on another machine:
ssh -L 8000:127.0.0.1:8000 HOST

In Python:  Explorer(run.surrogate(), run.data()).ask(Question(points=(64, 64)))  of mondrian.explore
"""

from __future__ import annotations

import webbrowser
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread

from mondrian.commands._options import folders_and_settings, open_model
from mondrian.data.splits import Splits
from mondrian.settings.values import Readers, flag, integer, string
from mondrian.support.device import chosen_device
from mondrian.surrogate import Surrogate
from mondrian.training.run import Run

READERS: Readers = {"split": string, "path": string, "port": partial(integer, least=0), "open": flag, "device": string}


def run(arguments: list[str]) -> None:
    """Serve the page until Ctrl-C."""
    folders, settings = folders_and_settings(arguments, READERS)
    if len(folders) != 1:
        raise ValueError(f"{len(folders)} runs are named; needed one, for example mondrian explore runs/ac")

    from mondrian.explore import Explorer  # matplotlib takes a second to import
    from mondrian.explore.server import Server

    model = open_model(folders[0], path=settings.get("path"))
    if not isinstance(model.surrogate, Surrogate) or not isinstance(model.data, Splits):
        raise ValueError(f"{folders[0]} holds a model for meshes; `mondrian report` shows it")
    explorer = Explorer(
        model.surrogate.to(chosen_device(settings.get("device"))),
        model.data,
        split=settings.get("split", "test"),
        name=model.name,
        trained_points=trained_points(Run(folders[0]), moved="path" in settings),
    )
    with Server(explorer, settings.get("port", 0)) as server:
        print(f"{model.name}: {server.address}   (Ctrl-C ends it)", flush=True)
        if settings.get("open", False):
            Thread(target=open_page, args=(server.address,), daemon=True).start()  # it may wait for the page
        server.serve_forever()


def open_page(address: str) -> None:
    """Open the page through a private file: all users can see the arguments of commands, and so the key."""
    page = Path(mkdtemp()) / "explore.html"
    page.write_text(f'<meta http-equiv="refresh" content="0;url={address}">')
    webbrowser.open(page.as_uri())


def trained_points(run: Run, *, moved: bool) -> tuple[int, ...]:
    """The resolution of training; if the data has moved, only if the run itself names it."""
    if not run.record.exists():
        return ()
    splits = run.data(Splits)
    return splits.points or (() if moved else splits.resolutions("train")[0])
