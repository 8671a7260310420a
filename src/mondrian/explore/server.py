"""The explorer for a browser on this machine: JSON in, JSON out.

The address contains a key that the page sends with every question: other users of the machine and other pages in the
same browser do not have it.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from mondrian.explore.explorer import Explorer
from mondrian.explore.messages import about, answered, attention

HOST = "127.0.0.1"
KEY = "X-Mondrian-Key"  # the header
LARGEST = 2**20  # bytes of a request
JSON = "application/json"
PAGE = {"/": ("index.html", "text/html"), "/page.css": ("page.css", "text/css")}
PAGE |= {f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("page", "draw")}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Refused(ValueError):
    """A refused request and its status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Answers one question at a time on a port of this machine; port 0 picks a free one."""

    daemon_threads = True

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as error:
            raise ValueError(f"port={port} is not available: {error}") from error
        self.explorer, self.busy, self.key = explorer, Lock(), secrets.token_urlsafe(16)
        folder = files("mondrian.explore") / "page"
        self.pages = {path: (folder / name).read_bytes() for path, (name, _) in PAGE.items()}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent if a page was closed; only our own errors go to the terminal."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/?key={self.key}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 600

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in PAGE:
            self._answer(lambda: self.server.pages[path], f"{PAGE[path][1]}; charset=utf-8", keyed=path == "/")
        else:
            self._answer(lambda: self._alone({"/about": about}), JSON)

    def do_POST(self) -> None:
        self._answer(lambda: self._alone({"/ask": answered, "/attention": attention}, self._content), JSON)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the address."""

    def _alone(self, known: Mapping[str, Callable[..., Mapping[str, Any]]], *content: Callable[[], Any]) -> bytes:
        work = known.get(self.path)
        if work is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no {self.path}")
        questions = [part() for part in content]
        with self.server.busy:
            answer = work(self.server.explorer, *questions)
        return _json(answer)

    def _content(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has a length, of at most {LARGEST} bytes")
        if self.headers.get_content_type() != JSON:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"needed {JSON}")
        return json.loads(self.rfile.read(int(length)))  # its error is a ValueError

    def _check_key(self) -> None:
        """Refuse requests without the key; styles and scripts are public."""
        asked = parse_qs(self.path.partition("?")[2]).get("key", [""])[0] or self.headers.get(KEY, "")
        if not secrets.compare_digest(asked.encode(), self.server.key.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "needed the whole address that `mondrian explore` printed")

    def _answer(self, made: Callable[[], bytes], kind: str, *, keyed: bool = True) -> None:
        status = HTTPStatus.OK
        try:
            if keyed:
                self._check_key()
            body = made()
        except Exception as error:
            known = isinstance(error, ValueError | IndexError | OSError | RuntimeError)
            status = HTTPStatus.BAD_REQUEST if known else HTTPStatus.INTERNAL_SERVER_ERROR
            if isinstance(error, Refused):
                status = error.status
            elif not known:
                traceback.print_exc()
            body, kind = _json({"error": str(error) or type(error).__name__}), JSON
            self.close_connection = True  # unread bytes would be taken for the next request
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:  # the page was closed meanwhile
            self.close_connection = True


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(_finite(content), allow_nan=False).encode()


def _finite(content: Any) -> Any:
    """Infinite numbers and NaN, which JSON does not have, become null."""
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
