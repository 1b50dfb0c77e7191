"""A shop's own order server, played over HTTP. It may be told to lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote

from mailagent.adapters.order_files.record import render_order
from mailagent.demo.fakes.http_server import Answer, LocalServer, Request
from mailagent.domain.refunds.order import Order, OrderStatus

NONE = Answer(404, {"error": "order_not_found"})
TOKEN = "the-token-of-the-played-order-server"


class OrderServer(LocalServer):
    """Speaks the contract of docs/orders.md. `faults`: what it answers next; `always`: what it answers instead
    of the truth until it is None again; `records`: its orders by number, as they go out; `endless`: every page
    of a list has all orders, and says that more follow."""

    def __init__(self) -> None:
        super().__init__({}, self._answer)
        self.faults: list[Answer] = []
        self.always: Callable[[Request], Answer | None] | None = None
        self.requests: list[Request] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.page_size = 50
        self.endless = False
        self._cancelled: dict[str, dict[str, Any]] = {}

    def stock(self, *orders: Order) -> None:
        self.records |= {order.order_id: render_order(order) for order in orders}

    def change(self, order_id: str, **changes: Any) -> None:
        """Change an order, as the shop's people would."""
        self.records[order_id] = self.records[order_id] | changes

    @property
    def cancelled_under(self) -> list[str]:
        """The keys under which orders were cancelled."""
        return list(self._cancelled)

    def count_cancelled(self, order_id: str) -> int:
        """Return under how many keys an order was cancelled."""
        return sum(each["order_id"] == order_id for each in self._cancelled.values())

    def asked(self, path: str) -> int:
        """Return how often a path was asked for."""
        return sum(request.path == path for request in self.requests)

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if self.faults:
            return self.faults.pop(0)
        lie = self.always(request) if self.always else None
        if lie is not None:
            return lie
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return Answer(401)
        match [unquote(part) for part in request.path.strip("/").split("/")]:
            case ["orders"]:
                return self._find(parse_qs(request.query))
            case ["orders", order_id] if order_id in self.records:
                return Answer(200, self.records[order_id])
            case ["orders", order_id, "cancel"] if order_id in self.records:
                return self._cancel(order_id, str(request.headers["Idempotency-Key"]), request)
            case ["orders", _]:
                return NONE
        return Answer(404)

    def _find(self, query: dict[str, list[str]]) -> Answer:
        email, begin = query["email"][0], int(query.get("cursor", ["0"])[0])
        theirs = [each for each in self.records.values() if each["customer"]["email"] == email]
        theirs.sort(key=lambda each: str(each["placed_at"]), reverse=True)
        if self.endless:
            return Answer(200, {"orders": theirs, "next": "1"})
        end = begin + self.page_size
        following = str(end) if end < len(theirs) else None
        return Answer(200, {"orders": theirs[begin:end], "next": following})

    def _cancel(self, order_id: str, key: str, request: Request) -> Answer:
        items = json.loads(request.body)["items"] or []
        if key in self._cancelled:
            return Answer(200, self._cancelled[key])
        if self.records[order_id]["status"] != OrderStatus.PENDING.value:
            return Answer(409, {"reason": self.records[order_id]["status"]})
        if items:
            gone = {each["item_id"]: each["quantity"] for each in items}
            lines = self.records[order_id]["items"]
            left = [x | {"quantity": x["quantity"] - gone.get(x["item_id"], 0)} for x in lines]
            self.change(order_id, items=[each for each in left if each["quantity"]])
        else:
            self.change(order_id, status=OrderStatus.CANCELLED.value)
        self._cancelled[key] = self.records[order_id]
        return Answer(200, self.records[order_id])


def source_settings(server: LocalServer) -> dict[str, str]:
    """Return the settings by which a shop asks this server."""
    return {"ORDER_SOURCE": "http", "ORDER_SOURCE_URL": server.url, "ORDER_SOURCE_TOKEN": TOKEN}
