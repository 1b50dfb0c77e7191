"""Which rows are one customer's, and what has to come to its end before they can be erased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.privacy import erasure_traces
from mailagent.store.privacy.erasure_traces import batches

_orders, _conversations, _refunds = schema.orders, schema.conversations, schema.refunds
_inbound, _outbound, _drafts = schema.inbound_mails, schema.outbound_mails, schema.drafts
_approvals = schema.approvals


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids of all rows that are about one address. Empty when nothing is known of it."""

    email: str
    order_ids: tuple[str, ...]
    conversation_ids: tuple[str, ...]
    refund_ids: tuple[str, ...]
    approval_ids: tuple[str, ...]
    mail_ids: tuple[str, ...]
    outbound_ids: tuple[str, ...]
    draft_ids: tuple[str, ...]
    suppressed: bool
    # Mail about somebody else, with their address in it.
    naming: erasure_traces.Naming = erasure_traces.Naming()

    @property
    def is_empty(self) -> bool:
        rows = (self.order_ids, self.conversation_ids, self.mail_ids, self.outbound_ids)
        named = self.naming.mail_ids or self.naming.outbound_ids
        return not any(rows) and not named and not self.suppressed

    @property
    def subjects(self) -> tuple[str, ...]:
        """What runs of workflows look after."""
        return (*self.conversation_ids, *self.refund_ids, *self.outbound_ids)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something of theirs that is under way. `path`: where in the console to end it, if anywhere; `row_id`
    is the id that `what` names."""

    what: str
    advice: str
    path: str = ""
    row_id: str = ""

    @property
    def short(self) -> str:
        """What it is, without the id: for a page that links to it."""
        return self.what.replace(f" {self.row_id}", "") if self.row_id else self.what


def find(connection: sa.Connection, email: str) -> Scope:
    """Return what is on record about an address, as it is stored: in small letters, exactly."""
    orders = sa.select(_orders.c.order_id).where(_orders.c.customer_email == email)
    theirs = _conversations.c.customer_email == email
    threads = sa.select(_conversations.c.conversation_id).where(theirs)
    refunds = sa.select(_refunds.c.refund_id).where(
        sa.or_(_refunds.c.order_id.in_(orders), _refunds.c.conversation_id.in_(threads))
    )
    approvals = sa.select(_approvals.c.approval_id).where(_approvals.c.refund_id.in_(refunds))
    naming = erasure_traces.find_naming(connection, email)
    mails = {
        *_ids(connection, _mails_in(email, threads, approvals)),
        *erasure_traces.list_replies_to_requests(connection, approvals),
        *naming.notice_mail_ids,
    }
    ours = {*_ids(connection, _mails_out(email, threads, refunds)), *naming.notice_outbound_ids}
    answers = erasure_traces.find_answers(connection, email, sorted(ours))
    conversation_ids = (*_ids(connection, threads), *answers.conversation_ids)
    mails |= {*answers.mail_ids, *_of_threads(connection, _inbound.c.mail_id, answers)}
    ours |= {*_of_threads(connection, _outbound.c.outbound_id, answers)}
    drafts = sa.select(_drafts.c.draft_id).where(_drafts.c.conversation_id.in_(conversation_ids))
    suppressed = schema.suppressed_addresses.c.address == email
    return Scope(
        email=email,
        order_ids=_ids(connection, orders),
        conversation_ids=tuple(sorted({*conversation_ids})),
        refund_ids=_ids(connection, refunds),
        approval_ids=_ids(connection, approvals),
        mail_ids=tuple(sorted(mails)),
        outbound_ids=tuple(sorted(ours)),
        draft_ids=_ids(connection, drafts),
        suppressed=bool(connection.scalar(sa.select(sa.exists().where(suppressed)))),
        naming=naming.without(mails, ours),
    )


def _of_threads(
    connection: sa.Connection, key: sa.Column[str], answers: erasure_traces.Answers
) -> tuple[str, ...]:
    there: sa.ColumnElement[bool] = key.table.c.conversation_id.in_(answers.conversation_ids)
    return tuple(connection.scalars(sa.select(key).where(there)))


def _ids(connection: sa.Connection, query: sa.Select[tuple[str]]) -> tuple[str, ...]:
    return tuple(sorted(set(connection.scalars(query))))


def _mails_in(
    email: str, threads: sa.Select[tuple[str]], approvals: sa.Select[tuple[str]]
) -> sa.Select[tuple[str]]:
    """Return the query of mail they wrote, of all mail in their threads, and of what managers wrote about
    their refunds."""
    by_reply = [
        sa.select(table.c.mail_id).where(
            table.c.approval_id.in_(approvals), table.c.mail_id.is_not(None)
        )
        for table in (schema.decisions, schema.countersignatures, schema.approval_notes)
    ]
    return sa.select(_inbound.c.mail_id).where(
        sa.or_(
            _inbound.c.conversation_id.in_(threads),
            _inbound.c.from_address == email,
            _inbound.c.mail_id.in_(sa.union_all(*by_reply)),
            sa.and_(_inbound.c.conversation_id.is_(None), _inbound.c.envelope_from == email),
        )
    )


def _mails_out(
    email: str, threads: sa.Select[tuple[str]], refunds: sa.Select[tuple[str]]
) -> sa.Select[tuple[str]]:
    """Return the query of our mails to them, and of those about them."""
    return sa.select(_outbound.c.outbound_id).where(
        sa.or_(
            _outbound.c.conversation_id.in_(threads),
            _outbound.c.refund_id.in_(refunds),
            _outbound.c.to_address == email,
        )
    )


# --- what has to end first ------------------------------------------------------------------------


def list_obstacles(connection: sa.Connection, scope: Scope) -> list[Obstacle]:
    """Return what of theirs still waits or is under way, each with what ends it."""
    return [
        *_refunds_under_way(connection, scope),
        *_mails_waiting(connection, scope),
        *_drafts_waiting(connection, scope),
        *_mails_under_way(connection, scope),
    ]


def _refunds_under_way(connection: sa.Connection, scope: Scope) -> Iterator[Obstacle]:
    columns = (_refunds.c.refund_id, _refunds.c.status)
    states = (RefundStatus.AWAITING_APPROVAL.value, RefundStatus.APPROVED.value)
    for row in _of(connection, columns, _refunds.c.refund_id, scope.refund_ids, states):
        path = f"/ops/refunds/{row.refund_id}"
        if row.status == RefundStatus.APPROVED.value:
            advice = (
                "Its money is on the way: wait until it is paid. If it does not end, see its run."
            )
            yield Obstacle(f"Refund {row.refund_id} is being paid", advice, path, row.refund_id)
        else:
            advice = "A manager decides on it, or the customer withdraws it."
            yield Obstacle(
                f"Refund {row.refund_id} waits for a manager", advice, path, row.refund_id
            )


def _mails_waiting(connection: sa.Connection, scope: Scope) -> Iterator[Obstacle]:
    columns = (_inbound.c.mail_id, _inbound.c.conversation_id, _inbound.c.status)
    states = (MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value)
    for row in _of(connection, columns, _inbound.c.mail_id, scope.mail_ids, states):
        path = f"/ops/conversations/{row.conversation_id}" if row.conversation_id else ""
        advice = "Wait for the answer, or take the conversation over and answer it."
        what = f"Mail {row.mail_id} is {row.status.replace('_', ' ')}"
        yield Obstacle(what, advice, path, row.mail_id)


def _drafts_waiting(connection: sa.Connection, scope: Scope) -> Iterator[Obstacle]:
    columns = (_drafts.c.draft_id,)
    for row in _of(connection, columns, _drafts.c.draft_id, scope.draft_ids, ("waiting",)):
        path = f"/ops/drafts/{row.draft_id}"
        what = f"Draft {row.draft_id} waits for a click"
        yield Obstacle(what, "Send or discard it.", path, row.draft_id)


def _mails_under_way(connection: sa.Connection, scope: Scope) -> Iterator[Obstacle]:
    columns = (_outbound.c.outbound_id, _outbound.c.conversation_id)
    states = (OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value)
    for row in _of(connection, columns, _outbound.c.outbound_id, scope.outbound_ids, states):
        path = f"/ops/conversations/{row.conversation_id}" if row.conversation_id else ""
        advice = "Wait until it has gone out, or is known not to."
        yield Obstacle(f"Our mail {row.outbound_id} is being sent", advice, path, row.outbound_id)


def _of(
    connection: sa.Connection,
    columns: Sequence[sa.ColumnElement[Any]],
    key: sa.Column[Any],
    ids: Sequence[str],
    states: Sequence[str],
) -> Iterator[Any]:
    """Return the rows with these ids that are in one of these states."""
    state = key.table.c["state" if key.table is _drafts else "status"]
    for some in batches(ids):
        yield from connection.execute(
            sa.select(*columns).where(key.in_(some), state.in_(states)).order_by(key)
        )
