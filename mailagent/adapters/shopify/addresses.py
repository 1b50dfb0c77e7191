"""Changes the delivery address of a Shopify order, and reads it back.

`orderUpdate` also takes the address of a sent order. Since API version 2026-10 it computes taxes again for an
unsent one:
https://shopify.dev/changelog/updating-an-orders-shipping-address-returns-accurate-financial-data
So we ask only if prices include their tax, and only for an address in the same country and province.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mailagent.adapters.shopify import queries
from mailagent.adapters.shopify.client import is_denied
from mailagent.adapters.shopify.orders import TITLE
from mailagent.domain.orders.source import (
    AddressChanged,
    AddressOutcome,
    NotSupported,
    SourceProblem,
    TooLate,
    Unsure,
    after_change,
)
from mailagent.domain.remedies.address import NewAddress, PostalAddress, move_to

Fields = Mapping[str, Any]
# In any other state the shop may be packing the parcel already.
_UNTOUCHED = "UNFULFILLED"
# `orderUpdate` deletes these fields if we leave them out.
_KEPT = ("firstName", "lastName", "provinceCode", "phone")


def change(run: Callable[..., dict[str, Any]], gid: str, wanted: NewAddress) -> AddressOutcome:
    """Change the address of an order. `run` runs a query and raises SourceProblem."""
    before = run(queries.ADDRESS, id=gid)["order"]
    refused = _why_not(before)
    if refused:
        return refused
    new = move_to(_read(before["shippingAddress"]), wanted)
    if isinstance(new, str):
        return NotSupported(new)
    if _read(before["shippingAddress"]) == new:
        return AddressChanged()
    try:
        answer = run(queries.CHANGE_ADDRESS, input=_input(gid, before["shippingAddress"], new))
    except SourceProblem as problem:
        if problem.not_done and is_denied(str(problem)):  # the look-up worked: only this is refused
            return NotSupported(f"it refused us: {problem}; allow {queries.ADDRESS_SCOPE}")
        raise
    words = "; ".join(each["message"] for each in answer["orderUpdate"]["userErrors"])
    if words:
        return NotSupported(f"{TITLE}: {words}"[:200])
    with after_change():
        after = run(queries.ADDRESS, id=gid)["order"]
    wrong = _find_difference(before, after, new)
    return Unsure(wrong) if wrong else AddressChanged()


def _why_not(order: Fields | None) -> TooLate | NotSupported | None:
    if not order or not order["shippingAddress"]:
        return NotSupported(f"{TITLE} shows no delivery address of it")
    status = order["displayFulfillmentStatus"]
    if order["cancelledAt"] or status == "FULFILLED":
        return TooLate("it is cancelled" if order["cancelledAt"] else f"its fulfilment is {status}")
    if status != _UNTOUCHED:
        return NotSupported(f"its fulfilment is {status}")
    if not order["taxesIncluded"]:
        return NotSupported("its taxes depend on the address")
    return None


def _read(address: Fields) -> PostalAddress:
    def text(name: str) -> str:
        return " ".join((address[name] or "").split())

    def names(*fields: str) -> tuple[str, ...]:
        return tuple(text(each) for each in fields if text(each))

    return PostalAddress(
        name=text("name"),
        company=text("company"),
        street=text("address1"),
        extra=text("address2"),
        zip=text("zip"),
        city=text("city"),
        provinces=names("provinceCode", "province"),
        countries=names("countryCodeV2", "country"),
    )


def _input(gid: str, current: Fields, new: PostalAddress) -> dict[str, Any]:
    address = {name: current[name] for name in _KEPT}
    address |= {"address1": new.street, "address2": new.extra, "zip": new.zip, "city": new.city}
    return {"id": gid, "shippingAddress": address | {"countryCode": current["countryCodeV2"]}}


def _find_difference(before: Fields, after: Fields | None, new: PostalAddress) -> str | None:
    """Return what is wrong with the order after the change; None if nothing is."""
    if not after or not after["shippingAddress"] or _read(after["shippingAddress"]) != new:
        return "what came back is another address: compare it with the customer's words"
    if after["displayFulfillmentStatus"] != _UNTOUCHED or after["cancelledAt"]:
        return "the order was sent or cancelled at that moment: see where it goes"
    if any(after[name] != before[name] for name in ("currentTotalPriceSet", "currentTotalTaxSet")):
        return "the order's total or tax is another now: agree on it with the customer"
    return None
