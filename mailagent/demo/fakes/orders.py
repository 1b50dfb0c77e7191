"""The shop's own order server, for ORDER_SOURCE=http: orders as in docs/orders.md, parcels that move while the
demo runs, and cancelling before an order is shipped. One module for each provider."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote

from mailagent.demo import shop
from mailagent.demo.fakes.http_server import Answer, LocalServer, Request


class OrderServer(LocalServer):
    """`token`: what requests have to carry."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__({}, self._answer)
        self.token = secrets.token_urlsafe(32)
        self._now, self._began_at = now, now()
        self._cancelled: set[str] = set()

    def _orders(self) -> dict[str, dict[str, Any]]:
        orders = shop.list_orders(self._began_at, self._now())
        for order in orders:
            if order["order_id"] in self._cancelled:
                order["status"] = "cancelled"
        return {order["order_id"]: order for order in orders}

    def _answer(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return Answer(401)
        orders = self._orders()
        match request.method, *map(unquote, request.path.strip("/").split("/")):
            case "GET", "orders":
                (email,) = parse_qs(request.query)["email"]
                theirs = [each for each in orders.values() if each["customer"]["email"] == email]
                newest = sorted(theirs, key=lambda each: str(each["placed_at"]), reverse=True)
                return Answer(200, {"orders": newest, "next": None})
            case "GET", "orders", order_id if order_id in orders:
                return Answer(200, orders[order_id])
            case "GET", "orders", _:
                return Answer(404, {"error": "order_not_found"})
            case "POST", "orders", order_id, "cancel" if order_id in orders:
                if json.loads(request.body)["items"]:
                    return Answer(501, {"reason": "this server cancels whole orders only"})
                return self._cancel(orders[order_id])
        return Answer(404)

    def _cancel(self, order: dict[str, Any]) -> Answer:
        """Cancel a whole order; the same request again is answered alike."""
        if order["status"] not in ("pending", "cancelled"):
            return Answer(409, {"reason": order["status"]})
        self._cancelled.add(order["order_id"])
        return Answer(200, order | {"status": "cancelled"})
