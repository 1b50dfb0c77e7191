"""Finds the rows of one customer, and those of them that must end before the customer can be erased.

The customer's rows include mail of no conversation: bounces of our mails about them, and automatic mail that
names their address. In mail about other customers only the address is theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Door, MailKind, MailStatus, OutboundStatus, Purpose
from mailagent.domain.mail.redaction import Mention
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store import schema
from mailagent.store.database import Row, batches
from mailagent.store.refunds import order_import

_orders, _conversations, _refunds = schema.orders, schema.conversations, schema.refunds
_inbound, _outbound, _drafts = schema.inbound_mails, schema.outbound_mails, schema.drafts
_approvals, _requests = schema.approvals, schema.approval_requests
_versions = schema.order_versions

# Columns of a mail that may contain the address.
TEXT_IN = (_inbound.c.subject, _inbound.c.body, _inbound.c.new_text)
TEXT_OUT = (_outbound.c.subject, _outbound.c.text, _outbound.c.html, _outbound.c.written_from)

_NONE: tuple[set[str], set[str]] = (set(), set())
_TO_OUR_PEOPLE = (Purpose.APPROVAL_REQUEST, Purpose.HAND_OVER, Purpose.NOTICE)
_APPROVAL_DOOR = f"{Door.APPROVAL.value}+"


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids of all rows about one mail address. `former_order_ids`: orders of other customers with a version
    that names the address; `naming_…`: mail about other customers that names it."""

    email: str
    order_ids: tuple[str, ...]
    former_order_ids: tuple[str, ...]
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
        """Whether nothing is on record about the address."""
        return not any(getattr(self, each.name) for each in fields(self) if each.name != "email")

    @property
    def subjects(self) -> tuple[str, ...]:
        """The ids of the rows that runs are about."""
        return (*self.conversation_ids, *self.refund_ids, *self.outbound_ids)


def find(connection: sa.Connection, email: str, mentions: bool = True) -> Scope:
    """Return the rows about a mail address, in its stored form. `mentions`: also find mail about others that
    names the address. That searches the texts of all mails, which takes seconds with a million mails."""
    thread, refund = _conversations.c, _refunds.c
    threads = sa.select(thread.conversation_id).where(thread.customer_email == email)
    past = {*connection.scalars(_with_version_of(email))} if mentions else set[str]()
    orders = {*connection.scalars(_orders_of(email, threads, past))}
    # With UNION, here and below, because the database would use no index for OR.
    refunds = sa.union(
        sa.select(refund.refund_id).where(refund.order_id.in_(sorted(orders))),
        sa.select(refund.refund_id).where(refund.conversation_id.in_(threads)),
    )
    approvals = sa.select(_approvals.c.approval_id).where(_approvals.c.refund_id.in_(refunds))
    naming_in, notices_in = _naming_in(connection, email) if mentions else _NONE
    naming_out, notices_out = _naming_out(connection, email) if mentions else _NONE
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
        order_ids=_sorted(orders),
        former_order_ids=_sorted(past - orders),
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


def _with_version_of(email: str) -> sa.Select[tuple[str]]:
    """Return the query for orders with a version that names the address as the customer's."""
    return sa.select(_versions.c.order_id).where(where_version_of(email)).distinct()


def where_version_of(email: str) -> sa.ColumnElement[bool]:
    """Return the condition that an order's version names the address as the customer's."""
    named: sa.ColumnElement[str] = _versions.c.record["customer", "email"].as_string()
    return named == email


def _orders_of(
    email: str, threads: sa.Select[tuple[str]], past: Collection[str]
) -> sa.CompoundSelect[str]:
    """Return the query for the customer's orders. An order that was theirs before (in `past`, or
    with a refund or remedy in their conversations) still counts, if the shop has erased its address
    (Shopify: an empty one). An order that now has another address belongs to that customer."""
    order = _orders.c
    is_nobodys = sa.or_(
        order.customer_email == "", order.customer_email.endswith(order_import.ERASED_IN_SHOP)
    )
    by_thread = (
        sa.select(table.c.order_id).where(table.c.conversation_id.in_(threads))
        for table in (_refunds, schema.remedies)
    )
    were_theirs = (order.order_id.in_(sorted(past)), *map(order.order_id.in_, by_thread))
    return sa.union(
        sa.select(order.order_id).where(order.customer_email == email),
        *(sa.select(order.order_id).where(each, is_nobodys) for each in were_theirs),
    )


def _mails_in(
    email: str, threads: sa.Select[tuple[str]], approvals: sa.Select[tuple[str]]
) -> sa.CompoundSelect[str]:
    """Return the query for mail from the customer, all mail in their conversations, and managers' replies about
    their refunds."""
    by_reply = [
        sa.select(table.c.mail_id).where(
            table.c.approval_id.in_(approvals), table.c.mail_id.is_not(None)
        )
        for table in (schema.decisions, schema.countersignatures, schema.approval_notes)
    ]
    mail = _inbound.c
    which = (
        mail.conversation_id.in_(threads),
        mail.from_address == email,
        sa.and_(mail.conversation_id.is_(None), mail.envelope_from == email),
    )
    return sa.union(*by_reply, *(sa.select(mail.mail_id).where(each) for each in which))


def _mails_out(
    email: str, threads: sa.Select[tuple[str]], refunds: sa.CompoundSelect[str]
) -> sa.CompoundSelect[str]:
    """Return the query for our mails to the customer or about them."""
    mail = _outbound.c
    which = (
        mail.conversation_id.in_(threads),
        mail.refund_id.in_(refunds),
        mail.to_address == email,
    )
    return sa.union(*(sa.select(mail.outbound_id).where(each) for each in which))


# --- mail that names the address ------------------------------------------------------------------


def _naming_in(connection: sa.Connection, email: str) -> tuple[set[str], set[str]]:
    """Return the ids of inbound mail about others that names an address, and of mail about this address only,
    such as a bounce. Texts of other customers are in neither."""
    columns = (_inbound.c.mail_id, _inbound.c.conversation_id, _inbound.c.envelope_to)
    query = sa.select(*columns, *TEXT_IN).where(_inbound.c.kind != MailKind.CUSTOMER.value)
    rows = list(_list_naming(connection, email, query, TEXT_IN))
    about_others = {row.mail_id for row in rows if row.conversation_id or _came_to_approvals(row)}
    return about_others, {row.mail_id for row in rows} - about_others


def _came_to_approvals(row: Row) -> bool:
    return any(address.lower().startswith(_APPROVAL_DOOR) for address in row.envelope_to)


def _naming_out(connection: sa.Connection, email: str) -> tuple[set[str], set[str]]:
    """Return the same for our own mails."""
    columns = (_outbound.c.outbound_id, _outbound.c.conversation_id, _outbound.c.refund_id)
    rows = list(_list_naming(connection, email, sa.select(*columns, *TEXT_OUT), TEXT_OUT))
    about_others = {row.outbound_id for row in rows if row.conversation_id or row.refund_id}
    return about_others, {row.outbound_id for row in rows} - about_others


def _list_naming(
    connection: sa.Connection, email: str, query: sa.Select[Any], text: Sequence[sa.Column[Any]]
) -> Iterator[Row]:
    # The database also finds longer addresses that contain this one, so check again.
    mention = Mention(email)
    holds = sa.or_(*(column.icontains(mention.core, autoescape=True) for column in text))
    for row in connection.execute(query.where(holds)):
        if mention.is_in(*(row._mapping[column] for column in text)):
            yield row


# --- what came back to mail about them ------------------------------------------------------------


def _list_answers(
    connection: sa.Connection, email: str, outbound_ids: Sequence[str]
) -> Iterator[Row]:
    """Return mails of machines or of the shop's people that answer these outbound mails, and so may quote them.
    They belong to no conversation, or have opened a new one."""
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
    # A first, coarse filter: few mails of no conversation refer to our domain.
    refers = [
        sa.cast(column, sa.Text).contains(f"@{domain}", autoescape=True)
        for column in (_inbound.c.in_reply_to, _inbound.c.mail_references)
        for domain in sorted({each.rpartition("@")[2] for each in message_ids})
    ]
    mail, thread = _inbound.c, _conversations.c
    query = (
        sa.select(mail.mail_id, mail.conversation_id, mail.in_reply_to, mail.mail_references)
        .outerjoin(_conversations, thread.conversation_id == mail.conversation_id)
        .where(
            sa.or_(mail.conversation_id.is_(None), thread.customer_email.in_(sorted(people))),
            sa.or_(sa.false(), *refers),
        )
    )
    for row in connection.execute(query) if message_ids else ():
        if not message_ids.isdisjoint((*row.in_reply_to, *row.mail_references)):
            yield row


def _list_replies_to_requests(
    connection: sa.Connection, approvals: sa.Select[tuple[str]]
) -> Iterator[str]:
    """Return the ids of mails to the reply addresses of approval requests. They may quote the request."""
    tokens = set(
        connection.scalars(
            sa.select(_requests.c.reply_token).where(_requests.c.approval_id.in_(approvals))
        )
    )
    recipients = sa.cast(_inbound.c.envelope_to, sa.Text)
    query = sa.select(_inbound.c.mail_id, _inbound.c.envelope_to).where(
        _inbound.c.conversation_id.is_(None), sa.func.lower(recipients).contains(_APPROVAL_DOOR)
    )
    for row in connection.execute(query) if tokens else ():
        if any(token in address.lower() for token in tokens for address in row.envelope_to):
            yield row.mail_id


# --- obstacles ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A row of the customer that is under way. `path`: the console's page on which a person can end it; None if
    there is none."""

    what: str
    advice: str
    path: str = ""
    row_id: str = ""

    def __str__(self) -> str:
        return f"{self.what}{self.row_id and f' ({self.row_id})'}. {self.advice}"


_DECIDE = "A manager decides on it, or the customer withdraws it."
_PAID = "Its money is on the way: wait until it is paid. If it does not end, see its run."
_ANSWER = "Wait for the answer, or take the conversation over and answer it."
_TICK = "Do it, or say that it is not possible."
_SENT = "Wait until it has gone out, or is known not to."

# By status: what is under way, and what ends it.
_States = Mapping[str, tuple[str, str]]
REFUNDS: _States = {
    RefundStatus.AWAITING_APPROVAL: ("A refund waits for a manager", _DECIDE),
    RefundStatus.APPROVED: ("A refund is being paid", _PAID),
}
MAILS: _States = {
    MailStatus.UNANSWERED: ("A mail is unanswered", _ANSWER),
    MailStatus.THROTTLED: ("A mail is throttled", _ANSWER),
}
TASKS: _States = {
    RemedyStatus.ASKED: ("The shop's system is asked", "Wait for its answer."),
    RemedyStatus.TASK: ("A task waits for the team", _TICK),
    RemedyStatus.AWAITING_GOODS: ("Goods are to come back", _TICK),
}
UNSENT_DRAFTS: _States = {"waiting": ("A draft waits for a click", "Send or discard it.")}
OURS: _States = {
    OutboundStatus.QUEUED: ("A mail of ours is being sent", _SENT),
    OutboundStatus.SENDING: ("A mail of ours is being sent", _SENT),
}


def list_obstacles(connection: sa.Connection, scope: Scope) -> list[Obstacle]:
    """Return the customer's rows that wait or are under way, each with what ends it."""
    refund, mail, draft, ours = _refunds.c, _inbound.c, _drafts.c, _outbound.c
    task = schema.remedies.c.conversation_id
    found: list[Obstacle] = []
    for key, ids, state, states, folder, page in (
        (refund.refund_id, scope.refund_ids, refund.status, REFUNDS, "refunds", refund.refund_id),
        (mail.mail_id, scope.mail_ids, mail.status, MAILS, "conversations", mail.conversation_id),
        (task, scope.conversation_ids, schema.remedies.c.status, TASKS, "conversations", task),
        (draft.draft_id, scope.draft_ids, draft.state, UNSENT_DRAFTS, "drafts", draft.draft_id),
        (ours.outbound_id, scope.outbound_ids, ours.status, OURS, "conversations", ours.conversation_id),
    ):  # fmt: skip
        for some in batches(ids):
            query = sa.select(key, state, page.label("page")).where(
                key.in_(some), state.in_(list(states))
            )
            for row_id, status, page_id in connection.execute(query.order_by(key)):
                path = f"/ops/{folder}/{page_id}" if page_id else ""
                found.append(Obstacle(*states[status], path, row_id))
    return found
