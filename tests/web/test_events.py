"""The event webhook and the platform's questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mailagent.demo.mailboxes import SentMail
from tests.cast import ADA
from tests.stage import Stage, open_shop, wait_until


def answered(shop: Stage) -> SentMail:
    shop.write("Which orders of mine do you have?")
    (mail,) = shop.wait_for_mails(ADA)
    return mail


def test_events_become_facts_once_in_any_order(busy_shop: Stage) -> None:
    mail = answered(busy_shop)
    for event in ("delivered", "processed", "delivered"):
        assert busy_shop.report(mail, event).status_code == 200
    events = busy_shop.rows("SELECT event FROM delivery_events")
    assert sorted(row.event for row in events) == ["delivered", "processed"]


def test_events_of_strangers_are_thanked_for_and_dropped(shop: Stage) -> None:
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
    busy_shop: Stage,
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


def test_unsigned_events_are_refused(shop: Stage) -> None:
    assert shop.client.post("/webhooks/sendgrid/events", data=b"[]").status_code == 503
    signed = shop.events_key.sign(b"[]")
    assert (
        shop.client.post("/webhooks/sendgrid/events", data=b"[]", headers=signed).status_code == 200
    )
    assert shop.client.post("/webhooks/sendgrid/events", data=b"[]").status_code == 403


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"\xff", b"null"])
def test_events_that_cannot_be_read_say_so(shop: Stage, body: bytes) -> None:
    response = shop.client.post(
        "/webhooks/sendgrid/events", data=body, headers=shop.events_key.sign(body)
    )
    assert response.status_code == 400
    assert "event webhook" in response.text


def test_the_process_is_alive_and_ready(shop: Stage) -> None:
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


def test_wait_until_gives_up_loudly() -> None:
    with pytest.raises(AssertionError, match="in vain for godot"):
        wait_until(lambda: False, 0.1, "godot")
