"""No words of anybody in the logs of the real processes, whatever goes wrong: providers that repeat what they
were sent, a database that quotes the row it refuses, requests that cannot be read."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.process import AppProcess
from mailagent.demo.show import find_port
from tests.adapters.parse_requests import CONTENT_TYPE, raw_request
from tests.cast import SUPPORT, order
from tests.harness import Harness, wait_until
from tests.processes import base_environment
from tests.workflows.trouble import is_sqlite, table_of_runs

# In small letters, as they are searched for; each stands in another place.
WORDS = ("subject", "text", "name", "address", "file", "model", "garbage")
CANARIES = tuple(f"canary{word}" for word in WORDS)
CUSTOMER = "canaryaddress@example.com"


@contextmanager
def app_beside(shop: Harness, log: Path) -> Iterator[int]:
    """Run the app of a shop in processes of its own, web and worker, with an access log; give its port."""
    port = find_port(0)
    unsigned = {"SENDGRID_INBOUND_PUBLIC_KEY": "", "SENDGRID_EVENTS_PUBLIC_KEY": ""}
    logged = {
        "GUNICORN_CMD_ARGS": "--access-logfile -",
        "LOG_FORMAT": "json",
        "WORKER_ID": "logged",
    }
    environment = {**base_environment(), **shop.environ, **unsigned, **logged}
    app = AppProcess(port, environment, log)
    try:
        wait_until(app.is_ready, 60, "the app to be ready")
        yield port
    finally:
        app.stop()


def write(port: int, number: int, text: str = "") -> int:
    """Write a mail that is full of canaries; return what the webhook answers."""
    message = EmailMessage()
    message["From"], message["To"] = f"Canaryname <{CUSTOMER}>", SUPPORT
    message["Subject"] = f"Canarysubject {number}"
    message["Message-ID"] = f"<letter{number}@example.com>"
    message.set_content(f"Canarytext. {text or 'Which orders of mine do you have?'}")
    message.add_attachment(b"\xff\xd8\xff", "image", "jpeg", filename="Canaryfile.jpg")
    body = raw_request(message.as_bytes(), dkim="{@example.com : pass}", envelope_from=CUSTOMER)
    return post(port, body)


def post(port: int, body: bytes) -> int:
    """Post an inbound mail to the app; return the answer's status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        path = "/webhooks/sendgrid/inbound"
        connection.request("POST", path, body, {"Content-Type": CONTENT_TYPE})
        return connection.getresponse().status
    finally:
        connection.close()


def refuse_rows_of(shop: Harness, table: str) -> list[str]:
    """Let the database refuse each new row of a table; return what undoes it."""
    if is_sqlite(shop):
        made = f"CREATE TRIGGER no_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
        undone = f"DROP TRIGGER no_{table}"
    else:
        made = f"ALTER TABLE {table} ADD CONSTRAINT no_{table} CHECK (subject = 'x') NOT VALID"
        undone = f"ALTER TABLE {table} DROP CONSTRAINT no_{table}"
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(made)
    return [undone]


def do(shop: Harness, statements: list[str]) -> None:
    with shop.live.database.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def wait_for_failures(shop: Harness, count: int) -> None:
    failed = f"SELECT 1 FROM {table_of_runs(shop)} WHERE status = 'ERROR'"
    wait_until(lambda: len(shop.rows(failed)) >= count, 60, f"{count} runs that failed")


def unanswered(shop: Harness) -> int:
    return len(shop.rows("SELECT 1 FROM inbound_mails WHERE status = 'unanswered'"))


def echo(request: str) -> Answer:
    """Refuse a request as a provider does that repeats what it was sent."""
    message = f"cannot take Canarytext of {CUSTOMER}: {request}"
    body: dict[str, str | None] = {
        "message": message,
        "field": "Canarysubject",
        "help": None,
        "code": "bad",
    }
    return Answer(400, {"error": dict(body, type="invalid"), "errors": [body]})


def test_nobodys_words_are_in_the_logs_of_real_processes(shop: Harness, tmp_path: Path) -> None:
    shop.stock(order(customer={"email": CUSTOMER, "name": "Canaryname"}))
    log = tmp_path / "app.log"
    with app_beside(shop, log) as port:
        assert (
            write(port, 1, "My kettle of order W1001 arrived broken. I want my money back.") == 200
        )
        wait_until(shop.at_rest, 60, "the first mail to be answered")
        shop.faults.openai.append(lambda: echo("Canarymodel"))
        assert write(port, 2) == 200
        wait_until(lambda: not unanswered(shop), 60, "an end of the second mail")
        shop.faults.sendgrid.append(lambda _accept: echo("Canarymodel"))
        assert write(port, 3) == 200
        wait_until(shop.at_rest, 60, "an end of the third mail")
        undo = refuse_rows_of(shop, "outbound_mails")
        assert write(port, 4) == 200
        wait_for_failures(shop, 1)
        do(shop, undo)
        undo = refuse_rows_of(shop, "inbound_mails")
        assert write(port, 5) == 503
        do(shop, undo)
        assert post(port, b"no form at all: canarygarbage") == 200
    logged = log.read_text("utf-8", "replace").lower()
    assert "no_outbound_mails" in logged or "no\\n" in logged, "the failure was not logged at all"
    assert [each for each in CANARIES if each in logged] == []
    lines = [json.loads(line) for line in logged.splitlines() if line.startswith("{")]
    failed = [line for line in lines if "exception" in line and "run_id" in line]
    assert failed, "the run that failed is not named"
    assert {line["worker_id"] for line in failed} == {"logged"}
