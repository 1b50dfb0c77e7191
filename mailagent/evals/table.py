"""Writes the tables for people: of one run, and of the comparison of two runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from mailagent.evals.figures import (
    MUST_BE_ZERO,
    Change,
    Interval,
    Result,
    by_task,
    honest,
    interval,
    mean_of,
    pass_of,
)

# As they are told: a share of samples, or a mean for each.
_SHARES = (
    *("broken", "harmed", "false_hand_over", "missed_hand_over", "wrong_language", "invented"),
)
_MEANS = ("replies_stopped", "turns", "tokens", "cost_usd", "seconds")
_MOST_K = 4


def tell_run(results: Sequence[Result]) -> str:
    """Return the table of a run: a column for each suite."""
    suites = list(dict.fromkeys(each.suite for each in results))
    columns = {suite: [each for each in results if each.suite == suite] for suite in suites}
    if len(suites) > 1:
        columns["all"] = list(results)
    names = ["", *columns]
    rows = [names, *([name, *cells] for name, cells in _rows(list(columns.values())))]
    return lay_out(rows)


def _rows(columns: Sequence[Sequence[Result]]) -> Iterator[tuple[str, list[str]]]:
    grouped = [by_task(each) for each in columns]
    yield "tasks", [str(len(each)) for each in grouped]
    yield "samples", [str(sum(map(len, each.values()))) for each in grouped]
    for k in range(1, _MOST_K + 1):
        passed = [pass_of(each, k) for each in grouped]
        if any(passed):
            yield f"pass^{k} %", [_share(interval(each)) for each in passed]
    sincere = [honest(each) for each in columns]
    if sincere != list(columns):
        passed = [pass_of(by_task(each), 1) for each in sincere]
        yield "pass^1 %, nothing invented", [_share(interval(each)) for each in passed]
    for name in MUST_BE_ZERO:
        yield name, [_sum(each, name) for each in grouped]
    for name in _SHARES:
        yield f"{name} %", [_share(interval(mean_of(each, name))) for each in grouped]
    for name in _MEANS:
        yield name, [f"{fmean(mean_of(each, name)):.4g}" for each in grouped]


def _sum(tasks: Mapping[str, Sequence[Result]], name: str) -> str:
    return f"{sum(each.scores[name] for trials in tasks.values() for each in trials):.0f}"


def _share(found: Interval) -> str:
    if math.isnan(found.value):
        return "-"
    return f"{found.value * 100:.1f} ({found.low * 100:.0f}-{found.high * 100:.0f})"


def tell_comparison(changes: Sequence[Change]) -> str:
    """Return the table of a comparison: before, after, and how sure the difference is."""
    rows = [["", "before", "after", "difference (95 % for all)", ""]]
    for each in changes:
        found = each.difference
        rows.append(
            [
                each.name,
                f"{each.before:.4g}",
                f"{each.after:.4g}",
                f"{found.value:+.4g} ({found.low:+.4g} to {found.high:+.4g})",
                "WORSE" if each.is_worse else "",
            ]
        )
    return lay_out(rows)


def lay_out(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns of the same width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
