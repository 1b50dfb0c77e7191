"""A shop's own order server as an order source."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.orders.source import (
    Cancelled,
    CancelRequest,
    NotSupported,
    SourceProblem,
    TooLate,
)
from mailagent.domain.refunds.order import OrderProblem
from tests.adapters.order_sources.contract import DEADLINE_SECONDS, OrderSourceContract
from tests.cast import ADA, order, order_record
from tests.order_server import TOKEN, OrderServer


class PlayedOrderServer(OrderServer):
    def make(self, url: str | None = None) -> HttpOrderSource:
        return HttpOrderSource(url or self.url, TOKEN, DEADLINE_SECONDS)

    def be_slow(self, seconds: float) -> None:
        self.always = lambda _request: time.sleep(seconds)


class TestHttp(OrderSourceContract):
    @pytest.fixture
    def shop(self) -> Iterator[PlayedOrderServer]:
        server = PlayedOrderServer()
        server.start()
        yield server
        server.stop()

    @pytest.mark.parametrize(
        "wrong",
        [
            {"currency": "XYZ"},
            {"payments": [{"payment_id": "p", "method": "card", "amount": "-49.99"}]},
            {"customer": {"email": "nobody"}},
            {"surprise": 1},
        ],
        ids=["currency", "negative", "address", "unknown key"],
    )
    def test_a_wrong_record_hides_no_other_order(
        self, shop: PlayedOrderServer, wrong: dict[str, object]
    ) -> None:
        records = [order_record("1001", **wrong), order_record("1002")]
        shop.faults = [Answer(200, {"orders": records, "next": None}), Answer(200, records[0])]
        page = shop.make().find_orders(ADA)
        assert [each.order_id for each in page.orders] == ["1002"]
        assert page.problems[0].startswith("order 1 of a page: ")
        with pytest.raises(OrderProblem) as told:
            shop.make().load_order("1001")
        assert told.value.customer_email == (None if "customer" in wrong else ADA)

    @pytest.mark.parametrize("cursor", [7, "", "x" * 3000, ["a"]])
    def test_a_wrong_cursor_breaks_the_contract(
        self, shop: PlayedOrderServer, cursor: object
    ) -> None:
        shop.faults.append(Answer(200, {"orders": [], "next": cursor}))
        with pytest.raises(SourceProblem, match='"next"') as found:
            shop.make().find_orders(ADA)
        assert found.value.operator

    def test_a_number_is_one_part_of_the_path(self, shop: PlayedOrderServer) -> None:
        shop.stock(order("a/b?c#d"))
        found = shop.make().load_order("a/b?c#d")
        assert found is not None
        assert shop.requests[0].path == "/orders/a%2Fb%3Fc%23d"

    def test_that_there_is_no_order_is_said_in_the_words_of_the_contract(
        self, shop: PlayedOrderServer
    ) -> None:
        assert shop.make().load_order("9999") is None
        assert len(shop.requests) == 1

    @pytest.mark.parametrize("status", [400, 404, 410, 422])
    @pytest.mark.parametrize(
        "body",
        [None, b"<html>Not Found</html>", {"detail": "Not Found"}, {"error": "nothing here"}],
    )
    def test_a_stray_refusal_says_nothing_unless_the_server_works(
        self, shop: PlayedOrderServer, status: int, body: object
    ) -> None:
        shop.stock(order("1001"))
        stray = Answer(status, body)
        shop.faults = [stray, stray]  # a proxy, or a server without its routes
        with pytest.raises(SourceProblem):
            shop.make().load_order("1001")
        shop.faults = [stray]  # a server that does not say it in our words
        assert shop.make().load_order("9999") is None
        assert len(shop.requests) == 4

    def test_a_cancel_names_its_key_items_and_reason(self, shop: PlayedOrderServer) -> None:
        two = [{"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "49.99"}]
        paid = [{"payment_id": "p", "method": "card", "amount": "99.98"}]
        shop.stock(order("1001", status="pending", delivered_at=None, items=two, payments=paid))
        shop.make().cancel_order(CancelRequest("key-1", "1001", (("K1", 1),), "too late"))
        asked = shop.requests[0]
        assert asked.headers["Idempotency-Key"] == "key-1"
        assert json.loads(asked.body) == {
            "items": [{"item_id": "K1", "quantity": 1}],
            "reason": "too late",
        }

    @pytest.mark.parametrize("status", [404, 501])
    def test_a_shop_that_cannot_cancel_leaves_it_to_people(
        self, shop: PlayedOrderServer, status: int
    ) -> None:
        shop.faults.append(Answer(status))
        assert isinstance(shop.make().cancel_order(CancelRequest("k", "1001")), NotSupported)

    def test_a_cancelled_order_is_not_too_late(self, shop: PlayedOrderServer) -> None:
        shop.stock(order("1001", status="cancelled", delivered_at=None))
        shop.faults.append(Answer(409, {"reason": "cancelled"}))
        assert isinstance(shop.make().cancel_order(CancelRequest("k", "1001")), Cancelled)

    @pytest.mark.parametrize(
        ("reason", "told"), [("shipped", "shipped"), ("sent \ud83d\0", "sent ?\ufffd")]
    )
    def test_too_late_says_why(self, shop: PlayedOrderServer, reason: str, told: str) -> None:
        shop.stock(order("1001", status="shipped", delivered_at=None))
        shop.faults.append(Answer(409, {"reason": reason}))
        assert shop.make().cancel_order(CancelRequest("k", "1001")) == TooLate(told)
