"""What the ledger lists as to be paid is stopped if as much was refunded elsewhere since it was approved, even
if enough is left of the order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.settlement import Outcome, SettlementProblem, SettlementState
from mailagent.settling import settle
from mailagent.store.refunds import credits, order_import, stops
from mailagent.workflows.steps import order_source
from tests.cast import OLGA, order
from tests.harness import Harness, open_shop, pass_time
from tests.workflows.cancelling import keep_version, with_source
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

PATH = "/ops/settlements"
ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
    {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "100.00"},
    {"item_id": "S1", "name": "Stove", "quantity": 1, "unit_price": "200.00"},
]
ONE, TWO = [("card", "349.99")], [("gift", "20.00"), ("by_hand", "329.99")]


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, {"MAILAGENT_SETTLES": ""}) as shop:
        yield shop


def told(*refunded: str) -> Order:
    """Return W7 as the shop's system has it: so much of each of its payments was refunded."""
    paid = zip(ONE if len(refunded) == 1 else TWO, refunded, strict=True)
    payments: list[dict[str, Any]] = [
        {"payment_id": name, "method": "card", "amount": amount, "refunded": back}
        for (name, amount), back in paid
    ]
    return order("W7", items=ITEMS, payments=payments)


def bring(shop: Harness, *refunded: str, by: str = "file") -> None:
    """Let the newest record of W7 come."""
    if by == "source":
        with_source(shop).orders = lambda _: told(*refunded)
        order_source.refresh("W7")
        return
    with shop.live.database.transaction() as connection:
        known = order_import.without_known_refunds(connection, told(*refunded))
        order_import.save(connection, known, shop.live.now())


def start(shop: Harness, *refunded: str, by: str = "file") -> None:
    shop.stock(told(*refunded))
    if by == "source":
        with_source(shop).orders = lambda _: told(*refunded)
        keep_version(shop, told(*refunded))


def approve(shop: Harness, item_id: str) -> str:
    answer = propose(write(shop, subject=item_id), "W7", (item_id, None))
    assert answer["outcome"] == "approved"
    pass_time(shop, hours=1)
    return shop.refunds()[-1].refund_id


def list_item(shop: Harness, item_id: str, bonus: int | None = None) -> str:
    """Have the refund of an item in the ledger, as store credit if there is a bonus; return its id."""
    refund_id = approve(shop, item_id)
    with shop.live.database.transaction() as connection:
        credits.choose(connection, shop.refunds()[-1], bonus)
    assert pay(refund_id)["status"] == "approved"
    pass_time(shop, hours=1)
    return refund_id


def say(shop: Harness, key: str, **values: Any) -> bool:
    with shop.live.database.transaction() as connection:
        return settle(connection, Outcome(key, SettlementState.SETTLED, **values), OLGA)


def stopped(shop: Harness) -> dict[str, str]:
    with shop.live.database.snapshot() as connection:
        return stops.find_stops(connection, [each.refund_id for each in shop.refunds()])


@pytest.mark.parametrize("bonus", [None, 10])
@pytest.mark.parametrize("by", ["file", "source"])
def test_what_a_colleague_refunded_is_not_paid_unasked(
    shop: Harness, by: str, bonus: int | None
) -> None:
    start(shop, "0.00", by=by)
    kettle = list_item(shop, "K1", bonus)
    bring(shop, "49.98", by=by)
    assert stopped(shop) == {}
    bring(shop, "49.99", by=by)
    assert stopped(shop) == {kettle: stops.TWICE}
    client = shop.log_in(OLGA)
    for path in (PATH, f"{PATH}/export"):
        assert client.get(path).text.count("perhaps for the same items") == 1, path
    assert pay(kettle)["status"] == "approved"
    with pytest.raises(SettlementProblem, match="say that it was paid before"):
        say(shop, kettle, bank_reference="CODE-1")
    assert say(shop, kettle, bank_reference="CODE-1", paid_before=True)
    assert pay(kettle)["status"] == "paid"


@pytest.mark.parametrize("by", ["file", "source"])
def test_what_was_refunded_before_the_approval_stops_nothing(shop: Harness, by: str) -> None:
    start(shop, "49.98", by=by)
    kettle = list_item(shop, "K1")
    bring(shop, "99.96", by=by)  # 49.98 more
    assert stopped(shop) == {}
    bring(shop, "99.97", by=by)
    assert stopped(shop) == {kettle: stops.TWICE}


@pytest.mark.parametrize("by", ["file", "source"])
def test_of_several_refunds_each_that_may_be_the_one_is_stopped(shop: Harness, by: str) -> None:
    start(shop, "0.00", by=by)
    kettle, lamp = list_item(shop, "K1"), list_item(shop, "L1")
    bring(shop, "99.99", by=by)
    assert set(stopped(shop)) == {kettle}
    bring(shop, "100.00", by=by)
    assert set(stopped(shop)) == {kettle, lamp}
    say(shop, lamp, paid_before=True)
    assert pay(lamp)["status"] == "paid"
    # A file does not tell that this was the lamp: by default its sum counts beside our own refunds.
    assert set(stopped(shop)) == (set() if by == "source" else {kettle})


def test_a_record_from_before_the_entry_stops_it_too(shop: Harness) -> None:
    """The lamp's entry, which is older, may explain that record, so the kettle is listed."""
    start(shop, "0.00", by="source")
    list_item(shop, "L1")
    kettle = approve(shop, "K1")
    bring(shop, "49.99", by="source")
    pass_time(shop, hours=1)
    assert pay(kettle)["status"] == "approved"
    assert stopped(shop) == {kettle: stops.TWICE}


@pytest.mark.parametrize("by", ["file", "source"])
@pytest.mark.parametrize(
    ("refunded", "is_stopped"), [(("20.00", "0.00"), False), (("20.00", "29.99"), True)]
)
def test_the_second_payment_of_a_refund_is_stopped_if_all_was_refunded(
    shop: Harness, by: str, refunded: Sequence[str], is_stopped: bool
) -> None:
    start(shop, "0.00", "0.00", by=by)
    kettle = list_item(shop, "K1")
    bring(shop, *refunded, by=by)
    assert say(shop, kettle, paid_before=True)
    assert pay(kettle)["status"] == "approved"
    assert set(stopped(shop)) == ({kettle} if is_stopped else set())
    if is_stopped:
        with pytest.raises(SettlementProblem, match="say that it was paid before"):
            say(shop, f"{kettle}.2")
    assert say(shop, f"{kettle}.2", paid_before=is_stopped)
    assert pay(kettle)["status"] == "paid"


def shipped(*refunded: str) -> Order:
    """Return W7 with shipping, paid by a gift card that is worth more than the goods, and by a card."""
    payments: list[dict[str, Any]] = [
        {"payment_id": name, "method": "card", "amount": amount, "refunded": back}
        for name, amount, back in zip(("gift", "card"), ("45.00", "5.00"), refunded, strict=True)
    ]
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "40.00"}
    return order("W7", items=[kettle], shipping="10.00", payments=payments)


@pytest.mark.parametrize(
    ("refunded", "is_stopped"), [(("45.00", "0.00"), False), (("45.00", "0.01"), True)]
)
def test_what_we_paid_of_goods_and_shipping_does_not_stop_the_rest(
    shop: Harness, refunded: Sequence[str], is_stopped: bool
) -> None:
    shop.stock(shipped("0.00", "0.00"))
    keep_version(shop, shipped("0.00", "0.00"))
    source = with_source(shop)
    source.orders = lambda _: shipped("0.00", "0.00")
    kettle = list_item(shop, "K1")
    assert say(shop, kettle)
    source.orders = lambda _: shipped(*refunded)
    order_source.refresh("W7")
    assert set(stopped(shop)) == ({kettle} if is_stopped else set())
    assert say(shop, f"{kettle}.2", paid_before=is_stopped)
    assert pay(kettle)["status"] == "paid"
