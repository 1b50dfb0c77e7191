"""Erases a customer: their texts, name and address, in one transaction. Orders and refunds stay under an alias,
because the shop must keep them.

docs/erasure.md lists what is erased and what stays. `erasure_scope` finds the customer's rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mailagent.domain.mail.redaction import Mention
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.text import ERASED_NAME
from mailagent.store import audit, schema
from mailagent.store.database import batches, count_rows, overwrite_deleted
from mailagent.store.ids import new_token
from mailagent.store.mail import suppressions
from mailagent.store.privacy import erasure_scope, retention
from mailagent.store.privacy.erasure_scope import TEXT_IN, TEXT_OUT, Obstacle, Scope
from mailagent.store.privacy.retention import update
from mailagent.store.refunds import gateway_events, refund_payments, refunds

ERASED: Final = "customer erased"

# Details in the audit log that people or providers wrote. The audit log's trigger lets only these
# keys be deleted: keep both alike.
WORDS = ("note", "why", "reason", "tag")

_COMPLAINT = "spamreport"

_inbound, _outbound, _threads = (
    schema.inbound_mails.c,
    schema.outbound_mails.c,
    schema.conversations.c,
)
_orders, _refunds, _payments = schema.orders.c, schema.refunds.c, schema.refund_payments.c
_settlements, _parcels = schema.ledger_settlements.c, schema.order_shipments.c

# What we blank in addition to the texts that retention deletes: the key column of the rows, the field of Scope
# with their ids, and the new values.
_BLANKED: Sequence[tuple[sa.Column[str], str, Mapping[str, Any]]] = (
    (
        _inbound.mail_id,
        "mail_ids",
        {
            "rate_limit_key": None,
            "envelope_from": None,
            "envelope_to": [],
            "message_id": None,
            "in_reply_to": [],
            "mail_references": [],
            # A person may have written the reason. Keep that there is one, because pages show it.
            "no_answer_reason": sa.case((_inbound.no_answer_reason.is_not(None), ERASED_NAME)),
        },
    ),
    (
        _outbound.outbound_id,
        "outbound_ids",
        {"reply_to": None, "in_reply_to": None, "mail_references": []},
    ),
    # Delete people's notes. Who decided what, and when, stays.
    (schema.decisions.c.approval_id, "approval_ids", {"note": None}),
    (schema.countersignatures.c.approval_id, "approval_ids", {"note": None}),
    (schema.approval_notes.c.approval_id, "approval_ids", {"text": ""}),
    (_refunds.refund_id, "refund_ids", {"note": None}),
    (
        _settlements.refund_id,
        "refund_ids",
        {"reason": sa.case((_settlements.reason.is_not(None), ERASED_NAME))},
    ),
    (_threads.conversation_id, "conversation_ids", {"language": None}),
    (_orders.order_id, "order_ids", {"customer_name": ERASED_NAME, "version": _orders.version + 1}),
    # A carrier's page shows name and address for a tracking number, which may be the parcel's id, too.
    (
        _parcels.order_id,
        "order_ids",
        {
            "shipment_id": sa.literal(f"{ERASED_NAME} ") + sa.cast(_parcels.position, sa.Text),
            "tracking_number": None,
            "tracking_url": None,
        },
    ),
)

# Columns with a mail address, which we replace by the alias. Other people's addresses in these rows stay.
_ADDRESSES = (
    (_inbound.mail_id, "mail_ids", _inbound.from_address),
    (_outbound.outbound_id, "outbound_ids", _outbound.to_address),
    (_threads.conversation_id, "conversation_ids", _threads.customer_email),
    (_orders.order_id, "order_ids", _orders.customer_email),
)

# Columns with texts that may contain the address, which we replace by the alias.
_TEXTS = (
    (_inbound.mail_id, "naming_mail_ids", TEXT_IN),
    (_outbound.outbound_id, "naming_outbound_ids", TEXT_OUT),
    (_refunds.refund_id, "refund_ids", (_refunds.failure,)),
    (_payments.refund_id, "refund_ids", (_payments.problem,)),
)


class ErasureRefusedError(Exception):
    """The customer has rows that are under way; `obstacles` says which, and what ends them."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("; ".join(map(str, obstacles)))
        self.obstacles = tuple(obstacles)


def count(connection: sa.Connection, scope: Scope) -> dict[str, int]:
    """Return how many rows of each kind are the customer's, by label."""
    raw = schema.raw_mails
    files = sum(count_rows(connection, raw.c.mail_id.in_(some)) for some in batches(scope.mail_ids))
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
    """Erase an address; return the alias that replaces it, and the customer's rows. `runs`: how many histories
    of runs were deleted before, for the record.

    Raises ErasureRefusedError while rows of the customer are under way.
    """
    _lock(connection, email)
    scope = erasure_scope.find(connection, email)
    obstacles = erasure_scope.list_obstacles(connection, scope)
    if obstacles:
        raise ErasureRefusedError(obstacles)
    overwrite_deleted(connection)
    alias = f"erased-{secrets.token_hex(8)}@{suppressions.ERASED_DOMAIN}"
    counts = count(connection, scope) | {"runs": runs}
    _erase_rows(connection, scope, alias)
    _erase_gateway_text(connection, scope, alias)
    _erase_address(connection, email)
    _take_text_out_of_audit(connection, (*scope.subjects, *scope.draft_ids, *scope.mail_ids))
    audit.record(connection, now, actor, ERASED, alias, counts)
    return alias, scope


def _lock(connection: sa.Connection, email: str) -> None:
    """Lock the customer's orders, then their conversations. Others add no rows until the commit."""
    for table, key in ((schema.orders, "order_id"), (schema.conversations, "conversation_id")):
        connection.execute(
            sa.select(table.c[key])
            .where(table.c.customer_email == email)
            .order_by(table.c[key])
            .with_for_update()
        )


def _erase_rows(connection: sa.Connection, scope: Scope, alias: str) -> None:
    retention.blank_mail_in(connection, scope.mail_ids)
    retention.blank_mail_out(connection, scope.outbound_ids)
    retention.blank_conversations(connection, scope.conversation_ids)
    for key, ids, values in _BLANKED:
        update(connection, key, getattr(scope, ids), values)
    for key, ids, column in _ADDRESSES:
        renamed = sa.case((column == scope.email, alias), else_=column)
        update(connection, key, getattr(scope, ids), {column.name: renamed})
    _blank_reasons(connection, scope)
    for key, ids, columns in _TEXTS:
        _replace_address(connection, key, getattr(scope, ids), columns, scope.email, alias)
    _erase_from_notes(connection, scope, alias)
    versions = schema.order_versions
    for some in batches(scope.order_ids):
        connection.execute(versions.delete().where(versions.c.order_id.in_(some)))
    for some in batches(scope.former_order_ids):
        theirs = erasure_scope.where_version_of(scope.email)
        connection.execute(versions.delete().where(versions.c.order_id.in_(some), theirs))
    for conversation_id in scope.conversation_ids:
        # Replace the tokens, so that mailed links and reply addresses do not work any more: a late answer opens
        # a new conversation.
        tokens = {name: new_token() for name in ("reply_token", "confirm_token", "team_token")}
        update(connection, _threads.conversation_id, [conversation_id], tokens)


def _blank_reasons(connection: sa.Connection, scope: Scope) -> None:
    """Blank what people wrote of payments: why they could not pay one, or refused it after all. What code and
    gateways wrote stays."""
    in_ledger = sa.exists().where(
        _settlements.idempotency_key == _payments.idempotency_key, _settlements.reason.is_not(None)
    )
    refused = sa.exists().where(
        _refunds.refund_id == _payments.refund_id, _refunds.status == RefundStatus.REJECTED.value
    )
    is_theirs = sa.and_(_payments.problem.is_not(None), sa.or_(in_ledger, refused))
    blanked = sa.case((is_theirs, ERASED_NAME), else_=_payments.problem)
    update(connection, _payments.refund_id, scope.refund_ids, {"problem": blanked})
    for refund_id in scope.refund_ids:
        refund = refunds.load(connection, refund_id)
        told = refund_payments.describe(connection, refund) if refund.failure else ""
        if told:  # it was written from the problems
            update(connection, _refunds.refund_id, [refund_id], {"failure": told})


def _erase_from_notes(connection: sa.Connection, scope: Scope, alias: str) -> None:
    """Delete the tags of the customer's conversations, and replace the address in notes on other
    conversations."""
    tags, notes = schema.conversation_tags, schema.conversation_notes.c
    for some in batches(scope.conversation_ids):
        connection.execute(tags.delete().where(tags.c.conversation_id.in_(some)))
    naming = sa.select(notes.note_id).where(notes.text.icontains(scope.email, autoescape=True))
    note_ids = connection.scalars(naming).all()
    _replace_address(connection, notes.note_id, note_ids, [notes.text], scope.email, alias)


def _replace_address(
    connection: sa.Connection,
    key: sa.Column[str],
    ids: Sequence[str],
    columns: Sequence[sa.Column[Any]],
    email: str,
    alias: str,
) -> None:
    """Replace an address by the alias in the texts of these columns, in the rows whose `key` is in `ids`."""
    mention = Mention(email)
    for some in batches(ids):
        for row in connection.execute(sa.select(key.table).where(key.in_(some))).mappings().all():
            old = {each.name: row[each.name] for each in columns}
            new = mention.replaced_within(old, alias)
            if new != old:
                own = sa.and_(*(column == row[column.name] for column in key.table.primary_key))
                connection.execute(sa.update(key.table).where(own).values(**new))


def _take_text_out_of_audit(connection: sa.Connection, subjects: Sequence[str]) -> None:
    """Delete people's and providers' texts from the audit log; its trigger forbids every other change."""
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
    """Replace the address in what the gateway reported. Its events hold no names."""
    payment, event = schema.order_payments.c, schema.gateway_events.c
    for some in batches(scope.order_ids):
        payment_ids = sa.select(payment.payment_id).where(payment.order_id.in_(some))
        events = gateway_events.list_about(connection, connection.scalars(payment_ids).all())
        event_ids = [each.event_id for each in events]
        columns = (event.body, event.outcome)
        _replace_address(connection, event.event_id, event_ids, columns, scope.email, alias)


def _erase_address(connection: sa.Connection, email: str) -> None:
    """Delete the login attempts and the suppression of the address. Keep a spam complaint as a
    hash, because the person must get no more mail from us."""
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
    """Return who erased the customer with this alias, when, and how many rows of each kind."""
    row = connection.execute(
        sa.select(schema.audit.c.at, schema.audit.c.actor, schema.audit.c.details).where(
            schema.audit.c.subject == alias, schema.audit.c.action == ERASED
        )
    ).first()
    return row._asdict() if row else None
