"""A mail that begins a thread is stored by one statement, as the long way would have stored it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mailagent.domain.conversation import Limits
from mailagent.store import sessions
from mailagent.store.arrivals import SHARE
from mailagent.telemetry import spans
from tests.adapters.parse_requests import letter, raw_request
from tests.cast import ADA, GRACE, MALLORY, SUPPORT, TESS
from tests.stage import Stage
from tests.web.ways import take_long_way, take_short_way

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

FORGED: dict[str, Any] = {"dkim": "{@example.com : fail}", "spf": "fail"}

# What differs from one mail to the next, and tokens that DBOS writes.
OF_ONE = {
    "mail_id", "dedup_key", "conversation_id", "received_at", "run_id", "opened_at", "last_mail_at",
    "reply_token", "confirm_token", "team_token", "workflow_uuid", "created_at", "updated_at", "owner_xid",
    "message_id",
}  # fmt: skip
# Each as one value: columns of two tables may have the same name.
ALL_OF_IT = sa.text(
    "SELECT to_jsonb(m) AS mail, to_jsonb(c) AS thread, to_jsonb(w) AS run, r.content_type AS content_type,"
    " r.body AS request, i.inputs AS given"
    " FROM inbound_mails m JOIN conversations c USING (conversation_id) JOIN raw_mails r USING (mail_id)"
    " JOIN dbos.workflow_status w ON w.workflow_uuid = m.run_id"
    " JOIN dbos.workflow_input i ON i.workflow_uuid = m.run_id"
    " ORDER BY m.mail_id DESC LIMIT 1"
)


@contextmanager
def said(shop: Stage) -> Iterator[list[str]]:
    """Give what is said to the database meanwhile."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        statements.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield statements
    sa.event.remove(engine, "before_cursor_execute", note)


def post(shop: Stage, mail: bytes, **common: Any) -> str:
    return shop.post_inbound(raw_request(mail, **common)).text


def now(shop: Stage) -> str:
    return shop.live.now().strftime("%a, %d %b %Y %H:%M:%S +0000")


def stored_last(shop: Stage) -> Any:
    with shop.live.database.snapshot() as connection:
        return connection.execute(ALL_OF_IT).one()


def stable(row: Any) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in table.items() if name not in OF_ONE}
        for table in (row.mail, row.thread, row.run, {"content_type": row.content_type})
    ]


LETTERS: dict[str, dict[str, str]] = {
    "plain": {},
    "german": {"text": "Guten Tag, wo ist meine Bestellung? Danke!"},
    "without a name": {"Message_ID": ""},
    "with keys": {
        "text": "Here: https://shop.example/ops/login/abcdefghijklmnop and 4111 1111 1111 1111"
    },
    "html and a file": {
        "text": '--b\nContent-Type: text/html\n\n<p>My kettle, &gt; 5 "years" \\ old % :name</p>\n--b\n'
        'Content-Type: image/png; name="a.png"\nContent-Disposition: attachment; filename="a.png"\n\n'
        "x\n--b--\n",
        "Content_Type": "multipart/mixed; boundary=b",
    },
}


@pytest.mark.parametrize("name", LETTERS)
@pytest.mark.parametrize("proven", [True, False])
def test_both_ways_leave_the_same_rows(shop: Stage, name: str, proven: bool) -> None:
    rows = []
    passes = {} if proven else FORGED
    date = now(shop)
    for number, take in enumerate((take_long_way, take_short_way)):
        take(shop)
        one = {"Date": date, "Message_ID": f"<m{number}@example.com>", "X_Number": str(number)}
        mail = letter(**(one | LETTERS[name]))
        with said(shop) as statements:
            assert post(shop, mail, **passes) == "stored\n"
        assert (len(statements) == 1) == (take is take_short_way)
        row = stored_last(shop)
        thread = row.thread["conversation_id"]
        assert bytes(row.request) == raw_request(mail, **passes)
        assert row.thread["opened_at"] == row.thread["last_mail_at"] == row.mail["received_at"]
        assert json.loads(row.given)["positionalArgs"] == [thread]
        assert row.run["attributes"].pop("subject") == thread
        assert row.run["attributes"].pop("conversation") == thread
        assert len({row.thread[f"{door}_token"] for door in ("reply", "confirm", "team")}) == 3
        rows.append(row)
    long, short = rows
    assert stable(short) == stable(long)
    assert (short.mail["identity"] == "none") == (not proven)


def test_one_that_came_before_is_known(shop: Stage) -> None:
    take_short_way(shop)
    mail = letter(Date=now(shop))
    assert [post(shop, mail) for _ in range(2)] == ["stored\n", "known already\n"]
    assert len(shop.rows("SELECT 1 FROM conversations")) == 1


def test_a_message_id_that_is_known_makes_signatures_worthless(shop: Stage) -> None:
    take_short_way(shop)
    date = now(shop)
    post(shop, letter("One", Date=date))
    post(shop, letter("Other", Date=date))
    rows = shop.rows("SELECT flags, same_message_id FROM inbound_mails ORDER BY mail_id")
    assert [(row.same_message_id, "known_message_id" in row.flags) for row in rows] == [
        (0, False),
        (1, True),
    ]


@pytest.mark.parametrize("passes", [{}, FORGED])
def test_a_sender_of_too_many_is_parked(shop: Stage, passes: dict[str, Any]) -> None:
    shop.live = replace(shop.live, limits=Limits(mails_of_sender_per_hour=2))
    take_short_way(shop)
    for other in ({} if passes else FORGED, passes):  # what comes of the other sort does not count
        for number in range(4):
            name = f"<m{number}-{len(other)}@example.com>"
            post(shop, letter(f"Mail {number}", Date=now(shop), Message_ID=name), **other)
    rows = shop.rows("SELECT status FROM inbound_mails ORDER BY mail_id")
    half = ["unanswered", "unanswered", "parked", "parked"]
    assert [row.status for row in rows] == half + half
    assert len(shop.rows("SELECT 1 FROM dbos.workflow_status")) == 4


@pytest.mark.parametrize("passes", [{}, FORGED])
def test_an_hour_with_too_many_parks(shop: Stage, passes: dict[str, Any]) -> None:
    shop.live = replace(shop.live, limits=Limits(mails_per_hour=2 * SHARE))
    take_short_way(shop)
    by_one_statement = 0
    for number in range(2 * SHARE + 3):
        author = f"c{number}@example.com"
        name = f"<m{number}@example.com>"
        mail = letter(Date=now(shop), From=f"Ada <{author}>", Message_ID=name)
        with said(shop) as statements:
            post(shop, mail, envelope_from=author, **passes)
        by_one_statement += len(statements) == 1
        if number % 4 == 0:  # of the other sort, of which as many may come
            one = letter(Date=now(shop), Message_ID=f"<n{number}@example.com>")
            post(shop, one, **({} if passes else FORGED))
    rows = shop.rows("SELECT status FROM inbound_mails WHERE from_address <> :ada", ada=ADA)
    assert [row.status for row in rows].count("parked") == 3
    assert by_one_statement >= 2
    assert shop.rows("SELECT 1 FROM inbound_mails WHERE from_address = :ada", ada=ADA)
    parked = "SELECT 1 FROM inbound_mails WHERE from_address = :ada AND status = 'parked'"
    assert shop.rows(parked, ada=ADA) == []


def test_a_link_that_logs_in_is_cut_out(shop: Stage) -> None:
    take_short_way(shop)
    secret, at = sessions.new_secret(), shop.live.now()
    with shop.live.database.transaction() as connection:
        sessions.record_link(connection, secret, TESS, "/ops", at, at + timedelta(minutes=15))
    post(shop, letter(f"What is {secret}?", Date=now(shop)))
    (row,) = shop.rows("SELECT body, new_text FROM inbound_mails")
    assert secret not in row.body + row.new_text
    assert "What is" in row.new_text


@pytest.mark.parametrize(
    "changes",
    [{"In_Reply_To": "<m0@example.com>"}, {"References": "<m0@example.com>"}],
)
def test_what_refers_to_a_mail_goes_the_long_way(shop: Stage, changes: dict[str, str]) -> None:
    post(shop, letter(Date=now(shop), Message_ID="<m0@example.com>"))
    take_short_way(shop)
    post(shop, letter("More", Date=now(shop), Message_ID="<m1@example.com>", **changes))
    assert len(shop.rows("SELECT 1 FROM conversations")) == 1


def test_what_comes_to_a_reply_address_goes_the_long_way(shop: Stage) -> None:
    post(shop, letter(Date=now(shop), Message_ID="<m0@example.com>"))
    (thread,) = shop.rows("SELECT * FROM conversations")
    take_short_way(shop)
    address = f"case+{thread.reply_token}@{shop.live.shop.reply_domain}"
    mail = letter("More", Date=now(shop), Message_ID="<m1@example.com>", To=address)
    post(shop, mail, envelope_to=[address])
    assert len(shop.rows("SELECT 1 FROM conversations")) == 1


@pytest.mark.parametrize(
    "mail",
    [
        letter("Away", Auto_Submitted="auto-replied", Date="Sun, 1 Nov 2026 10:00:00 +0000"),
        letter("Undelivered", From=f"Mailer <{SUPPORT}>"),
    ],
)
def test_a_machine_goes_the_long_way(shop: Stage, mail: bytes) -> None:
    take_short_way(shop)
    post(shop, mail)
    (row,) = shop.rows("SELECT status, run_id FROM inbound_mails")
    assert (row.status, row.run_id) == ("no_answer", None)


def test_what_fails_in_the_bell_leaves_nothing(shop: Stage) -> None:
    take_short_way(shop)
    mail = letter(Date=now(shop))
    rename = "ALTER FUNCTION dbos.{} RENAME TO {}"
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(rename.format("enqueue_workflow", "gone"))
    answer = shop.post_inbound(raw_request(mail))
    assert answer.status_code == 503
    for table in ("inbound_mails", "raw_mails", "conversations", "dbos.workflow_status"):
        assert shop.rows(f"SELECT 1 FROM {table}") == []
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(rename.format("gone", "enqueue_workflow"))
    assert post(shop, mail) == "stored\n"


def test_the_statement_is_remembered_by_the_driver(shop: Stage) -> None:
    take_short_way(shop)
    with said(shop) as statements:
        for number in range(7):
            mail = letter(Date=now(shop), Message_ID=f"<m{number}@example.com>")
            assert post(shop, mail) == "stored\n"
    assert len(set(statements)) == 1
    with shop.live.database.transaction() as connection:
        prepared = "SELECT 1 FROM pg_prepared_statements WHERE statement LIKE '%queue_run%'"
        assert len(connection.execute(sa.text(prepared)).all()) == 1


def test_another_customers_mail_is_another_thread(shop: Stage) -> None:
    take_short_way(shop)
    for author in (ADA, GRACE, MALLORY):
        mail = letter(Date=now(shop), From=f"X <{author}>", Message_ID=f"<of-{author}>")
        post(shop, mail, envelope_from=author)
    rows = shop.rows(
        "SELECT m.from_address, c.customer_email FROM inbound_mails m"
        " JOIN conversations c USING (conversation_id) ORDER BY mail_id"
    )
    assert [tuple(row) for row in rows] == [(each, each) for each in (ADA, GRACE, MALLORY)]


def test_the_span_of_a_bell_that_was_not_rung_says_so(
    shop: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_started", [provider])
    take_short_way(shop)
    mail = letter(Date=now(shop))
    assert [post(shop, mail) for _ in range(2)] == ["stored\n", "known already\n"]
    (thread,) = shop.rows("SELECT conversation_id FROM conversations")
    bells = [
        dict(span.attributes or {})
        for span in exporter.get_finished_spans()
        if span.name == "ring conversation"
    ]
    assert [bell.get("mailagent.rung") for bell in bells] == [None, False]
    assert [bell.get("mailagent.conversation_id") for bell in bells] == [
        thread.conversation_id,
        None,
    ]
    (run,) = shop.rows("SELECT attributes FROM dbos.workflow_status")
    assert run.attributes["dbos.otelContext"].keys() == {"traceparent"}
