"""Fields of an order's record, one by one: read as what they must be, or refused by their name.

`where` is the field's name in the message. What belongs together is for `order_record`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.money import parse_money
from mailagent.domain.refunds.order import OrderProblem
from mailagent.domain.text import is_one_line

T = TypeVar("T")

# Outside these years a date is a slip, and adding a return window to it may have no result.
FIRST_YEAR, LAST_YEAR = 1970, 2999


def parse_amount(value: object, where: str, currency: str) -> int:
    """Return an amount in minor units; 0 where there is none."""
    return 0 if value is None else checked(where, lambda: parse_money(value, currency)).minor


def parse_flag(value: object, where: str) -> bool:
    """Return a flag; false where there is none."""
    if value is not None and type(value) is not bool:
        raise OrderProblem(f"{where}: {value!r} is neither true nor false")
    return bool(value)


def parse_object(
    value: object, where: str, keys: set[str], optional: set[str] | frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    """Return an object that has all `keys` but the `optional` ones, and no others."""
    if not isinstance(value, dict):
        raise OrderProblem(f"{where}: is not an object")
    unknown = sorted(str(key) for key in value.keys() - keys)
    if unknown:
        raise OrderProblem(f"{where}: unknown key {unknown[0]!r}")
    missing = sorted(keys - optional - value.keys())
    if missing:
        raise OrderProblem(f"{where}: {missing[0]!r} is missing")
    return value


def parse_list(value: object, where: str) -> list[object]:
    """Return a list. Raises OrderProblem for anything else."""
    if not isinstance(value, list):
        raise OrderProblem(f"{where}: is not a list")
    return value


def parse_text(value: object, where: str, empty: bool = False) -> str:
    """Return one line of at most 500 characters; an empty one only where `empty` says so."""
    if not isinstance(value, str) or not (empty or value.strip()):
        raise OrderProblem(f"{where}: {value!r} is not a text")
    if len(value) > 500 or not is_one_line(value):
        raise OrderProblem(f"{where}: is over 500 characters or has control characters")
    return value.strip()


def parse_address(value: object, where: str) -> str:
    """Return a mail address as it is compared everywhere."""
    address = normalise_address(parse_text(value, where))
    if address is None:
        raise OrderProblem(f"{where}: {value!r} is not a mail address")
    return address


def parse_instant(value: object, where: str) -> datetime:
    """Return an instant in UTC. Raises OrderProblem without a time zone, or beyond FIRST_YEAR and
    LAST_YEAR."""
    try:
        instant = datetime.fromisoformat(value)  # type: ignore[arg-type]  # TypeError is caught
    except (TypeError, ValueError):
        raise OrderProblem(f"{where}: {value!r} is not a time like 2026-11-01T09:00:00Z") from None
    if instant.tzinfo is None:
        raise OrderProblem(f"{where}: {value!r} has no time zone; add Z or an offset")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise OrderProblem(
            f"{where}: {value!r} is not within the years {FIRST_YEAR} to {LAST_YEAR}"
        )
    return instant.astimezone(UTC)


def parse_optional_instant(value: object, where: str) -> datetime | None:
    """Return an instant, or None where there is none."""
    return None if value is None else parse_instant(value, where)


def checked(where: str, parse: Callable[[], T]) -> T:
    """Return what `parse` returns; its ValueError becomes an OrderProblem of the field."""
    try:
        return parse()
    except ValueError as problem:
        raise OrderProblem(f"{where}: {problem}") from None
