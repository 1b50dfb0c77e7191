"""Mail outside of a customer's threads that is about them all the same: what came back to our mails about
them, machines' mail and notices that name their address; and mail about others with the address in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Door, MailKind, Purpose
from mailagent.domain.mail.redaction import Mention
from mailagent.store import schema
from mailagent.store.database import Row

_inbound, _outbound = schema.inbound_mails, schema.outbound_mails

# Databases take so many values in one statement, and not many more.
BATCH = 500

# Where the address may stand in a mail.
_BLANK_IN = (_inbound.c.subject, _inbound.c.body, _inbound.c.new_text)
_BLANK_OUT = (_outbound.c.subject, _outbound.c.text, _outbound.c.html)

_TO_OUR_PEOPLE = (Purpose.APPROVAL_REQUEST, Purpose.HAND_OVER, Purpose.NOTICE)


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return ids in batches that every database takes in one statement."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


# --- mail that names the address ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Naming:
    """Mail that names an address: `notice_…` is about nobody else, such as a returned mail; the rest is
    about other customers, and only the address in it is this one's."""

    notice_mail_ids: tuple[str, ...] = ()
    notice_outbound_ids: tuple[str, ...] = ()
    mail_ids: tuple[str, ...] = ()
    outbound_ids: tuple[str, ...] = ()

    def without(self, mail_ids: Set[str], outbound_ids: Set[str]) -> Naming:
        """Return it without mail of theirs, which goes as a whole."""
        return Naming(
            self.notice_mail_ids,
            self.notice_outbound_ids,
            tuple(each for each in self.mail_ids if each not in mail_ids),
            tuple(each for each in self.outbound_ids if each not in outbound_ids),
        )


def find_naming(connection: sa.Connection, email: str) -> Naming:
    """Return what names an address, other than customers' own mail: their words are theirs."""
    not_customers = _inbound.c.kind != MailKind.CUSTOMER.value
    mails = list(
        _naming(
            connection,
            email,
            (_inbound.c.mail_id, _inbound.c.conversation_id, _inbound.c.envelope_to, *_BLANK_IN),
            not_customers,
        )
    )
    ours = list(
        _naming(
            connection,
            email,
            (
                _outbound.c.outbound_id,
                _outbound.c.conversation_id,
                _outbound.c.refund_id,
                *_BLANK_OUT,
            ),
            sa.true(),
        )
    )
    return Naming(
        notice_mail_ids=tuple(row[0] for row in mails if not _names_a_subject(row)),
        notice_outbound_ids=tuple(row[0] for row in ours if not (row[1] or row[2])),
        mail_ids=tuple(row[0] for row in mails if _names_a_subject(row)),
        outbound_ids=tuple(row[0] for row in ours if row[1] or row[2]),
    )


def _naming(
    connection: sa.Connection,
    email: str,
    columns: Sequence[sa.Column[Any]],
    where: sa.ColumnElement[bool],
) -> Iterator[tuple[Any, ...]]:
    """Return the ids of mails that name an address, each with the next two of `columns`; the address is
    looked for in the others. The database finds it also as a part of others', which Python sorts out."""
    facts, words = columns[:3], columns[3:]
    mention = Mention(email)
    holds = sa.or_(*(column.icontains(mention.core, autoescape=True) for column in words))
    for row in connection.execute(sa.select(*facts, *words).where(where, holds)):
        if mention.is_in(*row[3:]):
            yield tuple(row[:3])


def _names_a_subject(row: tuple[Any, ...]) -> bool:
    _, conversation_id, envelope_to = row
    return bool(conversation_id) or any(_is_at_door(address) for address in envelope_to)


def _is_at_door(address: str) -> bool:
    return address.lower().startswith(f"{Door.APPROVAL.value}+")


def replace_address(connection: sa.Connection, email: str, alias: str, naming: Naming) -> None:
    """Put another address in place of this one in mail that is about others; all else in it stays."""
    mention = Mention(email)
    for key, ids, words in (
        (_inbound.c.mail_id, naming.mail_ids, _BLANK_IN),
        (_outbound.c.outbound_id, naming.outbound_ids, _BLANK_OUT),
    ):
        replace_in(connection, key, ids, words, mention, alias)


def replace_in(
    connection: sa.Connection,
    key: sa.Column[str],
    ids: Sequence[str],
    columns: Sequence[sa.Column[Any]],
    mention: Mention,
    alias: str,
) -> None:
    """Replace an address in these columns of the rows whose `key` is among `ids`."""
    names = [column.name for column in columns]
    for some in batches(ids):
        for row in connection.execute(sa.select(key.table).where(key.in_(some))).mappings().all():
            found = {name: row[name] for name in names if mention.is_in(row[name])}
            if found:
                own = sa.and_(*(column == row[column.name] for column in key.table.primary_key))
                values: Mapping[str, str] = mention.replaced_within(found, alias)
                connection.execute(sa.update(key.table).where(own).values(**values))


# --- what came back to mail about them ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answers:
    """Mails that answer ours, and conversations that such mails of the shop's people have opened."""

    mail_ids: tuple[str, ...] = ()
    conversation_ids: tuple[str, ...] = ()


def find_answers(connection: sa.Connection, email: str, outbound_ids: Sequence[str]) -> Answers:
    """Return what machines, and the people whom we wrote to about a customer, sent in answer to these
    mails of ours, wherever they sent it: it quotes the subject, and perhaps more."""
    sent = list(_list_sent(connection, outbound_ids))
    message_ids = {row.message_id for row in sent}
    people = sorted({row.to_address for row in sent if row.purpose in _TO_OUR_PEOPLE} - {email})
    rows = list(_list_referring(connection, message_ids, people))
    return Answers(
        tuple(sorted({row.mail_id for row in rows})),
        tuple(sorted({row.conversation_id for row in rows if row.conversation_id})),
    )


def _list_sent(connection: sa.Connection, outbound_ids: Sequence[str]) -> Iterator[Row]:
    columns = (_outbound.c.message_id, _outbound.c.to_address, _outbound.c.purpose)
    for some in batches(outbound_ids):
        yield from connection.execute(
            sa.select(*columns).where(_outbound.c.outbound_id.in_(some))
        ).all()


def _list_referring(
    connection: sa.Connection, message_ids: Iterable[str], people: Sequence[str]
) -> Iterator[Row]:
    """Return mails that refer to one of these Message-IDs, of no conversation or of one of these
    people's own."""
    wanted = {*message_ids}
    threads, columns = schema.conversations, (_inbound.c.in_reply_to, _inbound.c.mail_references)
    # Few mails of no conversation name our domain at all.
    domains = {each.rpartition("@")[2] for each in wanted}
    refers = [
        sa.cast(column, sa.Text).contains(f"@{domain}", autoescape=True)
        for column in columns
        for domain in sorted(domains)
    ]
    query = (
        sa.select(_inbound.c.mail_id, _inbound.c.conversation_id, *columns)
        .outerjoin(threads, threads.c.conversation_id == _inbound.c.conversation_id)
        .where(
            sa.or_(_inbound.c.conversation_id.is_(None), threads.c.customer_email.in_(people)),
            sa.or_(sa.false(), *refers),
        )
    )
    for row in connection.execute(query).all() if wanted else ():
        if not wanted.isdisjoint((*row.in_reply_to, *row.mail_references)):
            yield row


def list_replies_to_requests(
    connection: sa.Connection, approvals: sa.Select[tuple[str]]
) -> Iterator[str]:
    """Return what came to the reply addresses of requests to managers, whoever or whatever wrote it:
    it may quote the request."""
    requests = schema.approval_requests
    tokens = set(
        connection.scalars(
            sa.select(requests.c.reply_token).where(requests.c.approval_id.in_(approvals))
        )
    )
    recipients = sa.cast(_inbound.c.envelope_to, sa.Text)
    query = sa.select(_inbound.c.mail_id, _inbound.c.envelope_to).where(
        _inbound.c.conversation_id.is_(None),
        sa.func.lower(recipients).contains(f"{Door.APPROVAL.value}+"),
    )
    for row in connection.execute(query).all() if tokens else ():
        if any(token in address.lower() for token in tokens for address in row.envelope_to):
            yield row.mail_id
