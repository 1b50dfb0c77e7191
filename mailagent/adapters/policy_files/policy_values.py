"""What one key of the policy file may hold: its value becomes the policy's, or a problem is noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from mailagent.adapters.policy_files.toml_table import Value, Wrong
from mailagent.domain.money import parse_currency, parse_money
from mailagent.domain.refunds.order import method_word
from mailagent.domain.refunds.policy import Named, same_word
from mailagent.domain.refunds.refund import RefundReason

T = TypeVar("T")

MOST_DAYS = 3650
MOST_EXPECTED_DAYS = 90
MOST_COUNT = 1_000_000
VERSION_MAX_LENGTH = 80


def read_flag(value: Value) -> bool:
    if type(value.raw) is not bool:
        raise value.wrong(f"is {value.raw!r}; write true or false")
    return value.raw


def read_version(value: Value) -> str:
    return value.text(VERSION_MAX_LENGTH)


def read_window_days(value: Value) -> int:
    return value.whole(0, MOST_DAYS, "whole days")


def read_days(value: Value) -> int:
    return value.whole(1, MOST_DAYS, "whole days")


def read_expected(value: Value) -> int:
    return value.whole(0, MOST_EXPECTED_DAYS, "whole days")


def read_count(value: Value) -> int:
    return value.whole(0, MOST_COUNT, "a whole number")


def read_percent(value: Value) -> int:
    return value.whole(1, 100, "a whole percentage")


def read_amounts(value: Value) -> Mapping[str, int]:
    """Return amounts in minor units by currency."""
    return _by_key(value, _read_amount, "currencies")


def read_cap_amounts(value: Value) -> Mapping[str, int]:
    """Return what a cap says of money; an empty table would look like a cap and be none."""
    amounts = read_amounts(value)
    if not value.raw:
        raise value.wrong("caps nothing; write an amount into it, or leave it out")
    return amounts


def _read_amount(currency: str, value: Value) -> int:
    try:
        return parse_money(value.raw, parse_currency(currency)).minor
    except ValueError as problem:
        raise value.wrong(f": {problem}") from None


def read_category_windows(value: Value) -> Mapping[str, int]:
    return _by_key(value, lambda _key, each: read_window_days(each), "categories", same_word)


def read_expected_days(value: Value) -> Mapping[str, int]:
    return _by_key(value, lambda _key, each: read_expected(each), "payment methods", method_word)


def _by_key(
    value: Value,
    read: Callable[[str, Value], int],
    of: str,
    name_of: Callable[[str], str] = str,
) -> Mapping[str, int]:
    table = value.table(of)
    found: dict[str, int] = {}
    for key in table.names():
        name = name_of(key)
        if name in found or not name:
            twice = "stands here in two ways of writing" if name else "has an empty name"
            value.problems.note((*value.path, key), f"{key!r} {twice}; leave it out")
            continue
        number = table.read(key, lambda each, key=key: read(key, each), None)  # type: ignore[misc]
        if number is not None:
            found[name] = number
    return MappingProxyType(found)


def read_texts(value: Value) -> frozenset[str]:
    return _set(value, lambda each: each.text())


def read_text(value: Value) -> frozenset[str]:
    """Return categories, as they are compared."""
    return _set(value, lambda each: same_word(each.text()))


def read_methods(value: Value) -> frozenset[str]:
    """Return payment methods, as they are compared."""
    return _set(value, lambda each: method_word(each.text()))


def read_reasons(value: Value) -> frozenset[RefundReason]:
    return _set(value, _read_reason)


def _read_reason(value: Value) -> RefundReason:
    try:
        return RefundReason(value.raw)
    except ValueError:
        names = ", ".join(reason.value for reason in RefundReason)
        raise value.wrong(f"is {value.raw!r}; the reasons are {names}") from None


def read_photo_reasons(value: Value) -> frozenset[RefundReason]:
    reasons = read_reasons(value)
    if RefundReason.NOT_DELIVERED in reasons:
        raise value.wrong("has not_delivered, of which nobody has a photo; leave it out")
    return reasons


def _set(value: Value, read: Callable[[Value], T]) -> frozenset[T]:
    found: set[T] = set()
    for element in value.elements():
        try:
            one = read(element)
        except Wrong:
            continue
        if one in found:
            element.problems.add(element.path, f"is {element.raw!r} again; leave one out")
        found.add(one)
    return frozenset(found)


def read_named(readers: Mapping[str, Callable[[Value], Any]]) -> Callable[[Value], Named]:
    """Return what reads a table that names items, and whatever else `readers` know."""

    def read(value: Value) -> Named:
        table = value.table()
        named = Named(**{key: table.read(key, each, frozenset()) for key, each in readers.items()})
        table.refuse_others()
        return named

    return read
