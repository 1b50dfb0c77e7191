"""What an auditor looks at after every step: our rows beside the bank's books."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.offer import Offer, OfferStatus
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import SENT_AGAIN, Remedy, RemedyKind, RemedyStatus
from mailagent.store.refunds import (
    external_refunds,
    offers,
    orders,
    refund_payments,
    refunds,
    remedies,
)
from tests.harness import Harness
from tests.programs.money.bank import Bank, Entry

DUE = (RefundStatus.APPROVED, RefundStatus.PAID)


@dataclass(frozen=True)
class View:
    """Our rows about some orders, and the bank's books."""

    orders: tuple[Order, ...]
    held: Mapping[str, int]
    refunds: tuple[Refund, ...]
    payments: Sequence[Any]  # rows of refund_payments
    signatures: Mapping[str, Sequence[str]]  # by refund: who approved it, or made an offer instead
    told: Mapping[str, Sequence[str]]  # by refund: the purposes of the mails about it
    external: Mapping[str, int]  # by order: what the bank gave back without us, in minor units
    entries: Sequence[Entry]
    untold: frozenset[str]  # references of entries whose last word has not arrived
    remedies: tuple[Remedy, ...]
    offers: tuple[Offer, ...]
    paid: Mapping[str, int]  # by payment: what the bank has received, in minor units


def look(harness: Harness, bank: Bank, order_ids: Sequence[str], untold: frozenset[str]) -> View:
    with harness.live.database.snapshot() as connection:
        found = tuple(orders.load(connection, order_id) for order_id in order_ids)
        held = {each: orders.held_minor(connection, each) for each in order_ids}
        ours = [each for one in order_ids for each in refunds.list_of_order(connection, one)]
        outsiders = {
            order_id: sum(
                part.amount_minor
                for part in external_refunds.list_known(connection, order_id)
                if part.gateway is not None
            )
            for order_id in order_ids
        }
        asked = tuple(each for one in order_ids for each in remedies.list_of_order(connection, one))
        offered = tuple(each for one in order_ids for each in offers.list_of_order(connection, one))
        payments = [
            row
            for each in ours
            for row in refund_payments.list_payments(connection, each.refund_id)
        ]
    signatures, told = defaultdict(list), defaultdict(list)
    ids = ", ".join(f"'{each.refund_id}'" for each in ours) or "''"
    for table in ("decisions", "countersignatures"):
        for row in harness.rows(
            f"SELECT a.refund_id, d.decided_by FROM {table} d"
            " JOIN approvals a ON a.approval_id = d.approval_id"
            f" WHERE (d.decision = 'approve' OR d.offer_percent IS NOT NULL) AND a.refund_id IN ({ids})"
        ):
            signatures[row.refund_id].append(row.decided_by)
    for row in harness.rows(
        f"SELECT refund_id, purpose FROM outbound_mails WHERE refund_id IN ({ids})"
    ):
        told[row.refund_id].append(row.purpose)
    known = {order_id: minor for order_id, minor in outsiders.items() if minor}
    entries = list(bank.entries)
    return View(
        found,
        held,
        tuple(ours),
        payments,
        signatures,
        told,
        known,
        entries,
        untold,
        asked,
        offered,
        bank.paid,
    )


def check_amounts(view: View) -> None:
    """Refunds never exceed what was paid, by order and by payment, and the order's sum is kept."""
    for order in view.orders:
        own = [each for each in view.refunds if each.order_id == order.order_id]
        assert view.held[order.order_id] == sum(each.held.minor for each in own)
        assert view.held[order.order_id] <= order.paid.minor
        for refund in own:
            assert 0 < refund.amount.minor <= asked_for(refund)
        units: Counter[int] = Counter()
        for refund in own:
            if refund.holds_money:
                units.update(
                    {each.line_no: each.quantity for each in refund.lines if not each.is_rest}
                )
        assert all(units[line.line_no] <= line.quantity for line in order.lines)


def check_stock(view: View, restocked: Counter[str]) -> None:
    """Units are put in stock again once, and only those that came back and are paid for."""
    back = Counter[str]()
    done = (each for each in view.remedies if each.status is RemedyStatus.DONE)
    returned = {each.refund_id for each in done if each.kind is RemedyKind.RETURN}
    asked = {row.refund_id for row in view.payments}
    for refund in view.refunds:
        if refund.refund_id in returned & asked:
            back.update(goods_of(refund))
    assert not restocked - back, f"{restocked} in stock again, {back} came back"


def check_gateway(view: View) -> None:
    """What we asked of the bank is no more than was paid, once for each payment of a refund, and what
    our rows say."""
    rows = {(row.refund_id, row.payment_id): row for row in view.payments}
    bonus = {each.refund_id: each.credit_bonus for each in view.refunds}
    moved: Counter[str] = Counter()
    entries: Counter[tuple[str, str]] = Counter()
    for entry in view.entries:
        if not entry.ours:
            continue
        request = entry.request
        entries[request.refund_id, request.payment_id] += entry.state != "unfunded"
        moved[request.payment_id] += request.amount.minor if entry.moved else 0
        row = rows[request.refund_id, request.payment_id]
        assert row.amount_minor == request.amount.minor
        is_credit = bonus[request.refund_id] is not None
        assert (request.credit is not None) == is_credit, "money and store credit"
        assert row.state != "refused" or not entry.moved
    for payment_id, minor in moved.items():
        assert minor <= view.paid[payment_id], f"{payment_id} gave back {minor}"
    assert all(count <= 1 for count in entries.values()), "a refund has two entries at the bank"
    made = {each.reference: each for each in view.entries}
    for row in view.payments:
        if row.state == "done":
            entry = made[row.reference]
            assert entry.request.amount.minor == row.amount_minor
            agree = entry.moved == (row.returned_at is None)
            assert agree or row.reference in view.untold
    elsewhere = Counter[str]()
    for entry in view.entries:
        if entry.moved and not entry.ours and entry.reference not in view.untold:
            elsewhere[entry.request.order_id] += entry.request.amount.minor
    assert elsewhere == Counter(view.external) or view.untold
    for refund in view.refunds:
        mine = [row for row in view.payments if row.refund_id == refund.refund_id]
        assert sum(row.amount_minor for row in mine) in (0, refund.amount.minor)
        if refund.status is RefundStatus.PAID:
            made_of = [made[row.reference].request for row in mine if row.reference in made]
            given = sum(each.credit.minor for each in made_of if each.credit)
            credit = credit_of(refund)
            assert given == (credit.minor if credit else 0)
            assert mine
            assert all(row.state == "done" and row.returned_at is None for row in mine)


def check_decisions(view: View, limits: Mapping[str, int], four_eyes: Mapping[str, int]) -> None:
    """Nothing is due without the decisions its amount needs, nor told as paid without being so."""
    unasked: Counter[str] = Counter()
    instead_of = {each.refund_id: each.instead_of for each in view.offers if each.refund_id}
    for refund in view.refunds:
        if refund.status not in DUE:
            came_back = any(
                row.returned_at for row in view.payments if row.refund_id == refund.refund_id
            )
            assert came_back or "receipt" not in view.told[refund.refund_id]
            continue
        currency, asked = refund.amount.currency, asked_for(refund)
        # A manager's offer is paid by the decision on the refund in whose place it was made.
        signed = view.signatures[instead_of.get(refund.refund_id) or refund.refund_id]
        assert len(set(signed)) == len(signed)
        if not signed:
            unasked[refund.order_id] += refund.amount.minor
            assert asked <= limits.get(currency, 0)
        if asked > four_eyes.get(currency, asked):
            assert len(signed) == 2, f"{refund} was signed by {signed}"
        if refund.status is not RefundStatus.PAID:
            assert "receipt" not in view.told[refund.refund_id]
    for order in view.orders:
        assert unasked[order.order_id] <= limits.get(order.currency, 0)


def check_conditions(view: View) -> None:
    """Nothing is asked of the bank before what it waits for is done. Of an offer no more is refunded than was
    offered; an order has one open offer."""
    by_id, asked = (
        {each.refund_id: each for each in view.refunds},
        {row.refund_id for row in view.payments},
    )
    for remedy in view.remedies:
        if remedy.refund_id is None:
            continue
        assert remedy.status is RemedyStatus.DONE or remedy.refund_id not in asked, remedy
        ended = not remedy.is_open and remedy.status is not RemedyStatus.DONE
        assert not ended or by_id[remedy.refund_id].status not in DUE, remedy
    for offer in view.offers:
        if offer.refund_id is not None:
            assert by_id[offer.refund_id].amount.minor <= offer.amount.minor
    still_open = Counter(each.order_id for each in view.offers if each.status is OfferStatus.OPEN)
    assert all(count <= 1 for count in still_open.values())


def check_goods(view: View, bought: Mapping[str, Order]) -> None:
    """Unless a manager decided so, no unit is sent again and also refunded, nor sent again twice. `bought`: the
    orders as they were bought, by id."""
    given = {order_id: Counter[str]() for order_id in bought}
    for refund in view.refunds:
        unasked = not view.signatures[refund.refund_id] and not refund.keeps_items
        if unasked and refund.status is RefundStatus.PAID:
            given[refund.order_id].update(goods_of(refund))
    for remedy in view.remedies:
        is_sent = remedy.kind in SENT_AGAIN and remedy.status is RemedyStatus.DONE
        if is_sent and not remedy.needs_manager:
            given[remedy.order_id].update(remedy.units)
    for order_id, units in given.items():
        assert units <= bought[order_id].units, f"{units} of {order_id} were given"


def check_settled(view: View) -> None:
    """Everything is at its end and all words were heard: our rows say what the bank says, and each
    customer was told once."""
    moved: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    for entry in view.entries:
        assert entry.state != "pending"
        if entry.moved and entry.ours:
            moved[entry.request.refund_id] += entry.request.amount.minor
        elif entry.moved:
            elsewhere[entry.request.order_id] += entry.request.amount.minor
    assert elsewhere == Counter(view.external)
    for refund in view.refunds:
        assert refund.status is not RefundStatus.APPROVED
        paid = refund.amount.minor if refund.status is RefundStatus.PAID else 0
        if refund.part_paid is not None:
            paid = refund.part_paid.minor
        assert moved[refund.refund_id] == paid
        told = Counter(view.told[refund.refund_id])
        assert told["receipt"] <= 1
        if refund.status is RefundStatus.PAID:
            assert told["receipt"] == 1 or refund.receipt_id is not None  # it shares another's


def goods_of(refund: Refund) -> Counter[str]:
    """Return how many units of each item it pays for. The rest of a price has no goods of its own."""
    goods = Counter[str]()
    for item_id, line in zip(refund.item_ids, refund.lines, strict=True):
        goods[item_id] += 0 if line.is_rest else line.quantity
    return goods


def asked_for(refund: Refund) -> int:
    """What was asked for, whatever was approved, in minor units: all of it, or what was left."""
    whole = sum(line.amount.minor for line in refund.lines) + refund.shipping_minor
    return whole - refund.short_minor
