"""Goodwill codes as rows: one for each order, each for one use."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus
from mailagent.domain.refunds.goodwill import (
    CODE_ALPHABET,
    CODE_GROUP_LENGTH,
    CODE_GROUPS,
    GoodwillCode,
    Redeemed,
    Redemption,
    decide_redemption,
    normalise_code,
)
from mailagent.store import audit, schema
from mailagent.store.database import columns_of, from_row, update_rows

_codes = schema.goodwill_codes
_OLDEST_FIRST = (_codes.c.issued_at, _codes.c.code)
_audit, _mails = schema.audit.c, schema.inbound_mails.c
_BY_MAIL = sa.exists().where(
    _audit.subject == _codes.c.order_id, _audit.action == audit.GOODWILL_TOLD
)
_IS_TOLD = sa.or_(
    _BY_MAIL,
    sa.exists().where(
        _mails.mail_id == _codes.c.mail_id, _mails.status == MailStatus.UNANSWERED.value
    ),
)


def new_code() -> str:
    """Return a new random code of 58 bits that people can type, such as `K7MX-4PQR-9TWZ`."""
    letters = [
        [secrets.choice(CODE_ALPHABET) for _ in range(CODE_GROUP_LENGTH)]
        for _ in range(CODE_GROUPS)
    ]
    return "-".join("".join(group) for group in letters)


def issue(connection: sa.Connection, code: GoodwillCode) -> None:
    """Record a discount. Lock the order first. Raises IntegrityError if the order has one already."""
    connection.execute(_codes.insert(), columns_of(_codes, code))


def find(connection: sa.Connection, typed: str) -> GoodwillCode | None:
    """Return the discount with this code, whatever its case, blanks and hyphens; None if there is none."""
    return _first(_list(connection, _codes.c.code == normalise_code(typed)))


def find_of_order(connection: sa.Connection, order_id: str) -> GoodwillCode | None:
    return _first(_list(connection, _codes.c.order_id == order_id))


@dataclass(frozen=True, slots=True)
class Known:
    """The discounts of a customer, oldest first, for the answer to some mails. `given`: those given for these
    mails. `told`: those whose code a mail has had, or that were given for a mail that the agent has yet to
    answer. `untold`: the others."""

    given: tuple[GoodwillCode, ...]
    told: tuple[GoodwillCode, ...]
    untold: tuple[GoodwillCode, ...]

    def find_given(self) -> GoodwillCode | None:
        return _first(self.given)

    def find_due(self, now: datetime) -> GoodwillCode | None:
        """Return the discount whose code the answer has, if it can be used: the one that was given for these
        mails, or else one whose code no mail has had, because a person answered or discarded the draft."""
        return _first_good((*self.given, *self.untold), now)

    def find_told(self, order_id: str, now: datetime) -> GoodwillCode | None:
        """Return the told discount for an order, if it can be used."""
        return _first_good((each for each in self.told if each.order_id == order_id), now)


def load_known(connection: sa.Connection, email: str, mail_ids: Sequence[str]) -> Known:
    given = _codes.c.mail_id.in_(mail_ids)
    theirs = sa.or_(given, _where_customer(email))
    query = sa.select(_codes, given.label("is_given"), _IS_TOLD.label("is_told")).where(theirs)
    rows = connection.execute(query.order_by(*_OLDEST_FIRST)).all()
    codes = [(row, from_row(GoodwillCode, row)) for row in rows]
    return Known(
        tuple(code for row, code in codes if row.is_given),
        tuple(code for row, code in codes if row.is_told),
        tuple(code for row, code in codes if not row.is_told),
    )


def list_untold(connection: sa.Connection, email: str, now: datetime) -> set[str]:
    """Return the customer's orders whose discount can be used, if no mail has had its code."""
    untold = _list(connection, sa.and_(_where_customer(email), ~_BY_MAIL))
    return {each.order_id for each in untold if each.is_good(now)}


def list_of_customer(connection: sa.Connection, email: str) -> tuple[GoodwillCode, ...]:
    """Return the discounts given for a customer's orders, oldest first."""
    return _list(connection, _where_customer(email))


def list_codes_for(connection: sa.Connection, conversation_id: str, email: str) -> tuple[str, ...]:
    """Return the codes that mails of a conversation may contain: its own, and all of its customer's."""
    here = sa.or_(_codes.c.conversation_id == conversation_id, _where_customer(email))
    return tuple(connection.scalars(sa.select(_codes.c.code).where(here)))


def _where_customer(email: str) -> sa.ColumnElement[bool]:
    theirs = sa.select(schema.orders.c.order_id).where(schema.orders.c.customer_email == email)
    return _codes.c.order_id.in_(theirs)


def list_all(connection: sa.Connection) -> tuple[GoodwillCode, ...]:
    return _list(connection, sa.true())


def redeem(connection: sa.Connection, typed: str, order_id: str, now: datetime) -> Redemption:
    """Use a discount on an order, if it is valid; return the outcome. It locks the code, so that only one of
    two concurrent uses succeeds."""
    code = normalise_code(typed)
    connection.execute(sa.select(_codes.c.code).where(_codes.c.code == code).with_for_update())
    redemption = decide_redemption(find(connection, code), order_id, now)
    if redemption.outcome is Redeemed.NOW:
        update_rows(connection, _codes, _codes.c.code == code, used_at=now, used_on=order_id)
        return Redemption(Redeemed.NOW, find(connection, code))
    return redemption


def _list(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[GoodwillCode, ...]:
    oldest_first = sa.select(_codes).where(where).order_by(*_OLDEST_FIRST)
    return tuple(GoodwillCode(**row._mapping) for row in connection.execute(oldest_first))


def _first_good(codes: Iterable[GoodwillCode], now: datetime) -> GoodwillCode | None:
    return next((each for each in codes if each.is_good(now)), None)


def _first(codes: tuple[GoodwillCode, ...]) -> GoodwillCode | None:
    return codes[0] if codes else None
