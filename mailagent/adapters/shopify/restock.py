"""Units of an order that Shopify takes back and puts in stock again, as `refundLineItems` of a refund.

https://shopify.dev/docs/api/admin-graphql/latest/enums/RefundLineItemRestockType
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from mailagent.adapters.shopify import queries
from mailagent.adapters.shopify.client import ShopifyClient
from mailagent.adapters.shopify.orders import item_ids_of

Fields = Mapping[str, Any]


class RestockType(StrEnum):
    """CANCEL: the units were not sent yet. RETURN: they have come back."""

    CANCEL = "CANCEL"
    RETURN = "RETURN"


def choose_lines(
    lines: Sequence[Fields], items: Iterable[tuple[str, int]]
) -> dict[str, int] | None:
    """Return the units of each line that make up these items; None if too few are left. `lines`: the first of
    the order."""
    chosen: dict[str, int] = {}
    for item_id, quantity in items:
        missing = quantity
        for line, its_id in zip(lines, item_ids_of(lines), strict=True):
            if its_id == item_id:
                units = min(missing, line["currentQuantity"] - chosen.get(line["id"], 0))
                if units:
                    chosen[line["id"]] = chosen.get(line["id"], 0) + units
                missing -= units
        if missing:
            return None
    return chosen


def refund_lines(
    client: ShopifyClient, gid: str, chosen: Mapping[str, int], kind: RestockType
) -> list[dict[str, Any]]:
    """Return the lines of a refund, restocked where Shopify suggests. What is not kept in stock has no place.
    Raises SourceProblem."""
    wanted = [
        {"lineItemId": line_id, "quantity": units, "restockType": kind}
        for line_id, units in chosen.items()
    ]
    found = client.run(queries.RESTOCK, id=gid, lines=wanted)["order"]["suggestedRefund"]
    places = {
        each["lineItem"]["id"]: each["location"]["id"]
        for each in (found or {}).get("refundLineItems", ())
        if each["location"]
    }
    return [_line(each, places.get(each["lineItemId"])) for each in wanted]


def _line(wanted: dict[str, Any], place: str | None) -> dict[str, Any]:
    return wanted | ({"locationId": place} if place else {"restockType": "NO_RESTOCK"})
