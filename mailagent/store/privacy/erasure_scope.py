"""Which rows are one customer's, and what has to come to its end before they can be erased.

Theirs is also mail outside of their conversations: what came back to our mails about them, and machines' mail
and notices that name their address. In mail about others only the address is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Door, MailKind, MailStatus, OutboundStatus, Purpose
from mailagent.domain.mail.redaction import Mention
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.database import Row

_orders, _conversations, _refunds = schema.orders, schema.conversations, schema.refunds
_inbound, _outbound, _drafts = schema.inbound_mails, schema.outbound_mails, schema.drafts
_approvals, _requests = schema.approvals, schema.approval_requests

# Databases take so many values in one statement, and not many more.
BATCH = 500

# Where the address may stand in a mail.
TEXT_IN = (_inbound.c.subject, _inbound.c.body, _inbound.c.new_text)
TEXT_OUT = (_outbound.c.subject, _outbound.c.text, _outbound.c.html)

_TO_OUR_PEOPLE = (Purpose.APPROVAL_REQUEST, Purpose.HAND_OVER, Purpose.NOTICE)


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids of all rows that are about one address. Empty when nothing is known of it.

    `naming_…` is mail about somebody else with the address in it.
    """

    email: str
    order_ids: tuple[str, ...]
    conversation_ids: tuple[str, ...]
    refund_ids: tuple[str, ...]
    approval_ids: tuple[str, ...]
    mail_ids: tuple[str, ...]
    outbound_ids: tuple[str, ...]
    draft_ids: tuple[str, ...]
    suppressed: bool
    naming_mail_ids: tuple[str, ...]
    naming_outbound_ids: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        rows = (self.order_ids, self.conversation_ids, self.mail_ids, self.outbound_ids)
        named = self.naming_mail_ids or self.naming_outbound_ids
        return not any(rows) and not named and not self.suppressed

    @property
    def subjects(self) -> tuple[str, ...]:
        """The rows that runs of workflows are about."""
        return (*self.conversation_ids, *self.refund_ids, *self.outbound_ids)


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return ids in batches that every database takes in one statement."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def find(connection: sa.Connection, email: str) -> Scope:
    """Return what is on record about an address, as it is stored: in small letters, exactly."""
    orders = sa.select(_orders.c.order_id).where(_orders.c.customer_email == email)
    threads = sa.select(_conversations.c.conversation_id).where(
        _conversations.c.customer_email == email
    )
    refunds = sa.select(_refunds.c.refund_id).where(
        sa.or_(_refunds.c.order_id.in_(orders), _refunds.c.conversation_id.in_(threads))
    )
    approvals = sa.select(_approvals.c.approval_id).where(_approvals.c.refund_id.in_(refunds))
    naming_in, notices_in = _naming_in(connection, email)
    naming_out, notices_out = _naming_out(connection, email)
    mails = {*connection.scalars(_mails_in(email, threads, approvals)), *notices_in}
    mails |= {*_list_replies_to_requests(connection, approvals)}
    ours = {*connection.scalars(_mails_out(email, threads, refunds)), *notices_out}
    answers = list(_list_answers(connection, email, sorted(ours)))
    opened = {row.conversation_id for row in answers if row.conversation_id}
    mails |= {row.mail_id for row in answers}
    mails |= {*connection.scalars(_of_threads(_inbound.c.mail_id, opened))}
    ours |= {*connection.scalars(_of_threads(_outbound.c.outbound_id, opened))}
    conversations = {*connection.scalars(threads), *opened}
    suppressed = sa.exists().where(schema.suppressed_addresses.c.address == email)
    return Scope(
        email=email,
        order_ids=_sorted(connection.scalars(orders)),
        conversation_ids=_sorted(conversations),
        refund_ids=_sorted(connection.scalars(refunds)),
        approval_ids=_sorted(connection.scalars(approvals)),
        mail_ids=_sorted(mails),
        outbound_ids=_sorted(ours),
        draft_ids=_sorted(connection.scalars(_of_threads(_drafts.c.draft_id, conversations))),
        suppressed=bool(connection.scalar(sa.select(suppressed))),
        naming_mail_ids=_sorted(naming_in - mails),
        naming_outbound_ids=_sorted(naming_out - ours),
    )


def _sorted(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(ids)))


def _of_threads(key: sa.Column[str], conversation_ids: Iterable[str]) -> sa.Select[Any]:
    return sa.select(key).where(key.table.c.conversation_id.in_(list(conversation_ids)))


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


# --- mail that names the address ------------------------------------------------------------------


def _naming_in(connection: sa.Connection, email: str) -> tuple[set[str], set[str]]:
    """Return mail about others that names an address, and notices about nobody else, such as a returned mail.
    Customers' own mail is left out: their words are theirs."""
    columns = (_inbound.c.mail_id, _inbound.c.conversation_id, _inbound.c.envelope_to)
    query = sa.select(*columns, *TEXT_IN).where(_inbound.c.kind != MailKind.CUSTOMER.value)
    door = f"{Door.APPROVAL.value}+"
    about_others: set[str] = set()
    notices: set[str] = set()
    for row in _list_naming(connection, email, query, TEXT_IN):
        to_door = any(address.lower().startswith(door) for address in row.envelope_to)
        (about_others if row.conversation_id or to_door else notices).add(row.mail_id)
    return about_others, notices


def _naming_out(connection: sa.Connection, email: str) -> tuple[set[str], set[str]]:
    """Return likewise which of our mails name an address."""
    columns = (_outbound.c.outbound_id, _outbound.c.conversation_id, _outbound.c.refund_id)
    about_others: set[str] = set()
    notices: set[str] = set()
    for row in _list_naming(connection, email, sa.select(*columns, *TEXT_OUT), TEXT_OUT):
        subject = row.conversation_id or row.refund_id
        (about_others if subject else notices).add(row.outbound_id)
    return about_others, notices


def _list_naming(
    connection: sa.Connection, email: str, query: sa.Select[Any], text: Sequence[sa.Column[Any]]
) -> Iterator[Row]:
    # The database also finds the address as a part of others'.
    mention = Mention(email)
    holds = sa.or_(*(column.icontains(mention.core, autoescape=True) for column in text))
    for row in connection.execute(query.where(holds)):
        if mention.is_in(*(row._mapping[column] for column in text)):
            yield row


# --- what came back to mail about them ------------------------------------------------------------


def _list_answers(
    connection: sa.Connection, email: str, outbound_ids: Sequence[str]
) -> Iterator[Row]:
    """Return what machines, and the people whom we wrote to about a customer, sent in answer to these
    mails of ours: of no conversation, or of one that such a mail has opened. It quotes our mail."""
    columns = (_outbound.c.message_id, _outbound.c.to_address, _outbound.c.purpose)
    sent = [
        row
        for some in batches(outbound_ids)
        for row in connection.execute(
            sa.select(*columns).where(_outbound.c.outbound_id.in_(some))
        )
    ]  # fmt: skip
    message_ids = {row.message_id for row in sent}
    people = {row.to_address for row in sent if row.purpose in _TO_OUR_PEOPLE} - {email}
    # Few mails of no conversation name our domain at all.
    refers = [
        sa.cast(column, sa.Text).contains(f"@{domain}", autoescape=True)
        for column in (_inbound.c.in_reply_to, _inbound.c.mail_references)
        for domain in sorted({each.rpartition("@")[2] for each in message_ids})
    ]
    query = (
        sa.select(
            _inbound.c.mail_id,
            _inbound.c.conversation_id,
            _inbound.c.in_reply_to,
            _inbound.c.mail_references,
        )
        .outerjoin(
            _conversations, _conversations.c.conversation_id == _inbound.c.conversation_id
        )
        .where(
            sa.or_(
                _inbound.c.conversation_id.is_(None),
                _conversations.c.customer_email.in_(sorted(people)),
            ),
            sa.or_(sa.false(), *refers),
        )
    )  # fmt: skip
    for row in connection.execute(query) if message_ids else ():
        if not message_ids.isdisjoint((*row.in_reply_to, *row.mail_references)):
            yield row


def _list_replies_to_requests(
    connection: sa.Connection, approvals: sa.Select[tuple[str]]
) -> Iterator[str]:
    """Return all that came to the reply addresses of requests to managers: it may quote the request."""
    tokens = set(
        connection.scalars(
            sa.select(_requests.c.reply_token).where(_requests.c.approval_id.in_(approvals))
        )
    )
    recipients = sa.cast(_inbound.c.envelope_to, sa.Text)
    query = sa.select(_inbound.c.mail_id, _inbound.c.envelope_to).where(
        _inbound.c.conversation_id.is_(None),
        sa.func.lower(recipients).contains(f"{Door.APPROVAL.value}+"),
    )
    for row in connection.execute(query) if tokens else ():
        if any(token in address.lower() for token in tokens for address in row.envelope_to):
            yield row.mail_id


# --- what has to end first ------------------------------------------------------------------------


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


_DECIDE = "A manager decides on it, or the customer withdraws it."
_PAID = "Its money is on the way: wait until it is paid. If it does not end, see its run."
_ANSWER = "Wait for the answer, or take the conversation over and answer it."
_SENT = "Wait until it has gone out, or is known not to."

# By state: what is under way, and what ends it.
_Open = Mapping[str, tuple[str, str]]
_REFUNDS: _Open = {
    RefundStatus.AWAITING_APPROVAL.value: ("Refund {} waits for a manager", _DECIDE),
    RefundStatus.APPROVED.value: ("Refund {} is being paid", _PAID),
}
_MAILS: _Open = {
    MailStatus.UNANSWERED.value: ("Mail {} is unanswered", _ANSWER),
    MailStatus.THROTTLED.value: ("Mail {} is throttled", _ANSWER),
}
_UNSENT_DRAFTS: _Open = {"waiting": ("Draft {} waits for a click", "Send or discard it.")}
_OURS: _Open = {
    OutboundStatus.QUEUED.value: ("Our mail {} is being sent", _SENT),
    OutboundStatus.SENDING.value: ("Our mail {} is being sent", _SENT),
}


def list_obstacles(connection: sa.Connection, scope: Scope) -> list[Obstacle]:
    """Return what of theirs still waits or is under way, each with what ends it."""
    refund, mail, draft, ours = _refunds.c, _inbound.c, _drafts.c, _outbound.c
    found: list[Obstacle] = []
    for key, ids, state, states, folder, page in (
        (refund.refund_id, scope.refund_ids, refund.status, _REFUNDS, "refunds", refund.refund_id),
        (mail.mail_id, scope.mail_ids, mail.status, _MAILS, "conversations", mail.conversation_id),
        (draft.draft_id, scope.draft_ids, draft.state, _UNSENT_DRAFTS, "drafts", draft.draft_id),
        (ours.outbound_id, scope.outbound_ids, ours.status, _OURS, "conversations", ours.conversation_id),
    ):  # fmt: skip
        for some in batches(ids):
            query = sa.select(key, state, page.label("page")).where(
                key.in_(some), state.in_(list(states))
            )
            for row_id, status, page_id in connection.execute(query.order_by(key)):
                what, advice = states[status]
                path = f"/ops/{folder}/{page_id}" if page_id else ""
                found.append(Obstacle(what.format(row_id), advice, path, row_id))
    return found
