"""Orders of a Shopify store, looked up when they are needed. Satisfies `domain.orders.source.OrderSource`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from mailagent.adapters.platforms.records import cancel_mark_of
from mailagent.adapters.shopify import addresses, queries
from mailagent.adapters.shopify.client import ShopifyClient, is_in_use
from mailagent.adapters.shopify.orders import NAME, TITLE, UNSENT, read_order
from mailagent.adapters.shopify.restock import RestockType, choose_lines, refund_lines
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.orders.source import (
    AddressOutcome,
    Cancelled,
    CancelOutcome,
    CancelRequest,
    NotSupported,
    NotYet,
    OrderPage,
    OutOfTime,
    SourceProblem,
    TooLate,
    Unsure,
    after_change,
    cut_page,
    order_of,
)
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.domain.remedies.address import NewAddress

# We read each order by a request of its own, because a query for several may cost too much.
ORDERS_A_PAGE = 5
_NAMES_READ = 10
_PAGES_OF_LINES = 5
# Seconds before each look whether Shopify has cancelled an order.
CANCEL_PAUSES = (0.5, 1.0, 2.0)

Fields = Mapping[str, Any]


class ShopifySource:
    """One store. Threads may share it."""

    name = NAME

    def __init__(self, client: ShopifyClient) -> None:
        self._client = client

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        """Return a page of the orders with a mail address, newest first."""
        found = self._find(f"email:{_quoted(email)}", ORDERS_A_PAGE, cursor)
        wanted = normalise_address(email)
        nodes, problems = cut_page(found["nodes"], ORDERS_A_PAGE)
        if nodes and all(each["email"] is None for each in nodes):
            why = f"{TITLE} hides the addresses of customers: allow protected customer data"
            raise SourceProblem(why, operator=True)
        # The search also finds similar addresses.
        ids = [x["id"] for x in nodes if normalise_address(x["email"] or "") == wanted]
        orders, is_cut = [], False
        for gid in ids:
            try:
                orders.append(self._load(gid))
            except OrderProblem as problem:
                problems.append(str(problem))
            except OutOfTime:
                if not orders:
                    raise
                is_cut = True
                break
        page = found["pageInfo"]
        following = page["endCursor"] if page["hasNextPage"] else None
        return OrderPage(tuple(filter(None, orders)), following, tuple(problems), is_cut)

    def load_order(self, order_id: str) -> Order | None:
        """Return the order with a name such as #1001; None if there is none."""
        gid = self._find_id(order_id)
        return self._load(gid) if gid else None

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        """Cancel an order that was not sent, or items of it, without refunding money."""
        gid = self._find_id(request.order_id)
        if gid is None:
            return NotSupported(f"{TITLE} has no order {request.order_id}")
        if request.items:
            return self._cancel_items(gid, request)
        fields = self._fields(gid)
        if fields and not fields["cancelledAt"]:
            if fields["displayFulfillmentStatus"] not in UNSENT:
                return TooLate(f"its fulfilment is {fields['displayFulfillmentStatus']}")
            refused = self._ask_to_cancel(gid, request)
            if refused:
                return NotSupported(refused)
        with after_change():
            return Cancelled(self._cancelled(gid))

    def _ask_to_cancel(self, gid: str, request: CancelRequest) -> str | None:
        """Ask Shopify to cancel an order; return why it refuses, or None."""
        note = f"{request.reason} ({request.idempotency_key})"[-255:]
        answer = self._client.run(queries.CANCEL, id=gid, note=note)["orderCancel"]
        errors = answer["orderCancelUserErrors"]
        return "; ".join(f"{each['code']}: {each['message']}" for each in errors) or None

    def _cancelled(self, gid: str) -> Order:
        """Wait until the order is cancelled, which Shopify does in a background job, and return it."""
        for pause in (0.0, *CANCEL_PAUSES):
            time.sleep(pause)
            fields = self._fields(gid)
            if fields and fields["cancelledAt"]:
                return self._read(fields)
        raise NotYet(f"{TITLE} has not yet cancelled {gid}", 30)

    def _cancel_items(self, gid: str, request: CancelRequest) -> CancelOutcome:
        """Cancel single items by a refund without money, as Shopify's documentation says.
        https://shopify.dev/docs/api/admin-graphql/latest/mutations/orderCancel"""
        order = self._client.run(queries.ITEMS, id=gid)["order"]
        mark = cancel_mark_of(request.idempotency_key)
        is_done = order["cancelledAt"] or any(each["note"] == mark for each in order["refunds"])
        if not is_done:
            refused = _why_not(order) or self._take_back(gid, order, request, mark)
            if refused:
                return refused
        with after_change():
            found = self._load(gid)
        return Cancelled(found) if found else Unsure(f"{TITLE} has lost order {gid}")

    def _take_back(
        self, gid: str, order: Fields, request: CancelRequest, mark: str
    ) -> NotSupported | None:
        chosen = choose_lines(order["lineItems"]["nodes"], request.items)
        if chosen is None:
            return NotSupported(f"order {request.order_id} of {TITLE} has fewer of these items")
        try:
            lines = refund_lines(self._client, gid, chosen, RestockType.CANCEL)
        except SourceProblem as problem:
            if problem.operator:  # other calls work, so Shopify refuses only this one
                return NotSupported(f"{problem}: allow {queries.RESTOCK_SCOPE}")
            raise
        refund = {
            "orderId": gid,
            "currency": order["presentmentCurrencyCode"],
            "note": mark,
            "notify": False,
            "refundLineItems": lines,
        }
        key = request.idempotency_key
        answer = self._client.run(queries.REFUND, input=refund, key=key)["refundCreate"]
        words = "; ".join(each["message"] for each in answer["userErrors"]) or "did nothing"
        if answer["refund"]:
            return None
        if is_in_use(words):
            raise NotYet(f"{TITLE}: {words}", 30)
        return NotSupported(f"{TITLE}: {words}")

    def change_address(self, order_id: str, wanted: NewAddress) -> AddressOutcome:
        """Change the delivery address of an order, if the shop has not begun to send it and the price does not
        change."""
        gid = self._find_id(order_id)
        if gid is None:
            return NotSupported(f"{TITLE} has no order {order_id}")
        return addresses.change(self._client.run, gid, wanted)

    def list_scopes(self) -> set[str]:
        """Return the scopes of our token, by Shopify's names. Raises SourceProblem."""
        found = self._client.run(queries.SCOPES)["currentAppInstallation"] or {"accessScopes": ()}
        handles = {each["handle"] for each in found["accessScopes"]}
        # A scope to write includes the one to read.
        return handles | {each.replace("write_", "read_", 1) for each in handles}

    # --- look up ----------------------------------------------------------------------------------

    def _find_id(self, order_id: str) -> str | None:
        """Return the id of the order with this name. `1001` also finds #1001."""
        found = self._find(f"name:{_quoted(order_id)}", _NAMES_READ)["nodes"]
        exact = [x["id"] for x in found if x["name"] == order_id]
        bare = [x["id"] for x in found if x["name"].lstrip("#") == order_id.lstrip("#")]
        return next(iter(exact + bare), None)

    def _find(self, query: str, first: int, after: str | None = None) -> dict[str, Any]:
        answer = self._client.run(queries.FIND, first=first, after=after, query=query)
        return dict(answer["orders"])

    def _load(self, gid: str) -> Order | None:
        fields = self._fields(gid)
        if not fields:
            return None
        with order_of(fields.get("email")):
            return self._read(fields)

    def _fields(self, gid: str) -> dict[str, Any] | None:
        fields: dict[str, Any] | None = self._client.run(queries.ORDER, id=gid)["order"]
        return fields

    def _read(self, fields: dict[str, Any]) -> Order:
        # The order may have more transactions, and its sums would be wrong.
        if len(fields["transactions"]) >= queries.TRANSACTIONS:
            raise OrderProblem(f"order {fields['name']}: has too many transactions to read")
        if len(fields["fulfillments"]) >= queries.PARCELS:
            raise OrderProblem(f"order {fields['name']}: has too many parcels to read")
        return read_order(fields, self._lines(fields))

    def _lines(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        page, lines = fields["lineItems"], list(fields["lineItems"]["nodes"])
        for _ in range(_PAGES_OF_LINES - 1):
            if not page["pageInfo"]["hasNextPage"]:
                break
            after = page["pageInfo"]["endCursor"]
            more = self._client.run(queries.MORE_LINES, id=fields["id"], after=after)
            page = more["order"]["lineItems"]
            lines += page["nodes"]
        if page["pageInfo"]["hasNextPage"]:
            raise OrderProblem(f"order {fields['name']}: has too many lines to read")
        if len({each["id"] for each in lines}) < len(lines):
            raise OrderProblem(f"order {fields['name']}: the pages of its lines repeat")
        return lines


def _why_not(order: Fields) -> CancelOutcome | None:
    """Return why no items of an order can be cancelled; None if they can."""
    status = order["displayFulfillmentStatus"]
    if len(order["refunds"]) >= queries.REFUNDS:
        return NotSupported(f"{TITLE} has too many refunds of it to tell ours")
    if status == "PARTIALLY_FULFILLED":
        return NotSupported("a part of the order was sent: see whether these items were")
    if status not in UNSENT:
        return TooLate(f"its fulfilment is {status}")
    return None


def _quoted(text: str) -> str:
    """Return a text quoted for Shopify's search: https://shopify.dev/docs/api/usage/search-syntax"""
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
