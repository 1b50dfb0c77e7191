"""The demo's small shop: its people, a dozen orders, and mails that are ready to send."""

from __future__ import annotations

import json
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
SMALL_REFUND, EXPENSIVE_REFUND = READY_MAILS[:2]
TOUR = tuple(TourStep(**step) for step in _SHOP["tour"])
ORDERS: tuple[dict[str, Any], ...] = tuple(_SHOP["orders"])
CUSTOMERS = tuple(dict.fromkeys(mail.sender for mail in READY_MAILS))


def orders_file(now: datetime) -> str:
    """Return the shop's orders as JSON lines for `flask orders import`, with dates before `now`."""
    return "".join(json.dumps(_record(order, now)) + "\n" for order in _SHOP["orders"])


def _record(order: dict[str, Any], now: datetime) -> dict[str, Any]:
    def days_ago(name: str, of: dict[str, Any] = order) -> str | None:
        days = of.get(name)
        return days and (now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def parcel(number: int, told: dict[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in told.items() if not name.endswith("_days_ago")}
        times = {
            f"{name.removesuffix('_days_ago')}_at": days_ago(name, told)
            for name in told.keys() - plain.keys()
        }
        return {"shipment_id": str(number), **plain, **times}

    name, _, address = order["customer"].rstrip(">").partition(" <")
    return {
        "order_id": order["order_id"],
        "customer": {"email": address, "name": name},
        "currency": order["currency"],
        "placed_at": days_ago("placed_days_ago"),
        "delivered_at": days_ago("delivered_days_ago"),
        "status": order["status"],
        "items": [
            {"item_id": str(number), **item} for number, item in enumerate(order["items"], start=1)
        ],
        "payments": [
            {"payment_id": f"pay_{order['order_id']}_{number}", **payment}
            for number, payment in enumerate(order["payments"], start=1)
        ],
        "shipments": [
            parcel(number, told) for number, told in enumerate(order.get("parcels", ()), start=1)
        ],
    }
