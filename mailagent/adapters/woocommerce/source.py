"""Orders of a WooCommerce shop, looked up when needed. Satisfies `domain.orders.source.OrderSource`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mailagent.adapters.woocommerce.client import WooCommerceClient
from mailagent.adapters.woocommerce.orders import (
    NAME,
    TITLE,
    UNSENT,
    has_parcels,
    is_order,
    read_order,
    status_of,
)
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.orders.source import (
    AddressOutcome,
    Cancelled,
    CancelOutcome,
    CancelRequest,
    NotSupported,
    OrderPage,
    OutOfTime,
    SourceProblem,
    TooLate,
    after_change,
    cut_page,
    order_of,
)
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from mailagent.domain.remedies.address import NewAddress

ORDERS_A_PAGE = 20
# The most pages that we search for a number. It may be a number that a customer made up.
SEARCHED_PAGES = 5
_CURSOR = re.compile(r"[0-9]{1,6}")
_POST_ID = re.compile(r"[0-9]{1,18}")

Fields = Mapping[str, Any]


class WooCommerceSource:
    """One shop. Threads may share it."""

    name = NAME

    def __init__(self, client: WooCommerceClient) -> None:
        self._client = client

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        """Return a page of the orders with a mail address, newest first."""
        page = int(cursor) if cursor and _CURSOR.fullmatch(cursor) else 1
        listed = self._client.list_orders(email, page, ORDERS_A_PAGE)
        found, problems = cut_page(listed, ORDERS_A_PAGE)
        wanted = normalise_address(email)
        orders, is_cut = [], False
        for each in found:
            # The search also finds similar addresses, and the address in other fields, so check again.
            if normalise_address(_email(each)) == wanted and is_order(each):
                try:
                    orders.append(self._read(each))
                except OrderProblem as problem:
                    problems.append(str(problem))
                except OutOfTime:
                    if not orders:
                        raise
                    is_cut = True
                    break
        following = str(page + 1) if len(found) == ORDERS_A_PAGE else None
        return OrderPage(tuple(orders), following, tuple(problems), is_cut)

    def load_order(self, order_id: str) -> Order | None:
        """Return the order with a number; None if there is none. The number is WooCommerce's id, unless an
        extension sets numbers of its own."""
        fields = self._find(order_id)
        if not fields:
            return None
        with order_of(_email(fields)):
            return self._read(fields)

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        """Cancel a whole order if nothing of it was sent, without refunding money."""
        if request.items:
            return NotSupported("WooCommerce cancels whole orders only")
        fields = self._find(request.order_id)
        if fields is None:
            return NotSupported(f"{TITLE} has no order {request.order_id}")
        status = status_of(fields)
        if status is not OrderStatus.CANCELLED:
            if fields["status"] not in UNSENT:
                why = f"its status is {fields['status']}"
                # A status of an extension does not tell whether the order was sent.
                return NotSupported(why) if status is OrderStatus.PENDING else TooLate(why)
            if has_parcels(fields):  # the status changes only after all of it was sent
                return NotSupported("a parcel of it is on record, so it may be on its way")
            fields = self._client.change_order(fields["id"], status="cancelled")
        with after_change():
            return Cancelled(self._read(fields))

    def change_address(self, _order_id: str, _wanted: NewAddress) -> AddressOutcome:
        """Leave it to people. When REST v3 writes an address, it computes all totals again by the taxes of that
        day; we read what was paid from the total."""
        return NotSupported(
            f"{TITLE} would compute its totals again; change it on the order's page"
        )

    def _find(self, order_id: str) -> Fields | None:
        number = order_id.removeprefix("#")
        if _POST_ID.fullmatch(number):
            found = self._client.find_order(number)
            if found and str(found.get("number")) == number:
                return found if is_order(found) else None
        return next(self._search(number), None)

    def _search(self, number: str) -> Iterator[Fields]:
        """Find the orders with a number. WooCommerce finds all that contain it. Begin with the oldest: A-12 was
        placed before A-120."""
        for page in range(1, SEARCHED_PAGES + 1):
            found = self._client.list_orders(number, page, ORDERS_A_PAGE, oldest_first=True)
            yield from (x for x in found if str(x.get("number")) == number and is_order(x))
            if len(found) < ORDERS_A_PAGE:
                return

    def _read(self, fields: Fields) -> Order:
        """Parse an order with its refunds, which say what the shop took back."""
        try:
            refunds = self._client.list_refunds(fields["id"]) if fields.get("refunds") else []
        except KeyError as problem:
            raise SourceProblem(f"refunds of order {fields.get('number')}: {problem}") from problem
        return read_order(fields, refunds)


def _email(fields: Fields) -> str:
    billing = fields.get("billing")
    email = billing.get("email") if isinstance(billing, Mapping) else None
    return email if isinstance(email, str) else ""
