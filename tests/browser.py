"""Pages in a real browser: what they show, what they say on the console, and what they ask of the network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
QUIET = (  # and what still goes out ends at a port where nobody listens
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions",
    "--disable-features=OptimizationHints,MediaRouter,Translate", "--disable-sync", "--no-first-run",
    "--no-default-browser-check", "--proxy-server=127.0.0.1:9",
)  # fmt: skip

needs_browser = pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {', '.join(NAMES)} is installed")


@dataclass(frozen=True)
class Visit:
    """What opening a page did."""

    dom: str
    console: list[str]
    requests: list[str]


def visit(address: str, folder: Path, *options: str) -> Visit:
    """Open a page in headless Chromium, wait until it is loaded, and read its console and its log of the network."""
    assert BROWSER is not None
    log = folder / "net.json"
    done = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *QUIET,
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr", "--v=0",
            "--dump-dom", *options, address,
        ],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    console = re.findall(r"CONSOLE[:(].*", done.stderr)
    written = json.loads(log.read_text())
    start = written["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    begun = [
        event["params"] for event in written["events"] if event["type"] == start and "url" in event.get("params", {})
    ]
    # A page's requests name their origin, which is "null" for a file. Those that the browser makes by itself, flags
    # or not (updates, time, accounts), have none.
    urls = {str(request["url"]) for request in begun if request.get("initiator") != "not an origin"}
    return Visit(done.stdout, console, sorted(url for url in urls if not url.startswith(("file:", "data:"))))
