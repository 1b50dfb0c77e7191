"""Settlements as a CSV file: exported without outcomes, and read with those that people filled in."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence

from mailagent.adapters.csv_file import read_csv, write_csv
from mailagent.domain.amount_field import parse_typed_amount
from mailagent.domain.money import Money, parse_currency
from mailagent.domain.refunds.settlement import (
    LONGEST_TEXT,
    Outcome,
    Settlement,
    SettlementFileProblem,
    SettlementState,
)
from mailagent.domain.text import Fill, fill, is_one_line

COLUMNS = (
    "settlement", "order_id", "customer", "payment_id", "method", "amount", "currency", "recorded_at",
    "pay_by", "do_not_pay", "outcome", "reference", "reason",
)  # fmt: skip
_PAID_BEFORE, _CAME_BACK = "paid_before", "came_back"
_OUTCOMES = {
    "settled": SettlementState.SETTLED,
    _PAID_BEFORE: SettlementState.SETTLED,
    "failed": SettlementState.FAILED,
    _CAME_BACK: SettlementState.FAILED,
}


def write_settlements(settlements: Iterable[Settlement], stops: Mapping[str, str]) -> str:
    """Return a CSV file of open settlements, for people to fill in. `stops`: why some must not be paid any
    more, by refund id."""
    return write_csv(COLUMNS, (_row(each, stops.get(each.refund_id, "")) for each in settlements))


def _row(each: Settlement, stop: str) -> Sequence[str]:
    return (
        each.idempotency_key,
        each.order_id,
        each.customer_name,
        each.payment_id,
        each.method,
        each.to_give.decimal(),
        each.to_give.currency,
        f"{each.recorded_at:%Y-%m-%d}",
        f"{each.due_at:%Y-%m-%d}",
        stop,
        *("", "", ""),
    )


def read_outcomes(data: bytes, _: Fill = fill) -> list[tuple[int, Outcome]]:
    """Return the outcomes in a file, each with its line number. Lines without an outcome are left out.

    Raises SettlementFileProblem with every line that cannot be read, translated by `_`.
    """
    found: dict[str, tuple[int, Outcome]] = {}
    problems = []
    for line_no, cells in _read_rows(data, _):
        try:
            outcome = _outcome(cells, _)
            if outcome and outcome.idempotency_key in found:
                before = found[outcome.idempotency_key][0]
                raise ValueError(
                    _(
                        "line %(number)s names the same settlement; keep one of them",
                        number=str(before),
                    )
                )
        except ValueError as problem:
            problems.append((line_no, str(problem)))
        else:
            if outcome:
                found[outcome.idempotency_key] = line_no, outcome
    if problems:
        raise SettlementFileProblem(problems, _)
    return list(found.values())


def _read_rows(data: bytes, _: Fill) -> list[tuple[int, dict[str, str]]]:
    try:
        return list(read_csv(data))
    except UnicodeDecodeError:
        text = _("the file is not UTF-8; save it as CSV in UTF-8")
    except csv.Error as problem:
        text = _("it cannot be read as CSV (%(why)s); save it as CSV in UTF-8", why=str(problem))
    raise SettlementFileProblem([(1, text)], _)


def _outcome(cells: Mapping[str, str], _: Fill) -> Outcome | None:
    missing = [name for name in ("settlement", "outcome") if name not in cells]
    if missing:
        raise ValueError(
            _(
                "a column is missing (%(names)s); keep the first line of the exported file",
                names=", ".join(missing),
            )
        )
    said = cells["outcome"].lower()
    if not said:
        return None
    state = _OUTCOMES.get(said)
    if state is None:
        raise ValueError(
            _(
                "“%(text)s” is no outcome; write settled or failed, paid_before for what must not be paid any"
                " more and is, or came_back for what was paid and came back",
                text=cells["outcome"],
            )
        )
    if not cells["settlement"]:
        raise ValueError(_("the settlement is missing; take its id from the exported list"))
    return Outcome(
        _text(cells, "settlement", _) or "",
        state,
        _text(cells, "reference", _),
        _text(cells, "reason", _),
        _amount(cells, _),
        paid_before=said == _PAID_BEFORE,
        came_back=said == _CAME_BACK,
    )


def _text(cells: Mapping[str, str], name: str, _: Fill) -> str | None:
    text = cells.get(name, "")
    if len(text) > LONGEST_TEXT or not is_one_line(text):
        raise ValueError(
            _(
                "“%(name)s” must be one line of at most %(most)s characters",
                name=name,
                most=LONGEST_TEXT,
            )
        )
    return text or None


def _amount(cells: Mapping[str, str], _: Fill) -> Money | None:
    amount, currency = cells.get("amount"), cells.get("currency")
    if not amount or not currency:
        return None
    try:
        code = parse_currency(currency)
    except ValueError:
        raise ValueError(
            _("“%(text)s” is not a currency; write its code, such as USD", text=currency)
        ) from None
    return parse_typed_amount(amount, code, _)
