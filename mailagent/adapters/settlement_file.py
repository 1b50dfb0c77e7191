"""Settlements as a CSV file: exported without outcomes, and read with those that people filled in."""

from __future__ import annotations

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
from mailagent.domain.text import is_one_line

COLUMNS = (
    "settlement", "order_id", "customer", "payment_id", "method", "amount", "currency", "recorded_at",
    "pay_by", "do_not_pay", "outcome", "reference", "reason",
)  # fmt: skip
_OUTCOMES = {each.value: each for each in SettlementState if each is not SettlementState.OPEN}
_PAID_BEFORE = "paid_before"


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


def read_outcomes(data: bytes) -> list[tuple[int, Outcome]]:
    """Return the outcomes in a file, each with its line number. Lines without an outcome are left out.

    Raises SettlementFileProblem with every line that cannot be read.
    """
    found: dict[str, tuple[int, Outcome]] = {}
    problems = []
    try:
        rows = list(read_csv(data))
    except ValueError as problem:
        text = "the file is not UTF-8" if isinstance(problem, UnicodeDecodeError) else str(problem)
        raise SettlementFileProblem([(1, f"{text}; save it as CSV in UTF-8")]) from None
    for line_no, cells in rows:
        try:
            outcome = _outcome(cells)
            if outcome and outcome.idempotency_key in found:
                before = found[outcome.idempotency_key][0]
                raise ValueError(f"line {before} names the same settlement; keep one of them")
        except ValueError as problem:
            problems.append((line_no, str(problem)))
        else:
            if outcome:
                found[outcome.idempotency_key] = line_no, outcome
    if problems:
        raise SettlementFileProblem(problems)
    return list(found.values())


def _outcome(cells: Mapping[str, str]) -> Outcome | None:
    missing = [name for name in ("settlement", "outcome") if name not in cells]
    if missing:
        raise ValueError(
            f"there is no column {' and no '.join(missing)}; keep the first line of the exported file"
        )
    said = cells["outcome"].lower()
    if not said:
        return None
    paid_before = said == _PAID_BEFORE
    state = SettlementState.SETTLED if paid_before else _OUTCOMES.get(said)
    if state is None:
        raise ValueError(
            f"“{cells['outcome']}” is no outcome; write settled or failed, or {_PAID_BEFORE} for what must not"
            " be paid any more and is"
        )
    if not cells["settlement"]:
        raise ValueError("the settlement is missing; take its id from the exported list")
    return Outcome(
        _text(cells, "settlement") or "",
        state,
        _text(cells, "reference"),
        _text(cells, "reason"),
        _amount(cells),
        paid_before,
    )


def _text(cells: Mapping[str, str], name: str) -> str | None:
    text = cells.get(name, "")
    if len(text) > LONGEST_TEXT or not is_one_line(text):
        raise ValueError(f"the {name} must be one line of at most {LONGEST_TEXT} characters")
    return text or None


def _amount(cells: Mapping[str, str]) -> Money | None:
    amount, currency = cells.get("amount"), cells.get("currency")
    return parse_typed_amount(amount, parse_currency(currency)) if amount and currency else None
