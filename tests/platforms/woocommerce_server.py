"""A WooCommerce shop on this machine. It refuses requests that the documentation of REST v3 does not allow."""

from __future__ import annotations

import itertools
import json
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from mailagent.adapters.woocommerce.orders import is_manual, payment_id_of
from mailagent.demo.fakes.http_server import Answer, LineCut, LocalServer, Request
from mailagent.domain.money import Money, parse_money
from mailagent.domain.refunds.order import Order, OrderStatus

TOKEN = "ck_17:cs_17"
PAGE = "/wp-json/wc/v3"

NO_PLUGIN = "Le moyen de paiement ne permet pas de remboursement automatique."

Create = Callable[[], Answer]
Fault = Callable[[Create], Answer]

# Of all servers, so that no two have the same ids.
_NUMBERS = itertools.count(1)

# Parameters and bodies by https://woocommerce.github.io/woocommerce-rest-api-docs/ (v3): what each may be.
LIST_PARAMETERS: dict[str, Callable[[str], bool]] = {
    "page": lambda text: text.isdigit() and int(text) >= 1,
    "per_page": lambda text: text.isdigit() and 1 <= int(text) <= 100,
    "search": bool,
    "orderby": lambda text: text in ("date", "id", "include", "title", "slug"),
    "order": lambda text: text in ("asc", "desc"),
}
STATUSES = ("pending", "processing", "on-hold", "completed", "cancelled", "refunded", "failed")
REFUND_BODY: dict[str, type] = {
    "amount": str,
    "reason": str,
    "api_refund": bool,
    "api_restock": bool,
    "line_items": list,
}
_STATUS_OF = {
    OrderStatus.PENDING: "processing",
    OrderStatus.SHIPPED: "completed",
    OrderStatus.DELIVERED: "completed",
    OrderStatus.CANCELLED: "cancelled",
}


@dataclass
class WooCommerceServer:
    """Orders and their refunds by post id. `faults`: what it answers next, instead of the truth. A fault of
    `refund_faults` is given the real call of a refund and may make it. `plugin_failure` is what the payment
    plugin says to every refund; `plugin_dies`: it takes WordPress with it. `in_stock`: how many units of an
    item were put in stock again. `endless`: every page of orders has all of them. `before`: called with the
    path of each request."""

    faults: list[Answer] = field(default_factory=list)
    refund_faults: list[Fault] = field(default_factory=list)
    plugin_failure: str | None = None
    plugin_dies: bool = False
    page_size: int = 100
    endless: bool = False
    orders: dict[int, dict[str, Any]] = field(default_factory=dict)
    refunds: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    wrong_requests: list[str] = field(default_factory=list)
    in_stock: Counter[str] = field(default_factory=Counter)
    before: Callable[[str], None] = lambda _path: None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server = LocalServer({}, self._answer)
        self.url = self._server.url
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    # --- the shop -----------------------------------------------------------------------------------

    def stock(self, *orders: Order) -> None:
        for order in orders:
            post_id = next(
                (key for key, x in self.orders.items() if x["number"] == order.order_id),
                int(order.order_id) if order.order_id.isdigit() else 100_000 + next(_NUMBERS),
            )
            self.orders[post_id] = _shown(order, post_id)
            self.refunds.setdefault(post_id, [])

    def numbered(self, number: str) -> dict[str, Any]:
        return next(each for each in self.orders.values() if each["number"] == number)

    def payment_id(self, number: str) -> str:
        """Return our name of the payment of an order."""
        order = self.numbered(number)
        return payment_id_of(order["id"], manual=is_manual(order))

    def moved(self) -> list[dict[str, Any]]:
        """Return all refunds that the payment plugin paid."""
        return [x for found in self.refunds.values() for x in found if x["refunded_payment"]]

    def refund_in_admin(self, number: str, amount: str, reason: str = "") -> dict[str, Any]:
        """Refund by hand, as a person in WordPress would; return the refund."""
        order = self.numbered(number)
        made = self._save(order, amount, reason)
        self._note_fully_refunded(order)
        return made

    # --- HTTP -----------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        self.before(request.path)
        if self.faults:
            return self.faults.pop(0)
        scheme, _, given = (request.headers["Authorization"] or "").partition(" ")
        if scheme != "Basic" or b64decode(given).decode() != TOKEN:
            return error(401, "woocommerce_rest_cannot_view")
        match request.path.removeprefix(PAGE).strip("/").split("/"):
            case ["orders"] if request.method == "GET":
                return self._listed(list(self.orders.values()), request, searched=True)
            case ["orders", post_id] if post_id.isdigit():
                return self._order(int(post_id), request)
            case ["orders", post_id, "refunds"] if post_id.isdigit():
                return self._refunds(int(post_id), request)
        return error(404, "rest_no_route")

    def _listed(self, found: list[Any], request: Request, searched: bool = False) -> Answer:
        query = {name: values[0] for name, values in parse_qs(request.query).items()}
        for name, text in query.items():
            if name not in LIST_PARAMETERS or not LIST_PARAMETERS[name](text):
                return self._wrong(f"{name}={text}")
        if searched:
            text = query["search"].casefold()
            found = [
                x for x in found if text in f"{x['number']} {x['billing']['email']}".casefold()
            ]
            newest_first = query.get("order") != "asc"
            found.sort(key=lambda each: str(each["date_created_gmt"]), reverse=newest_first)
            if self.endless:
                return Answer(200, found)
        size = int(query.get("per_page", 10))
        begin = (int(query.get("page", 1)) - 1) * size
        return Answer(200, found[begin : begin + size])

    def _order(self, post_id: int, request: Request) -> Answer:
        if post_id not in self.orders:
            return error(404, "woocommerce_rest_shop_order_invalid_id")
        if request.method == "POST":
            asked = json.loads(request.body)
            if set(asked) != {"status"} or asked["status"] not in STATUSES:
                return self._wrong(request.body.decode())
            self.orders[post_id]["status"] = asked["status"]
        return Answer(200, self.orders[post_id])

    def _refunds(self, post_id: int, request: Request) -> Answer:
        if post_id not in self.orders:
            return error(404, "woocommerce_rest_invalid_order_id")
        if request.method == "GET":
            return self._listed(self.refunds[post_id][::-1], request)
        with self._lock:
            fault = self.refund_faults.pop(0) if self.refund_faults else None
        asked = json.loads(request.body)
        if any(not isinstance(asked[name], REFUND_BODY.get(name, type(None))) for name in asked):
            return self._wrong(request.body.decode())
        create = partial(self._create, self.orders[post_id], asked)
        return fault(create) if fault else create()

    def _create(self, order: dict[str, Any], asked: dict[str, Any]) -> Answer:
        """Refund as `wc_create_refund` does: first the record, then the payment plugin."""
        with self._lock:
            if parse_money(asked["amount"], order["currency"]).minor > self.left(order):
                return error(
                    500, "woocommerce_rest_cannot_create_order_refund", "Montant invalide."
                )
            wanted = asked.get("line_items", [])
            if any(each.keys() != {"id", "quantity", "refund_total"} for each in wanted):
                return self._wrong(json.dumps(wanted))
            made = self._save(order, asked["amount"], asked["reason"], wanted)
            if self.plugin_dies:
                raise LineCut
            failure = NO_PLUGIN if is_manual(order) else self.plugin_failure
            if failure and asked["api_refund"]:
                self.delete(order, made)
                return error(500, "woocommerce_rest_cannot_create_order_refund", failure)
            made["refunded_payment"] = asked["api_refund"]
            self._restock(order, wanted if asked["api_restock"] else [])
            self._note_fully_refunded(order)
            return Answer(201, made)

    def _note_fully_refunded(self, order: dict[str, Any]) -> None:
        if not self.left(order):
            order["status"] = "refunded"

    def _restock(self, order: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
        names = {each["id"]: each["sku"] for each in order["line_items"]}
        for each in wanted:
            self.in_stock[names[each["id"]]] += each["quantity"]

    def delete(self, order: dict[str, Any], made: dict[str, Any]) -> None:
        """Delete a refund."""
        self.refunds[order["id"]].remove(made)
        order["refunds"] = [each for each in order["refunds"] if each["id"] != made["id"]]

    def left(self, order: dict[str, Any]) -> int:
        """Return what an order has left, in minor units."""
        given = (parse_money(x["amount"], order["currency"]) for x in self.refunds[order["id"]])
        return parse_money(order["total"], order["currency"]).minor - sum(x.minor for x in given)

    def _save(
        self, order: dict[str, Any], amount: str, reason: str, wanted: Sequence[Any] = ()
    ) -> dict[str, Any]:
        made = {
            "id": 500_000 + next(_NUMBERS),
            "amount": amount,
            "reason": reason,
            "refunded_payment": False,
            "line_items": [
                {
                    "quantity": -each["quantity"],
                    "meta_data": [{"key": "_refunded_item_id", "value": str(each["id"])}],
                }
                for each in wanted
            ],
        }
        self.refunds[order["id"]].append(made)
        order["refunds"].append({"id": made["id"], "reason": reason, "total": f"-{amount}"})
        return made

    def _wrong(self, what: str) -> Answer:
        self.wrong_requests.append(what)
        return error(400, "rest_invalid_param", what)


def _shown(order: Order, post_id: int) -> dict[str, Any]:
    def told(minor: int) -> str:
        return Money(minor, order.currency).decimal()

    first, _, last = order.customer_name.partition(" ")
    sent = order.status in (OrderStatus.SHIPPED, OrderStatus.DELIVERED)
    placed = order.placed_at.isoformat()[:19]
    goods = sum(each.net_minor for each in order.lines)
    return {
        "id": post_id,
        "number": order.order_id,
        "status": _STATUS_OF[order.status],
        "currency": order.currency,
        "date_created_gmt": placed,
        "date_paid_gmt": placed if order.payments else None,
        "date_completed_gmt": placed if sent else None,
        "total": told(goods + order.shipping_minor),
        "shipping_total": told(order.shipping_minor),
        "shipping_tax": told(0),
        "billing": {"email": order.customer_email, "first_name": first, "last_name": last},
        "payment_method": order.payments[0].method if order.payments else "",
        "line_items": [
            {
                "id": 10 * post_id + each.line_no,
                "name": each.name,
                "sku": each.item_id,
                "product_id": 17,
                "variation_id": 0,
                "quantity": each.quantity,
                "subtotal": told(each.quantity * each.unit_price.minor),
                "subtotal_tax": told(0),
                "total": told(each.net_minor),
                "total_tax": told(0),
                "meta_data": [],
            }
            for each in order.lines
        ],
        "fee_lines": [],
        "refunds": [],
        "meta_data": [],
    }


def error(status: int, code: str, message: str = "Désolé.") -> Answer:
    """Return an error in WordPress' form."""
    return Answer(status, {"code": code, "message": message, "data": {"status": status}})


def lost_before(_create: Create) -> Answer:
    raise LineCut


def lost_after(create: Create) -> Answer:
    create()
    raise LineCut


def made_but_500(create: Create) -> Answer:
    create()
    return Answer(500, b"<html>There has been a critical error on this website.</html>")


def limited(_create: Create) -> Answer:
    return Answer(429, {"code": "too_many", "message": "."}, {"Retry-After": "7"})


def no_key(_create: Create) -> Answer:
    return error(401, "woocommerce_rest_authentication_error")


def moved_away(_create: Create) -> Answer:
    return Answer(301, None, {"Location": "/elsewhere"})
