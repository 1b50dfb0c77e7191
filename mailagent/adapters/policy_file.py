"""The shop's refund policy as a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mailagent.domain.money import parse_currency, parse_money
from mailagent.domain.policy import Policy

_KEYS = {"limits", "return_window_days"}


def load_policy(path: Path) -> Policy:
    """Return the policy in a file such as::

        return_window_days = 30
        [limits]            # the largest refund that is paid without asking
        USD = "1000.00"

    Raises ValueError, naming file and key, when it cannot be read or is wrong.
    """
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ValueError(f"{path} cannot be read ({problem.strerror}); name a TOML file") from None
    except (ValueError, RecursionError) as problem:  # no TOML, not even text, or nested without end
        raise ValueError(f"{path}: {problem}") from None
    unknown = sorted(fields.keys() - _KEYS)
    if unknown:
        raise ValueError(
            f"{path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}"
        )
    default = Policy()
    limits = _limits(path, fields["limits"]) if "limits" in fields else default.limits
    days = fields.get("return_window_days", default.return_window_days)
    if type(days) is not int or not 0 <= days <= 3650:
        raise ValueError(f"{path}: return_window_days is {days!r}; give whole days from 0 to 3650")
    return Policy(limits=limits, return_window_days=days)


def _limits(path: Path, table: Any) -> MappingProxyType[str, int]:
    if not isinstance(table, dict):
        raise ValueError(f"{path}: limits must be a table of currencies")
    limits = {}
    for currency, amount in table.items():
        try:
            limits[parse_currency(currency)] = parse_money(amount, currency).minor
        except ValueError as problem:
            raise ValueError(f"{path}: limits.{currency}: {problem}") from None
    return MappingProxyType(limits)
