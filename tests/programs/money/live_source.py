"""The machine of a shop whose orders are in a system of its own (ORDER_SOURCE=http).

The promise: a run asks the bank only after a look-up of its own, and for no more than that look-up left of the
order: what was paid, less what was given back without us and what we gave back. A change after the look-up may
come too late.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from mailagent import services
from mailagent.adapters.order_sources.http.provider import Http
from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.domain.operations.provider import Provider, ProviderKind
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.payment import PaymentOutcome, RefundRequest
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.remedies.remedy import RemedyKind
from mailagent.domain.text import NeedsOperatorError
from mailagent.store import schema
from mailagent.store.mail import conversations
from mailagent.store.refunds import stops
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.conversation import orders as conversation_orders
from mailagent.workflows.steps.refund import order_check
from mailagent.workflows.tools import registry
from tests.order_server import TOKEN
from tests.programs.money import shop
from tests.programs.money.machine import HAPPENS, MOST_ORDERS, Draw, MoneyMachine, Thread
from tests.programs.money.purchases import purchases

look_up_orders: Callable[[Any], Any] = inspect.unwrap(conversation_orders.look_up_orders)

# What happens more often here.
HAPPENS_TOO = (*["run", "pay_again"] * 8, *["change_order", "cancel", "lose_parcel"] * 3)
BANK = Provider(ProviderKind.GATEWAY, "bank", "The bank", "")
RARELY = st.sampled_from([False, False, True])


class SourceMachine(MoneyMachine):
    """Orders change in the shop's system at any moment. That system also cancels."""

    incidents: ClassVar = (*MoneyMachine.incidents, "change")
    after_look_up: tuple[
        str, str, int
    ]  # the change that the shop makes between look-up and payment

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.shop = shop.LiveShop(self.bank, lambda: self.clock)
        self.shop.start()
        self.ask_bank, self.bank.refund = self.bank.refund, self.refund_by_bank  # type: ignore[method-assign]
        with self.live.database.transaction() as connection:
            connection.execute(schema.breakers.delete())  # of earlier stories
        orders = Provider(ProviderKind.ORDERS, Http.name, Http.title, Http.key_setting)
        self.harness.live = replace(
            self.live,
            order_source=HttpOrderSource(self.shop.url, TOKEN),
            providers=replace(self.live.providers, gateway=BANK, orders=orders),
        )
        services.bind(self.live)

    @initialize(data=st.data(), bought=purchases(), shop=st.tuples(*[st.booleans()] * 3, RARELY))
    def ada_buys_and_writes(
        self, data: st.DataObject, bought: dict[str, Any], shop: tuple[bool, ...]
    ) -> None:
        self.bank.remote, self.shop.lags, self.shop.refunds_itself, sends_anyway = shop
        self.shop.sends_anyway = sends_anyway
        super().ada_buys_and_writes(bought)
        self.ask_anew(data.draw)

    def ask_anew(self, draw: Draw) -> None:
        """Ada buys something, and wants all her money back; what was not sent yet, she cancels. Both managers
        approve. Without this, few stories come to a payment that is tried again."""
        is_sent = not self.shop.sends_anyway and draw(st.sampled_from([True, True, False]))
        status = OrderStatus.DELIVERED if is_sent else OrderStatus.PENDING
        order = self.buy(draw(purchases()) | {"status": status, "shipments": ()}, self.ada)
        items = [{"item_id": each, "quantity": None} for each in sorted(order.units)]
        wish: dict[str, Any] = {"order_id": order.order_id, "items": items}
        why = {"reason": "not_as_described", "pay_as": "money"}
        tool, wish = ("propose_refund", wish | why) if is_sent else ("cancel_order", wish)
        if not is_sent and draw(st.booleans()):
            wish["items"] = []  # the whole order
        self.call(self.threads[0], tool, json.dumps(wish), again=False)
        self.approve(order.order_id)

    @rule(data=st.data(), what=st.sampled_from(HAPPENS + HAPPENS_TOO))
    def happens(self, data: st.DataObject, what: str) -> None:
        draw: Draw = data.draw
        self.shop.moods = draw(st.lists(st.sampled_from(shop.MOODS), max_size=4))
        self.after_look_up = self.some_change(draw)
        try:
            getattr(self, f"_{what}")(draw)
        finally:
            self.shop.moods = []

    # --- what the shop does -------------------------------------------------------------------

    def stock(self, order: Order) -> None:
        self.shop.sell(order)
        order_source.save([order], before={})

    def some_change(self, draw: Draw) -> tuple[str, str, int]:
        due = [refund.order_id for refund in self.with_status(RefundStatus.APPROVED)]
        order_id = draw(st.sampled_from(due * 3 + sorted(self.orders)))
        return order_id, draw(st.sampled_from(shop.CHANGES)), draw(st.sampled_from([1, 1, 2]))

    def change(self, order_id: str, change: str, share: int) -> None:
        self.shop.happen(order_id, change, share)
        self.seen[f"orders {change}"] += 1

    def _change_order(self, draw: Draw) -> None:
        self.change(*self.some_change(draw))

    def meet(self, kind: str, refund_id: str) -> None:
        if kind == "change":
            self.change(*self.after_look_up)
        else:
            super().meet(kind, refund_id)

    # --- what runs do -------------------------------------------------------------------------

    def write(self, who: str) -> None:
        threads = len(self.threads)
        super().write(who)
        if len(self.threads) > threads and who != "forger":
            look_up_orders(self.threads[-1].batch)

    def use(self, thread: Thread, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        batch, order_use = thread.batch, registry.order_use(name)
        with self.live.database.snapshot() as connection:
            conversation = conversations.load(connection, batch["conversation_id"])
        found = conversation_orders.look_up_for(order_use, batch, conversation, arguments)
        if found in (Freshness.FRESH, Freshness.ABSENT):
            return super().use(thread, name, arguments)
        return {"error": f"the order is {found.value}"}

    def pay(self, refund_id: str) -> None:
        """Pay a refund: what another run was told does not count."""
        outer, self.shop.told = self.shop.told, {}
        try:
            super().pay(refund_id)
        finally:
            self.shop.told = outer

    def _pay_again(self, draw: Draw) -> None:
        """The bank does not pay at first, and the shop changes the order meanwhile."""
        self.shop.moods = []
        if not self.with_status(RefundStatus.APPROVED) and len(self.orders) < MOST_ORDERS:
            self.ask_anew(draw)
        due = self.with_status(RefundStatus.APPROVED)
        if not due:
            return
        refund, change = draw(st.sampled_from(due)), draw(st.sampled_from(shop.CHANGES))
        self.bank.moods = [draw(st.sampled_from(["busy", "lost before", "lost after"]))]
        with contextlib.suppress(NeedsOperatorError):
            self.pay(refund.refund_id)
            self.change(refund.order_id, change, 1)
            self.bank.moods = []
            self.pay(refund.refund_id)
        self.bank.moods = []

    def refund_by_bank(self, request: RefundRequest) -> PaymentOutcome:
        """Ask the bank, and note it if money moved that the look-up did not leave."""
        refund = self.refund(request.refund_id)
        mine = [each for each in self.view().remedies if each.refund_id == request.refund_id]
        cancelled = next((each for each in mine if each.is_done_cancellation), None)
        wrong = self.shop.find_wrong(request, refund.despite_cancel, cancelled)
        before = len(self.bank.entries)
        outcome = self.ask_bank(request)
        if wrong and len(self.bank.entries) > before and self.bank.entries[-1].moved:
            self.wrong.append(wrong)
        return outcome

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def nothing_is_paid_beyond_the_last_look_up(self) -> None:
        assert not self.wrong, self.wrong

    @invariant()
    def the_shop_and_we_do_not_both_refund_a_cancellation(self) -> None:
        paid = {each.request.refund_id for each in self.bank.entries if each.moved and each.ours}
        for remedy in self.view().remedies:
            if remedy.kind is RemedyKind.CANCEL and remedy.remedy_id in self.shop.gave_back:
                assert remedy.refund_id not in paid, f"{remedy} was refunded twice"

    def teardown(self) -> None:
        try:
            self.shop.lags = False
            for refund in self.with_status(RefundStatus.APPROVED):
                self.pay_at_last(
                    refund.refund_id
                )  # the shop's system cancels what it was asked for
        finally:
            super().teardown()
            self.nothing_is_paid_beyond_the_last_look_up()
            self.the_shop_and_we_do_not_both_refund_a_cancellation()
            self.count()
            self.shop.stop()

    def count(self) -> None:
        """Count what only a shop with a system of its own sees."""
        view, cancelled = self.view(), self.shop.cancelled_under
        self.seen["cancelled by the shop's system"] += len(cancelled)
        self.seen["cancellations that the shop refunded"] += len(self.shop.gave_back)
        self.seen["payments asked for again"] += sum(row.attempts > 1 for row in view.payments)
        paid = {each.refund_id for each in view.refunds if each.status is RefundStatus.PAID}
        by_shop = {each.refund_id for each in view.remedies if each.remedy_id in cancelled}
        self.seen["refunds paid after the shop cancelled"] += len(paid & by_shop)
        for refund in view.refunds:
            for why in (*stops.STOPS, *order_check.STOPS):
                if why in (refund.failure or ""):
                    self.seen[f"refunds stopped: {why}"] += 1

    def pay_at_last(self, refund_id: str) -> None:
        self.clock += timedelta(minutes=10)  # no circuit breaker is open any more
        try:
            self.pay(refund_id)
        except NeedsOperatorError:
            self.seen["replays of what failed"] += 1
