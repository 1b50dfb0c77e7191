"""Saved replies: texts that people of the shop insert into answers, with placeholders such as
{{customer_name}}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

PLACEHOLDERS: Mapping[str, str] = {
    "customer_name": "the customer's name",
    "order_number": "the order that the customer wrote about, or their only one",
    "my_name": "your name, as your answers are signed",
    "shop_name": "the shop's domain",
}

NAME_LENGTH_MAX = 80
REPLIES_MAX = 200

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


@dataclass(frozen=True, slots=True)
class SavedReply:
    saved_reply_id: str
    name: str
    text: str
    updated_by: str
    updated_at: datetime


def find_unknown(text: str) -> list[str]:
    """Return the placeholders of a text that do not exist."""
    return [name for name in _find_names(text) if name not in PLACEHOLDERS]


def find_open(text: str) -> list[str]:
    """Return the known placeholders that are still in a text, without a value."""
    return [name for name in _find_names(text) if name in PLACEHOLDERS]


def _find_names(text: str) -> list[str]:
    return [name.strip() for name in _PLACEHOLDER.findall(text)]


def fill(text: str, values: Mapping[str, str | None]) -> str:
    """Return a text with `values` in place of its placeholders. A placeholder without a value stays, and
    placeholders within a value are not filled."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1].strip()) or found[0], text)
