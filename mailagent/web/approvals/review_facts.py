"""What pages show about a refund's review, and how much may still be approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import Money, exponent
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.labels import REFUND_REASONS, REFUND_STATES, tell_reasons
from mailagent.domain.refunds.offer import allows_offer, part_of_price
from mailagent.domain.refunds.order import Order, OrderStatus, split_over_payments
from mailagent.domain.refunds.refund import HOLDING, Refund, RefundStatus
from mailagent.domain.remedies.labels import tell_done
from mailagent.domain.remedies.remedy import RemedyKind
from mailagent.mailers.approval_routing import load_routing
from mailagent.store.refunds import refund_payments, reviews
from mailagent.store.refunds.approvals import RecordedDecision, Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals import attachments
from mailagent.web.language import _, translate, write_money

FILES_SHOWN_MAX = 100

STATE_SENTENCES: Mapping[RefundStatus, str] = {
    RefundStatus.AWAITING_APPROVAL: "It takes effect in a moment.",
    RefundStatus.APPROVED: "It is approved; the customer gets a receipt when it is paid.",
    RefundStatus.PAID: "The money has been paid, and the customer has a receipt.",
    RefundStatus.REJECTED: "No money was paid, and we tell the customer.",
    RefundStatus.FAILED: "The payment failed. The support team takes care of it.",
}

CONDITIONS: Mapping[RemedyKind, str] = {
    RemedyKind.RETURN: "It is paid when the goods are back.",
    RemedyKind.CANCEL: "It is paid after its items are cancelled.",
}

Values = dict[str, Any]


def describe(review: Review, standing: Standing | None, manager_email: str) -> Values:
    """Return the values that `approvals/*.html` and `ops/refund.html` show about a review, ready to read.

    `standing`: None for a refund that needs no approval. `manager_email`: the reader.
    """
    refund, order = review.refund, review.order
    credit = credit_of(refund)
    return {
        "refund_id": refund.refund_id,
        "order_id": order.order_id,
        "customer_name": order.customer_name,
        "customer_email": order.customer_email,
        "customer_since": review.customer_since,
        "amount": write_money(refund.asked),
        "credit": write_money(credit) if credit else "",
        "currency": order.currency,
        "already_refunded": write_money(review.already_refunded),
        "paid": write_money(order.paid),
        "items": _items(refund, order),
        "shipping": write_money(refund.shipping) if refund.shipping else "",
        "short": write_money(refund.short) if refund.short else "",
        "delivered_at": order.delivered_at,
        "order_status": order.status.value,
        "shipments": order.shipments,
        "order_as_of": order.seen_at if services.current().order_source else None,
        "earlier": [
            {
                "order_id": each.order_id,
                "items": _items(each, order) if each.order_id == order.order_id else [],
                "amount": write_money(each.amount),
                "state": REFUND_STATES[each.status],
                "requested_at": each.requested_at,
                "closed_at": each.closed_at,
            }
            for each in review.earlier
        ],
        "condition": _condition(review),
        "withdraws": review.withdraws,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": tell_reasons(refund.policy_reasons, review.exceeded, order.currency, _),
        "customer_text": review.customer_text,
        "requested_at": refund.requested_at,
        "proposed_by": refund.proposed_by,
        "expires_at": standing.approval.expires_at if standing else None,
        "manager_email": manager_email,
    }


def _condition(review: Review) -> str:
    """Return a sentence about the refund's remedy: what the refund waits for, or what is done although no
    manager has decided yet; empty for nothing."""
    waits_for, is_held = review.condition, review.refund.status in HOLDING
    if review.refund.status is RefundStatus.AWAITING_APPROVAL and tell_done(waits_for):
        return translate(tell_done(waits_for))
    if waits_for is None or not waits_for.is_open or not is_held:
        return ""
    return translate(CONDITIONS[waits_for.kind])


def describe_files(connection: sa.Connection, review: Review) -> Values:
    """Return the files of the refund's conversation."""
    files = attachments.list_files(connection, review.refund.conversation_id)
    return {
        "files": files[:FILES_SHOWN_MAX],
        "more_files": len(files[FILES_SHOWN_MAX:]),
        "file_count": attachments.count_files(files),
    }


def describe_requests(connection: sa.Connection, review: Review, standing: Standing) -> Values:
    """Return who was asked to decide, who is asked next, and what managers noted."""
    routing = load_routing(connection, review.refund, standing, review.owners)
    return {
        "requests": routing.requests,
        "notes": routing.notes,
        "following": routing.due.following,
        "escalates_at": routing.due.escalates_at,
    }


def describe_changes(review: Review) -> Values:
    """Return what has happened to the order since the refund was asked for, the balance, and whether the
    manager may offer part of the price instead."""
    balance = balance_of(review)
    lowered = 0 < balance.most.minor < review.refund.amount.minor
    return {
        "news": [balance.news] if balance.news else [],
        "most": write_money(balance.most) if lowered else "",
        "most_decimal": balance.most.decimal() if lowered else "",
        "cancelled": review.order.status is OrderStatus.CANCELLED,
        "new_customer": review.new_customer or "",
        "elsewhere_minor": review.elsewhere.minor,
        "may_offer": allows_offer(review.refund, services.current().policy),
    }


def describe_lines(review: Review, typed: Mapping[int, str], chosen: Refund) -> Values:
    """Return the lines of a refund for the form, and the sum of the chosen units, for readers and for the
    page's script. `typed`: what a refused form said, by line number."""
    refund = review.refund
    named = zip(refund.lines, reviews.items_of(refund, review.order), strict=True)
    return {
        "each": [
            {
                "line_no": line.line_no,
                "name": item.name,
                "quantity": line.quantity,
                "chosen": typed.get(line.line_no, str(line.quantity)),
                "amount": write_money(line.amount),
                "minor": line.amount.minor,
            }
            for line, item in named
        ],
        "sum": write_money(chosen.amount),
        "most_minor": refund.amount.minor,
        "decimals": exponent(refund.amount.currency),
    }


def describe_decision(decision: RecordedDecision, review: Review, standing: Standing) -> Values:
    """Return the values that pages show about a decision, and what became of the refund since."""
    refund = review.refund
    lowered = [
        each.amount_minor
        for each in (standing.first, standing.second)
        if each and each.amount_minor is not None and each.decided_at <= decision.decided_at
    ]
    amount = Money(lowered[-1], refund.amount.currency) if lowered else refund.asked
    percent = decision.offer_percent
    offered = part_of_price(refund.covering(decision.units), percent) if percent else None
    return {
        "decided_by": decision.decided_by,
        "verb": "approved" if decision.approves else "rejected",
        "offer_percent": percent,
        "offer_amount": write_money(offered) if offered else "",
        "decided_at": decision.decided_at,
        "amount": write_money(amount),
        "note": decision.note,
        "note_shared": decision.note_shared,
        "refund_status": _condition(review) or translate(STATE_SENTENCES.get(refund.status, "")),
    }


def _items(refund: Refund, order: Order) -> list[Values]:
    return [
        {"name": item.name, "quantity": item.quantity, "amount": write_money(item.amount)}
        for item in reviews.items_of(refund, order)
    ]


# --- what may still be approved -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Balance:
    """The most that may be approved. `news`: sentences about what has happened to the order since the refund
    was asked for."""

    most: Money
    news: str = ""


def balance_of(review: Review) -> Balance:
    """Return how much of a refund may still be approved. Before a decision, lock the order first."""
    refund, order = review.refund, review.order
    nothing = Money(0, order.currency)
    reject = _("Nothing can be paid on it any more; please reject the request.")
    if order.charged_back.minor:
        news = _(
            "The customer's bank has taken back %(amount)s of this order (chargeback).",
            amount=order.charged_back,
        )
        return Balance(nothing, f"{news} {reject}")
    if review.sent_since:
        news = _("Its items were sent again after this refund was asked for.")
        return Balance(nothing, f"{news} {reject}")
    left = max(nothing, order.paid - review.already_refunded - review.on_other_orders)
    most = min(left, refund.amount)
    news = " ".join(_changes(review, left))
    if news and not most.minor:
        news = f"{news} {reject}"
    elif news and most < refund.amount:
        lowered = _("At most %(amount)s is left to approve.", amount=most)
        news = f"{news} {lowered}"
    return Balance(most, news)


def has_odd_part(connection: sa.Connection, order: Order, amount: Money) -> bool:
    """Return whether a card would get back a part that is no multiple of its step. Lock the order first."""
    earlier = refund_payments.sum_by_payment(refund_payments.list_refunded(connection, order))
    steps = {each.payment_id: each.step_minor for each in order.payments}
    return any(
        part.minor % steps[name] for name, part in split_over_payments(order, amount, earlier)
    )


def _changes(review: Review, left: Money) -> list[str]:
    changes = []
    if review.new_customer:
        changes.append(
            _(
                "The order's customer is %(customer)s now; %(asked_by)s asked for this refund and gets our"
                " mails about it. Please make sure that both are the same person before you approve.",
                customer=review.new_customer,
                asked_by=review.asked_by,
            )
        )
    if review.order.status is OrderStatus.CANCELLED:
        changes.append(
            _(
                "This order was cancelled. As far as we know, %(amount)s of its payment was not refunded."
                " The shop may have refunded it in its own system: please look there first, and approve"
                " only what it has not.",
                amount=left,
            )
        )
    if review.elsewhere.minor:
        changes.append(
            _(
                "%(amount)s of this order was refunded elsewhere, such as in the payment provider's"
                " dashboard.",
                amount=review.elsewhere,
            )
        )
    if review.on_other_orders.minor:
        changes.append(
            _(
                "%(amount)s of its payments was refunded on another order, which names them too.",
                amount=review.on_other_orders,
            )
        )
    return changes
