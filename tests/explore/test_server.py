"""The explorer over HTTP: the same numbers, errors that are named, and nobody else's requests."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from mondrian.explore import Answer, Explorer, Question
from mondrian.explore.server import LARGEST, Server
from mondrian.explore.solving import Solver
from tests.explore.cases import explorer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(explorer("allen_cahn", tmp_path_factory.mktemp("data"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(server: Server, path: str, content: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    given = {"Content-Type": "application/json", "X-Mondrian-Key": server.key} | {
        key.replace("_", "-"): value for key, value in headers.items()
    }
    body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
    connection.request("GET" if content is None else "POST", path, body=body, headers=given)
    reply = connection.getresponse()
    text = reply.read()
    assert reply.getheader("Content-Security-Policy", "").startswith("default-src 'none'")
    connection.close()
    return reply.status, json.loads(text) if reply.getheader("Content-Type") == "application/json" else text.decode()


def decoded(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(shape)


def test_the_page_and_what_it_may_ask(server: Server) -> None:
    for path, start in {"/": "<!DOCTYPE html>", "/page.css": ":root", "/page.js": "// ", "/draw.js": "// "}.items():
        status, page = request(server, path)
        assert status == 200
        assert page.startswith(start)
        assert "http://" not in page  # it loads nothing from elsewhere
        assert "https://" not in page
    status, about = request(server, "/about")
    assert status == 200
    assert about["resolutions"] == [[8, 8], [16, 16]]
    assert (about["windows"], about["cuts"], about["unsolved"], about["rolls_out"]) == ([1, 1, 1], [2, 2], "", True)
    assert about["trained"] == [8, 8]
    (gamma,) = about["numbers"]
    assert gamma["log"]
    assert 1e-4 <= gamma["low"] < gamma["high"] <= 5e-3
    assert {name: len(base64.b64decode(text)) for name, text in about["colours"].items()} == {
        "signed": 768, "viridis": 768, "magma": 768
    }  # fmt: skip


def test_an_answer_carries_the_numbers_of_the_explorer(server: Server) -> None:
    question = {"points": [8, 8], "simulation": 1, "applications": 2}
    status, reply = request(server, "/ask", question)
    answer = server.explorer.ask(Question.read(question))
    assert status == 200
    for name, values in answer.predicted.items():
        assert np.array_equal(decoded(reply["predicted"][name], 8, 8), values.numpy())
    assert list(reply["truth"]) == ["u[1]"]
    assert np.array_equal(decoded(reply["given"]["u[0]"], 8, 8), answer.given["u[0]"].numpy())
    assert reply["numbers"]["gamma"] == pytest.approx(float(answer.given["gamma"][0, 0]))
    assert reply["errors"] == answer.errors
    assert reply["unsolved"] == ""
    assert reply["times"] == {"u[0]": 0.0, "u[1]": 6.0, "u[2]": 12.0}
    truth = answer.truth["u[1]"].numpy()
    ends = reply["limits"]["predicted"]["u"]
    assert ends["high"] >= truth.max()
    assert ends["low"] <= truth.min()


def test_an_answer_without_a_truth_carries_the_reason(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("it blew up")

    monkeypatch.setattr(Solver, "frames", fails)
    stroke = {"field": "u", "at": [0.5, 0.5], "width": 0.1, "amount": 1.0}
    status, reply = request(server, "/ask", {"points": [8, 8], "strokes": [stroke], "solve": True})
    assert (status, reply["unsolved"], reply["truth"], list(reply["predicted"])) == (200, "it blew up", {}, ["u[1]"])


def test_shares_are_of_the_subdomain_at_the_place(server: Server) -> None:
    status, reply = request(server, "/attention", {"question": {"points": [8, 8]}, "at": [0.9, 0.1]})
    assert status == 200
    shares = server.explorer.attention_map(Question(points=(8, 8)))
    assert [block["subdomain"] for block in reply["blocks"]] == [2, 6]  # of 2 x 2, and of 3 x 3 moved ones
    for block, each in zip(reply["blocks"], shares, strict=True):
        weights = np.stack([decoded(text, each.lattice.size) for text in block["weights"]])
        np.testing.assert_allclose(weights, each.weights[0, :, block["subdomain"]].numpy(), rtol=1e-5)
        assert np.array(block["boxes"]).shape == (each.lattice.size, 2, 2)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "message"),
    [
        ("/ask", {"points": [8]}, {}, 400, "have 1 axes; needed 2"),
        ("/ask", b"{", {}, 400, "Expecting property name"),
        ("/ask", {"points": [8, 8], "numbers": [["gamma", -1.0]]}, {}, 400, "needed positive numbers"),
        ("/attention", {"points": [8, 8]}, {}, 400, "needed a question, and at"),
        ("/attention", {"question": {"points": [8, 8]}, "at": [2.0, 0.0]}, {}, 400, "must be from 0 to 1"),
        ("/nothing", None, {}, 404, "there is no /nothing"),
        ("/nothing", {}, {}, 404, "there is no /nothing"),
        (
            "/about",
            None,
            {"X_Mondrian_Key": "guessed"},
            403,
            "needed the whole address that `mondrian explore` printed",
        ),
        ("/", None, {"X_Mondrian_Key": ""}, 403, "needed the whole address"),
        ("/ask", {"points": [8, 8]}, {"X_Mondrian_Key": ""}, 403, "needed the whole address"),
        ("/ask", {"points": [8, 8], "strokes": None}, {}, 400, "strokes=None must be a list"),
        ("/attention", {"question": {"points": [8, 8]}, "at": 5}, {}, 400, "at=5 must be a list of numbers"),
        ("/attention", {"question": {"points": [8, 8]}, "at": ["a", "b"]}, {}, 400, "must be a list of numbers"),
        ("/ask", {"points": [8, 8]}, {"Content_Type": "text/plain"}, 415, "needed application/json"),
        ("/ask", b"", {"Content_Length": str(LARGEST + 1)}, 413, "of at most"),
        ("/ask", b"", {"Content_Length": "-1"}, 413, "of at most"),
    ],
)
def test_what_is_not_answered_says_why(
    server: Server, path: str, content: Any, headers: dict[str, str], status: int, message: str
) -> None:
    code, error = request(server, path, content, **headers)
    assert code == status
    assert message in error["error"]


def test_what_is_refused_is_not_read_as_another_request(server: Server) -> None:
    inner = b"GET /page.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for path in (b"/ask", b"/nothing"):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
            head = b"POST %s HTTP/1.1\r\nHost: elsewhere\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
            connection.sendall(head % (path, len(inner)) + inner)
            replies = b""
            while part := connection.recv(65536):
                replies += part
        assert replies.count(b"HTTP/1.1 ") == 1
        assert b" 403 " in replies


def test_a_page_that_is_closed_meanwhile_ends_nothing_and_says_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before its answer, and when it has had one and waits; nor does an address that is none."""
    asked, closed = threading.Event(), threading.Event()
    original = Explorer.ask

    def late(self: Explorer, question: Question) -> Answer:
        asked.set()
        assert closed.wait(30)
        return original(self, question)

    monkeypatch.setattr(Explorer, "ask", late)
    body = json.dumps({"points": [16, 16]}).encode()
    head = f"POST /ask HTTP/1.1\r\nX-Mondrian-Key: {server.key}\r\nContent-Type: application/json\r\n"
    with connected(server) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert asked.wait(30)
    closed.set()
    with connected(server) as connection:
        connection.sendall(b"GET /page.css HTTP/1.1\r\n\r\n")
        assert b" 200 " in connection.recv(65536)
    with connected(server) as connection:
        connection.sendall(b"GET http://[ HTTP/1.1\r\n\r\n")
        assert b" 403 " in connection.recv(65536)
    assert request(server, "/ask", {"points": [8, 8]})[0] == 200
    assert capsys.readouterr().err == ""


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    """A connection that is not closed but reset at the end."""
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        yield connection
    finally:
        connection.close()


def test_a_mistake_of_ours_ends_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Explorer, "ask", lambda self, question: {}["nothing"])
    status, error = request(server, "/ask", {"points": [8, 8]})
    assert (status, error) == (500, {"error": "'nothing'"})
    assert "KeyError" in capsys.readouterr().err
    monkeypatch.undo()
    assert request(server, "/ask", {"points": [8, 8]})[0] == 200


def test_the_key_is_another_one_each_time_and_a_port_that_is_taken_is_named(server: Server) -> None:
    with Server(server.explorer) as other:
        assert other.key != server.key
    with pytest.raises(ValueError, match=f"port={server.server_port} is not available"):
        Server(server.explorer, server.server_port)
    with pytest.raises(ValueError, match="port=70000 is not available"):
        Server(server.explorer, 70000)
