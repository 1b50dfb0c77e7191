"""Everything that can happen to a shop's money, in any order: the rules and what must hold after each.

A run of the refund workflow is played by its steps, from the start each time: that forgets more than
any crash does. Deaths are at the marks of `pay_refund`; a rival is a second run of the same refund that
overtakes the first one there.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from mailagent import payment_events, services
from mailagent.domain.mail.conversation import DAY, Limits
from mailagent.domain.money import Money
from mailagent.domain.refunds.offer import OfferStatus
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import (
    Goodwill,
    KeepOffers,
    LateParcels,
    Policy,
    ReturnFirst,
    StoreCredit,
    needs_two,
)
from mailagent.domain.refunds.refund import Refund, RefundReason, RefundStatus
from mailagent.domain.remedies.remedy import (
    SENT_AGAIN,
    Remedy,
    RemedyStatus,
    TaskProblem,
)
from mailagent.domain.text import NeedsOperatorError
from mailagent.remedies import finish
from mailagent.services import Services
from mailagent.store import audit
from mailagent.store.refunds import (
    approvals,
    order_import,
    orders,
    refund_payments,
    refunds,
    remedies,
)
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader, take_batch
from mailagent.workflows.steps.maintenance.housekeeping import expire_offers
from mailagent.workflows.steps.maintenance.tasks import see_to
from mailagent.workflows.steps.recording import watch
from mailagent.workflows.steps.refund import decision as outcome
from mailagent.workflows.steps.refund import decision as refund_decision
from mailagent.workflows.steps.refund import payment as refund_payment
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.hand_over import HandOver
from mailagent.workflows.tools.tool import Misfit
from tests.cast import MAX, MONA
from tests.harness import Harness
from tests.programs.money import books, wishes
from tests.programs.money.bank import MOODS, Bank, Entry
from tests.programs.money.purchases import ITEMS, one_thing, parcel, purchases
from tests.told import record_told
from tests.tool_calls import WITH_CREDIT, parse
from tests.web.questions import hidden_fields

LIMITS = {"USD": 150_00, "JPY": 15_000}
FOUR_EYES = {"USD": 250_00, "JPY": 25_000}
PAID_UNASKED = Money(90_00, "USD")
ASKS_ONE_MANAGER = Money(210_00, "USD")
MIND = frozenset({RefundReason.CHANGED_MIND})
LOST_AFTER = timedelta(days=7)
LATE = LateParcels(ask_after_days=5, refund_after_days=LOST_AFTER.days)
START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MOST_ORDERS = 12
MOST_MAILS = 16

# The steps themselves, without a run around them.
look: Callable[[str], Any] = inspect.unwrap(refund_decision.look_at_decision)
pay: Callable[[str], Any] = inspect.unwrap(refund_payment.pay_refund)
tell: Callable[[str], Any] = inspect.unwrap(outcome.tell_customer)

# What happens next, the likelier the more often it stands here.
HAPPENS = (
    *["ask_for_refund", "run", "decide", "ask_for_goods", "end_remedy"] * 4,
    *["call_tool", "wait", "settle", "cancel", "accept_offer", "lose_parcel", "send_back"] * 2,
    *["write_more", "buy_more", "change_order", "come_back", "refund_elsewhere"],
    *["cancel_in_time", "move_house", "take_credit", "keep_for_less", "bargain", "lose_parcel"],
    *["keep_for_less", "lose_parcel", "send_back"],
)

Draw = Callable[[st.SearchStrategy[Any]], Any]


_worlds = itertools.count(1)


def ids(view: books.View) -> list[str]:
    return [refund.refund_id for refund in view.refunds]


class DeathError(BaseException):
    """The process is gone: nothing after this point happened."""


@dataclass(frozen=True)
class Thread:
    """A conversation: who seems to write, and the mail that waits in it."""

    email: str
    proven: bool
    batch: Batch


class MoneyMachine(RuleBasedStateMachine):
    """One shop's customers Ada and Bob, a forger of Ada, two managers, a bank and a model."""

    harness: Harness  # set by the test: one shop for all examples, each with customers of its own
    seen: ClassVar[Counter[str]] = Counter()  # how much happened
    open_bank: ClassVar[Callable[[Callable[[], datetime]], Bank]] = Bank
    incidents: ClassVar[tuple[str, ...]] = ("none", "death", "rival")  # what meets a run at a mark

    def __init__(self) -> None:
        super().__init__()
        self.world = next(_worlds)
        self.clock = START
        self.bank = type(self).open_bank(lambda: self.clock)
        self.words = 0
        self.untold: set[str] = set()  # references of which the bank's last word has not arrived
        self.orders: dict[str, Order] = {}  # as they were bought
        self.threads: list[Thread] = []
        self.mails = 0
        self.forged_at: datetime | None = None  # when the forger's last mail was let in
        self.lost: set[str] = set()  # refunds that the policy approved because a parcel never came
        self.ada, self.bob = f"ada{self.world}@example.com", f"bob{self.world}@example.org"
        policy = Policy(
            limits=LIMITS,
            four_eyes_above=FOUR_EYES,
            return_window_days=365,
            goodwill=Goodwill(most_percent=20),
            keep_offers=KeepOffers({RefundReason.DAMAGED: 30}),
            return_first=ReturnFirst(MIND, "Send it back.", restock_reasons=MIND),
            store_credit=StoreCredit(10),
            late_parcels=LATE,
        )
        self.before = self.harness.live
        self.harness.live = replace(
            self.before,
            gateway=self.bank,
            policy=policy,
            now=lambda: self.clock,
            limits=Limits(mails_per_hour=10**6),  # all stories have the same hour and domain
        )
        services.bind(self.harness.live)

    @property
    def live(self) -> Services:
        return self.harness.live

    @initialize(bought=purchases())
    def ada_buys_and_writes(self, bought: dict[str, Any]) -> None:
        self.buy(bought, self.ada)
        self.write("ada")

    # One rule for all: Hypothesis leaves some rules out of each story, and then few come to money.
    @rule(data=st.data(), what=st.sampled_from(HAPPENS))
    def happens(self, data: st.DataObject, what: str) -> None:
        draw: Draw = data.draw
        getattr(self, f"_{what}")(draw)

    # --- what people do -----------------------------------------------------------------------

    def _buy_more(self, draw: Draw) -> None:
        if len(self.orders) < 5:
            self.buy(draw(purchases()), draw(st.sampled_from([self.ada, self.bob])))

    def buy(self, bought: dict[str, Any], email: str) -> Order:
        order_id = f"W{self.world}-{len(self.orders) + 1}"
        bought_order = Order(order_id=order_id, customer_email=email, **bought)
        order = self.bank.open_order(bought_order)
        self.stock(order)
        with self.live.database.transaction() as connection:  # before any mail of theirs
            offer: dict[str, Any] = {"percent": 10, "units": dict(order.units)}
            record_told(connection, audit.CREDIT_OFFERED, order_id, self.clock - DAY, **offer)
        self.orders[order_id] = order
        return order

    def stock(self, order: Order) -> None:
        self.harness.stock(order)

    def _write_more(self, draw: Draw) -> None:
        if self.mails < 6:
            self.write(draw(st.sampled_from(["ada", "bob", "forger"])))

    def write(self, who: str) -> None:
        email = self.bob if who == "bob" else self.ada
        self.mails += 1
        written = self.harness.write(
            "I want my money back.",
            from_address=email,
            aligned=who != "forger",
            subject=f"Matter {self.world}-{self.mails}",
            message_id=f"w{self.world}-{self.mails}@example.com",
            sent_at=self.clock.isoformat(timespec="seconds"),
        )
        (mail,) = self.harness.rows(
            "SELECT conversation_id, status FROM inbound_mails WHERE message_id = :id",
            id=written.message_id,
        )
        if who == "forger" and self.is_asked_to_confirm():
            assert mail.status == "throttled"
            self.seen["forged mails throttled"] += 1
            return
        batch = take_batch(mail.conversation_id)
        assert batch is not None
        self.threads.append(Thread(email, who != "forger", batch))
        if who == "forger":
            self.forged_at = self.clock

    def is_asked_to_confirm(self) -> bool:
        """Whether the forged address was asked to confirm itself, which happens once a day at most."""
        return self.forged_at is not None and self.clock - self.forged_at <= DAY

    def _change_order(self, draw: Draw) -> None:
        order_id = draw(st.sampled_from(sorted(self.orders)))
        changes = ["delivered", "delivered", "charged back", "cancelled", "parcel moved"]
        change = draw(st.sampled_from(changes))
        with self.live.database.transaction() as connection:
            order = orders.load(connection, order_id)
            if change == "parcel moved":
                sent = order.status is OrderStatus.SHIPPED
                order = replace(order, shipments=(parcel(self.clock),) if sent else ())
            elif change != "charged back":
                order = replace(order, status=OrderStatus(change))
            else:
                first, *rest = order.payments
                disputed = replace(first, charged_back_at=self.clock)
                order = replace(order, payments=(disputed, *rest))
            order_import.save(connection, order, self.clock)
        self.seen[f"orders {change}"] += 1

    def _decide(self, draw: Draw) -> None:
        waiting = self.with_status(RefundStatus.AWAITING_APPROVAL)
        if not waiting:
            return
        refund, manager = draw(st.sampled_from(waiting)), draw(st.sampled_from([MONA, MAX]))
        decision = draw(st.sampled_from(["approve"] * 5 + ["offer"] * 2 + ["reject", "perhaps"]))
        amount = draw(st.sampled_from([""] * 8 + ["1", "0.50", "99999999", "-1", "half"]))
        status = draw(st.sampled_from(["cancelled", "cancelled", ""]))
        self.decide(refund, manager, decision, amount, status)

    def decide(
        self, refund: Refund, manager: str, decision: str, amount: str = "", order_status: str = ""
    ) -> None:
        path, client = self.link(refund, manager), self.harness.client
        page = client.get(path).text
        assert self.refund(refund.refund_id) == refund, "a GET changed something"
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)
        if token is not None:
            form = {"decision": decision, "amount": amount, "csrf_token": token[1]}
            form |= hidden_fields(page, "refunded_elsewhere")
            form["offer_percent"] = "40"
            if 'name="order_status" value="cancelled"' in page:
                form["order_status"] = order_status
            client.post(path, data=form)
            client.post(path, data=form)  # a double click

    def approve(self, order_id: str) -> None:
        """Let both managers approve what waits for them of an order."""
        for manager in (MONA, MAX):
            for refund in self.with_status(RefundStatus.AWAITING_APPROVAL):
                if refund.order_id == order_id:
                    self.decide(refund, manager, "approve")

    def link(self, refund: Refund, manager: str) -> str:
        with self.live.database.snapshot() as connection:
            approval = approvals.find_of_refund(connection, refund.refund_id)
        assert approval is not None
        link = self.live.links.sign_approval(approval.approval_id, manager)
        return link.replace(self.live.shop.public_url, "")

    def _wait(self, draw: Draw) -> None:
        self.clock += timedelta(hours=draw(st.sampled_from([25, 25, 1, 24 * 8])))

    # --- what the model says ------------------------------------------------------------------

    def _call_tool(self, draw: Draw) -> None:
        thread = draw(st.sampled_from(self.threads))
        name, arguments = draw(wishes.calls(sorted(self.orders), ITEMS))
        self.call(thread, name, arguments, draw(st.booleans()))

    def _ask_for_refund(self, draw: Draw) -> None:
        """What an honest model would do: without this, few stories come as far as money."""
        thread, order = self.some_order(draw)
        quantity = draw(st.sampled_from([None, None, 1, 2]))
        reasons = ["not_as_described"] * 2 + ["changed_mind", "damaged", "not_delivered"]
        wish = {
            "order_id": order.order_id,
            "items": draw(wishes.items_of(sorted(order.units), quantity)),
            "reason": draw(st.sampled_from(reasons)),
            "pay_as": draw(st.sampled_from(["no_choice", "money", "store_credit"])),
        }
        self.ask_for_refund(thread, wish)

    def _lose_parcel(self, draw: Draw) -> None:
        """A parcel moves no more, and Ada asks for the money: when the policy pays it, or too early."""
        if len(self.orders) < MOST_ORDERS:
            sent = {"status": OrderStatus.SHIPPED, "shipments": (parcel(self.clock),)}
            cheap = draw(st.sampled_from([one_thing(PAID_UNASKED), {}]))
            order = self.buy(draw(purchases()) | cheap | sent, self.ada)
            self.clock += draw(st.sampled_from([LOST_AFTER, LOST_AFTER - DAY]))
            items = [{"item_id": draw(st.sampled_from(sorted(order.units))), "quantity": 1}]
            wish = {"order_id": order.order_id, "items": items, "reason": "not_delivered"}
            self.ask_for_refund(self.threads[0], wish | {"pay_as": "money"})

    def _send_back(self, draw: Draw) -> None:
        """Ada has changed her mind about something, and the shop has the goods back."""
        if len(self.orders) < MOST_ORDERS:
            arrived = {"status": OrderStatus.DELIVERED, "shipments": ()}
            cheap = draw(st.sampled_from([one_thing(PAID_UNASKED), {}]))
            order = self.buy(draw(purchases()) | cheap | arrived, self.ada)
            items = draw(wishes.items_of(sorted(order.units), draw(st.sampled_from([None, 1]))))
            wish = {"order_id": order.order_id, "items": items, "reason": "changed_mind"}
            self.ask_for_refund(self.threads[0], wish | {"pay_as": "money"})
            self.approve(order.order_id)
            for remedy in self.remedies_waiting():
                if remedy.order_id == order.order_id:
                    self.end_remedy(remedy, is_done=True)

    def some_order(self, draw: Draw) -> tuple[Thread, Order]:
        """Return an order, and a conversation with its customer."""
        proven = [each for each in self.threads if each.proven]
        own = [
            (thread, order)
            for thread in proven
            for order in self.orders.values()
            if order.customer_email == thread.email
        ]
        found: tuple[Thread, Order] = draw(st.sampled_from(own))
        return found

    def ask_for_refund(self, thread: Thread, wish: dict[str, Any]) -> None:
        self.seen[f"asked for {wish['pay_as']}"] += 1
        before = {each.refund_id for each in self.with_status(*RefundStatus)}
        self.call(thread, "propose_refund", json.dumps(wish), again=False)
        new = [x for x in self.with_status(RefundStatus.APPROVED) if x.refund_id not in before]
        self.check_lost(new)

    def check_lost(self, approved: list[Refund]) -> None:
        """What was approved unasked because it never came has not moved for as long as the policy says."""
        for refund in approved:
            if refund.reason is RefundReason.NOT_DELIVERED:
                with self.live.database.snapshot() as connection:
                    order = orders.load(connection, refund.order_id)
                due = [each.due_since for each in order.shipments]
                assert due, f"{refund} was approved, and no parcel is known"
                assert all(since and self.clock - since >= LOST_AFTER for since in due)
                self.lost.add(refund.refund_id)

    def _cancel(self, draw: Draw) -> None:
        thread, order = self.some_order(draw)
        items = draw(st.one_of(st.just([]), wishes.items_of(sorted(order.units), None)))
        wish = {"order_id": order.order_id, "items": items}
        self.call(thread, "cancel_order", json.dumps(wish), draw(st.booleans()))

    def _ask_for_goods(self, draw: Draw) -> None:
        """The customer wants goods again, or wants them sent elsewhere."""
        thread, order = self.some_order(draw)
        kind = draw(st.sampled_from(["exchange", "replacement"] * 2 + ["change_address"]))
        quantity = draw(st.sampled_from([None, 1]))
        wish = {
            "order_id": order.order_id,
            "kind": kind,
            "items": draw(wishes.items_of(sorted(order.units), quantity)),
            "reason": draw(st.sampled_from(["damaged", "changed_mind"])),
            "wish": draw(st.sampled_from([None, "my money"])),  # words of their mail
        }
        self.call(thread, "request_change", json.dumps(wish), draw(st.booleans()))

    def _accept_offer(self, draw: Draw) -> None:
        """The customer says yes in a new mail to an offer that may stand no more."""
        rows = self.harness.rows("SELECT offer_id, order_id FROM offers ORDER BY offer_id")
        known = [row for row in rows if row.order_id in self.orders]
        if known and self.mails < MOST_MAILS:
            row = draw(st.sampled_from(known))
            self.accept_offer(row.offer_id, self.orders[row.order_id], draw(st.booleans()))

    def accept_offer(self, offer_id: str, order: Order, again: bool = False) -> None:
        with self.live.database.transaction() as connection:
            record_told(connection, audit.OFFER_TOLD, offer_id, self.clock)
        self.clock += timedelta(seconds=1)
        self.write("ada" if order.customer_email == self.ada else "bob")
        wish = json.dumps({"order_id": order.order_id})
        self.call(self.threads[-1], "accept_offer", wish, again)

    # --- remedies from the wish to the end: without these, few come as far ----------------------

    def order_of_ada(self, draw: Draw, **changes: Any) -> Order | None:
        """Let Ada buy something, and write a mail; None if there is enough of either."""
        if len(self.orders) >= MOST_ORDERS or self.mails >= MOST_MAILS:
            return None
        order = self.buy(draw(purchases()) | {"shipments": ()} | changes, self.ada)
        self.write("ada")
        return order

    def wish_for_all(self, order: Order, reason: str, pay_as: str = "money") -> None:
        items = [{"item_id": each, "quantity": None} for each in sorted(order.units)]
        wish = {"order_id": order.order_id, "items": items, "reason": reason, "pay_as": pay_as}
        self.ask_for_refund(self.threads[-1], wish)

    def do_tasks(self, order: Order) -> None:
        for remedy in self.remedies_waiting():
            if remedy.order_id == order.order_id:
                self.end_remedy(remedy, is_done=True)

    def accept_open_offers(self, order: Order) -> None:
        for offer in self.view().offers:
            if offer.order_id == order.order_id and offer.status is OfferStatus.OPEN:
                self.accept_offer(offer.offer_id, order)

    def _cancel_in_time(self, draw: Draw) -> None:
        order = self.order_of_ada(draw, status=OrderStatus.PENDING)
        if order is not None:
            wish = {"order_id": order.order_id, "items": []}
            self.call(self.threads[-1], "cancel_order", json.dumps(wish), again=False)
            self.approve(order.order_id)
            self.do_tasks(order)

    def _move_house(self, draw: Draw) -> None:
        order = self.order_of_ada(draw, status=OrderStatus.PENDING)
        if order is not None:
            wish: dict[str, Any] = {"order_id": order.order_id, "items": []}
            wish |= {"kind": "change_address", "wish": "my money", "reason": "changed_mind"}
            self.call(self.threads[-1], "request_change", json.dumps(wish), again=False)
            self.do_tasks(order)

    def _take_credit(self, draw: Draw) -> None:
        order = self.order_of_ada(draw, status=OrderStatus.DELIVERED)
        if order is not None:
            self.wish_for_all(order, "not_as_described", "store_credit")
            self.approve(order.order_id)

    def _keep_for_less(self, draw: Draw) -> None:
        """The policy offers part of the price, and Ada accepts."""
        order = self.order_of_ada(draw, status=OrderStatus.DELIVERED, **one_thing(PAID_UNASKED))
        if order is not None:
            self.wish_for_all(order, "damaged")
            self.accept_open_offers(order)

    def _bargain(self, draw: Draw) -> None:
        """A manager offers part of the price of what needs one manager, and Ada accepts."""
        order = self.order_of_ada(draw, status=OrderStatus.DELIVERED, **one_thing(ASKS_ONE_MANAGER))
        if order is not None:
            self.wish_for_all(order, "not_as_described")
            for refund in self.with_status(RefundStatus.AWAITING_APPROVAL):
                if refund.order_id == order.order_id:
                    self.decide(refund, MONA, "offer")
            self.accept_open_offers(order)

    # --- what the team does -------------------------------------------------------------------

    def _end_remedy(self, draw: Draw) -> None:
        """Something was done, or is not possible, or was not done in time; it is said twice."""
        known = self.remedies_waiting()
        if known:
            remedy, is_done = (
                draw(st.sampled_from(known)),
                draw(st.sampled_from([True, True, False])),
            )
            for _ in range(2):
                self.end_remedy(remedy, is_done)
        see_to()
        expire_offers()

    def end_remedy(self, remedy: Remedy, is_done: bool) -> None:
        why = None if is_done else "Sold out."
        needs_both = is_done and needs_two(remedy.policy_reasons)
        try:
            for person in (MONA, MAX) if needs_both else (MONA,):
                with self.live.database.transaction() as connection:
                    finish(connection, remedy.remedy_id, person, is_done, why)
        except TaskProblem:
            assert is_done
            assert remedy.kind in SENT_AGAIN
            waiting = self.with_status(RefundStatus.AWAITING_APPROVAL)
            assert remedy.order_id in {each.order_id for each in waiting}
            self.seen["tasks that wait for a manager"] += 1
        else:
            self.seen[f"{remedy.kind.value} {'done' if is_done else 'not possible'}"] += 1

    def remedies_waiting(self) -> list[Remedy]:
        with self.live.database.snapshot() as connection:
            found = remedies.list_open(connection)
        by_people = [each for each in found if each.status is not RemedyStatus.ASKED]
        return [each for each in by_people if each.order_id in self.orders]

    def call(self, thread: Thread, name: str, arguments: str, again: bool) -> None:
        call = parse(name, arguments, WITH_CREDIT)
        if isinstance(call, Misfit | HandOver):
            return
        plain = call.model_dump(mode="json")
        told = self.use(thread, name, plain)
        self.disclosed(thread, told)
        self.seen[f"told {told.get('outcome', told.get('error', name))}"] += 1
        if again:  # the same call replayed: the process had died before it was recorded
            self.disclosed(thread, self.use(thread, name, plain))

    def use(self, thread: Thread, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        with services.current().database.transaction() as connection:
            return registry.run(name, batch_reader(connection, thread.batch), arguments)

    def disclosed(self, thread: Thread, told: dict[str, Any]) -> None:
        """Nothing of anybody else's orders was told, and nothing at all to who is not proven."""
        # That there is no such order repeats the number that was asked for, and only that.
        others = {
            fact_id: sentence
            for fact_id, sentence in told.get("facts", {}).items()
            if not fact_id.startswith("no_order/")
        }
        text = json.dumps(told | {"facts": others})
        for order_id, order in self.orders.items():
            if order.customer_email != thread.email or not thread.proven:
                assert order_id not in text, f"{order_id} was told to {thread}"

    # --- what runs do -------------------------------------------------------------------------

    def _run(self, draw: Draw) -> None:
        found = self.with_status(*RefundStatus)
        if not found:
            return
        due = self.with_status(RefundStatus.APPROVED)
        refund_id = draw(st.sampled_from(due * 3 + found)).refund_id
        incident = draw(st.sampled_from(self.incidents))
        point = draw(st.sampled_from(["intended", "asked"]))
        self.bank.moods = draw(st.lists(st.sampled_from(MOODS), max_size=4))
        stop = watch(self.incident(incident, point, refund_id))
        try:
            for step in (look, self.pay, tell)[: draw(st.sampled_from([3, 3, 2, 1]))]:
                step(refund_id)
        except DeathError:
            pass
        except NeedsOperatorError:
            # The refund waits: nobody is told that it failed, and a later run pays it.
            assert self.refund(refund_id).status is RefundStatus.APPROVED
            self.seen["runs that need an operator"] += 1
        finally:
            stop()
            self.bank.moods = []
        if incident == "death" and draw(st.booleans()):
            self._wait(draw)  # it takes a while until somebody starts the process again

    def incident(self, kind: str, point: str, refund_id: str) -> Callable[[str, str], None]:
        """Return what stands at a mark: it kills the process there, or lets another run overtake it."""
        met: list[str] = []

        def meet(_name: str, at: str) -> None:
            if at != point or kind == "none" or met:
                return
            met.append(at)
            self.seen[f"{kind} when {point}"] += 1
            self.meet(kind, refund_id)

        return meet

    def meet(self, kind: str, refund_id: str) -> None:
        if kind == "death":
            raise DeathError
        self.pay(refund_id)

    def pay(self, refund_id: str) -> None:
        pay(refund_id)

    # --- what the bank does -------------------------------------------------------------------

    def _settle(self, draw: Draw) -> None:
        pending = [each for each in self.bank.entries if each.state == "pending"]
        if pending:
            entry = draw(st.sampled_from(pending))
            entry.state = draw(st.sampled_from(["succeeded", "succeeded", "failed", "unfunded"]))
            self.seen[f"refunds that settled as {entry.state}"] += 1
            self.tell_of(entry, draw)

    def _come_back(self, draw: Draw) -> None:
        """Money that the bank had given back comes back to it: an account was closed."""
        given = [each for each in self.bank.entries if each.state == "succeeded"]
        if given and self.bank.takes_back:
            entry = draw(st.sampled_from(given))
            entry.state = draw(st.sampled_from(["failed", "unfunded"]))
            self.seen["money came back"] += 1
            self.tell_of(entry, draw)

    def _refund_elsewhere(self, draw: Draw) -> None:
        """Somebody of the shop gives money back in the bank's own dashboard."""
        order = draw(st.sampled_from(list(self.orders.values())))
        payment = draw(st.sampled_from(order.payments))
        entry = self.bank.refund_elsewhere(order, payment, draw(st.sampled_from([1, 2, 3])))
        if entry is not None:
            self.seen["refunded elsewhere"] += 1
            self.tell_of(entry, draw)

    def tell_of(self, entry: Entry, draw: Draw) -> None:
        """Let the bank's word arrive: at once, twice, late or never. At the end all are told."""
        if not self.bank.tells_of(entry):
            return
        self.untold.add(entry.reference)
        if draw(st.sampled_from([True, True, False])):
            self.follow(entry)

    def follow(self, entry: Entry) -> None:
        self.untold.discard(entry.reference)
        for told in (entry.word(), entry.word()):
            self.words += 1
            with self.live.database.transaction() as connection:
                payment_events.follow_refund(connection, told, f"word-{self.world}-{self.words}")

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        self.seen["steps"] += 1
        view = self.view()
        books.check_amounts(view)
        books.check_gateway(view)
        books.check_decisions(view, LIMITS, FOUR_EYES)
        books.check_conditions(view)
        books.check_goods(view, self.orders)
        books.check_stock(view, self.bank.restocked())

    def teardown(self) -> None:
        """Let everything come to its end on a good day; then ledger and bank agree to the cent."""
        try:
            for entry in self.bank.entries:
                if entry.state == "pending":
                    entry.state = "succeeded"
            for remedy in self.remedies_waiting():
                self.end_remedy(remedy, is_done=True)
            for refund in self.with_status(RefundStatus.APPROVED):
                self.pay_whatever_failed(refund.refund_id)
            for entry in filter(self.bank.tells_of, self.bank.entries):
                self.follow(entry)
            for refund in self.with_status(*RefundStatus):
                tell(refund.refund_id)
            self.holds()
            view = self.view()
            books.check_settled(view)
            self.seen["stories"] += 1
            paid = {each.refund_id for each in view.refunds if each.status is RefundStatus.PAID}
            self.seen["refunds of lost parcels"] += len(self.lost & paid)
            self.seen["units restocked"] += self.bank.restocked().total()
            self.seen["refunds at the bank"] += len(view.entries)
            self.seen.update(f"refunds {refund.status.value}" for refund in view.refunds)
            for offer in view.offers:
                by = "managers" if offer.instead_of else "the policy"
                self.seen[f"offers of {by} {offer.status.value}"] += 1
            ended = [each for each in view.remedies if each.status is RemedyStatus.DONE]
            self.seen.update(f"{x.kind.value} paid" for x in ended if x.refund_id in paid)
            given = [each for each in view.refunds if each.credit_bonus is not None]
            self.seen.update(f"store credit {refund.status.value}" for refund in given)
            signed = [len(names) for names in map(view.signatures.get, ids(view)) if names]
            self.seen.update(f"refunds with {count} signatures" for count in signed)
        finally:
            self.harness.live = self.before
            services.bind(self.before)
            self.bank.close()

    def pay_whatever_failed(self, refund_id: str) -> None:
        """Run a refund until it is paid, as an operator would after each failure."""
        for _ in range(4):  # of one or two payments, each of which may have failed
            self.clock += timedelta(minutes=6)  # no earlier call is under way any more
            try:
                self.pay(refund_id)
                return
            except NeedsOperatorError:
                self.seen["replays of what failed"] += 1
                self.look_at_the_bank(refund_id)
        raise AssertionError(f"{refund_id} is not paid")

    def look_at_the_bank(self, refund_id: str) -> None:
        """Say that it was not paid, if a person sees so in the bank's books."""
        moved = [each for each in self.bank.entries if each.moved]
        if all(each.request.refund_id != refund_id for each in moved):
            with self.live.database.transaction() as connection:
                refund_payments.note_not_made(connection, refund_id)

    def view(self) -> books.View:
        return books.look(self.harness, self.bank, tuple(self.orders), frozenset(self.untold))

    def with_status(self, *statuses: RefundStatus) -> list[Refund]:
        with self.live.database.snapshot() as connection:
            found = [refunds.list_of_order(connection, order_id) for order_id in self.orders]
        return [refund for each in found for refund in each if refund.status in statuses]

    def refund(self, refund_id: str) -> Refund:
        with self.live.database.snapshot() as connection:
            return refunds.load(connection, refund_id)
