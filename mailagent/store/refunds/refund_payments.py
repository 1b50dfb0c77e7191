"""Refund payments as rows. A row is also our intent to pay: we write it before we ask the gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import OutboundStatus
from mailagent.domain.money import Money
from mailagent.domain.refunds.credit import share_credit
from mailagent.domain.refunds.order import Order, split_over_payments
from mailagent.domain.refunds.payment import INTENDED, RefundRequest
from mailagent.domain.refunds.refund import Refund
from mailagent.store import audit, schema
from mailagent.store.database import Row, update_rows
from mailagent.store.refunds import settlements

_refunds, _payments = schema.refunds, schema.refund_payments
_external, _entries = schema.external_refunds, schema.ledger_entries
_outbound = schema.outbound_mails

# The condition that the gateway has made a refund payment, and that the money has not come back to the shop.
PAID = sa.and_(_payments.c.state == "done", _payments.c.returned_at.is_(None))
# The condition that a mail will be written again before it is sent, or was written again after the money came
# back. Once it may have been sent, `written_from` is NULL.
WRITTEN_AGAIN = sa.or_(
    sa.and_(
        _outbound.c.status == OutboundStatus.QUEUED.value, _outbound.c.written_from.is_not(None)
    ),
    sa.exists()
    .where(
        schema.audit.c.subject == _outbound.c.outbound_id,
        schema.audit.c.action == audit.WRITTEN_AGAIN,
        schema.audit.c.at >= _payments.c.returned_at,
    )
    .correlate(_outbound, _payments),
)


def intend_payment(
    connection: sa.Connection,
    key: str,
    refund_id: str,
    payment_id: str,
    amount: Money,
    now: datetime,
) -> Row:
    """Record the intent to refund `amount` of a payment under the idempotency key `key`, before the gateway is
    asked. Return the intent. Raises IntegrityError if there is one with this key."""
    intent = _payments.insert().values(
        idempotency_key=key,
        refund_id=refund_id,
        payment_id=payment_id,
        amount_minor=amount.minor,
        state=INTENDED,
        intended_at=now,
    )
    return connection.execute(intent.returning(_payments)).one()


def list_payments(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    query = sa.select(_payments).where(_payments.c.refund_id == refund_id)
    return connection.execute(query.order_by(_payments.c.idempotency_key)).all()


def list_with_credit(connection: sa.Connection, refund: Refund) -> list[tuple[Row, Money | None]]:
    """Return a refund's payments, each with the store credit that is given for it, or None for money."""
    rows = list_payments(connection, refund.refund_id)
    credits = share_credit(refund, [row.amount_minor for row in rows])
    return list(zip(rows, credits, strict=True))


def sum_credit(connection: sa.Connection, refund: Refund) -> tuple[Money | None, Money | None]:
    """Return the store credit that was given for a part of a refund, and the credit that came back, or None for
    each. Unlike `part_paid` and `returned`, these sums have the bonus."""
    if refund.credit_bonus is None or not (refund.part_paid or refund.returned):
        return None, None
    sums = Counter[bool]()
    for row, credit in list_with_credit(connection, refund):
        if row.state == "done" and credit:
            sums[row.returned_at is not None] += credit.minor
    given, back = (Money(sums[each], refund.amount.currency) for each in (False, True))
    return given if given.minor else None, back if back.minor else None


def list_requests(refund: Refund, rows: Sequence[Row]) -> list[RefundRequest]:
    """Return the requests to the gateway for these refund payments."""
    credits = share_credit(refund, [row.amount_minor for row in rows])
    return [
        RefundRequest(
            idempotency_key=row.idempotency_key,
            refund_id=refund.refund_id,
            order_id=refund.order_id,
            payment_id=row.payment_id,
            amount=Money(row.amount_minor, refund.amount.currency),
            may_be_made=row.asking_since is not None,
            asked_gateway=row.asked_gateway,
            credit=credit,
        )
        for row, credit in zip(rows, credits, strict=True)
    ]


def find_payment(connection: sa.Connection, key: str) -> Row | None:
    query = sa.select(_payments).where(_payments.c.idempotency_key == key)
    return connection.execute(query).one_or_none()


def counts(part: Row, at: datetime | None = None) -> bool:
    """Return whether a row of `list_parts` counts against its payment: it was not refused, and the money did
    not come back. `at`: as far as we knew at this time."""
    came_back = part.returned_at is not None and (at is None or part.returned_at <= at)
    return part.state != "refused" and not came_back


def list_parts(
    connection: sa.Connection, *, order_id: str | None = None, payment_ids: Sequence[str] = ()
) -> Sequence[Row]:
    """Return all refund payments, ours and external ones, of one order, or of these payments on any order. Each
    row is a part of its payment that was refunded or is about to be. An external one has no `refund_id` and no
    `idempotency_key`; its `gateway` reported it. `known_at`: when we learned that it was made. `asked_gateway`:
    the gateway that has a payment of ours, or may have it."""

    def here(order: sa.Column[str], payment: sa.Column[str]) -> sa.ColumnElement[bool]:
        return payment.in_(payment_ids) if order_id is None else order == order_id

    none = sa.cast(sa.null(), sa.Text)
    ours = (
        sa.select(
            _refunds.c.order_id, _payments.c.payment_id, _refunds.c.currency, _payments.c.amount_minor,
            _payments.c.state, _payments.c.reference, _payments.c.returned_at,
            _payments.c.refund_id, _payments.c.idempotency_key, none.label("gateway"),
            _payments.c.done_at.label("known_at"), _refunds.c.credit_bonus, _payments.c.asked_gateway,
        )
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(here(_refunds.c.order_id, _payments.c.payment_id))
    )  # fmt: skip
    external = sa.select(
        _external.c.order_id, _external.c.payment_id, _external.c.currency, _external.c.amount_minor,
        sa.literal("done"), _external.c.reference, _external.c.returned_at,
        none, none, _external.c.gateway, _external.c.seen_at, sa.cast(sa.null(), sa.Integer), none,
    ).where(here(_external.c.order_id, _external.c.payment_id))  # fmt: skip
    return connection.execute(ours.union_all(external)).all()


def list_refunded(connection: sa.Connection, order: Order) -> list[Row]:
    """Return the refund payments, made or under way, of an order's payments: ours and external ones, also on
    other orders that have the same payments."""
    payment_ids = [payment.payment_id for payment in order.payments]
    return [part for part in list_parts(connection, payment_ids=payment_ids) if counts(part)]


def sum_by_payment(parts: Iterable[Row]) -> Counter[str]:
    """Return the sum of these rows in minor units, by payment id."""
    found = Counter[str]()
    for part in parts:
        found[part.payment_id] += part.amount_minor
    return found


def split(connection: sa.Connection, order: Order, refund: Refund) -> tuple[tuple[str, Money], ...]:
    """Return how much of a refund goes back to each payment of its order, by payment id. Raises ValueError if
    the payments have too little left."""
    return split_over_payments(
        order, refund.amount, sum_by_payment(list_refunded(connection, order))
    )


def record_payment(connection: sa.Connection, key: str, state: str, **values: Any) -> None:
    """Record the gateway's answer to one intent, unless the intent is done.

    A refused intent can still become done, but not the other way: if two runs asked under one key, the one that
    heard of a refund is right.
    """
    open_states = [INTENDED, "refused"] if state == "done" else [INTENDED]
    here = (_payments.c.idempotency_key == key, _payments.c.state.in_(open_states))
    attempts = _payments.c.attempts + 1
    update_rows(connection, _payments, *here, state=state, attempts=attempts, **values)


def begin_asking(
    connection: sa.Connection, key: str, known: datetime | None, now: datetime, gateway: str
) -> bool:
    """Record that we ask `gateway` now. Return False, and record nothing, if another worker has begun to ask
    since we read `asking_since` as `known`, or if the intent has an answer."""
    begun = update_rows(
        connection,
        _payments,
        _payments.c.idempotency_key == key,
        _payments.c.state == INTENDED,
        _payments.c.asking_since.is_not_distinct_from(known),
        asking_since=now,
        asked_gateway=gateway,
    )
    return begun == 1


def end_asking(connection: sa.Connection, key: str, begun_at: datetime) -> None:
    """Record that the call begun at `begun_at` was certainly not carried out, unless another worker has begun
    one since."""
    begun = (_payments.c.idempotency_key == key, _payments.c.asking_since == begun_at)
    update_rows(connection, _payments, *begun, asking_since=None, asked_gateway=None)


def give_up(connection: sa.Connection, refund_id: str, why: str) -> bool:
    """Record why we do not pay a locked refund any more. Return False, and change nothing, if we may have asked
    the gateway for some of it. Of this and `begin_asking` at the same time, the first one wins."""
    mine = _payments.c.refund_id == refund_id
    rows = connection.execute(sa.select(_payments).where(mine).with_for_update()).all()
    if any(map(_may_be_asked, rows)):
        return False
    update_rows(connection, _payments, mine, state="refused", problem=why)
    return True


def lock_last_asked(connection: sa.Connection, refund_id: str) -> datetime | None:
    """Lock a refund's unanswered payments; return when a worker last began to ask the gateway for one."""
    query = sa.select(_payments.c.asking_since).where(*_unanswered(refund_id)).with_for_update()
    return max(filter(None, connection.scalars(query)), default=None)


def may_be_asked(connection: sa.Connection, refund_id: str) -> bool:
    """Return whether we may have asked the gateway for some of a refund."""
    rows = connection.execute(sa.select(_payments).where(_payments.c.refund_id == refund_id))
    return any(map(_may_be_asked, rows))


def _may_be_asked(row: Row) -> bool:
    return bool(row.state != INTENDED or row.asking_since or pending_reference(row))


def note_not_made(connection: sa.Connection, refund_id: str) -> int:
    """Record that the gateway has certainly not made a refund's unanswered payments, because a person has
    looked; return how many payments these are. What the ledger has stays there."""
    none = {"asking_since": None, "asked_gateway": None}
    return update_rows(connection, _payments, *_unanswered(refund_id), **none)


def _unanswered(refund_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    in_ledger = sa.exists().where(_entries.c.idempotency_key == _payments.c.idempotency_key)
    return (
        _payments.c.refund_id == refund_id,
        _payments.c.state == INTENDED,
        _payments.c.asked_gateway.is_not(None),
        ~in_ledger,
    )


def mark_returned(connection: sa.Connection, key: str, now: datetime, why: str | None) -> bool:
    """Record that the money of a refund payment that was done came back to the shop; return whether that was
    new."""
    paid = (_payments.c.idempotency_key == key, PAID)
    return update_rows(connection, _payments, *paid, returned_at=now, problem=why) > 0


# The parts of the `problem` of an intent that the gateway has, but has not settled.
_PENDING, _UNSETTLED = "the gateway has it as ", ", not settled yet"


def pending_problem(reference: str) -> str:
    return f"{_PENDING}{reference}{_UNSETTLED}"


def pending_reference(row: Row) -> str | None:
    """Return the gateway's reference of a refund that it has not settled; None for any other intent."""
    problem = row.problem or ""
    if row.state != INTENDED or not problem.startswith(_PENDING):
        return None
    return str(problem).removeprefix(_PENDING).removesuffix(_UNSETTLED)


def describe(connection: sa.Connection, refund: Refund) -> str:
    """Return a sentence for each payment of a refund that says whether it was refunded, for the people who do
    the rest."""
    parts = []
    references = settlements.list_bank_references(connection, refund.refund_id)
    for row, credit in list_with_credit(connection, refund):
        amount = Money(row.amount_minor, refund.amount.currency)
        words = (
            f"given as {credit} of store credit"
            if credit
            else f"refunded to payment {row.payment_id}"
        )
        reference = references.get(row.idempotency_key, row.reference)
        why = row.problem or "no reason given"
        if row.state != "done":
            parts.append(f"{amount} was NOT {words} ({row.problem or row.state})")
        elif row.returned_at:
            parts.append(f"{amount} was NOT {words}: {reference} came back ({why})")
        else:
            parts.append(f"{amount} was {words} ({reference})")
    return "; ".join(parts)
