"""The row that a run is about (its `subject`): its conversation, order, refund and customer, and its state
now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus
from mailagent.domain.mail.draft import DraftState
from mailagent.domain.mail.message import MailKind, OutboundStatus, Purpose
from mailagent.domain.masking import mask_address
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import DecisionNow, MailNow, RowsNow
from mailagent.domain.operations.run_about import RunAbout
from mailagent.domain.refunds.payment import INTENDED
from mailagent.domain.refunds.refund import MAY_BE_PAID, Refund, RefundStatus
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store import schema
from mailagent.store.mail import assignments
from mailagent.store.orders import problems
from mailagent.store.refunds import approvals, orders, refund_payments, refunds, remedies, stops

_conversations, _refunds, _mails = schema.conversations, schema.refunds, schema.outbound_mails
_inbound, _drafts = schema.inbound_mails, schema.drafts

# A replay concerns only mails that its run wrote, which are among the newest.
MAILS_MAX = 6


@dataclass(frozen=True, slots=True)
class Subject:
    """How pages name a row. `what`: a conversation's subject line, a refund's order id, or a mail's purpose.
    `order_id` and `amount`: of the refund, or of the newest refund of the conversation; without one, the order
    of its tasks, if it is a single one. `answered_at`: when a person last answered the conversation; None if a
    mail waits for the agent."""

    about: RunAbout
    who: str
    what: str
    amount: Money | None = None
    answered_at: datetime | None = None
    order_id: str | None = None

    def was_answered_since(self, moment: datetime) -> bool:
        """Whether a person has answered the conversation since a time."""
        return self.answered_at is not None and self.answered_at >= moment

    def tell_order(self) -> str:
        """Return the order and the amount, as far as they are known."""
        parts = [f"order {self.order_id}"] if self.order_id else []
        return ", ".join([*parts, *([self.amount.tell()] if self.amount else [])])

    def tell_masked(self) -> str:
        """Return the order, the amount and the customer's masked address, as far as they are known."""
        customer = mask_address(self.about.customer_email or self.who)
        return f"{order}, {customer}" if (order := self.tell_order()) else customer


def describe(connection: sa.Connection, subject: str) -> RunAbout:
    """Return the ids that a run about the row `subject` is found by; an empty RunAbout if there is no such
    row."""
    found = list_subjects(connection, [subject]).get(subject)
    return found.about if found else RunAbout()


def list_subjects(connection: sa.Connection, subjects: Collection[str]) -> dict[str, Subject]:
    """Return how pages name these rows, by id."""
    thread, refund, mail = _conversations.c, _refunds.c, _mails.c
    found: dict[str, Subject] = {}
    if ids := [each for each in subjects if each.startswith("conversation_")]:
        answered_at = assignments.answered_at(thread.conversation_id)
        names = (thread.conversation_id, thread.customer_email, thread.subject)
        query = sa.select(*names, answered_at, _only_order(thread.conversation_id))
        newest = _newest_refunds(connection, ids)
        for row_id, email, title, at, of_tasks in connection.execute(
            query.where(thread.conversation_id.in_(ids))
        ):
            order_id, amount = newest.get(row_id, (of_tasks, None))
            about = RunAbout(row_id, customer_email=email)
            found[row_id] = Subject(about, email, title, amount, at, order_id)
    if ids := [each for each in subjects if each.startswith("refund_")]:
        query = sa.select(_refunds, thread.customer_email).join_from(_refunds, _conversations)
        for row in connection.execute(query.where(refund.refund_id.in_(ids))):
            about = RunAbout(row.conversation_id, row.order_id, row.refund_id, row.customer_email)
            amount = Money(row.amount_minor, row.currency)
            found[row.refund_id] = Subject(
                about, row.customer_email, row.order_id, amount, order_id=row.order_id
            )
    if ids := [each for each in subjects if each.startswith("outbound_")]:
        # Never the subject or text: some mails are for one reader only.
        thread_id = sa.func.coalesce(mail.conversation_id, refund.conversation_id)
        mails: sa.Select[Any] = (
            sa.select(
                mail.outbound_id, mail.to_address, mail.purpose,
                refund.amount_minor, refund.currency,
                thread_id, refund.order_id, mail.refund_id, thread.customer_email,
            )
            .select_from(_mails)
            .outerjoin(_refunds, refund.refund_id == mail.refund_id)
            .outerjoin(_conversations, thread.conversation_id == thread_id)
        )  # fmt: skip
        for row_id, who, purpose, minor, currency, *about_it in connection.execute(
            mails.where(mail.outbound_id.in_(ids))
        ):
            about = RunAbout(*about_it)
            amount = Money(minor, currency) if currency else None
            found[row_id] = Subject(about, who, purpose, amount, order_id=about.order_id)
    return found


def _only_order(conversation_id: sa.ColumnElement[str]) -> sa.ScalarSelect[str]:
    """Return the order of all tasks of a conversation; NULL for none, and for several orders."""
    task = schema.remedies.c
    query = sa.select(sa.func.min(task.order_id)).where(task.conversation_id == conversation_id)
    is_one = sa.func.min(task.order_id) == sa.func.max(task.order_id)
    return query.having(is_one).scalar_subquery()


def _newest_refunds(
    connection: sa.Connection, conversation_ids: Collection[str]
) -> dict[str, tuple[str, Money]]:
    """Return the order and amount of the newest refund of each of these conversations that has one."""
    refund = _refunds.c
    query = sa.select(
        refund.conversation_id, refund.order_id, refund.amount_minor, refund.currency
    ).where(refund.conversation_id.in_(conversation_ids))
    rows = connection.execute(query.order_by(refund.requested_at, refund.refund_id))
    return {row_id: (order_id, Money(*amount)) for row_id, order_id, *amount in rows}


def look(
    connection: sa.Connection, subjects: Collection[str], *, source_name: str | None
) -> dict[str, RowsNow]:
    """Return the state of the rows with these ids, in a fixed number of queries, and some more for each
    approved refund whose order has changed. Other ids are left out. `source_name`: of the order source
    that a refund's order is looked up in before it is paid; None if there is none."""
    kinds: dict[str, list[str]] = {}
    for subject in sorted(subjects):
        kinds.setdefault(subject.partition("_")[0], []).append(subject)
    mails = _list_mails(connection, _mails.c.outbound_id, kinds.get("outbound", ()))
    found = {row_id: RowsNow(mails=of_row) for row_id, of_row in mails.items()}
    if ids := kinds.get("conversation"):
        found.update(_conversations_now(connection, ids))
    if ids := kinds.get("refund"):
        found.update(_refunds_now(connection, ids, source_name))
    return found


def _conversations_now(
    connection: sa.Connection, ids: Sequence[str]
) -> Iterator[tuple[str, RowsNow]]:
    thread, draft, mail = _conversations.c, _drafts.c, _inbound.c
    waiting = sa.select(draft.conversation_id, draft.draft_id).where(
        draft.conversation_id.in_(ids), draft.state == DraftState.WAITING.value
    )
    drafted = connection.execute(waiting.order_by(draft.created_at, draft.draft_id)).all()
    without = sa.or_(mail.draft_id.is_(None), mail.draft_id.not_in([row[1] for row in drafted]))
    from_team = (mail.kind == MailKind.TEAM.value).label("from_team")
    unanswered = sa.select(mail.conversation_id, from_team, sa.func.count()).where(
        mail.conversation_id.in_(ids), mail.status == "unanswered", without
    )
    rows = connection.execute(unanswered.group_by(mail.conversation_id, "from_team"))
    numbers = {(row_id, is_of_team): number for row_id, is_of_team, number in rows}
    # Mail about a refund belongs to the refund's own run.
    mails = _list_mails(connection, _mails.c.conversation_id, ids, _mails.c.refund_id.is_(None))
    status = sa.select(thread.conversation_id, thread.status).where(thread.conversation_id.in_(ids))
    for row_id, is_with in connection.execute(status):
        yield (
            row_id,
            RowsNow(
                unanswered=numbers.get((row_id, False), 0),
                from_team=numbers.get((row_id, True), 0),
                draft_ids=tuple(row.draft_id for row in drafted if row.conversation_id == row_id),
                handed_over=is_with == ConversationStatus.HANDED_OVER.value,
                mails=mails.get(row_id, ()),
            ),
        )


def _refunds_now(
    connection: sa.Connection, ids: Sequence[str], source_name: str | None
) -> Iterator[tuple[str, RowsNow]]:
    intent, standings = schema.refund_payments.c, approvals.list_standings(connection, ids)
    under_way = sa.select(intent.refund_id).where(
        intent.refund_id.in_(ids), intent.state == INTENDED
    )
    asked = set(connection.scalars(under_way))
    held_up = {each.refund_id: each for each in remedies.list_open_of_refunds(connection, ids)}
    mails = _list_mails(connection, _mails.c.refund_id, ids)
    doubtful = stops.list_doubtful(connection, ids)
    for refund in refunds.list_by_id(connection, ids):
        row_id, standing = refund.refund_id, standings.get(refund.refund_id)
        decision = _decision_now(refund, standing) if standing else None
        approved = _as_approved(refund, standing, decision) if row_id in doubtful else None
        stop = _find_stop(connection, approved, source_name) if approved else None
        yield (
            row_id,
            RowsNow(
                refund=refund,
                expires_at=standing.approval.expires_at if standing else None,
                decision=decision,
                asked=row_id in asked or stop == stops.TWICE,
                held_up=row_id in held_up,
                stop=stop,
                asks_again=stop in stops.OF_ANSWERS.values(),
                cancels=source_name is not None
                and row_id in held_up
                and held_up[row_id].status is RemedyStatus.ASKED
                and refund.status in MAY_BE_PAID
                and (decision is None or decision.approves),
                mails=mails.get(row_id, ()),
            ),
        )


def _as_approved(
    refund: Refund, standing: approvals.Standing | None, decision: DecisionNow | None
) -> Refund | None:
    """Return a refund that is approved, or as it will be once its decision counts; None for any other."""
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return refund if refund.status is RefundStatus.APPROVED else None
    final = standing.final(refund.four_eyes) if standing else None
    if final is None or decision is None or not decision.approves:
        return None
    return replace(
        refund,
        amount=decision.amount,
        decided_by=decision.decided_by,
        despite_cancel=refund.despite_cancel or final.despite_cancel,
        approved_for=final.approved_for,
    )


def _find_stop(connection: sa.Connection, refund: Refund, source_name: str | None) -> str | None:
    """Return why the run of an approved refund does not pay (the rest of) it, as far as we know without another
    look-up of its order: see `pay_refund`."""
    order = orders.load(connection, refund.order_id)
    rows = refund_payments.list_payments(connection, refund.refund_id)
    unanswered = {row.idempotency_key for row in rows if row.state == INTENDED}
    if rows and not unanswered:
        return None
    has_source = source_name is not None
    stop = stops.find_stop(connection, order, refund, knows_all=has_source)
    if stop is None and source_name and stops.has_units_back(connection, refund, source_name):
        return stops.UNITS_BACK
    if stop is None and has_source:
        alone = (stops.find_stop_if_not_made(connection, order, {key}) for key in unanswered)
        stop = next(filter(None, alone), None)
    if stop is None and not rows:
        try:
            refund_payments.split(connection, order, refund)
        except ValueError:
            return stops.ELSEWHERE
    stop = stop or stops.find_stop_since_approval(connection, order, refund, rows)
    # Last, because the source may have another answer next time.
    answer = problems.find_answer(connection, order.order_id) if has_source else None
    return stop or (stops.OF_ANSWERS[answer] if answer else None)


def _decision_now(refund: Refund, standing: approvals.Standing) -> DecisionNow | None:
    final = standing.final(refund.four_eyes)
    if final is None:
        return None
    amount = refund.amount
    for each in (standing.first, standing.second):  # each may have approved less
        if each is not None and each.amount_minor is not None:
            amount = Money(each.amount_minor, amount.currency)
    counts_from = final.undo_until or final.decided_at
    return DecisionNow(final.approves, final.decided_by, amount, counts_from)


def _list_mails(
    connection: sa.Connection,
    key: sa.Column[str],
    ids: Sequence[str],
    *where: sa.ColumnElement[bool],
) -> dict[str, tuple[MailNow, ...]]:
    """Return our newest mails for each of these ids, in order of time."""
    mail = _mails.c
    newest_first = (mail.created_at.desc(), mail.outbound_id.desc())
    number = sa.func.row_number().over(partition_by=key, order_by=newest_first).label("number")
    columns = (key.label("row_id"), mail.purpose, mail.to_address, mail.status, mail.sent_at)
    numbered = sa.select(*columns, number).where(key.in_(ids), *where).subquery()
    query = sa.select(numbered).where(numbered.c.number <= MAILS_MAX)
    found: dict[str, tuple[MailNow, ...]] = {}
    for row in connection.execute(query.order_by(numbered.c.number.desc())) if ids else ():
        now = MailNow(Purpose(row.purpose), row.to_address, OutboundStatus(row.status), row.sent_at)
        found[row.row_id] = (*found.get(row.row_id, ()), now)
    return found
