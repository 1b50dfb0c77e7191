"""The demo's small shop: its people, a dozen orders, and mails that are ready to send."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SUPPORT_ADDRESS = "support@shop.example"
REPLY_DOMAIN = "shop.example"
MANAGERS = ("mona@shop.example", "max@shop.example")
TEAM = ("tess@shop.example",)
OPERATORS = ("olga@shop.example",)


@dataclass(frozen=True, slots=True)
class ReadyMail:
    """A mail behind a button called `title`. `aligned`: SPF and DKIM vouch for the sender."""

    name: str
    title: str
    sender: str
    subject: str
    text: str
    aligned: bool = True


_SHOP: dict[str, Any] = tomllib.loads(Path(__file__).with_name("shop.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step of the tour. Its buttons fill in a letter, open a mailbox, or lead to a page."""

    name: str
    title: str
    text: str
    letter: str = ""
    mailbox: str = ""
    link: str = ""
    button: str = ""


READY_MAILS = tuple(ReadyMail(**mail) for mail in _SHOP["mails"])
SMALL_REFUND, EXPENSIVE_REFUND, CANCEL, RETURN = (
    next(mail for mail in READY_MAILS if mail.name == name)
    for name in ("small", "expensive", "cancel", "return")
)
TOUR = tuple(TourStep(**step) for step in _SHOP["tour"])
ORDERS: tuple[dict[str, Any], ...] = tuple(_SHOP["orders"])
CUSTOMERS = tuple(dict.fromkeys(mail.sender for mail in READY_MAILS))


def list_orders(began_at: datetime, now: datetime) -> list[dict[str, Any]]:
    """Return the shop's orders as its server tells them: dates before `began_at`, parcels as they have moved
    until `now`."""
    return [_record(order, began_at, now) for order in _SHOP["orders"]]


def _record(order: dict[str, Any], began_at: datetime, now: datetime) -> dict[str, Any]:
    def days_ago(name: str, of: dict[str, Any] = order) -> str | None:
        days = of.get(name)
        return _written(began_at - timedelta(days=days)) if days else None

    def parcel(number: int, told: dict[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in told.items() if not name.endswith("_days_ago")}
        times = {
            f"{name.removesuffix('_days_ago')}_at": days_ago(name, told)
            for name in told.keys() - plain.keys()
        }
        moves = plain.pop("moves_after_minutes", {})
        return {"shipment_id": str(number), **plain, **times, **_moved(moves, began_at, now)}

    parcels = [parcel(number, told) for number, told in enumerate(order.get("parcels", ()), 1)]
    arrived = [each["delivered_at"] for each in parcels if each.get("delivered_at")]
    all_arrived = bool(parcels) and len(arrived) == len(parcels)
    name, _, address = order["customer"].rstrip(">").partition(" <")
    return {
        "order_id": order["order_id"],
        "customer": {"email": address, "name": name},
        "currency": order["currency"],
        "placed_at": days_ago("placed_days_ago"),
        "delivered_at": max(arrived) if all_arrived else days_ago("delivered_days_ago"),
        "status": "delivered" if all_arrived else order["status"],
        "items": [
            {"item_id": str(number), **item} for number, item in enumerate(order["items"], start=1)
        ],
        "payments": [
            {"payment_id": f"pay_{order['order_id']}_{number}", **payment}
            for number, payment in enumerate(order["payments"], start=1)
        ],
        "shipments": parcels,
    }


def _moved(moves: dict[str, int], began_at: datetime, now: datetime) -> dict[str, Any]:
    """Return what has changed of a parcel that reaches each state so many minutes after the demo began."""
    changes: dict[str, Any] = {}
    for status, minutes in moves.items():
        at = began_at + timedelta(minutes=minutes)
        if at <= now:
            changes = {"status": status, "last_event_at": _written(at)}
    if changes.get("status") == "delivered":
        changes["delivered_at"] = changes["last_event_at"]
    return changes


def _written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
