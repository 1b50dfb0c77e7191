"""Mail that was put off comes back by turns: one customer's keeps no other's waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.store.mail import inbound
from mailagent.web.webhooks import threading
from mailagent.workflows.steps.maintenance import sweep
from mailagent.workflows.steps.maintenance import sweep as sweep_steps
from tests.cast import ADA, GRACE
from tests.harness import Harness
from tests.workflows.trouble import forget_runs

pytestmark = pytest.mark.both_databases

CUSTOMERS = [f"customer{number}@example.com" for number in range(5)]


@pytest.fixture
def limited_shop(shop: Harness) -> Harness:
    """A shop whose model's limits bear three mails a minute; its workflows do not run."""
    shop.live = replace(shop.live, rate_limit=RateLimit(requests=9))
    services.bind(shop.live)
    return shop


def put_off(shop: Harness, where: str, times: int = 1) -> None:
    """Let mails have been put off, so many times each."""
    with shop.live.database.transaction() as connection:
        statement = (
            f"UPDATE inbound_mails SET put_off = {times}, wake_ups = {times - 1} WHERE {where}"
        )
        connection.execute(sa.text(statement))


def rung_again(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT from_address FROM inbound_mails WHERE wake_ups >= put_off")
    return sorted(row.from_address for row in rows)


def test_mail_is_brought_back_by_turns_of_the_customers(limited_shop: Harness) -> None:
    for number in range(20):
        limited_shop.write("Hello?", subject=f"thread {number}")
    limited_shop.write("Hello?", from_address=GRACE)
    put_off(limited_shop, f"from_address = '{ADA}'")
    # More often than all others, and no worse for it.
    put_off(limited_shop, f"from_address = '{GRACE}'", 2)
    forget_runs(limited_shop)
    assert sweep.enqueue_mail() == 3
    assert rung_again(limited_shop) == [ADA, ADA, GRACE]


def test_forged_mail_takes_no_turn_of_its_alleged_sender(
    limited_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "_why_unconfirmed", lambda *_: None)  # it comes before the turns
    for number in range(3):
        limited_shop.write("Hello?", subject=f"thread {number}", aligned=False)
    honest = limited_shop.write("Hello?")
    put_off(limited_shop, "true")
    forget_runs(limited_shop)
    assert sweep.enqueue_mail() == 3
    (row,) = limited_shop.rows(
        "SELECT wake_ups FROM inbound_mails WHERE message_id = :id", id=honest.message_id
    )
    assert row.wake_ups == 1


def test_mail_that_a_run_is_at_keeps_no_other_from_being_brought_back(
    limited_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_steps, "BROUGHT_BACK_AT_ONCE", 2)
    forgotten = limited_shop.write("Hello?", from_address=GRACE)
    forget_runs(limited_shop)
    for address in CUSTOMERS:
        limited_shop.write("Hello?", from_address=address, from_name="C")
    put_off(limited_shop, "true")
    with limited_shop.live.database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE inbound_mails SET received_at = :at WHERE message_id = :id"),
            {"at": limited_shop.live.now().replace(tzinfo=None), "id": forgotten.message_id},
        )
    assert sweep.enqueue_mail() == 1
    assert rung_again(limited_shop) == [GRACE]


def test_who_was_tried_least_often_is_the_next_to_be_tried_with(shop: Harness) -> None:
    for address in (ADA, GRACE):
        shop.write("Hello?", from_address=address)
    put_off(shop, f"from_address = '{ADA}'", 2)
    put_off(shop, f"from_address = '{GRACE}'", 1)
    with shop.live.database.snapshot() as connection:
        first = [
            inbound.list_put_off(connection, 1, by_turns=by_turns)[0].from_address
            for by_turns in (True, False)
        ]
    assert first == [ADA, GRACE]


@pytest.mark.parametrize("by_turns", [True, False])
def test_mail_that_was_answered_long_ago_is_not_read_for_it(shop: Harness, by_turns: bool) -> None:
    shop.write("Hello?")
    copy_answered(shop, 3_000)
    put_off(shop, "status = 'unanswered'")
    sqlite = shop.live.database.engine.dialect.name == "sqlite"
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("ANALYZE"))
        query = inbound._put_off_query(500, 0, by_turns)
        told = query.compile(connection.engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' * sqlite}{told}").all()
    lines = [str(line[-1]) for line in plan]
    read = [line for line in lines if "inbound_mails" in line]
    assert any("ix_inbound_mails_unanswered" in line for line in read), lines
    assert not [line for line in read if "Seq Scan" in line or line == "SCAN inbound_mails"], lines


def copy_answered(shop: Harness, count: int) -> None:
    """Let a thousand times as much mail be on record that waits for nobody."""
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(sa.text("SELECT * FROM inbound_mails")).mappings()
        changed = {
            "mail_id": "'m-' || :number", "dedup_key": "'k-' || :number",
            "status": "'no_answer'", "no_answer_reason": "'copied'",
        }  # fmt: skip
        copied = ", ".join(changed.get(name, name) for name in row)
        connection.execute(
            sa.text(f"INSERT INTO inbound_mails ({', '.join(row.keys())}) SELECT {copied}"
                    " FROM inbound_mails WHERE status = 'unanswered'"),
            [{"number": str(number)} for number in range(count)],
        )  # fmt: skip
