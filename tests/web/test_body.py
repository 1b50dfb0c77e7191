"""Bodies that break off, or are too long: by raw sockets to gunicorn, which does not notice by itself."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.demo.process import AppProcess
from mailagent.demo.show import find_port
from mailagent.web.webhooks import body as webhook_body
from tests.cast import MONA
from tests.harness import Harness, letter, wait_until
from tests.processes import base_environment

INBOUND, EVENTS = "/webhooks/sendgrid/inbound", "/webhooks/sendgrid/events"
TOO_LONG = webhook_body.LARGEST_BYTES + 1


@dataclass(frozen=True, slots=True)
class Served:
    """The app under gunicorn."""

    port: int
    key: WebhookKey
    database: sa.Engine

    def post(self, path: str, signed: bytes, framing: str, sent: bytes) -> int:
        """Send these very bytes and hang up; return the answer's status."""
        headers = [
            f"POST {path} HTTP/1.1",
            "Host: localhost",
            f"Content-Type: {CONTENT_TYPE}",
            framing,
            *(f"{name}: {value}" for name, value in self.key.sign(signed).items()),
        ]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall("\r\n".join([*headers, "", ""]).encode() + sent)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").readline()
        return int(answer.split()[1])

    def mails(self) -> int:
        with self.database.connect() as connection:
            return int(
                connection.execute(sa.text("SELECT count(*) FROM inbound_mails")).scalar_one()
            )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    database = folder / "served.db"
    shutil.copy(migrated_sqlite, database)
    key, port = WebhookKey(folder / "webhook.pem"), find_port(0)
    environment = {
        **base_environment(),
        "DATABASE_URL": f"sqlite:///{database}",
        "SECRET_KEY": "a key for tests only",
        "MANAGER_EMAILS": MONA,
        "SENDGRID_INBOUND_PUBLIC_KEY": key.public_text(),
        "SENDGRID_EVENTS_PUBLIC_KEY": key.public_text(),
    }
    engine = sa.create_engine(f"sqlite:///{database}")
    app = AppProcess(port, environment, folder / "app.log")
    try:
        wait_until(app.is_ready, 30, "gunicorn")
        yield Served(port, key, engine)
    finally:
        app.stop()
        engine.dispose()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole_body(path: str) -> bytes:
    return build_body(letter("Hello")) if path == INBOUND else b"[]"


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
def test_a_whole_body_is_taken_however_it_is_framed(served: Served, path: str) -> None:
    for framing in ("Content-Length: {}", "Transfer-Encoding: chunked"):
        body = whole_body(path)
        chunked = "chunked" in framing
        sent = chunk(body[:1]) + chunk(body[1:]) + b"0\r\n\r\n" if chunked else body
        assert served.post(path, body, framing.format(len(body)), sent) == 200


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
@pytest.mark.parametrize(
    ("framing", "missing"),
    [
        ("Content-Length: {}", "the last byte"),
        ("Content-Length: {}", "everything"),
        ("Transfer-Encoding: chunked", "everything"),
        ("Transfer-Encoding: chunked", "the last byte"),
        ("Transfer-Encoding: chunked", "the end of the chunk"),
        ("Transfer-Encoding: chunked", "the last chunk"),
        ("Transfer-Encoding: chunked", "the last line"),
        ("Transfer-Encoding: chunked", "a size that can be read"),
    ],
)
def test_a_body_that_breaks_off_is_to_be_sent_again(
    served: Served, path: str, framing: str, missing: str
) -> None:
    body = whole_body(path)
    assert served.post(path, body, f"Content-Length: {len(body)}", body) == 200  # seen a good one
    stored = served.mails()
    again = whole_body(path)
    chunked = {
        "everything": b"",
        "the last byte": chunk(again)[:-3],
        "the end of the chunk": chunk(again)[:-2],
        "the last chunk": chunk(again),
        "the last line": chunk(again) + b"0\r\n",
        "a size that can be read": b"zz\r\n" + again,
    }
    plain = {"everything": b"", "the last byte": again[:-1]}
    sent = (chunked if "chunked" in framing else plain)[missing]
    assert served.post(path, again, framing.format(len(again)), sent) == 503
    assert served.mails() == stored


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
def test_a_body_that_breaks_off_just_where_a_mail_may_end_is_noticed(
    served: Served, path: str
) -> None:
    """Even when what came is signed: the length says that there is more."""
    body = whole_body(path)
    assert served.post(path, body, f"Content-Length: {len(body) + 10}", body) == 503


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
def test_a_body_announced_as_too_long_is_never_answered_413(served: Served, path: str) -> None:
    assert served.post(path, b"", f"Content-Length: {TOO_LONG}", b"") == 503


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
def test_a_chunked_body_that_turns_out_too_long_is_never_answered_413(
    shop: Harness, path: str
) -> None:
    body = bytes(TOO_LONG)
    response = shop.client.post(
        path,
        data=body,
        headers={"Transfer-Encoding": "chunked", **shop.inbound_key.sign(body)},
        environ_overrides={"wsgi.input_terminated": True},  # as gunicorn sets it
    )
    assert response.status_code == 503
    assert "whole" in response.text


@pytest.mark.parametrize("path", [INBOUND, EVENTS])
def test_a_body_that_breaks_off_behind_any_server_is_noticed(shop: Harness, path: str) -> None:
    body = whole_body(path)
    response = shop.client.post(
        path,
        data=body,
        headers=dict(shop.inbound_key.sign(body)),
        environ_overrides={
            "CONTENT_LENGTH": str(len(body) + 1),
            "wsgi.input_terminated": True,  # as gunicorn sets it
        },
    )
    assert response.status_code == 503
    assert "whole" in response.text
