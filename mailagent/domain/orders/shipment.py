"""The parcels of an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
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
    None if neither carrier nor shop has reported it."""

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

    @property
    def is_delivered(self) -> bool:
        return self.status is ShipmentStatus.DELIVERED

    @property
    def is_parcel(self) -> bool:
        """Whether something was sent that customers ask for. False for what was handed over without a carrier
        or a day, such as a gift card that the shop sent by mail."""
        known = (self.carrier, self.tracking_number, self.shipped_at, self.last_event_at)
        return not self.is_delivered or any((*known, self.delivered_at))

    @property
    def has_left(self) -> bool:
        """Whether it is with the carrier or the customer; False for a returned parcel."""
        return self.status in _ON_THE_WAY or self.is_delivered

    @property
    def is_handed_over(self) -> bool:
        """Whether a carrier has or had the parcel; True for a returned parcel."""
        return self.status is not ShipmentStatus.LABEL_CREATED

    @property
    def due_since(self) -> datetime | None:
        """Since when the parcel is late: when it last moved, or when it was expected if that is later. None for
        a parcel that is not on its way, or whose times are unknown."""
        times = [each for each in (self.shipped_at, self.last_event_at) if each]
        if self.status not in _ON_THE_WAY or not times:
            return None
        moved = max(times)
        # An expected date in another year would keep a lost parcel on its way for ever.
        if self.expected_at is None or self.expected_at - moved > EXPECTED_WITHIN:
            return moved
        return max(moved, self.expected_at)


# A parcel may be expected so long after it last moved. Sea freight takes up to two months.
EXPECTED_WITHIN = timedelta(days=60)
_ON_THE_WAY = frozenset(
    {ShipmentStatus.IN_TRANSIT, ShipmentStatus.OUT_FOR_DELIVERY, ShipmentStatus.EXCEPTION}
)


@dataclass(frozen=True, slots=True)
class Packed:
    """The parcels that may hold certain items. `whole`: together they hold all wanted units."""

    parcels: tuple[Shipment, ...] = ()
    whole: bool = False

    @property
    def is_tracked(self) -> bool:
        """Whether the carrier has reported an event for each parcel. Without events, we would never hear that a
        parcel was delivered."""
        return all(each.last_event_at for each in self.parcels)

    @property
    def due_since(self) -> datetime | None:
        """The latest `due_since` of the parcels; None unless all are on their way and hold all units."""
        times = [each.due_since for each in self.parcels]
        known = [each for each in times if each]
        return max(known) if self.whole and known and len(known) == len(times) else None


def find_parcels(shipments: Iterable[Shipment], units: Mapping[str, int]) -> Packed:
    """Return the parcels that may hold some of these units. `units`: how many of each item id. A parcel without
    a list of items may hold anything."""
    found = [
        each for each in shipments if not each.items or any(item in units for item, _ in each.items)
    ]
    packed = Counter[str]()
    for item_id, quantity in (pair for each in found for pair in each.items):
        packed[item_id] += quantity
    whole = any(not each.items for each in found)
    return Packed(tuple(found), whole or all(packed[item] >= units[item] for item in units))


def left_to_ship(shipments: Sequence[Shipment], bought: Mapping[str, int]) -> dict[str, int] | None:
    """Return how many units of each item are still at the shop, by item id. None if a parcel was handed to a
    carrier and the shop does not say what is in it. `bought`: the units of the order."""
    handed_over = [each for each in shipments if each.is_handed_over]
    if any(not each.items for each in handed_over):
        return None
    left = Counter(bought)
    for item_id, quantity in (pair for each in handed_over for pair in each.items):
        left[item_id] -= quantity
    return {item_id: max(0, left[item_id]) for item_id in bought}


def is_tracking_link(text: str) -> bool:
    """Return whether a text is a link that a mail may show: https, with a host, without user name or spaces."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_link = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    return is_link and text.isprintable() and " " not in text
