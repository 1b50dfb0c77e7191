"""The case of a refund as its pages show it: amounts, reasons and what is still refundable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
from babel import Locale

from mailagent.adapters.templates.formats import format_money
from mailagent.domain.money import Money
from mailagent.domain.refunds.escalation import ApprovalRequest
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.wording import MANAGER_REASONS, REFUND_REASONS, REFUND_STATES
from mailagent.mailers.approval_routing import look
from mailagent.store.refunds import approval_requests as requests
from mailagent.store.refunds import cases
from mailagent.store.refunds.approval_requests import Note
from mailagent.store.refunds.approvals import RecordedDecision, Standing
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals import case_files
from mailagent.web.approvals.case_files import ShownFile
from mailagent.web.approvals.decision_form import Form, FormProblem

FILES_SHOWN_MAX = 100

_ENGLISH = Locale.parse("en")

_STATE_SENTENCES: Mapping[RefundStatus, str] = {
    RefundStatus.APPROVED: "The money is being paid; the customer gets a receipt.",
    RefundStatus.PAID: "The money has been paid, and the customer has a receipt.",
    RefundStatus.REJECTED: "No money was paid, and the customer is told.",
    RefundStatus.FAILED: "The payment failed. The support team has the case.",
}


@dataclass(frozen=True, slots=True)
class ShownItem:
    name: str
    quantity: int
    amount: str


@dataclass(frozen=True, slots=True)
class ShownRefund:
    items: tuple[ShownItem, ...]
    amount: str
    state: str
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class ShownCase:
    """What `approvals/*.html` need of a case; amounts are ready to be read."""

    refund_id: str
    order_id: str
    customer_name: str
    customer_email: str
    customer_since: datetime | None
    amount: str
    amount_decimal: str
    currency: str
    already_refunded: str
    paid: str
    items: tuple[ShownItem, ...]
    reason: str
    policy_reasons: tuple[str, ...]
    customer_text: str
    requested_at: datetime
    expires_at: datetime | None
    manager_email: str
    # What has happened to the order since, and the lower amount that is all that can still be approved.
    news: tuple[str, ...] = ()
    most_decimal: str = ""
    # What of the amount is for carriage; empty if nothing is.
    shipping: str = ""
    # How much less was asked for than all of it comes to, because no more was left; empty if nothing.
    short: str = ""
    # The newest other refunds of the order, oldest first.
    others: tuple[ShownRefund, ...] = ()
    cancelled: bool = False
    new_customer: str = ""
    # What came with it, and that in words; empty if nothing did.
    files: tuple[ShownFile, ...] = ()
    more_files: int = 0
    files_words: str = ""
    # Who was asked this question, and what managers noted for each other; while it waits, who is next.
    requests: tuple[ApprovalRequest, ...] = ()
    notes: tuple[Note, ...] = ()
    following: str | None = None
    escalates_at: datetime | None = None

    def __getitem__(self, name: str) -> object:
        """Let a template write case["items"] where case.items would look like a method."""
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class ShownDecision:
    decided_by: str
    verb: str
    decided_at: datetime
    amount: str
    note: str | None
    refund_status: str
    # Whether the customer gets the note, too.
    note_shared: bool = True


def of_case(case: Case, standing: Standing | None, manager_email: str) -> ShownCase:
    """Return a case for the manager whose link it is: what each page shows of it. `standing`: the refund's,
    None where it needs no approval."""
    refund = case.refund
    return ShownCase(
        refund_id=refund.refund_id,
        order_id=case.order.order_id,
        customer_name=case.order.customer_name,
        customer_email=case.order.customer_email,
        customer_since=case.customer_since,
        amount=_money(case.amount),
        amount_decimal=case.amount.decimal(),
        currency=case.amount.currency,
        already_refunded=_money(case.already_refunded),
        paid=_money(case.order.paid),
        items=_items(case.items),
        shipping=_money(case.shipping) if case.shipping else "",
        short=_money(refund.worth - refund.asked) if refund.short_minor else "",
        others=tuple(_other(each, case.order) for each in case.others),
        reason=REFUND_REASONS[refund.reason],
        policy_reasons=tuple(MANAGER_REASONS.get(each, each) for each in refund.policy_reasons),
        customer_text=case.customer_text,
        requested_at=refund.requested_at,
        expires_at=standing.approval.expires_at if standing else None,
        manager_email=manager_email,
    )


def with_files(connection: sa.Connection, shown: ShownCase, case: Case) -> ShownCase:
    """Return a case with the files of its conversation."""
    files = case_files.list_files(connection, case.refund.conversation_id)
    return replace(
        shown,
        files=files[:FILES_SHOWN_MAX],
        more_files=len(files[FILES_SHOWN_MAX:]),
        files_words=case_files.count_files(files),
    )


def with_news(shown: ShownCase, case: Case) -> ShownCase:
    """Return a case with what has happened to its order since, and what is left of it."""
    left = refundable_of_case(case)
    lowered = 0 < left.most.minor < case.refund.amount.minor
    return replace(
        shown,
        news=left.news,
        most_decimal=left.most.decimal() if lowered else "",
        cancelled=left.cancelled,
        new_customer=left.new_customer,
    )


def with_requests(
    connection: sa.Connection, shown: ShownCase, case: Case, standing: Standing
) -> ShownCase:
    """Return a case that waits with who was asked, who is next, and what managers noted."""
    asked = look(connection, case.refund, standing, case.owners)
    return replace(
        shown,
        requests=asked.requests,
        notes=asked.notes,
        following=asked.due.following,
        escalates_at=asked.due.escalates_at,
    )


def with_notes(connection: sa.Connection, shown: ShownCase, standing: Standing) -> ShownCase:
    """Return a case that waits no more with what managers noted."""
    return replace(shown, notes=requests.list_notes(connection, standing.approval.approval_id))


def _items(items: Iterable[cases.RefundedItem]) -> tuple[ShownItem, ...]:
    return tuple(ShownItem(each.name, each.quantity, _money(each.amount)) for each in items)


def _other(refund: Refund, order: Order) -> ShownRefund:
    return ShownRefund(
        _items(cases.items_of(refund, order)),
        _money(refund.amount),
        REFUND_STATES[refund.status],
        refund.requested_at,
    )


def of_decision(decision: RecordedDecision, shown: ShownCase, refund: Refund) -> ShownDecision:
    """Return a decision for its page; the refund's state is what it is now, not what was decided."""
    lowered = decision.amount_minor
    amount = None if lowered is None else _money(Money(lowered, refund.amount.currency))
    second = decision.decided_by == refund.decided_by
    return ShownDecision(
        decided_by=decision.decided_by,
        verb="approved" if decision.approves else "rejected",
        decided_at=decision.decided_at,
        # Whoever lowers nothing approves what is left: all of it, or what the first one left.
        amount=amount or (_money(refund.amount) if second else shown.amount),
        note=decision.note,
        refund_status=_STATE_SENTENCES.get(refund.status, ""),
        note_shared=decision.note_shared,
    )


def _money(amount: Money) -> str:
    return format_money(amount, _ENGLISH)


# --- refundable -----------------------------------------------------------------------------------


_MEANWHILE = "Something has happened while this page was open."
_REJECT = "Nothing can be paid on it any more; please reject the request."


@dataclass(frozen=True, slots=True)
class Left:
    """The most that may be approved, and what has happened to the order since, a sentence each.
    `new_customer`: the order's address, if it is not that of the customer who asked."""

    most: Money
    news: tuple[str, ...] = ()
    cancelled: bool = False
    new_customer: str = ""


def refundable_of_case(case: Case) -> Left:
    """Return what a refund may still come to, as its case shows it. Whoever lets a decision follow has held the
    lock of its order since before the case was read."""
    refund, order = case.refund, case.order
    cancelled, moved_to = order.status is OrderStatus.CANCELLED, case.new_customer or ""
    if order.charged_back.minor:
        news = f"{_charged_back(order)} {_REJECT}"
        return Left(Money(0, order.currency), (news,), cancelled, moved_to)
    left = order.paid.minor - case.already_refunded.minor - case.on_others.minor
    most = Money(max(0, min(left, refund.amount.minor)), order.currency)
    words = _given_back(case.elsewhere, case.on_others)
    moved = [_moved(case)] if moved_to else []
    news = " ".join([*moved, *_cancelled(order, Money(max(0, left), order.currency)), *words])
    if not news:
        return Left(most)
    if not most.minor:
        news = f"{news} {_REJECT}"
    elif most < refund.amount:
        news = f"{news} At most {most} is left to approve."
    return Left(most, (news,), cancelled, moved_to)


def _moved(case: Case) -> str:
    asked_by = next(each for each in case.owners if each != case.new_customer)
    return (
        f"The order's customer is {case.new_customer} now; {asked_by} asked for this refund, and is written to."
        " Please make sure that both are the same person before you approve."
    )


def _given_back(elsewhere: Money, twice_named: Money) -> Iterator[str]:
    if elsewhere.minor:
        yield (
            f"{elsewhere} of this order was given back elsewhere, such as in the payment provider's"
            " dashboard."
        )
    if twice_named.minor:
        yield f"{twice_named} of its payments was given back on another order, which names them too."


def _cancelled(order: Order, left: Money) -> Iterator[str]:
    if order.status is OrderStatus.CANCELLED:
        yield (
            f"This order was cancelled. As far as we know, {left} of its payment was not given back."
            " The shop may have refunded it in its own system: please look there first, and approve"
            " only what it has not."
        )


def _charged_back(order: Order) -> str:
    return f"The customer's bank has taken back {order.charged_back} of this order (chargeback)."


def check(case: Case, form: Form) -> None:
    """Raise FormProblem for an approval of more than is left, or by somebody who was not told that the
    order was cancelled or has another customer. The order is locked, as in `of_case`."""
    if not form.approves:
        return
    left = refundable_of_case(case)
    wanted = form.amount or case.refund.amount
    if wanted.minor <= left.most.minor:
        unheard = left.new_customer and form.knows_customer != left.new_customer
        if unheard or (left.cancelled and not form.knows_cancelled):
            raise FormProblem("decision", f"{_MEANWHILE} {' '.join(left.news)}")
        return
    field = "amount" if left.most.minor else "decision"
    raise FormProblem(field, f"{wanted} cannot be approved. {' '.join(left.news)}".rstrip())
