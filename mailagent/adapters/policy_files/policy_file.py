"""The shop's refund policy as a TOML file: docs/policy.md explains every key.

What one key may hold is in `policy_values`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mailagent.adapters.policy_files import policy_values as values
from mailagent.adapters.policy_files.toml_lines import find_lines
from mailagent.adapters.policy_files.toml_table import Problems, Table
from mailagent.domain.refunds.policy import Cap, Caps, Goodwill, Policy, Unasked

_LISTS = {"item_ids": values.read_texts, "categories": values.read_text}
_REQUESTS = {
    **_LISTS,
    "reasons": values.read_reasons,
    "methods": values.read_methods,
}


class PolicyFileProblem(ValueError):
    """A policy file that cannot be used; `problems` are all that were found, each with its line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load_policy(path: Path) -> Policy:
    """Return the policy in a file. Raises PolicyFileProblem, which names file, lines and keys."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise PolicyFileProblem(
            [f"{path} cannot be read ({problem.strerror}); name a TOML file"]
        ) from None
    except ValueError as problem:
        raise PolicyFileProblem([f"{path}: {problem}"]) from None
    try:
        return parse_policy(text)
    except PolicyFileProblem as problem:
        raise PolicyFileProblem([f"{path}, {each}" for each in problem.problems]) from None


def parse_policy(text: str) -> Policy:
    """Return the policy in a text. Raises PolicyFileProblem with every problem and its line."""
    try:
        fields = tomllib.loads(text)
        problems = Problems(find_lines(text))
    except RecursionError:
        raise PolicyFileProblem(["line 1: brackets are nested without end (recursion)"]) from None
    except ValueError as problem:
        raise PolicyFileProblem([_syntax(str(problem), text)]) from None
    policy = _policy(fields, problems, text)
    if problems.found:
        raise PolicyFileProblem(problems.in_order())
    return policy


def _syntax(problem: str, text: str) -> str:
    """Put the line first, as all other problems have it."""
    words, _, where = problem.rpartition(" (at ")
    line = re.match(r"line (\d+), column (\d+)\)", where)
    if line:
        return f"line {line[1]}: {words} (column {line[2]})"
    return f"line {text.rstrip().count(chr(10)) + 1}: {problem}"


def _policy(fields: Mapping[str, Any], problems: Problems, source: str) -> Policy:
    top, default = Table(fields, (), problems), Policy()
    policy = Policy(
        limits=top.read("limits", values.read_amounts, default.limits),
        return_window_days=top.read(
            "return_window_days", values.read_window_days, default.return_window_days
        ),
        four_eyes_above=top.read("four_eyes_above", values.read_amounts, {}),
        goodwill=_goodwill(top),
        version=top.read("version", values.read_version, _digest(source)),
        source=source,
        category_windows=top.read(
            "return_window_days_by_category", values.read_category_windows, {}
        ),
        final_sale=top.read("final_sale", values.read_named(_LISTS), default.final_sale),
        photo_reasons=top.read("photo_reasons", values.read_photo_reasons, frozenset()),
        always_ask=top.read("always_ask", values.read_named(_REQUESTS), default.always_ask),
        caps=_caps(top),
        refund_shipping=top.read("refund_shipping", values.read_flag, default.refund_shipping),
        expected_days=top.read("expected_days", values.read_expected_days, default.expected_days),
        unasked=_unasked(top),
    )
    top.refuse_others()
    if not problems.found:
        _check_together(policy, problems)
    return policy


def _digest(source: str) -> str:
    return f"sha256-{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def _goodwill(top: Table) -> Goodwill | None:
    table = top.table("goodwill")
    if table is None:
        return None
    goodwill = Goodwill(
        most_percent=table.read("most_percent", values.read_percent, None) or 0,
        valid_days=table.read("valid_days", values.read_days, Goodwill(1).valid_days),
    )
    if not table.has("most_percent"):
        table.complain("has no most_percent; write the largest discount, such as 15")
    table.refuse_others()
    return goodwill


def _unasked(top: Table) -> Unasked:
    table = top.table("draft")
    if table is None:
        return Unasked()
    unasked = Unasked(
        refunds_above=table.read("refunds_above", values.read_amounts, {}),
        reasons=table.read("unasked_reasons", values.read_reasons, frozenset()),
    )
    table.refuse_others()
    return unasked


def _caps(top: Table) -> Caps:
    table, default = top.table("caps"), Caps()
    if table is None:
        return default
    customer = table.table("customer")
    days = default.customer_days
    if customer is not None:
        days = customer.read("days", values.read_days, days)
    caps = Caps(
        order=_cap(table.table("order")),
        customer=_cap(customer),
        customer_days=days,
        day=_cap(table.table("day")),
    )
    table.refuse_others()
    return caps


def _cap(table: Table | None) -> Cap:
    if table is None:
        return Cap()
    cap = Cap(
        money=table.read("money", values.read_cap_amounts, {}),
        count=table.read("count", values.read_count, None),
    )
    if not set(table.names()) - {"days"}:
        table.complain("caps nothing; write money or count into it, or leave the table out")
    table.refuse_others()
    return cap


def _check_together(policy: Policy, problems: Problems) -> None:
    for currency, tier in policy.four_eyes_above.items():
        limit = policy.limits.get(currency, 0)
        if tier < limit:
            problems.add(
                ("four_eyes_above", currency),
                "is below the limit that is refunded without asking anybody; write at least that",
            )
    for currency, most in policy.unasked.refunds_above.items():
        if most > policy.limits.get(currency, 0):
            problems.add(
                ("draft", "refunds_above", currency),
                "is above the limit of what is refunded without asking; write at most that",
            )
    for name, cap in (
        ("order", policy.caps.order),
        ("customer", policy.caps.customer),
        ("day", policy.caps.day),
    ):
        missing = sorted(policy.limits.keys() - cap.money.keys()) if cap.money else []
        if missing:
            # It would have no cap at all, which nobody means who caps the others.
            problems.add(
                ("caps", name, "money"),
                f"does not say {', '.join(missing)}, which is refunded without asking; add it",
            )
