"""What is read before a refund is decided on: of a batch, of its thread, of the order and of the policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.domain.mail import Identity, MailKind
from mailagent.store import before_deciding, conversations, filing, mailbox, orders, schema
from mailagent.store.before_deciding import Known, Thread
from mailagent.store.database import Database
from tests.cast import ADA, NOW, order
from tests.store.parsed import parsed_mail


def fill(connection: sa.Connection, many: int) -> tuple[str, list[str]]:
    """Record a thread with so many mails of a customer's, one a minute, and one of the team's."""
    thread = conversations.open_new(connection, ADA, "A kettle", NOW).conversation_id
    mail_ids = []
    for number in range(many + 1):
        kind = MailKind.CUSTOMER if number < many else MailKind.TEAM
        mail = replace(
            parsed_mail(dedup_key=f"key-{number}", kind=kind), message_id=f"m{number}@example.com"
        )
        when = NOW + timedelta(minutes=number)
        mail_id = filing.record(connection, mail, thread, None, when)
        assert mail_id is not None
        mail_ids.append(mail_id)
    return thread, mail_ids


def load(connection: sa.Connection, thread: str, mail_ids: list[str], most: int) -> Thread:
    return before_deciding.load_thread(connection, thread, mail_ids, most)


def test_the_batch_waits_while_each_of_its_mails_does_be_they_new_or_old(
    database: Database,
) -> None:
    with database.transaction() as connection:
        thread, mail_ids = fill(connection, 4)
        oldest, other = mail_ids[0], mail_ids[1]
        assert load(connection, thread, [oldest], 2).waits
        mailbox.leave_unanswered(connection, [other], "a test")
        assert load(connection, thread, [oldest], 2).waits
        assert not load(connection, thread, [oldest, other], 2).waits
        connection.execute(
            schema.inbound_mails.update()
            .where(schema.inbound_mails.c.mail_id == oldest)
            .values(draft_id="draft_1")
        )
        assert not load(connection, thread, [oldest], 2).waits


@pytest.mark.parametrize("most", [1, 2, 4, 5])
def test_the_newest_mails_are_the_customers_and_no_more_than_that(
    database: Database, most: int
) -> None:
    with database.transaction() as connection:
        thread, mail_ids = fill(connection, 4)
        theirs = mail_ids[:4]
        found = load(connection, thread, [mail_ids[0], mail_ids[-1]], most).newest
        assert [row.mail_id for row in found] == theirs[::-1][:most]
        assert {row.identity for row in found} == {Identity.DKIM.value}
        other = conversations.open_new(connection, ADA, "A lamp", NOW).conversation_id
        assert load(connection, other, theirs, most).newest == []


def test_what_is_known_of_an_order_is_its_own(database: Database) -> None:
    shared = [
        {"payment_id": "mine", "method": "card", "amount": "19.99", "refunded": "5.00"},
        {"payment_id": "both", "method": "gift_card", "amount": "30.00"},
    ]
    with database.transaction() as connection:
        orders.save(connection, order(payments=shared), NOW)
        known = before_deciding.load_known(connection, "W1001", "v1")
        assert known == Known(5_00, (), None)
        orders.save(connection, order("W1002", payments=[{**shared[1], "amount": "49.99"}]), NOW)
        orders.save(connection, order("W1003", payments=[{**shared[1], "amount": "49.99"}]), NOW)
        connection.execute(
            schema.policy_versions.insert().values(version="v1", source="rules", first_used_at=NOW)
        )
        known = before_deciding.load_known(connection, "W1001", "v1")
        assert known == Known(5_00, ("both",), "rules")
