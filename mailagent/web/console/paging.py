"""Addresses of long lists: which page is asked for, and where the pages beside it are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import request

from mailagent.domain.typed_text import without_controls
from mailagent.store.pagination import Part, Window, parse_cursor

LONGEST_WORDS = 200
LATEST_YEAR = 2200  # beyond it a day later may not be a date any more


def read_window(newest_first: bool) -> Window:
    """Return the page that the request asks for; `newest_first` unless it asks for another order."""
    order = request.args.get("order")
    if order in ("newest", "oldest"):
        newest_first = order == "newest"
    newer, older = (parse_cursor(request.args.get(name)) for name in ("newer", "older"))
    return Window(newest_first, newer, older if newer is None else None)


def address(path: str, facts: Mapping[str, Any]) -> str:
    """Return a path with those of the facts that are set, as a query."""
    given = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def pages_beside(part: Part[Any], path: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the addresses of the newer and the older page, as `pager` in `_pieces.html` wants them."""
    return {
        "newer": address(path, {**facts, "newer": part.newer}) if part.newer else None,
        "older": address(path, {**facts, "older": part.older}) if part.older else None,
    }


def typed(name: str, source: Mapping[str, str] | None = None) -> str:
    """Return what somebody typed into a field: one line, without control characters, not too long."""
    text = (request.args if source is None else source).get(name, "")
    return " ".join(without_controls(text).split())[:LONGEST_WORDS]


def parse_day(text: str) -> datetime | None:
    """Return the midnight (UTC) that a date such as 2026-11-20 begins with, or None for no date."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day if 1970 <= day.year < LATEST_YEAR else None


def day_after(day: datetime | None) -> datetime | None:
    """Return the midnight that ends a day: a list "to" a date has that date in it."""
    return day + timedelta(days=1) if day else None
