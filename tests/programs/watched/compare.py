"""What Prometheus says beside what the rows say, once the shop is at rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.store.database import Database
from tests.programs.watched.prometheus import Series

Rows = dict[str, float]  # by the labels' values, those that are 0 left out
# A range begins with the first scrape that has a series, and is stretched to whole scrapes.
NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """`labels`: those that the statement has as columns, the figure behind them. `near`: by how much of
    itself the figure may differ."""

    query: str
    statement: str
    labels: tuple[str, ...] = ()
    near: float = 0.0


@dataclass(frozen=True, slots=True)
class Compared:
    query: str
    source: str
    near: float
    told: Rows
    truth: Rows

    @property
    def wrong(self) -> list[str]:
        """Return what differs; that nothing was there to compare counts as well."""
        return find_differences(self.told, self.truth, self.near) or (
            [] if self.truth else ["there is nothing to compare"]
        )


_TOKENS = " UNION ALL ".join(
    f"SELECT '{name}', sum({name}_tokens) FROM model_calls"
    for name in ("input", "cached", "output")
)
_REFUNDS = "SELECT status, currency, {} FROM refunds GROUP BY status, currency"
_IN_UNITS = "sum(amount_minor) / 100.0"
_PAID = f"SELECT currency, {_IN_UNITS} FROM refunds WHERE status = 'paid' GROUP BY currency"
_ANSWERED = (
    "SELECT count(*) FROM inbound_mails JOIN outbound_mails ON outbound_id = answered_by"
    " WHERE NOT (purpose = 'reply' AND outbound_mails.dedup_key LIKE 'hand_over:%')"
)
_OUTGOING = "SELECT status, count(*) FROM outbound_mails GROUP BY status"
_MONEY = ("status", "currency")

COMPARISONS = (
    Comparison(
        "max by (kind) (mailagent_mails_received_total)",
        "SELECT kind, count(*) FROM inbound_mails GROUP BY kind",
        ("kind",),
    ),
    Comparison("max(mailagent_mails_answered_total)", _ANSWERED),
    Comparison("max(mailagent:mails_answered:max)", _ANSWERED),
    Comparison(
        "max by (status, currency) (mailagent_refunds)", _REFUNDS.format("count(*)"), _MONEY
    ),
    Comparison(
        "max by (status, currency) (mailagent_refunds_amount)", _REFUNDS.format(_IN_UNITS), _MONEY
    ),
    Comparison(
        "max by (status, currency) (mailagent:refunds_amount:max)",
        _REFUNDS.format(_IN_UNITS),
        _MONEY,
    ),
    Comparison(
        'max(mailagent_waiting{what="approvals"})',
        "SELECT count(*) FROM refunds WHERE status = 'awaiting_approval'",
    ),
    Comparison(
        'max by (workflow) (mailagent_runs{status="PENDING", workflow="refund"})',
        "SELECT name, count(*) FROM dbos.workflow_status"
        " WHERE status = 'PENDING' AND name = 'refund' GROUP BY name",
        ("workflow",),
    ),
    Comparison(
        "max by (outcome) (mailagent_model_calls_total)",
        "SELECT outcome, count(*) FROM model_calls GROUP BY outcome",
        ("outcome",),
    ),
    Comparison("max by (type) (mailagent_model_tokens_total)", _TOKENS, ("type",)),
    Comparison("max by (type) (mailagent:model_tokens:max)", _TOKENS, ("type",)),
    Comparison(
        "sum(max by (model) (mailagent_model_cost_usd_today))",
        "SELECT sum(cost_micro_usd) / 1e6 FROM model_calls"
        " WHERE at >= date_trunc('day', now(), 'UTC')",
    ),
    Comparison(
        "max by (purpose) (mailagent_mails_written_total)",
        "SELECT purpose, count(*) FROM outbound_mails GROUP BY purpose",
        ("purpose",),
    ),
    Comparison("max by (status) (mailagent_outgoing_mails)", _OUTGOING, ("status",)),
    Comparison("max by (status) (mailagent:outgoing_mails:max)", _OUTGOING, ("status",)),
    Comparison(
        'sum by (currency) (delta(mailagent:refunds_amount:max{status="paid"}[1d]))',
        _PAID,
        ("currency",),
        NEAR,
    ),
    Comparison(
        "sum by (type) (delta(mailagent:model_tokens:max[1h]))"
        " / scalar(sum(delta(mailagent:mails_answered:max[1h])) > 0)",
        f"SELECT *, sum * 1.0 / ({_ANSWERED}) FROM ({_TOKENS}) tokens",
        ("type",),
        NEAR,
    ),
    Comparison(
        'sum(delta(mailagent:model_tokens:max{type="cached"}[1h]))'
        ' / sum(delta(mailagent:model_tokens:max{type="input"}[1h]))',
        "SELECT sum(cached_tokens) * 1.0 / sum(input_tokens) FROM model_calls",
        near=NEAR,
    ),
)


def told_rows(series: Iterable[Series], labels: tuple[str, ...]) -> Rows:
    """Return the last value of each series by the values of these labels."""
    found = {" ".join(each.labels[name] for name in labels): each.last for each in series}
    return {name: value for name, value in found.items() if value}


def true_rows(database: Database, statement: str, labels: tuple[str, ...]) -> Rows:
    """Return what a statement says: its first columns are the labels' values, its last is the figure."""
    with database.snapshot() as connection:
        rows = connection.execute(sa.text(statement)).all()
    found = {" ".join(row[: len(labels)]): float(row[-1] or 0) for row in rows}
    return {name: value for name, value in found.items() if value}


def find_differences(
    told: Mapping[str, float], truth: Mapping[str, float], near: float
) -> list[str]:
    """Return a line for each figure that is not the same. What one side does not have is 0 there."""
    pairs = {name: (told.get(name, 0.0), truth.get(name, 0.0)) for name in sorted({*told, *truth})}
    return [
        f"{name or 'it'} is {first:g} in Prometheus and {second:g} in truth"
        for name, (first, second) in pairs.items()
        if not math.isclose(first, second, rel_tol=max(near, 1e-9))
    ]
