"""The event webhook and the platform's questions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent import mailers
from mailagent.adapters.sendgrid.events import parse_events
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.web.webhooks.deliveries import record_event
from tests.cast import ADA, MONA
from tests.harness import Harness, open_shop, wait_until
from tests.workflows.trouble import is_sqlite

pytestmark = pytest.mark.both_databases


def answered(shop: Harness) -> SentMail:
    shop.write("Which orders of mine do you have?")
    (mail,) = shop.wait_for_mails(ADA)
    return mail


def test_events_become_facts_once_in_any_order(busy_shop: Harness) -> None:
    mail = answered(busy_shop)
    for event in ("delivered", "processed", "delivered"):
        assert busy_shop.report(mail, event).status_code == 200
    events = busy_shop.rows("SELECT event FROM delivery_events")
    assert sorted(row.event for row in events) == ["delivered", "processed"]


def test_events_of_strangers_are_thanked_for_and_dropped(shop: Harness) -> None:
    body = json.dumps(
        [{"event": "delivered", "timestamp": 1, "outbound_id": "outbound_x"}, {"event": 7}]
    )
    response = shop.client.post(
        "/webhooks/sendgrid/events",
        data=body.encode(),
        headers=shop.events_key.sign(body.encode()),
    )
    assert response.status_code == 200
    assert shop.rows("SELECT * FROM delivery_events") == []


def test_events_with_characters_that_no_row_takes_are_recorded_without_them(
    busy_shop: Harness,
) -> None:
    mail = answered(busy_shop)
    rows = [
        {
            "event": "deferred",
            "timestamp": 1_790_000_000,
            "reason": f"550{character} no",
            **mail.custom_args,
        }
        for character in ("\x00", "\ud800")
    ]
    rows += [{"event": "bounce", "timestamp": 1, "outbound_id": f"x{c}"} for c in "\x00\ud800"]
    body = json.dumps(rows).encode()
    response = busy_shop.client.post(
        "/webhooks/sendgrid/events", data=body, headers=busy_shop.events_key.sign(body)
    )
    assert response.status_code == 200
    recorded = busy_shop.rows("SELECT reason FROM delivery_events WHERE event = 'deferred'")
    assert [row.reason for row in recorded] == ["550 no", "550 no"]


def posted(shop: Harness, rows: list[dict[str, object]]) -> int:
    """Post a batch of events, signed, and return the answer's status."""
    body = json.dumps(rows).encode()
    headers = shop.events_key.sign(body)
    return shop.client.post("/webhooks/sendgrid/events", data=body, headers=headers).status_code


def two_bounces(shop: Harness) -> tuple[dict[str, object], dict[str, object]]:
    """Write two mails and return how a batch says that they bounced."""
    for subject in ("Ada's refund", "Grace's refund"):
        notice = mailers.Notice(subject, subject, ["Please decide."])
        with shop.live.database.transaction() as connection:
            mailers.write_notice(connection, notice, [MONA], None)
    mails = shop.rows("SELECT outbound_id FROM outbound_mails ORDER BY outbound_id")
    first, second = (
        {"event": "bounce", "email": MONA, "timestamp": 1, "outbound_id": row.outbound_id}
        for row in mails
    )
    return first, second


def test_a_batch_and_others_who_touch_its_mails_do_not_lock_each_other_out(shop: Harness) -> None:
    if is_sqlite(shop):
        pytest.skip("SQLite has one lock for all")
    first, second = two_bounces(shop)
    early, late = parse_events(json.dumps([first, second]).encode())
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(1) as thread:
        with shop.live.database.transaction() as connection:
            record_event(connection, late, shop.live.now())
            answer = thread.submit(posted, shop, [first, second])
            wait_until(lambda: bool(shop.rows(waits)), 20, "the batch to wait for its second mail")
            # Held by a batch that were one transaction, this would be a deadlock.
            record_event(connection, early, shop.live.now())
        assert answer.result() == 200
    assert len(shop.rows("SELECT * FROM delivery_events")) == 2


REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN IF NEW.outbound_id = '{0}' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END$$;
CREATE TRIGGER refuse BEFORE INSERT ON delivery_events FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_a_batch_of_which_a_part_cannot_be_stored_is_asked_for_again(shop: Harness) -> None:
    if is_sqlite(shop):
        pytest.skip("what makes PostgreSQL refuse a row cannot be said to SQLite")
    first, second = two_bounces(shop)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(REFUSE.format(first["outbound_id"])))
    assert posted(shop, [first, second]) == 503
    recorded = "SELECT outbound_id FROM delivery_events ORDER BY outbound_id"
    assert [row.outbound_id for row in shop.rows(recorded)] == [second["outbound_id"]]
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("DROP TRIGGER refuse ON delivery_events"))
    assert posted(shop, [first, second]) == 200
    assert len(shop.rows(recorded)) == 2


def test_unsigned_events_are_refused(shop: Harness) -> None:
    assert shop.client.post("/webhooks/sendgrid/events", data=b"[]").status_code == 503
    signed = shop.events_key.sign(b"[]")
    assert (
        shop.client.post("/webhooks/sendgrid/events", data=b"[]", headers=signed).status_code == 200
    )
    assert shop.client.post("/webhooks/sendgrid/events", data=b"[]").status_code == 403


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"\xff", b"null"])
def test_events_that_cannot_be_read_say_so(shop: Harness, body: bytes) -> None:
    response = shop.client.post(
        "/webhooks/sendgrid/events", data=body, headers=shop.events_key.sign(body)
    )
    assert response.status_code == 400
    assert "event webhook" in response.text


def test_the_process_is_alive_and_ready(shop: Harness) -> None:
    assert shop.client.get("/healthz").status_code == 200
    assert shop.client.get("/readyz").text == "ready\n"


def test_an_unmigrated_database_is_not_ready(tmp_path: Path) -> None:
    with open_shop(tmp_path, f"sqlite:///{tmp_path}/empty.db") as shop:
        assert shop.client.get("/healthz").status_code == 200
        ready = shop.client.get("/readyz")
        assert ready.status_code == 503
        assert "alembic upgrade head" in ready.text


def test_an_unreachable_database_is_not_ready(tmp_path: Path) -> None:
    with open_shop(tmp_path, "postgresql+psycopg://nobody@127.0.0.1:9/none") as shop:
        assert shop.client.get("/healthz").status_code == 200
        assert shop.client.get("/readyz").status_code == 503
        letter = shop.post_inbound(b"--x", "multipart/form-data; boundary=x")
        assert letter.status_code == 503
