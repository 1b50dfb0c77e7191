"""How the clients of the model and of SendGrid use connections, against servers that misbehave in every way."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import pytest

from mailagent.adapters.http import within
from mailagent.adapters.openai.client import ChatModel
from mailagent.adapters.sendgrid.sender import MailSender
from mailagent.domain.mail.delivery import Accepted, Blame, NotSent, OutcomeUnknown, Refused
from tests.adapters.model_answers import ITEMS, message, response
from tests.adapters.outgoing_mail import MAIL
from tests.harness import wait_until

TAKEN = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
BIG = b"x" * 8_000_000  # more than what lies on the way between the two ends


@dataclass
class Server:
    """Answers each request by `answer`; `heard` is what came, `connections` on how many connections."""

    url: str = ""
    answer: Callable[[socket.socket, bytes], None] = lambda peer, _: peer.sendall(TAKEN)
    heard: list[bytes] = field(default_factory=list)
    connections: int = 0
    reads_only_the_beginning: bool = False

    def talk(self, peer: socket.socket) -> None:
        self.connections += 1
        with contextlib.suppress(OSError), peer:
            while data := self.read(peer):
                self.heard.append(data)
                self.answer(peer, data)

    def read(self, peer: socket.socket) -> bytes:
        """Return the next request, or as much of it as is to be read."""
        if self.reads_only_the_beginning:
            return peer.recv(1000)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = peer.recv(65536)
            if not piece:
                return b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"\ncontent-length: *(\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length[1]):
            body += peer.recv(65536)
        return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as door:
        server.url = f"http://127.0.0.1:{door.getsockname()[1]}"

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = door.accept()
                    threading.Thread(target=server.talk, args=(peer,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server
        door.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


# --- both ---------------------------------------------------------------------------------------

ApprovalRequest = Callable[[str], object]


def ask_model(url: str, timeout_seconds: float = 5) -> str:
    model = ChatModel("sk-test", f"{url}/v1", "gpt", timeout_seconds)
    outcome = model.ask("Be kind.", ITEMS, [], "cache", "a" * 64)
    return str(outcome.get("text") or outcome.get("why"))


def model_times_out(url: str) -> None:
    assert "did not" in ask_model(url, timeout_seconds=0.5)


def sender_times_out(url: str) -> None:
    outcome = MailSender("SG.x", url, timeout_seconds=0.5).send(MAIL)
    assert isinstance(outcome, OutcomeUnknown), outcome


both = pytest.mark.parametrize("times_out", [model_times_out, sender_times_out])


def drip(peer: socket.socket, status: int) -> None:
    peer.sendall(b"HTTP/1.1 %d OK\r\nContent-Length: 1000\r\n\r\n" % status)
    for _each in range(1000):
        peer.sendall(b" ")
        time.sleep(0.02)


@both
@pytest.mark.parametrize("status", [202, 500])
@pytest.mark.parametrize("by_proxy", [False, True])
def test_a_server_that_drips_holds_nobody(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    times_out: ApprovalRequest,
    status: int,
    by_proxy: bool,
) -> None:
    if by_proxy:
        use_proxy(monkeypatch, server.url)
    server.answer = lambda peer, _: drip(peer, status)
    began = time.monotonic()
    times_out("http://provider.example" if by_proxy else server.url)
    assert time.monotonic() - began < 5  # it drips for twenty seconds
    assert len(server.heard) == 1


@both
def test_a_host_whose_address_never_comes_holds_nobody(
    monkeypatch: pytest.MonkeyPatch, times_out: ApprovalRequest
) -> None:
    over = threading.Event()

    def hang(*_: object, **__: object) -> None:
        over.wait(10)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    times_out("http://provider.example")
    assert time.monotonic() - began < 5
    over.set()


def test_a_server_that_reads_nothing_holds_nobody(server: Server) -> None:
    over = threading.Event()
    server.reads_only_the_beginning = True
    server.answer = lambda _peer, _data: (over.wait(10), None)[1]
    began = time.monotonic()
    sender = MailSender("SG.x", server.url, timeout_seconds=0.5)
    assert isinstance(sender.send(replace(MAIL, text=BIG.decode())), OutcomeUnknown)
    assert time.monotonic() - began < 5
    over.set()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 202 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
        b"HTTP/1.1 202 OK\r\nContent-Length: 1000000000000000\r\n\r\nhello",
        b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
    ],
    ids=["nothing", "half of it", "nonsense", "no number", "no such memory", "a negative piece"],
)
def test_an_answer_that_is_lost_is_asked_for_once(server: Server, said: bytes) -> None:
    model = ChatModel("sk-test", f"{server.url}/v1", "gpt", timeout_seconds=5)
    server.answer = lambda peer, _: peer.sendall(answer_of_model("Hello"))
    assert model.ask("Be kind.", ITEMS, [], "cache", "a" * 64)["kind"] == "done"
    sender = MailSender("SG.x", server.url)
    server.answer = lambda peer, _: peer.sendall(TAKEN)
    assert sender.send(MAIL) == Accepted(None)

    def break_off(peer: socket.socket, _: bytes) -> None:
        peer.sendall(said)
        peer.close()

    server.answer = break_off
    outcome = model.ask("Be kind.", ITEMS, [], "cache", "a" * 64)
    assert "broke the connection off" in outcome["why"]
    assert (len(server.heard), server.connections) == (3, 2)
    assert isinstance(sender.send(MAIL), OutcomeUnknown)
    assert (len(server.heard), server.connections) == (4, 2)


def use_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name, value in {
        "no_proxy": "",
        "NO_PROXY": "",
        "http_proxy": url,
        "https_proxy": url,
    }.items():
        monkeypatch.setenv(name, value)


# --- the model ----------------------------------------------------------------------------------


def answer_of_model(text: str) -> bytes:
    body = json.dumps(response(message(text))).encode()
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_model_is_followed_to_where_it_has_moved(server: Server) -> None:
    with serving() as elsewhere:
        elsewhere.answer = lambda peer, _: peer.sendall(answer_of_model("Here"))
        moved = f"HTTP/1.1 308 Moved\r\nLocation: {elsewhere.url}/v1/responses\r\nContent-Length: 0"
        server.answer = lambda peer, _: peer.sendall(f"{moved}\r\n\r\n".encode())
        assert ask_model(server.url) == "Here"
        assert elsewhere.heard[0].startswith(b"POST /v1/responses ")
        # Another server is not told the key.
        assert b"sk-test" in server.heard[0]
        assert b"sk-test" not in elsewhere.heard[0]


def test_a_model_that_moves_on_and_on_is_left_in_time(server: Server) -> None:
    moved = (
        f"HTTP/1.1 307 Moved\r\nLocation: {server.url}/v1/responses\r\nContent-Length: 0\r\n\r\n"
    )

    def move(peer: socket.socket, _: bytes) -> None:
        time.sleep(0.5)
        peer.sendall(moved.encode())

    server.answer = move
    began = time.monotonic()
    model = ChatModel("sk-test", f"{server.url}/v1", "gpt", timeout_seconds=1)
    outcome = model.ask("Be kind.", ITEMS, [], "cache", "a" * 64)
    assert "did not end its answer within 1.5 s" in outcome["why"]
    assert time.monotonic() - began < 5


# --- SendGrid ------------------------------------------------------------------------------------


def test_a_mail_that_a_proxy_does_not_let_through_is_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_proxy(monkeypatch, server.url)
    server.answer = lambda peer, _: peer.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(MailSender("SG.x", "https://sendgrid.example").send(MAIL), NotSent)
    (heard,) = server.heard
    assert heard.startswith(b"CONNECT sendgrid.example:443 ")
    assert b"SG.x" not in heard


def test_a_mail_that_is_too_large_is_refused_though_it_was_not_read(server: Server) -> None:
    server.reads_only_the_beginning = True

    def refuse(peer: socket.socket, _: bytes) -> None:
        peer.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        peer.shutdown(socket.SHUT_WR)
        time.sleep(0.3)

    server.answer = refuse
    outcome = MailSender("SG.x", server.url).send(replace(MAIL, text=BIG.decode()))
    assert isinstance(outcome, Refused)
    assert outcome.blame is not Blame.ACCOUNT


# --- deadline -------------------------------------------------------------------------------------


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
