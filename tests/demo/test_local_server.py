"""What the demo's stand-in providers share: a line that is cut on purpose is no news, a mistake is."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from mailagent.demo.fakes.http_server import Answer, LineCut, LocalServer, Request


def cut(_request: Request) -> Answer:
    raise LineCut


def err(_request: Request) -> Answer:
    raise ZeroDivisionError


@pytest.fixture
def address() -> Iterator[str]:
    server = LocalServer({"GET /cut": cut, "GET /mistake": err}, lambda _request: Answer(200))
    server.start()
    yield server.url.removeprefix("http://")
    server.stop()


@pytest.mark.parametrize(("path", "told"), [("/cut", ""), ("/mistake", "ZeroDivisionError")])
def test_only_a_line_that_is_cut_on_purpose_is_not_told_of(
    address: str, path: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = http.client.HTTPConnection(address, timeout=10)
    line.request("GET", "/well")
    assert line.getresponse().read() == b""
    line.request("GET", path)
    with pytest.raises(http.client.RemoteDisconnected):
        line.getresponse()
    line.close()
    said = capsys.readouterr().err
    assert (told in said) if told else said == ""
