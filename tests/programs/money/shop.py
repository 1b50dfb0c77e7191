"""A shop's own order server for the state machine. Its people change orders at any moment, it is away, and it
loses answers. It keeps the contract of docs/orders.md: a record has all refunds of a payment, also ours.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from mailagent.adapters.order_files.record import render_order
from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderStatus, Payment
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.remedies.remedy import Remedy
from mailagent.store.refunds.order_import import RECORD_LAGS
from tests.order_server import OrderServer
from tests.programs.money.bank import Bank, Entry
from tests.programs.money.purchases import parcel

# What may happen to one request, in the order in which examples get harder.
MOODS = ("well", "well", "well", "away", "lost")
# What the shop's people may do to an order.
CHANGES = (
    *["delivered", "refunded", "refunded", "refunded"],
    *["handed over", "cancelled", "cancelled and refunded"],
    *["items removed", "amount lowered", "refund taken back", "sent after all"],
)


@dataclass(frozen=True)
class Told:
    """What a look-up said of an order. `elsewhere`: what its record shows beyond what we gave back, in minor
    units; `lacks_units`: it has not all units that were bought."""

    status: OrderStatus
    paid: int
    elsewhere: int
    was_sent: bool
    lacks_units: bool


class LiveShop(OrderServer):
    """The order server of one story. `orders` are as they truly are; their `refunded_minor` is what the shop
    gave back beside the bank. `told`: the last look-up of each order, none if the last one failed. `lags`: a
    refund at the bank reaches the records after RECORD_LAGS. `refunds_itself`: with a cancellation, the shop
    gives the money back itself; `gave_back` has the keys of those. `sends_anyway`: it sends what it has just
    cancelled."""

    def __init__(self, bank: Bank, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._bank = bank
        self._now = now
        self.orders: dict[str, Order] = {}
        self._bought: dict[str, Order] = {}
        self.moods: list[str] = []
        self.told: dict[str, Told] = {}
        self.lags = False
        self.refunds_itself = self.sends_anyway = False
        self.gave_back: set[str] = set()

    # --- what its people do -------------------------------------------------------------------

    def sell(self, order: Order) -> None:
        self.orders[order.order_id] = self._bought[order.order_id] = order

    def happen(self, order_id: str, change: str, share: int) -> None:
        """Change an order as `CHANGES` names it. `share`: 1 for all that is left, 2 for half of it."""
        order = self.orders[order_id]
        match change:
            case "delivered" | "cancelled":
                order = replace(order, status=OrderStatus(change))
            case "handed over":
                parcels = (parcel(self._now()),)
                order = replace(order, status=OrderStatus.SHIPPED, shipments=parcels)
            case "sent after all":  # with the units that were cancelled
                again, parcels = self._bought[order_id], (parcel(self._now()),)
                order = replace(order, status=OrderStatus.SHIPPED, shipments=parcels)
                order = replace(order, lines=again.lines, discount_minor=again.discount_minor)
            case "refunded":
                order = self._give_back(order, self._left(order) // share)
            case "cancelled and refunded":
                order = self._give_back(order, self._left(order))
                order = replace(order, status=OrderStatus.CANCELLED)
            case "refund taken back":
                payments = tuple(replace(each, refunded_minor=0) for each in order.payments)
                order = replace(order, payments=payments)
            case "items removed":
                order = _without(order, Counter({order.lines[-1].item_id: share})) or order
            case "amount lowered":
                *others, last = order.payments
                lower = Money(last.amount.minor // (share + 1), order.currency)
                order = replace(order, payments=(*others, replace(last, amount=lower)))
        self.orders[order_id] = order

    def _give_back(self, order: Order, minor: int) -> Order:
        payments = []
        for each in order.payments:
            part = min(minor, self._left_of(each))
            payments.append(replace(each, refunded_minor=each.refunded_minor + part))
            minor -= part
        return replace(order, payments=tuple(payments))

    def _left(self, order: Order) -> int:
        return sum(map(self._left_of, order.payments))

    def _left_of(self, payment: Payment) -> int:
        moved = sum(e.request.amount.minor for e in self._moved(payment.payment_id))
        return max(0, payment.amount.minor - payment.refunded_minor - moved)

    def _moved(self, payment_id: str) -> list[Entry]:
        moved = [each for each in self._bank.entries if each.moved]
        return [each for each in moved if each.request.payment_id == payment_id]

    # --- what it answers ----------------------------------------------------------------------

    def _answer(self, request: Request) -> Answer:
        mood = self.moods.pop(0) if self.moods else "well"
        order_id = request.path.removeprefix("/orders/")
        self.told.pop(order_id, None)
        if mood == "away":
            return Answer(503)
        self.records = {each: render_order(self._shown(each)) for each in self.orders}
        answer = super()._answer(request)
        if mood == "lost":
            return Answer(502)
        if order_id in self.orders:
            self.told[order_id] = self._tell(order_id)
        return answer

    def _shown(self, order_id: str) -> Order:
        """Return an order as its record shows it: with the refunds that the shop has heard of."""
        order = self.orders[order_id]
        return replace(order, payments=tuple(map(self._with_refunds, order.payments)))

    def _with_refunds(self, payment: Payment) -> Payment:
        known = sum(each.request.amount.minor for each in self._known(payment.payment_id))
        refunded = payment.refunded_minor + known
        amount = Money(max(payment.amount.minor, refunded), payment.amount.currency)
        return replace(payment, amount=amount, refunded_minor=refunded)

    def _known(self, payment_id: str) -> list[Entry]:
        found, now = self._moved(payment_id), self._now()
        return [each for each in found if not self.lags or now - each.made_at >= RECORD_LAGS]

    def _tell(self, order_id: str) -> Told:
        order = self._shown(order_id)
        elsewhere = (each.refunded_minor - self._ours(each.payment_id) for each in order.payments)
        more = sum(max(0, minor) for minor in elsewhere)
        lacks_units = bool(self._bought[order_id].units - order.units)
        return Told(order.status, order.paid.minor, more, order.was_sent, lacks_units)

    def _ours(self, payment_id: str) -> int:
        return sum(e.request.amount.minor for e in self._moved(payment_id) if e.ours)

    def _cancel(self, order_id: str, key: str, request: Request) -> Answer:
        order = self.orders[order_id]
        if key not in self._cancelled:
            if order.status is not OrderStatus.PENDING:
                return Answer(409, {"reason": order.status.value})
            wanted = json.loads(request.body)["items"] or []
            units = Counter({each["item_id"]: each["quantity"] for each in wanted})
            left = _without(order, units) if wanted else None
            worth = sum(line.net_minor for line in order.lines)
            if left is not None:
                worth -= sum(line.net_minor for line in left.lines)
            before = order
            order = left or replace(order, status=OrderStatus.CANCELLED)
            if self.refunds_itself:
                order = self._give_back(order, self._left(order) if left is None else worth)
            if order.payments != before.payments:
                self.gave_back.add(key)
            self.orders[order_id], self._cancelled[key] = order, {"order_id": order_id}
            said = render_order(self._shown(order_id))
            if self.sends_anyway:
                self.happen(order_id, "sent after all", 1)
            return Answer(200, said)
        return Answer(200, render_order(self._shown(order_id)))

    # --- what must hold -----------------------------------------------------------------------

    def find_wrong(
        self, request: RefundRequest, despite_cancel: bool, cancelled: Remedy | None
    ) -> str | None:
        """Return why the bank must not be asked for a refund of ours, as the run's last look-up says; None if
        it may. `cancelled`: the done cancellation that it is for."""
        told = self.told.get(request.order_id)
        if told is None:
            return f"{request} follows no look-up"
        if told.status is OrderStatus.CANCELLED and not despite_cancel:
            return f"{request} is for an order that was cancelled"
        if cancelled and told.was_sent and not (cancelled.items and told.lacks_units):
            return f"{request} is for what was cancelled, and was sent after all"
        entries = [each for each in self._bank.entries if each.moved and each.ours]
        same = [each for each in entries if each.request.order_id == request.order_id]
        left = told.paid - told.elsewhere - sum(each.request.amount.minor for each in same)
        return None if request.amount.minor <= left else f"{request} is above the {left} left"


def _without(order: Order, units: Counter[str]) -> Order | None:
    """Return an order without some units; None if nothing of it is left."""
    gone, lines = Counter(units), []
    for line in order.lines:
        fewer = min(gone[line.item_id], line.quantity)
        gone[line.item_id] -= fewer
        quantity = line.quantity - fewer
        discount = line.discount_minor * quantity // line.quantity
        if quantity:
            lines.append(replace(line, quantity=quantity, discount_minor=discount))
    if not lines:
        return None
    goods = sum(line.net_minor for line in lines)
    return replace(order, lines=tuple(lines), discount_minor=min(order.discount_minor, goods))
