"""Erasing a customer: their words, name and address go, in one transaction. What the shop has to keep
of money stays, under a name that is made for it and leads nowhere.

docs/erasure.md lists both. Which rows are theirs is for `erasure_scope`; what the workflow engine keeps
is for the workflow client.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.redaction import Mention
from mailagent.store import audit, schema
from mailagent.store.database import overwrite_deleted
from mailagent.store.ids import new_token
from mailagent.store.mail import suppressions
from mailagent.store.operations import step_texts
from mailagent.store.privacy import erasure_scope
from mailagent.store.privacy.erasure_scope import TEXT_IN, TEXT_OUT, Obstacle, Scope, batches
from mailagent.store.refunds import gateway_events

ERASED = "customer erased"
ERASED_NAME = "erased"

# What of the audit trail's details people or providers may have written; its trigger names the same.
WORDS = ("note", "why", "reason")

_COMPLAINT = "spamreport"


class ErasureRefusedError(Exception):
    """Something of theirs is under way; `obstacles` says what, and what ends it."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("; ".join(f"{each.what}. {each.advice}" for each in obstacles))
        self.obstacles = tuple(obstacles)


def count(connection: sa.Connection, scope: Scope) -> dict[str, int]:
    """Return how many rows of each sort are theirs, by what a person calls them."""
    raw = schema.raw_mails
    files = sum(
        connection.scalar(sa.select(sa.func.count()).where(raw.c.mail_id.in_(some))) or 0
        for some in batches(scope.mail_ids)
    )
    return {
        "conversations": len(scope.conversation_ids),
        "mails received": len(scope.mail_ids),
        "raw mails with their files": files,
        "mails sent": len(scope.outbound_ids),
        "drafts": len(scope.draft_ids),
        "orders": len(scope.order_ids),
        "refunds": len(scope.refund_ids),
    }


def erase(
    connection: sa.Connection, email: str, actor: str, runs: int, now: datetime
) -> tuple[str, Scope]:
    """Erase what is on record of an address; return the address that stands for it now, and what was
    theirs. `runs` is how many histories of the workflow engine went before.

    Raises ErasureRefusedError while something of theirs is under way, and changes nothing then.
    """
    _lock(connection, email)
    scope = erasure_scope.find(connection, email)
    obstacles = erasure_scope.list_obstacles(connection, scope)
    if obstacles:
        raise ErasureRefusedError(obstacles)
    overwrite_deleted(connection)
    alias = f"erased-{secrets.token_hex(8)}@{suppressions.ERASED_DOMAIN}"
    counts = count(connection, scope) | {"runs": runs}
    _erase_mail_in(connection, scope, alias)
    _erase_mail_out(connection, scope, alias)
    _erase_decisions(connection, scope, alias)
    _erase_gateway_text(connection, scope, alias)
    mails, ours = schema.inbound_mails.c.mail_id, schema.outbound_mails.c.outbound_id
    _replace_address(connection, mails, scope.naming_mail_ids, TEXT_IN, email, alias)
    _replace_address(connection, ours, scope.naming_outbound_ids, TEXT_OUT, email, alias)
    _erase_threads(connection, scope, alias)
    _erase_orders(connection, scope, alias)
    _erase_address(connection, email)
    _take_text_out_of_audit(connection, (*scope.subjects, *scope.draft_ids, *scope.mail_ids))
    audit.record(connection, now, actor, ERASED, alias, counts)
    return alias, scope


def _lock(connection: sa.Connection, email: str) -> None:
    """Keep others from adding to what is theirs until the commit; orders first, as everywhere."""
    for table, key in ((schema.orders, "order_id"), (schema.conversations, "conversation_id")):
        connection.execute(
            sa.select(table.c[key])
            .where(table.c.customer_email == email)
            .order_by(table.c[key])
            .with_for_update()
        )


def _update(
    connection: sa.Connection, key: sa.Column[str], ids: Sequence[str], values: Mapping[str, Any]
) -> None:
    for some in batches(ids):
        connection.execute(sa.update(key.table).where(key.in_(some)).values(**values))


def _renamed(column: sa.Column[str], email: str, alias: str) -> sa.ColumnElement[str]:
    """Return an address column with theirs replaced: in their threads stand others', too."""
    return sa.case((column == email, alias), else_=column)


def _erase_mail_in(connection: sa.Connection, scope: Scope, alias: str) -> None:
    mails, raw = schema.inbound_mails, schema.raw_mails
    for some in batches(scope.mail_ids):
        connection.execute(raw.delete().where(raw.c.mail_id.in_(some)))
    values: dict[str, Any] = {
        "from_address": _renamed(mails.c.from_address, scope.email, alias),
        "rate_limit_key": None,
        "from_name": "",
        "envelope_from": None,
        "envelope_to": [],
        "subject": "",
        "message_id": None,
        "in_reply_to": [],
        "mail_references": [],
        "body": "",
        "new_text": "",
        "attachments": [],
        # A person may have written it; that there is one has to stay.
        "no_answer_reason": sa.case((mails.c.no_answer_reason.is_not(None), ERASED_NAME)),
    }
    _update(connection, mails.c.mail_id, scope.mail_ids, values)


def _erase_mail_out(connection: sa.Connection, scope: Scope, alias: str) -> None:
    mails, events = schema.outbound_mails, schema.delivery_events
    values: dict[str, Any] = {
        "to_address": _renamed(mails.c.to_address, scope.email, alias),
        "reply_to": None,
        "subject": "",
        "text": "",
        "html": None,
        "in_reply_to": None,
        "mail_references": [],
        "error": None,
    }
    _update(connection, mails.c.outbound_id, scope.outbound_ids, values)
    # Mail servers say to whom they would not deliver.
    _update(connection, events.c.outbound_id, scope.outbound_ids, {"reason": None})


def _erase_decisions(connection: sa.Connection, scope: Scope, alias: str) -> None:
    """Blank what people noted beside their decisions; who decided what and when stays."""
    for table in (schema.decisions, schema.countersignatures):
        _update(connection, table.c.approval_id, scope.approval_ids, {"note": None})
    notes, refunds, parts = schema.approval_notes, schema.refunds, schema.refund_payments
    _update(connection, notes.c.approval_id, scope.approval_ids, {"text": ""})
    _update(connection, refunds.c.refund_id, scope.refund_ids, {"note": None})
    for column in (refunds.c.failure, parts.c.problem):
        key = column.table.c.refund_id
        _replace_address(connection, key, scope.refund_ids, [column], scope.email, alias)


def _replace_address(
    connection: sa.Connection,
    key: sa.Column[str],
    ids: Sequence[str],
    columns: Sequence[sa.Column[Any]],
    email: str,
    alias: str,
) -> None:
    """Replace an address in these columns of the rows whose `key` is among `ids`; all else in them stays."""
    mention = Mention(email)
    for some in batches(ids):
        for row in connection.execute(sa.select(key.table).where(key.in_(some))).mappings().all():
            text = {each.name: row[each.name] for each in columns}
            found = {name: value for name, value in text.items() if mention.is_in(value)}
            if found:
                own = sa.and_(*(column == row[column.name] for column in key.table.primary_key))
                values: Mapping[str, str] = mention.replaced_within(found, alias)
                connection.execute(sa.update(key.table).where(own).values(**values))


def _take_text_out_of_audit(connection: sa.Connection, subjects: Sequence[str]) -> None:
    """Take notes and providers' words out of the audit trail; its trigger lets nothing else be changed."""
    kept: Any = schema.audit.c.details
    if connection.dialect.name == "sqlite":
        kept = sa.func.json_remove(kept, *(f"$.{name}" for name in WORDS), type_=sa.Text)
    else:
        for name in WORDS:
            kept = kept.op("-")(sa.literal(name, sa.Text))
    for some in batches(subjects):
        connection.execute(
            sa.update(schema.audit).where(schema.audit.c.subject.in_(some)).values(details=kept)
        )


def _erase_gateway_text(connection: sa.Connection, scope: Scope, alias: str) -> None:
    """Replace the address where a gateway named it; its events hold no names by rule."""
    payments, events = schema.order_payments, schema.gateway_events
    mention = Mention(scope.email)
    for some in batches(scope.order_ids):
        ids = connection.scalars(
            sa.select(payments.c.payment_id).where(payments.c.order_id.in_(some))
        ).all()
        for event in gateway_events.list_about(connection, ids):
            values = {
                "body": mention.replaced_within(event.body, alias),
                "outcome": mention.replaced(event.outcome, alias),
            }
            if (values["body"], values["outcome"]) != (event.body, event.outcome):
                connection.execute(
                    events.update().where(events.c.event_id == event.event_id).values(**values)
                )


def _erase_threads(connection: sa.Connection, scope: Scope, alias: str) -> None:
    threads, drafts = schema.conversations, schema.drafts
    _update(connection, drafts.c.draft_id, scope.draft_ids, {"text": "", "composition": None})
    for some in batches(scope.conversation_ids):
        step_texts.delete_of_conversations(connection, some)
    for conversation_id in scope.conversation_ids:
        values: dict[str, Any] = {
            # One of the shop's people who answered there a mail about them stays who they are.
            "customer_email": _renamed(threads.c.customer_email, scope.email, alias),
            "subject": "",
            "language": None,
            # What was mailed leads nowhere any more: late answers open a new conversation.
            **{name: new_token() for name in ("reply_token", "confirm_token", "team_token")},
        }
        _update(connection, threads.c.conversation_id, [conversation_id], values)


def _erase_orders(connection: sa.Connection, scope: Scope, alias: str) -> None:
    orders = schema.orders
    values = {
        "customer_email": alias,
        "customer_name": ERASED_NAME,
        "version": orders.c.version + 1,
    }
    _update(connection, orders.c.order_id, scope.order_ids, values)


def _erase_address(connection: sa.Connection, email: str) -> None:
    """Forget that mail does not reach the address. A complaint stays, as a digest: who wanted no more
    mail of ours is not written to again."""
    table, attempts = schema.suppressed_addresses, schema.login_attempts
    connection.execute(attempts.delete().where(attempts.c.email == email))
    here = table.c.address == email
    complained = sa.and_(here, table.c.reason.startswith(_COMPLAINT))
    standing = suppressions.digest(email)
    values = {"address": standing, "reason": f"{_COMPLAINT}: the customer was erased since"}
    known = sa.select(table.c.address).where(table.c.address == standing)
    if connection.scalar(known) is None:
        connection.execute(table.update().where(complained).values(**values))
    connection.execute(table.delete().where(here))


def find_record(connection: sa.Connection, alias: str) -> Mapping[str, Any] | None:
    """Return who erased the customer that `alias` stands for, when, and how many rows of each sort."""
    row = connection.execute(
        sa.select(schema.audit.c.at, schema.audit.c.actor, schema.audit.c.details).where(
            schema.audit.c.subject == alias, schema.audit.c.action == ERASED
        )
    ).first()
    return row._asdict() if row else None
