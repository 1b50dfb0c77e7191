"""The demo's order server keeps the contract: orders, cancelling once, and parcels that move."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.demo.fakes.orders import OrderServer
from mailagent.demo.shop import ORDERS
from mailagent.domain.orders.source import Cancelled, CancelRequest, SourceProblem, TooLate

BEGAN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PENDING, SHIPPED = "W1014", "W1008"


class Clock:
    now = BEGAN


@pytest.fixture
def server() -> Iterator[OrderServer]:
    Clock.now = BEGAN
    server = OrderServer(lambda: Clock.now)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def source(server: OrderServer) -> HttpOrderSource:
    return HttpOrderSource(server.url, server.token)


def test_every_order_can_be_read_and_belongs_to_its_customer(source: HttpOrderSource) -> None:
    for each in ORDERS:
        order = source.load_order(each["order_id"])
        assert order is not None
        page = source.find_orders(order.customer_email)
        assert (order.order_id in [one.order_id for one in page.orders], page.problems) == (
            True,
            (),
        )
    assert source.load_order("W9999") is None


def test_another_token_gets_nothing(server: OrderServer) -> None:
    with pytest.raises(SourceProblem):
        HttpOrderSource(server.url, "another").load_order(PENDING)


def test_an_order_is_cancelled_only_before_it_is_shipped(source: HttpOrderSource) -> None:
    for _ in range(2):
        outcome = source.cancel_order(CancelRequest("remedy_1", PENDING, (), "cancelled"))
        assert isinstance(outcome, Cancelled)
        assert outcome.order.status == "cancelled"
    late = source.cancel_order(CancelRequest("remedy_2", SHIPPED, (), "cancelled"))
    assert isinstance(late, TooLate)


def test_a_parcel_moves_until_it_is_delivered(source: HttpOrderSource) -> None:
    seen = []
    for minutes in (0, 6, 16):
        Clock.now = BEGAN + timedelta(minutes=minutes)
        order = source.load_order(SHIPPED)
        assert order is not None
        seen.append((order.shipments[0].status.value, order.status.value))
    assert seen == [
        ("in_transit", "shipped"),
        ("out_for_delivery", "shipped"),
        ("delivered", "delivered"),
    ]
    assert order is not None
    assert order.delivered_at == BEGAN + timedelta(minutes=15)
