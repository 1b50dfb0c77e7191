"""A server that sends a byte now and then holds nobody for longer than a call may take."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from mailagent.adapters.http import within
from mailagent.adapters.openai.client import ChatModel
from mailagent.adapters.sendgrid.sender import MailSender
from mailagent.domain.mail.delivery import OutcomeUnknown
from tests.adapters.outgoing_mail import MAIL
from tests.harness import wait_until

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"


@pytest.fixture(params=[b"HTTP/1.1 200 OK\r\nX-Slow: ", HEADERS], ids=["headers", "body"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that begins to answer and goes on byte by byte, until the test is over."""
    over = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(request.param)
            while not over.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()
        thread.join()


def test_a_model_that_drips_is_left(url: str) -> None:
    outcome = ChatModel("sk-test", f"{url}/v1", "gpt", timeout_seconds=0.2).ask("", [], [], "", "")
    assert outcome["kind"] == "retry"
    assert "within 0.3 s" in outcome["why"]


def test_a_sendgrid_that_drips_is_left(url: str) -> None:
    assert isinstance(MailSender("SG.x", url, timeout_seconds=0.2).send(MAIL), OutcomeUnknown)


def test_what_a_call_returns_or_raises_comes_through() -> None:
    assert within(5, lambda: 17) == 17
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_call_that_hangs_holds_nobody_and_its_thread_ends_after_it() -> None:
    over, theirs = threading.Event(), []

    def hang() -> None:
        theirs.append(threading.current_thread())
        over.wait()

    with pytest.raises(TimeoutError):
        within(0.05, hang)
    assert within(5, lambda: 17) == 17
    time.sleep(0.2)
    assert theirs[0].is_alive()
    over.set()
    wait_until(lambda: not theirs[0].is_alive(), 5, "the end of the thread")


def test_nothing_of_a_call_is_left_for_the_next() -> None:
    mail: ContextVar[str] = ContextVar("mail", default="none")
    whose = mail.set("ours")
    assert within(5, lambda: (mail.get(), mail.set("theirs")))[0] == "ours"
    mail.reset(whose)
    assert within(5, mail.get) == "none"
