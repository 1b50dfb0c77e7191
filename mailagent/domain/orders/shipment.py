"""The parcels of an order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlsplit


class ShipmentStatus(StrEnum):
    LABEL_CREATED = "label_created"
    IN_TRANSIT = "in_transit"
    OUT_FOR_DELIVERY = "out_for_delivery"
    DELIVERED = "delivered"
    EXCEPTION = "exception"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Shipment:
    """One parcel. `items` are pairs of an item id and a quantity; empty if the shop does not say. A time is
    None if the carrier or the shop has not told it."""

    shipment_id: str
    status: ShipmentStatus
    carrier: str | None = None
    tracking_number: str | None = None
    tracking_url: str | None = None
    shipped_at: datetime | None = None
    expected_at: datetime | None = None
    delivered_at: datetime | None = None
    last_event_at: datetime | None = None
    items: tuple[tuple[str, int], ...] = ()


def is_tracking_link(text: str) -> bool:
    """Return whether a text is a link that a mail may show: https, to a host, without a user or spaces."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_link = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    return is_link and text.isprintable() and " " not in text
