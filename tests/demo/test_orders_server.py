"""The demo's order server keeps the contract: orders, cancelling once, and parcels that move."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.demo.fakes.orders import OrderServer
from mailagent.demo.shop import ORDERS, READY_MAILS
from mailagent.domain.orders.source import Cancelled, CancelRequest, SourceProblem, TooLate
from tests.cast import ADA, JUERGEN, MONA
from tests.databases import ROOT
from tests.harness import open_shop, running
from tests.order_server import source_settings

BEGAN = datetime.now(UTC).replace(microsecond=0)
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


def test_a_manager_is_asked_about_the_late_parcel_and_another_customer_waits(
    tmp_path: Path, database_url: str, server: OrderServer
) -> None:
    policy = {"REFUND_POLICY": str(ROOT / "mailagent" / "demo" / "policy.toml")}
    settings = {**source_settings(server), "ORDER_SOURCE_TOKEN": server.token, **policy}
    late = next(mail for mail in READY_MAILS if mail.name == "late")
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        shop.write(late.text, subject=late.subject, from_address=JUERGEN)
        (request,) = shop.wait_for_mails(MONA)
        assert "asks for €249.00 back on order W1007" in request.text
        shop.write("The lamp of W1008 never arrived, please refund it.")
        (told,) = shop.wait_for_mails(ADA)
        assert "on its way" in told.text
        assert len(shop.mails_to(MONA)) == 1
