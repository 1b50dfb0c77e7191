"""Asks a shop's own order server: two GETs and a POST, in the format of the orders file (docs/orders.md)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from mailagent.adapters.order_files.record import parse_order
from mailagent.adapters.order_sources.json_client import DEADLINE_SECONDS, Answer, JsonClient
from mailagent.domain.orders.source import (
    MOST_ORDERS_A_PAGE,
    AddressOutcome,
    Cancelled,
    CancelOutcome,
    CancelRequest,
    NotSupported,
    OrderPage,
    SourceProblem,
    TooLate,
    cut_page,
    order_of,
)
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from mailagent.domain.remedies.address import NewAddress

_CURSOR_MAX_LENGTH = 2_000
_REASON_MAX_LENGTH = 200
NO_SUCH_ORDER = "order_not_found"
# These statuses for one order may mean that there is no such order, or come from a framework that cannot read
# the number, or from a proxy.
_PERHAPS_NO_ORDER = (400, 404, 410, 422)
# An address without orders (RFC 2606), to test whether the server lists orders.
_ANYBODY = "nobody@example.com"


class HttpOrderSource:
    """Satisfies `domain.orders.source.OrderSource`."""

    name = "http"

    def __init__(self, url: str, token: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._client = JsonClient("the order server", url, headers, deadline_seconds)

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        """Return a page of a customer's orders. Its `problems` name the orders whose records are wrong."""
        params = {"email": email, **({"cursor": cursor} if cursor else {})}
        value = self._client.ask("GET", "/orders", params=params).value
        records = value.get("orders") if isinstance(value, dict) else None
        if not isinstance(records, list):
            raise _breach('GET /orders has no list "orders"')
        records, problems = cut_page(records, MOST_ORDERS_A_PAGE)
        orders = []
        for number, record in enumerate(records, start=1):
            try:
                orders.append(parse_order(record))
            except OrderProblem as problem:
                problems.append(f"order {number} of a page: {problem}")
        return OrderPage(tuple(orders), _next_cursor(value), tuple(problems))

    def load_order(self, order_id: str) -> Order | None:
        """Return one order as it is now, or None if there is none.

        A "not found" in other words than the contract's may come from a proxy, or from a server that has lost
        its routes. It counts only if the server still lists orders as it should."""
        if not order_id.strip("."):  # `.` and `..` would change the URL's path
            return None
        path = f"/orders/{quote(order_id, safe='')}"
        answer = self._client.ask("GET", path, accept=_PERHAPS_NO_ORDER)
        if answer.status not in _PERHAPS_NO_ORDER:
            with order_of(_email(answer.value)):
                return parse_order(answer.value)
        if not _says_none(answer):
            self.find_orders(_ANYBODY)
        return None

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        """Cancel an order or some of its items."""
        items = [{"item_id": item_id, "quantity": number} for item_id, number in request.items]
        answer = self._client.ask(
            "POST",
            f"/orders/{quote(request.order_id, safe='')}/cancel",
            body={"items": items or None, "reason": request.reason},
            headers={"Idempotency-Key": request.idempotency_key},
            accept=(404, 409, 501),
        )
        match answer.status:
            case 409:
                order = self.load_order(request.order_id)
                if order is not None and order.status is OrderStatus.CANCELLED:
                    return Cancelled(order)  # by a person, or by a request whose answer was lost
                return TooLate(_reason(answer, "it is too late"))
            case 404 | 501:
                return NotSupported(_reason(answer, f"the order server answered {answer.status}"))
        return Cancelled(parse_order(answer.value))

    def change_address(self, _order_id: str, _wanted: NewAddress) -> AddressOutcome:
        """Leave it to people: the contract has no request for it."""
        return NotSupported("the order server has no request for it")


def _email(record: Any) -> object:
    customer = record.get("customer") if isinstance(record, dict) else None
    return customer.get("email") if isinstance(customer, dict) else None


def _says_none(answer: Answer) -> bool:
    found = isinstance(answer.value, dict) and answer.value.get("error") == NO_SUCH_ORDER
    return answer.status == 404 and found


def _next_cursor(page: dict[str, Any]) -> str | None:
    cursor = page.get("next")
    if cursor is None:
        return None
    if not isinstance(cursor, str) or not 0 < len(cursor) <= _CURSOR_MAX_LENGTH:
        raise _breach('"next" of GET /orders is neither null nor a text')
    return cursor


def _reason(answer: Answer, otherwise: str) -> str:
    reason = answer.value.get("reason") if isinstance(answer.value, dict) else None
    return reason[:_REASON_MAX_LENGTH] if isinstance(reason, str) and reason else otherwise


def _breach(what: str) -> SourceProblem:
    return SourceProblem(f"the order server breaks its contract: {what}", operator=True)
