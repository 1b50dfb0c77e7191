"""Goods sent again without a manager count like refunds: for the order's limit, the caps and draft mode."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import remedies as ending
from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Cap, Caps, CustomerCap, Draft, ManagerReason, Policy
from mailagent.domain.refunds.refund import RefundReason, WantedItem, price_lines
from mailagent.domain.remedies.remedy import Remedy, RemedyStatus
from mailagent.proposals.facts import Asked, gather_facts
from mailagent.store import schema
from mailagent.store.refunds import orders, policies, refunds, remedies
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.tools.request_change import request_change
from tests.cast import ADA, GRACE, MONA, NOW, order
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.camera import answer
from tests.workflows.proposals import propose, write

TOGETHER = (ManagerReason.ABOVE_LIMIT_TOGETHER.value,)
REPLACED, REFUNDED = "replacement", "refund"


def three(order_id: str = "W1001", price: str = "600.00", **changes: Any) -> Order:
    """An order of three things, each below the limit, but not two of them."""
    items = [
        {"item_id": item_id, "name": f"Thing {item_id}", "quantity": 1, "unit_price": price}
        for item_id in "ABC"
    ]
    paid = {"payment_id": f"p{order_id}", "method": "card", "amount": f"{3 * float(price):.2f}"}
    return order(order_id, **({"items": items, "payments": [paid]} | changes))


def under(shop: Harness, **rules: Any) -> None:
    services.bind(replace(services.current(), policy=Policy(**rules)))


def change(
    batch: Batch, item_id: str, order_id: str = "W1001", quantity: int | None = None
) -> dict[str, Any]:
    items = [{"item_id": item_id, "quantity": quantity}]
    wanted = {"order_id": order_id, "kind": REPLACED, "items": items}
    return use(request_change, batch, wanted | {"reason": "damaged", "wish": None})


def ask(shop: Harness, how: str, item_id: str, order_id: str = "W1001") -> tuple[str, ...]:
    """Ask for a replacement of an item or for its money, in a mail; return why a manager has to decide."""
    with shop.live.database.snapshot() as connection:
        customer = orders.load(connection, order_id).customer_email
    batch = write(shop, customer, f"{how} {item_id} {order_id}", f"Thing {item_id} broke.")
    if how == REPLACED:
        assert change(batch, item_id, order_id)["outcome"] == "task"
        why = last_task(shop, order_id).policy_reasons
    else:
        propose(batch, order_id, (item_id, None))
        why = shop.refunds()[-1].policy_reasons
    answer(shop, batch)
    return why


def last_task(shop: Harness, order_id: str = "W1001") -> Remedy:
    with shop.live.database.snapshot() as connection:
        return remedies.list_of_order(connection, order_id)[-1]


def end(shop: Harness, status: RemedyStatus) -> None:
    """End the only task."""
    with shop.live.database.transaction() as connection:
        remedy = remedies.lock(connection, last_task(shop).remedy_id)
        assert remedy is not None
        ending.end(connection, remedy, status, MONA)


@pytest.mark.both_databases
@pytest.mark.parametrize("second", [REPLACED, REFUNDED])
@pytest.mark.parametrize("first", [REPLACED, REFUNDED])
def test_goods_and_money_count_together_for_the_limit_of_an_order(
    shop: Harness, first: str, second: str
) -> None:
    shop.stock(three())
    assert ask(shop, first, "A") == ()
    assert ask(shop, second, "B") == TOGETHER
    assert ask(shop, REFUNDED, "C") == TOGETHER  # a manager decides on B, so only A counts


def test_what_alone_is_above_the_limit_is_for_a_manager_also_as_goods(shop: Harness) -> None:
    shop.stock(three(price="1200.00"))
    assert ask(shop, REPLACED, "A") == (ManagerReason.ABOVE_LIMIT.value,)
    under(shop, limits={"USD": 1_200_00})
    assert ask(shop, REPLACED, "B") == ()  # A counts for no limit: a manager had to decide


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (RemedyStatus.DONE, True),
        (RemedyStatus.NOT_POSSIBLE, False),
        (RemedyStatus.WITHDRAWN, False),
        (RemedyStatus.EXPIRED, False),
    ],
)
def test_goods_count_as_long_as_they_are_sent_or_may_be(
    shop: Harness, status: RemedyStatus, counts: bool
) -> None:
    under(shop, caps=Caps(customer=CustomerCap(count=1), day=Cap(count=1)))
    shop.stock(three())
    assert ask(shop, REPLACED, "A") == ()
    end(shop, status)
    caps = (ManagerReason.CUSTOMER_CAP.value, ManagerReason.DAY_CAP.value)
    assert ask(shop, REFUNDED, "B") == ((*TOGETHER, *caps) if counts else ())


@pytest.mark.parametrize("is_sent", [False, True])
def test_goods_count_beside_their_own_money_only_if_they_are_sent(
    shop: Harness, is_sent: bool
) -> None:
    one = Cap(count=1)
    under(shop, caps=Caps(order=one, customer=CustomerCap(count=1), day=one))
    shop.stock(three())
    assert ask(shop, REPLACED, "A") == ()
    if is_sent:  # a task is withdrawn if the refund is approved
        end(shop, RemedyStatus.DONE)
    caps = tuple(
        ManagerReason(f"above_cap_of_{each}").value for each in ("order", "customer", "day")
    )
    again = (ManagerReason.ITEM_AGAIN.value,)
    assert ask(shop, REFUNDED, "A") == ((*TOGETHER, *again, *caps) if is_sent else again)


@pytest.mark.parametrize(
    ("caps", "customer", "reason"),
    [
        (Caps(order=Cap(count=1)), ADA, ManagerReason.ORDER_CAP),
        (Caps(order=Cap({"USD": 119_99})), ADA, ManagerReason.ORDER_CAP),
        (Caps(order=Cap({"USD": 120_00}, 2)), ADA, None),
        (Caps(customer=CustomerCap(count=1)), ADA, ManagerReason.CUSTOMER_CAP),
        (Caps(customer=CustomerCap({"USD": 119_99})), ADA, ManagerReason.CUSTOMER_CAP),
        (Caps(customer=CustomerCap({"USD": 120_00}, 2)), ADA, None),
        (Caps(customer=CustomerCap(count=1)), GRACE, None),
        (Caps(day=Cap(count=1)), GRACE, ManagerReason.DAY_CAP),
        (Caps(day=Cap({"USD": 119_99})), GRACE, ManagerReason.DAY_CAP),
        (Caps(day=Cap({"USD": 120_00}, 2)), GRACE, None),
    ],
)
@pytest.mark.parametrize("then", [REPLACED, REFUNDED])
def test_caps_count_goods(
    shop: Harness, caps: Caps, customer: str, reason: ManagerReason | None, then: str
) -> None:
    under(shop, caps=caps)
    shop.stock(three(price="60.00"))
    shop.stock(three("W2", "60.00", customer={"email": customer, "name": "A customer"}))
    assert ask(shop, REPLACED, "A") == ()
    order_id = "W1001" if caps.order else "W2"
    assert ask(shop, then, "B", order_id) == ((reason.value,) if reason else ())


def test_a_cap_forgets_goods_of_before_its_days(shop: Harness) -> None:
    under(shop, caps=Caps(customer=CustomerCap(count=1, days=7), day=Cap(count=1)))
    shop.stock(three(price="60.00"))
    ask(shop, REPLACED, "A")
    with shop.live.database.transaction() as connection:
        long_ago = shop.live.now() - timedelta(days=8)
        connection.execute(schema.remedies.update().values(requested_at=long_ago))
    assert ask(shop, REPLACED, "B") == ()


def test_draft_mode_lets_goods_and_money_through_only_together(shop: Harness) -> None:
    under(shop, drafts_refunds=True, draft=Draft(unasked_up_to={"USD": 100_00}))
    shop.stock(three(price="60.00"))
    assert ask(shop, REPLACED, "A") == ()
    assert ask(shop, REFUNDED, "B") == (ManagerReason.DRAFT_MODE.value,)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("changes", "price"),
    [
        ({}, 60_00),
        ({"discount": "90.00", "paid": "90.00"}, 30_00),
        ({"tax": "36.00", "paid": "216.00"}, 72_00),
        ({"shipping": "20.00", "paid": "200.00"}, 60_00),
    ],
)
def test_goods_count_with_their_share_of_what_was_paid(
    shop: Harness, changes: dict[str, str], price: int
) -> None:
    sums = {name: changes[name] for name in ("discount", "tax", "shipping") if name in changes}
    paid = {"payment_id": "p", "method": "card", "amount": changes.get("paid", "180.00")}
    shop.stock(three(price="60.00", payments=[paid], **sums))
    ask(shop, REPLACED, "A")
    with shop.live.database.snapshot() as connection:
        granted = policies.granted(connection, NOW.replace(year=2020), "USD", ADA)
        other = policies.granted(connection, NOW.replace(year=2020), "EUR")
        facts = gather_facts(connection, asked_for(connection, "B"), 0)
    assert (granted.count, granted.minor) == (1, price)
    assert (other.count, other.minor) == (1, 0)
    assert facts.granted_unasked == granted
    assert facts.seen_by_one.minor == price


def asked_for(connection: sa.Connection, item_id: str) -> Asked:
    found = orders.load(connection, "W1001")
    earlier = refunds.list_of_order(connection, "W1001")
    lines = price_lines(found, [WantedItem(item_id)], earlier)
    return Asked(found, lines, Money(0, "USD"), RefundReason.DAMAGED, earlier)


def test_a_backtest_counts_no_goods_that_were_asked_for_after_its_mail(shop: Harness) -> None:
    shop.stock(three())
    ask(shop, REPLACED, "A")
    sent_at = last_task(shop).requested_at
    with shop.live.database.snapshot() as connection:
        facts = [
            gather_facts(connection, asked_for(connection, item_id), 0, sent_before=before)
            for item_id in "AB"
            for before in (sent_at, sent_at + timedelta(microseconds=1))
        ]
    assert [each.items_before for each in facts] == [False, True, False, False]
    assert [each.granted_unasked.count for each in facts] == [0, 0, 0, 1]


def test_a_task_for_fewer_units_counts_for_fewer(shop: Harness) -> None:
    items = [{"item_id": "A", "name": "Thing", "quantity": 3, "unit_price": "60.00"}]
    shop.stock(three(price="60.00", items=items))
    ask(shop, REPLACED, "A")
    with shop.live.database.transaction() as connection:
        remedies_of = remedies.list_of_order(connection, "W1001")
        ending.keep_only(connection, remedies_of[0], Counter(A=1), "a test")
        granted = policies.granted(connection, NOW.replace(year=2020), "USD")
    assert (granted.count, granted.minor) == (1, 60_00)


def test_goods_that_the_order_does_not_list_any_more_still_count_in_number(shop: Harness) -> None:
    shop.stock(three())
    ask(shop, REPLACED, "A")
    with shop.live.database.transaction() as connection:
        connection.execute(schema.order_lines.delete().where(schema.order_lines.c.item_id == "A"))
        granted = policies.granted(connection, NOW.replace(year=2020), "USD")
        facts = gather_facts(connection, asked_for(connection, "B"), 0)
    assert (granted.count, granted.minor) == (1, 0)
    assert facts.granted_unasked == granted
