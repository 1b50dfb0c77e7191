"""The row that a run is about: its conversation, order, refund and customer, and its state now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.masking import mask_address
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import MailNow, RowsNow
from mailagent.domain.operations.run_about import RunAbout
from mailagent.store import schema
from mailagent.store.mail import conversations, drafts
from mailagent.store.refunds import approvals, refund_payments, refunds

_conversations, _refunds, _mails = schema.conversations, schema.refunds, schema.outbound_mails
_inbound = schema.inbound_mails

# A replay touches no other mails than those it wrote, so the newest are enough.
MAILS_MAX = 6


@dataclass(frozen=True, slots=True)
class Subject:
    """How pages name a row. `what` is a subject, the order of a refund, or the purpose of a mail."""

    about: RunAbout
    who: str
    what: str
    amount: Money | None = None

    def tell_masked(self) -> str:
        """Return the order, the amount and the customer's masked address, as far as known."""
        order, email = self.about.order_id, self.about.customer_email or self.who
        parts = [f"order {order}"] if order else []
        parts += [self.amount.tell()] if self.amount else []
        return ", ".join([*parts, mask_address(email)])


def describe(connection: sa.Connection, subject: str) -> RunAbout:
    """Return what the row with the id `subject` is about; an empty RunAbout if there is no such row."""
    found = list_subjects(connection, [subject]).get(subject)
    return found.about if found else RunAbout()


def list_subjects(connection: sa.Connection, subjects: Collection[str]) -> dict[str, Subject]:
    """Return how pages name these rows, by id."""
    thread, refund, mail = _conversations.c, _refunds.c, _mails.c
    found: dict[str, Subject] = {}
    if ids := [each for each in subjects if each.startswith("conversation_")]:
        query = sa.select(thread.conversation_id, thread.customer_email, thread.subject)
        for row_id, email, title in connection.execute(
            query.where(thread.conversation_id.in_(ids))
        ):
            found[row_id] = Subject(RunAbout(row_id, customer_email=email), email, title)
    if ids := [each for each in subjects if each.startswith("refund_")]:
        query = sa.select(_refunds, thread.customer_email).join_from(_refunds, _conversations)
        for row in connection.execute(query.where(refund.refund_id.in_(ids))):
            about = RunAbout(row.conversation_id, row.order_id, row.refund_id, row.customer_email)
            amount = Money(row.amount_minor, row.currency)
            found[row.refund_id] = Subject(about, row.customer_email, row.order_id, amount)
    if ids := [each for each in subjects if each.startswith("outbound_")]:
        # Never the subject or text: some mails are for one reader only.
        thread_id = sa.func.coalesce(mail.conversation_id, refund.conversation_id)
        mails: sa.Select[Any] = (
            sa.select(
                mail.outbound_id, mail.to_address, mail.purpose,
                thread_id, refund.order_id, mail.refund_id, thread.customer_email,
            )
            .select_from(_mails)
            .outerjoin(_refunds, refund.refund_id == mail.refund_id)
            .outerjoin(_conversations, thread.conversation_id == thread_id)
        )  # fmt: skip
        for row_id, who, purpose, *about_it in connection.execute(
            mails.where(mail.outbound_id.in_(ids))
        ):
            found[row_id] = Subject(RunAbout(*about_it), who, purpose)
    return found


def look(connection: sa.Connection, subject: str) -> RowsNow | None:
    """Return the state of the row with the id `subject`, or None if there is no such row."""
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
    return RowsNow(
        refund=refund,
        expires_at=approval.expires_at if approval else None,
        asked=any(row.state == "asked" for row in intents),
        mails=_list_mails(connection, _mails.c.refund_id == refund_id),
    )


def _list_mails(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[MailNow, ...]:
    query = (
        sa.select(_mails.c.purpose, _mails.c.to_address, _mails.c.status, _mails.c.sent_at)
        .where(where)
        .order_by(_mails.c.created_at.desc(), _mails.c.outbound_id.desc())
        .limit(MAILS_MAX)
    )
    return tuple(
        MailNow(Purpose(row.purpose), row.to_address, OutboundStatus(row.status), row.sent_at)
        for row in reversed(connection.execute(query).all())
    )
