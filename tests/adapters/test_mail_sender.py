"""What SendGrid is asked, and what each of its answers means, against a real local HTTP server."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from mailagent.adapters.sendgrid import sender as mail_sender
from mailagent.adapters.sendgrid.sender import MailSender
from mailagent.domain.mail.delivery import Accepted, Blame, NotSent, OutcomeUnknown, Refused, Trace
from mailagent.domain.mail.outgoing_file import OutgoingFile
from tests.adapters.outgoing_mail import MAIL, write_certificate


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(
    status: int, body: bytes = b"", headers: dict[str, str] | None = None, hangs_up: bool = False
) -> Answer:
    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        if hangs_up:
            handler.close_connection = True  # without a word about it

    return write


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def stay_silent(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(1)


@dataclass
class LocalSendGrid:
    """A server that keeps what it was asked and answers as it is told."""

    url: str = ""
    answer: Answer = field(default_factory=lambda: answer(202, headers={"X-Message-Id": "sg-1"}))
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    def sender(self, **options: Any) -> MailSender:
        return MailSender("SG.secret", self.url, **options)


@pytest.fixture
def sendgrid(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSendGrid]:
    with serving(monkeypatch) as local:
        yield local


@pytest.fixture
def secret_sendgrid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalSendGrid]:
    """One that is asked over HTTPS, and is who it says it is."""
    file = write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with serving(monkeypatch, file) as local:
        yield local


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch, certificate: Path | None = None
) -> Iterator[LocalSendGrid]:
    monkeypatch.setenv("no_proxy", "*")  # the SDK obeys http_proxy
    local = LocalSendGrid()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept

        def handle(self) -> None:
            local.connections += 1
            with suppress(OSError):  # who asked has gone
                super().handle()
                self.connection.shutdown(socket.SHUT_WR)
            local.closed += 1

        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content = json.loads(raw) if raw else None
            local.requests.append(Request(self.command, self.path, dict(self.headers), content))
            local.answer(self)

        do_GET = handle_any  # noqa: N815  # the names that the standard library calls
        do_POST = handle_any  # noqa: N815  # likewise

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # with the usual 5, a burst of connections is partly reset

    server = Server(("127.0.0.1", 0), Handler)
    local.url = f"http://127.0.0.1:{server.server_address[1]}"
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        local.url = local.url.replace("http", "https")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield local
    server.shutdown()
    server.server_close()


def test_an_accepted_mail_has_the_vendors_name_for_it(sendgrid: LocalSendGrid) -> None:
    assert sendgrid.sender().send(MAIL) == Accepted("sg-1")
    (request,) = sendgrid.requests
    assert (request.method, request.path) == ("POST", "/v3/mail/send")
    assert request.headers["Authorization"] == "Bearer SG.secret"


def test_the_request_says_all_and_tracks_nothing(sendgrid: LocalSendGrid) -> None:
    sendgrid.sender(support_name="Shop Support").send(MAIL)
    assert sendgrid.requests[0].body == {
        "personalizations": [{"to": [{"email": "ada@example.com"}]}],
        "from": {"email": "support@shop.example", "name": "Shop Support"},
        "reply_to": {"email": "case+abcdefghijklmnop@shop.example"},
        "subject": "Re: My kettle",
        "content": [
            {"type": "text/plain", "value": "Hello Ada"},
            {"type": "text/html", "value": "<p>Hello Ada</p>"},
        ],
        "headers": {
            "Message-ID": "<o-17.x@shop.example>",
            "Auto-Submitted": "auto-replied",
            "X-Auto-Response-Suppress": "OOF, AutoReply",
            "In-Reply-To": "<1@example.com>",
            "References": "<0@example.com> <1@example.com>",
        },
        "custom_args": {"outbound_id": "o_17"},
        "tracking_settings": {
            "click_tracking": {"enable": False, "enable_text": False},
            "open_tracking": {"enable": False},
            "subscription_tracking": {"enable": False},
        },
    }


def test_files_go_as_attachments_under_their_names(sendgrid: LocalSendGrid) -> None:
    files = (OutgoingFile("Handbuch für Ada.pdf", b"%PDF\xff"), OutgoingFile("a.png", b"png"))
    sendgrid.sender().send(replace(MAIL, files=files))
    assert sendgrid.requests[0].body["attachments"][0] == {
        "content": "JVBERv8=",
        "filename": "Handbuch für Ada.pdf",
        "type": "application/pdf",
        "disposition": "attachment",
    }
    assert len(sendgrid.requests[0].body["attachments"]) == 2


def test_a_mail_that_starts_a_thread_has_no_empty_fields(sendgrid: LocalSendGrid) -> None:
    sendgrid.sender().send(replace(MAIL, html=None, reply_to=None, in_reply_to=None, references=()))
    sent = sendgrid.requests[0].body
    assert [part["type"] for part in sent["content"]] == ["text/plain"]
    assert "reply_to" not in sent
    assert not {"In-Reply-To", "References"} & sent["headers"].keys()


@pytest.mark.parametrize(("status", "blame"), [(400, Blame.FIELD), (413, Blame.MAIL)])
def test_a_refusal_of_this_mail_is_told_in_the_vendors_words(
    sendgrid: LocalSendGrid, status: int, blame: Blame
) -> None:
    errors = [{"message": "Does not contain\na valid address.", "field": "to.0", "help": None}]
    sendgrid.answer = answer(status, json.dumps({"errors": errors}).encode())
    assert sendgrid.sender().send(MAIL) == Refused(
        f"SendGrid answered {status}: to.0: Does not contain a valid address.", blame
    )


@pytest.mark.parametrize(
    ("fields", "blame"),
    [
        (["personalizations.0.to.0.email"], Blame.FIELD),
        (["subject", "content.0.value"], Blame.FIELD),
        (["from.email"], Blame.ACCOUNT),
        (["from"], Blame.ACCOUNT),
        (["subject", "from.email"], Blame.ACCOUNT),
        ([None], Blame.UNSAID),
        ([""], Blame.UNSAID),
        (["subject", None], Blame.UNSAID),
        ([], Blame.UNSAID),
    ],
)
def test_a_400_is_about_what_it_names(
    sendgrid: LocalSendGrid, fields: list[str | None], blame: Blame
) -> None:
    errors = [{"message": "no", "field": field, "help": None} for field in fields]
    sendgrid.answer = answer(400, json.dumps({"errors": errors}).encode())
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, Refused)
    assert outcome.blame is blame


@pytest.mark.parametrize("status", [401, 403, 404, 405, 415])
def test_what_would_refuse_every_mail_is_for_an_operator(
    sendgrid: LocalSendGrid, status: int
) -> None:
    sendgrid.answer = answer(status)
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, Refused)
    assert outcome.blame is Blame.ACCOUNT
    assert "secret" not in outcome.why


@pytest.mark.parametrize(
    "body", [b"<html>no</html>", b"", b"[]", b'{"errors": null}', b'{"errors": ["x"]}', b"\xff"]
)
def test_a_refusal_in_any_shape_is_a_refusal(sendgrid: LocalSendGrid, body: bytes) -> None:
    sendgrid.answer = answer(400, body)
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, Refused)
    assert outcome.blame is Blame.UNSAID


@pytest.mark.parametrize(
    ("reset_in_seconds", "wait"), [(30, 30), (-100, 1), (10**6, 3600), (None, 60)]
)
def test_a_rate_limit_means_not_sent_and_when_to_try_again(
    sendgrid: LocalSendGrid, reset_in_seconds: int | None, wait: float
) -> None:
    headers = (
        {"X-RateLimit-Reset": "soon"}
        if reset_in_seconds is None
        else {"X-RateLimit-Reset": str(int(time.time()) + reset_in_seconds)}
    )
    sendgrid.answer = answer(429, headers=headers)
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_seconds == pytest.approx(wait, abs=2)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7),
        ({"retry-after": "86400"}, 3600),
        ({"X-RateLimit-Reset": "nan", "Retry-After": "7"}, 60),
        ({"Retry-After": "soon"}, 60),
    ],
    ids=["seconds", "a day", "not a number", "garbage"],
)
def test_any_word_about_when_to_come_back_is_a_wait(
    sendgrid: LocalSendGrid, headers: dict[str, str], wait: float
) -> None:
    sendgrid.answer = answer(429, headers=headers)
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_seconds == wait


NOON, NOON_SECONDS = "Fri, 20 Nov 2026 12:00:00 GMT", 1_795_176_000


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"X-RateLimit-Reset": str(NOON_SECONDS + 30)}, 30),
        ({"Retry-After": "Fri, 20 Nov 2026 12:00:40 GMT"}, 40),
    ],
    ids=["reset", "a date"],
)
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wait_does_not_depend_on_the_clock_of_our_machine(
    headers: dict[str, str], wait: float, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON_SECONDS + hours * 3600)
    outcome = mail_sender.judge_answer(httpx2.Response(429, headers={"Date": NOON} | headers))
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_seconds == wait
    # Without a readable date our own clock has to do.
    undated = httpx2.Response(429, headers={"Date": "noon", "Retry-After": NOON})
    outcome = mail_sender.judge_answer(undated)
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_seconds == (3600 if hours < 0 else 60)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_never_counts_as_sent(
    sendgrid: LocalSendGrid, status: int
) -> None:
    there = answer(status, headers={"Location": f"{sendgrid.url}/elsewhere"})
    sendgrid.answer = lambda handler: (
        answer(202)(handler) if handler.path == "/elsewhere" else there(handler)
    )
    outcome = sendgrid.sender().send(MAIL)
    assert isinstance(outcome, NotSent)
    assert "SENDGRID_BASE_URL" in outcome.why
    assert [request.path for request in sendgrid.requests] == ["/v3/mail/send"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_after_a_server_error_the_outcome_is_unknown(sendgrid: LocalSendGrid, status: int) -> None:
    sendgrid.answer = answer(status)
    assert isinstance(sendgrid.sender().send(MAIL), OutcomeUnknown)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_only_202_is_a_yes(sendgrid: LocalSendGrid, status: int) -> None:
    sendgrid.answer = answer(status)
    assert isinstance(sendgrid.sender().send(MAIL), OutcomeUnknown)


@pytest.mark.parametrize(
    "lost",
    [hang_up, stay_silent, answer(202, headers={"Content-Length": "100"}, hangs_up=True)],
    ids=["hangs up", "is silent", "stops in the middle"],
)
def test_when_the_answer_is_lost_the_outcome_is_unknown_and_nothing_is_tried_again(
    sendgrid: LocalSendGrid, lost: Answer
) -> None:
    sendgrid.answer = lost
    assert isinstance(sendgrid.sender(timeout_seconds=0.2).send(MAIL), OutcomeUnknown)
    assert len(sendgrid.requests) == 1


def test_a_connection_that_rested_for_long_is_not_used_again(
    sendgrid: LocalSendGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_sender, "KEEP_ALIVE_SECONDS", 0.05)
    sender = sendgrid.sender()
    sender.send(MAIL)
    time.sleep(0.06)
    assert sender.send(MAIL) == Accepted("sg-1")
    assert sendgrid.connections == 2


def test_what_is_lost_on_a_kept_connection_is_not_sent_again(sendgrid: LocalSendGrid) -> None:
    sender = sendgrid.sender()
    assert sender.send(MAIL) == Accepted("sg-1")
    sendgrid.answer = hang_up
    assert isinstance(sender.send(MAIL), OutcomeUnknown)
    assert (len(sendgrid.requests), sendgrid.connections) == (2, 1)


def test_a_server_that_is_somebody_else_is_told_nothing(
    secret_sendgrid: LocalSendGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    outcome = secret_sendgrid.sender().send(MAIL)
    assert isinstance(outcome, NotSent)
    assert "CERTIFICATE_VERIFY_FAILED" in outcome.why
    assert not secret_sendgrid.requests


def test_a_refused_connection_means_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert isinstance(MailSender("SG.secret", url).send(MAIL), NotSent)


def test_an_unknown_host_means_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", find_nothing)
    assert isinstance(MailSender("SG.secret", "http://sendgrid.invalid").send(MAIL), NotSent)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x00", "\x0b"])
@pytest.mark.parametrize(
    "name",
    "outbound_id to_address from_address subject message_id reply_to in_reply_to references"
    " auto_submitted".split(),
)
def test_no_field_can_add_a_header(sendgrid: LocalSendGrid, name: str, end: str) -> None:
    hostile = f"x@example.com{end}Bcc: mallory@evil.example"
    changes: dict[str, Any] = {name: (hostile,) if name == "references" else hostile}
    outcome = sendgrid.sender().send(replace(MAIL, **changes))
    assert isinstance(outcome, Refused)
    assert name in outcome.why
    assert outcome.blame is Blame.MAIL
    assert not sendgrid.requests


def test_our_own_message_id_must_be_one(sendgrid: LocalSendGrid) -> None:
    assert isinstance(sendgrid.sender().send(replace(MAIL, message_id="17")), Refused)
    assert not sendgrid.requests


def test_ids_of_strangers_that_are_none_are_left_out(sendgrid: LocalSendGrid) -> None:
    odd = ("no at", "a b@c", "<1@x>", "ü@example.com", "a@b@c", "ok@example.com")
    sendgrid.sender().send(replace(MAIL, in_reply_to="not an id", references=odd))
    headers = sendgrid.requests[0].body["headers"]
    assert "In-Reply-To" not in headers
    assert headers["References"] == "<ok@example.com>"


def test_a_long_chain_keeps_its_first_and_its_last_ids_on_one_line(sendgrid: LocalSendGrid) -> None:
    chain = tuple(f"{number}-{'x' * 120}@example.com" for number in range(11))
    sendgrid.sender().send(replace(MAIL, references=chain))
    value = sendgrid.requests[0].body["headers"]["References"]
    assert value.startswith(f"<{chain[0]}>")
    assert value.endswith(f"<{chain[9]}> <{chain[10]}>")
    assert len(f"References: {value}") <= 998


def test_an_id_too_long_for_a_line_is_left_out(sendgrid: LocalSendGrid) -> None:
    endless = "x" * 2000 + "@example.com"
    sendgrid.sender().send(replace(MAIL, in_reply_to=endless, references=(endless,)))
    assert not {"In-Reply-To", "References"} & sendgrid.requests[0].body["headers"].keys()


def test_a_shop_may_have_commas_in_its_name(sendgrid: LocalSendGrid) -> None:
    sendgrid.sender(support_name="Kettles, Pots; Pans").send(MAIL)
    assert sendgrid.requests[0].body["from"]["name"] == "Kettles Pots Pans"


@pytest.mark.parametrize(
    ("key", "url", "name"),
    [
        ("", "https://api.sendgrid.com", "Support"),
        ("SG. x", "https://api.sendgrid.com", "Support"),
        ("SG.x\n", "https://api.sendgrid.com", "Support"),
        ("SG.x", "", "Support"),
        ("SG.x", "api.sendgrid.com", "Support"),
        ("SG.x", "ftp://api.sendgrid.com", "Support"),
        ("SG.x", "https://api..sendgrid.com", "Support"),
        ("SG.x", "https://api.sendgrid.com", "Support\r\nBcc: mallory@evil.example"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(key: str, url: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"SENDGRID|support name"):
        MailSender(key, url, name)


def test_a_slash_at_the_end_of_the_base_url_does_no_harm(sendgrid: LocalSendGrid) -> None:
    MailSender("SG.secret", sendgrid.url + "/").send(MAIL)
    assert sendgrid.requests[0].path == "/v3/mail/send"


def test_the_key_and_the_mail_stay_out_of_the_log(
    sendgrid: LocalSendGrid, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        sendgrid.sender().send(MAIL)
    assert "b'POST'" in caplog.text
    assert "SG.secret" not in caplog.text
    assert "Hello Ada" not in caplog.text


def test_threads_may_share_one_sender(sendgrid: LocalSendGrid) -> None:
    sender = sendgrid.sender()
    mails = [replace(MAIL, outbound_id=f"o_{number}") for number in range(64)]
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(sender.send, mails))
    assert set(outcomes) == {Accepted("sg-1")}
    sent = {request.body["custom_args"]["outbound_id"] for request in sendgrid.requests}
    assert sent == {mail.outbound_id for mail in mails}


# --- SendGrid's own records -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "trace"),
    [([{"msg_id": "sg-1", "status": "delivered"}], Trace.FOUND), ([], Trace.NONE)],
)
def test_email_activity_is_searched_for_a_mail(
    sendgrid: LocalSendGrid, messages: list[dict[str, str]], trace: Trace
) -> None:
    sendgrid.answer = answer(200, json.dumps({"messages": messages}).encode())
    assert sendgrid.sender().find_trace("outbound_17") is trace
    (request,) = sendgrid.requests
    asked = urlsplit(request.path)
    assert (request.method, asked.path) == ("GET", "/v3/messages")
    assert parse_qs(asked.query) == {
        "query": ["(unique_args['outbound_id']=\"outbound_17\")"],
        "limit": ["1"],
    }


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_account_without_email_activity_is_not_asked_again(
    sendgrid: LocalSendGrid, status: int
) -> None:
    sendgrid.answer = answer(status, b'{"errors": [{"message": "access forbidden"}]}')
    sender = sendgrid.sender()
    assert {sender.find_trace("outbound_17") for _ in range(3)} == {Trace.NOT_ASKED}
    assert len(sendgrid.requests) == 1
    sendgrid.answer = answer(202)
    assert isinstance(sender.send(MAIL), Accepted)


@pytest.mark.parametrize(
    "there",
    [answer(400), answer(429), answer(503), answer(200, b"<html>"), answer(200, b"[]"), hang_up],
)
def test_records_that_cannot_be_read_say_nothing(sendgrid: LocalSendGrid, there: Answer) -> None:
    sendgrid.answer = there
    sender = sendgrid.sender()
    assert sender.find_trace("outbound_17") is Trace.NOT_ASKED
    sendgrid.answer = answer(200, b'{"messages": []}')
    assert sender.find_trace("outbound_17") is Trace.NONE
