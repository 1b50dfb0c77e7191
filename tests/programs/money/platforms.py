"""Shop platforms as the bank of the state machine: our gateways ask them over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mailagent.adapters.platforms.records import key_in
from mailagent.adapters.shopify.client import ShopifyClient
from mailagent.adapters.shopify.gateway import ShopifyGateway
from mailagent.adapters.shopify.orders import payment_id_of as shopify_id
from mailagent.adapters.woocommerce.client import WooCommerceClient
from mailagent.adapters.woocommerce.gateway import WooCommerceGateway
from mailagent.adapters.woocommerce.orders import payment_id_of as woocommerce_id
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.money import Money, parse_money
from mailagent.domain.refunds.order import Order, Payment
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    PaymentGateway,
    PaymentOutcome,
    RefundRequest,
    refund_id_of,
)
from tests.platforms import shopify_server, woocommerce_server
from tests.platforms.shopify_server import ShopifyServer
from tests.platforms.woocommerce_server import WooCommerceServer
from tests.programs.money.bank import KEYS_KEPT, Bank, Entry

_NO = "the payment gateway refuses"


class PlatformBank(Bank):
    """A bank whose books are kept by a platform."""

    gateway: PaymentGateway

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        if not self.gateway.is_remote(request):
            return super().refund(request)  # the shop gives it, as store credit
        self._prepare(self._mood())
        try:
            return self.gateway.refund(request)
        finally:
            self._prepare("well")
            self._enter_made()

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        if not self.gateway.is_remote(request):
            return super().look_up(request)
        self._lose_answer(self._mood() in ("lost before", "lost after"))
        try:
            return self.gateway.look_up(request)
        finally:
            self._lose_answer(False)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        return self.gateway.list_refunds(payment_id)

    def _prepare(self, mood: str) -> None:
        """Let the platform be in this mood at the next refund."""
        raise NotImplementedError

    def _lose_answer(self, lost: bool) -> None:
        raise NotImplementedError

    def _enter_made(self) -> None:
        """Enter what the platform has made."""
        raise NotImplementedError

    def _request(
        self, note: str | None, order_id: str, payment_id: str, amount: Money
    ) -> RefundRequest:
        key = key_in(note) or ""
        ours = order_id if key else ""
        return RefundRequest(key, refund_id_of(key), ours or order_id, payment_id, amount)


@dataclass
class ShopifyEntry(Entry):
    """A refund in Shopify. It knows no failure that is final: another refund may be made."""

    made: dict[str, Any] = field(default_factory=dict)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state":
            value = "unfunded" if value == "failed" else value
            if "made" in self.__dict__:
                self.made["status"] = _STATUS[value]
        super().__setattr__(name, value)


_STATUS = {"succeeded": "SUCCESS", "pending": "PENDING", "unfunded": "FAILURE"}
_STATE = {status: state for state, status in _STATUS.items()}


class ShopifyBank(PlatformBank):
    name = "shopify"

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.server = ShopifyServer()
        self.gateway = ShopifyGateway(ShopifyClient(self.server.url, shopify_server.TOKEN), 60)
        self._keys_since = now()

    def close(self) -> None:
        self.server.stop()

    def restocked(self) -> Counter[str]:
        found = Counter[str]()
        for (item_id, _), units in self.server.in_stock.items():
            found[item_id] += units
        return found

    def open_order(self, order: Order) -> Order:
        self.server.stock(order)
        named = zip(order.payments, self.server.payment_ids(order.order_id), strict=True)
        payments = tuple(replace(each, payment_id=name) for each, name in named)
        self.paid.update((each.payment_id, each.amount.minor) for each in payments)
        return replace(order, payments=payments)

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        if self._now() - self._keys_since >= KEYS_KEPT:
            self.server.forget_keys()
            self._keys_since = self._now()
        return super().refund(request)

    def refund_elsewhere(self, order: Order, payment: Payment, share: int) -> Entry | None:
        paid = self.server.node(payment.payment_id)
        amount = Money(self.server.left(paid) // share, order.currency)
        if amount.minor <= 0:
            return None
        self.server.refund_of(paid, amount)
        self._enter_made()
        return self.entries[-1]

    def _prepare(self, mood: str) -> None:
        faults = {
            "busy": shopify_server.throttled,
            "lost before": shopify_server.lost_before,
            "lost after": shopify_server.lost_after,
        }
        self.server.refund_faults = [faults[mood]] if mood in faults else []
        self.server.statuses = {"slow": ["PENDING"], "unfunded": ["FAILURE"]}.get(mood, [])
        self.server.refusal = _NO if mood in ("no balance", "refused") else None

    def _lose_answer(self, lost: bool) -> None:
        self.server.faults = [Answer(500)] if lost else []

    def _enter_made(self) -> None:
        known = {each.reference for each in self.entries}
        for order in self.server.orders.values():
            for refund in order["refunds"].all:
                for made in refund["transactions"].all:
                    if shopify_id(made["id"]) not in known:
                        self._enter_one(order, refund["note"], made)

    def _enter_one(self, order: dict[str, Any], note: str | None, made: dict[str, Any]) -> None:
        money = made["amountSet"]["presentmentMoney"]
        amount = parse_money(money["amount"], money["currencyCode"])
        paid = shopify_id(made["parentTransaction"]["id"])
        request = self._request(note, order["name"], paid, amount)
        reference, state = shopify_id(made["id"]), _STATE[made["status"]]
        self.entries.append(ShopifyEntry(request, reference, state, self._now(), self.name, made))


@dataclass
class WooCommerceEntry(Entry):
    """A refund in WooCommerce. One that WordPress died of is pending, until a person has looked at the payment
    provider: then it is marked as paid, or deleted."""

    made: dict[str, Any] = field(default_factory=dict)
    forget: Callable[[], None] = lambda: None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state" and "made" in self.__dict__:
            self.made["refunded_payment"] = value == "succeeded"
            if value != "succeeded":
                self.forget()
                value = "unfunded"
        super().__setattr__(name, value)


class WooCommerceBank(PlatformBank):
    name = "woocommerce"
    takes_back = False

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.server = WooCommerceServer()
        client = WooCommerceClient(self.server.url, woocommerce_server.TOKEN)
        self.gateway = WooCommerceGateway(client)

    def restocked(self) -> Counter[str]:
        return self.server.in_stock

    def close(self) -> None:
        self.server.stop()
        assert self.server.wrong_requests == []

    def tells_of(self, entry: Entry) -> bool:
        return not entry.ours

    def open_order(self, order: Order) -> Order:
        """Open an order with one payment: WooCommerce has no second one."""
        self.server.stock(order)
        fields = self.server.numbered(order.order_id)
        fields["total"] = order.paid.decimal()
        payment_id = self.server.payment_id(order.order_id)
        one = replace(order.payments[0], payment_id=payment_id, amount=order.paid)
        self.paid[payment_id] = order.paid.minor
        return replace(order, payments=(one,))

    def refund_elsewhere(self, order: Order, payment: Payment, share: int) -> Entry | None:
        amount = Money(
            self.server.left(self.server.numbered(order.order_id)) // share, order.currency
        )
        if amount.minor <= 0:
            return None
        self.server.refund_in_admin(order.order_id, amount.decimal())
        self._enter_made()
        return self.entries[-1]

    def _prepare(self, mood: str) -> None:
        faults = {
            "busy": woocommerce_server.limited,
            "lost before": woocommerce_server.lost_before,
            "lost after": woocommerce_server.lost_after,
        }
        self.server.refund_faults = [faults[mood]] if mood in faults else []
        self.server.plugin_dies = mood == "slow"
        fails = mood in ("no balance", "refused", "unfunded")
        self.server.plugin_failure = _NO if fails else None

    def _lose_answer(self, lost: bool) -> None:
        self.server.faults = [Answer(500)] if lost else []

    def _enter_made(self) -> None:
        known = {each.reference for each in self.entries}
        for post_id, found in self.server.refunds.items():
            for made in found:
                if woocommerce_id(made["id"]) not in known:
                    self._enter_one(self.server.orders[post_id], made)

    def _enter_one(self, order: dict[str, Any], made: dict[str, Any]) -> None:
        amount = parse_money(made["amount"], order["currency"])
        payment_id = woocommerce_id(order["id"])
        request = self._request(made["reason"], order["number"], payment_id, amount)
        paid = made["refunded_payment"] or not request.refund_id
        state, reference = "succeeded" if paid else "pending", woocommerce_id(made["id"])

        def forget() -> None:
            self.server.delete(order, made)

        entry = WooCommerceEntry(request, reference, state, self._now(), self.name, made, forget)
        self.entries.append(entry)


BANKS: dict[str, Callable[[Callable[[], datetime]], Bank]] = {
    "bank": Bank,
    "shopify": ShopifyBank,
    "woocommerce": WooCommerceBank,
}
