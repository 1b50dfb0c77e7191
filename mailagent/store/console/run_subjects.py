"""What a workflow's row is about: conversation, order, refund and customer; and its state now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import MailNow, RefundNow, RowsNow
from mailagent.domain.operations.run_about import RunAbout
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.mail import conversations, drafts
from mailagent.store.refunds import approvals, refund_payments, refunds

_conversations, _refunds, _mails = schema.conversations, schema.refunds, schema.outbound_mails


def describe(connection: sa.Connection, subject: str) -> RunAbout:
    """Return what the row with the id `subject` is about; nothing when there is none such."""
    match subject.partition("_")[0]:
        case "conversation":
            return _of_conversation(connection, subject)
        case "refund":
            return _of_refund(connection, subject)
        case "outbound":
            return _of_mail(connection, subject)
    return RunAbout()


def _of_conversation(connection: sa.Connection, conversation_id: str) -> RunAbout:
    email = connection.scalar(
        sa.select(_conversations.c.customer_email).where(
            _conversations.c.conversation_id == conversation_id
        )
    )
    return RunAbout(conversation_id=conversation_id, customer_email=email)


def _of_refund(connection: sa.Connection, refund_id: str) -> RunAbout:
    query = (
        sa.select(
            _refunds.c.order_id, _conversations.c.conversation_id, _conversations.c.customer_email
        )
        .join_from(_refunds, _conversations)
        .where(_refunds.c.refund_id == refund_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return RunAbout(refund_id=refund_id)
    return RunAbout(row.conversation_id, row.order_id, refund_id, row.customer_email)


def _of_mail(connection: sa.Connection, outbound_id: str) -> RunAbout:
    same_refund = _refunds.c.refund_id == _mails.c.refund_id
    conversation_id = sa.func.coalesce(_mails.c.conversation_id, _refunds.c.conversation_id)
    query = (
        sa.select(
            conversation_id.label("conversation_id"),
            _refunds.c.order_id,
            _mails.c.refund_id,
            _conversations.c.customer_email,
        )
        .select_from(
            _mails.outerjoin(_refunds, same_refund).outerjoin(
                _conversations, _conversations.c.conversation_id == conversation_id
            )
        )
        .where(_mails.c.outbound_id == outbound_id)
    )
    row = connection.execute(query).one_or_none()
    return RunAbout() if row is None else RunAbout(*row)


@dataclass(frozen=True, slots=True)
class Facts:
    """What tells a row from others. `what` is a subject, the order of a refund, or what a mail is for."""

    who: str
    what: str
    amount: Money | None = None
    conversation_id: str | None = None
    refund_id: str | None = None


def list_facts(connection: sa.Connection, subjects: Collection[str]) -> dict[str, Facts]:
    """Return what tells rows from others, by id; one question for each kind of row."""
    facts: dict[str, Facts] = {}
    for prefix, read in (
        ("conversation_", _facts_of_conversations),
        ("refund_", _facts_of_refunds),
        ("outbound_", _facts_of_mails),
    ):
        wanted = [each for each in subjects if each.startswith(prefix)]
        if wanted:
            facts |= read(connection, wanted)
    return facts


def _facts_of_conversations(connection: sa.Connection, ids: list[str]) -> dict[str, Facts]:
    columns = _conversations.c
    query = sa.select(columns.conversation_id, columns.customer_email, columns.subject)
    return {
        row.conversation_id: Facts(
            row.customer_email, row.subject, conversation_id=row.conversation_id
        )
        for row in connection.execute(query.where(columns.conversation_id.in_(ids)))
    }


def _facts_of_refunds(connection: sa.Connection, ids: list[str]) -> dict[str, Facts]:
    columns = _refunds.c
    query = sa.select(
        columns.refund_id, columns.order_id, columns.amount_minor, columns.currency,
        columns.conversation_id, _conversations.c.customer_email,
    ).join_from(_refunds, _conversations)  # fmt: skip
    return {
        row.refund_id: Facts(
            row.customer_email,
            row.order_id,
            Money(row.amount_minor, row.currency),
            row.conversation_id,
            row.refund_id,
        )
        for row in connection.execute(query.where(columns.refund_id.in_(ids)))
    }


def _facts_of_mails(connection: sa.Connection, ids: list[str]) -> dict[str, Facts]:
    # Never subject or text: those of some mails are for one reader only.
    columns = _mails.c
    query = sa.select(
        columns.outbound_id, columns.to_address, columns.purpose, columns.conversation_id,
        columns.refund_id,
    )  # fmt: skip
    return {
        row.outbound_id: Facts(
            row.to_address, row.purpose, None, row.conversation_id, row.refund_id
        )
        for row in connection.execute(query.where(columns.outbound_id.in_(ids)))
    }


# --- rows now -------------------------------------------------------------------------------------


_inbound = schema.inbound_mails

# The newest say enough: a replay touches no others than those it wrote.
MAILS_MAX = 6


def look(connection: sa.Connection, subject: str) -> RowsNow | None:
    """Return what the row with the id `subject` is like now, or None when there is none such."""
    match subject.partition("_")[0]:
        case "conversation":
            return _conversation_now(connection, subject)
        case "refund":
            return _refund_now(connection, subject)
        case "outbound":
            found = _list_mails(connection, _mails.c.outbound_id == subject)
            return RowsNow(mails=found) if found else None
    return None


def _conversation_now(connection: sa.Connection, conversation_id: str) -> RowsNow | None:
    conversation = conversations.find(connection, conversation_id)
    if conversation is None:
        return None
    drafted = tuple(draft.draft_id for draft in drafts.list_waiting_of(connection, conversation_id))
    waiting = sa.select(sa.func.count()).where(
        _inbound.c.conversation_id == conversation_id,
        _inbound.c.status == "unanswered",
        sa.or_(_inbound.c.draft_id.is_(None), _inbound.c.draft_id.not_in(drafted)),
    )
    # Mail about a refund is its own run's.
    ours = sa.and_(_mails.c.conversation_id == conversation_id, _mails.c.refund_id.is_(None))
    return RowsNow(
        unanswered=connection.scalar(waiting) or 0,
        draft_ids=drafted,
        handed_over=conversation.status is ConversationStatus.HANDED_OVER,
        mails=_list_mails(connection, ours),
    )


def _refund_now(connection: sa.Connection, refund_id: str) -> RowsNow | None:
    refund = refunds.find(connection, refund_id)
    if refund is None:
        return None
    approval = approvals.find_of_refund(connection, refund_id)
    intents = refund_payments.list_payments(connection, refund_id)
    now = RefundNow(
        refund_id=refund_id,
        status=refund.status,
        amount=refund.amount,
        reference=refund.gateway_reference,
        paid_at=refund.paid_at,
        decided_by=refund.decided_by,
        expires_at=approval.expires_at if approval else None,
        asked=any(row.state == "asked" for row in intents),
    )
    return RowsNow(refund=now, mails=_list_mails(connection, _mails.c.refund_id == refund_id))


def _list_mails(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[MailNow, ...]:
    query = (
        sa.select(_mails.c.purpose, _mails.c.to_address, _mails.c.status, _mails.c.sent_at)
        .where(where)
        .order_by(_mails.c.created_at.desc(), _mails.c.outbound_id.desc())
        .limit(MAILS_MAX)
    )
    return _mails_now(reversed(connection.execute(query).all()))


def _mails_now(rows: Iterable[Row]) -> tuple[MailNow, ...]:
    return tuple(
        MailNow(Purpose(row.purpose), row.to_address, OutboundStatus(row.status), row.sent_at)
        for row in rows
    )
