"""Which outcomes of a settlement are news, and which cannot be; and the file that people fill in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mailagent.adapters.settlement_file import read_outcomes, write_settlements
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import RefundState
from mailagent.domain.refunds.settlement import (
    Outcome,
    ReportedAgain,
    Settlement,
    SettlementFileProblem,
    SettlementProblem,
    SettlementRules,
    SettlementState,
    check_again,
    check_outcome,
)
from tests.cast import MONA, OLGA

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
OPEN, SETTLED, FAILED = SettlementState
KNOWN = Settlement(
    idempotency_key="refund_1",
    reference="ledger_1",
    refund_id="refund_1",
    order_id="W1001",
    payment_id="pay_1",
    customer_name="=Ada",
    method="bank_transfer",
    amount=Money(4999, "USD"),
    state=OPEN,
    recorded_at=NOW,
    due_at=NOW + timedelta(days=7),
    promised=False,
)
HEAD = "settlement,amount,currency,outcome,reference,reason\n"


@pytest.mark.parametrize(
    ("before", "told", "news"),
    [
        (OPEN, SETTLED, True),
        (OPEN, FAILED, True),
        (SETTLED, SETTLED, False),
        (FAILED, FAILED, False),
    ],
)
def test_an_outcome_is_news_once(
    before: SettlementState, told: SettlementState, news: bool
) -> None:
    outcome = Outcome("refund_1", told, reason="no such account" if told is FAILED else None)
    assert check_outcome(replace(KNOWN, state=before), outcome) is news


def test_what_is_paid_fails_only_if_the_money_came_back() -> None:
    """Another person may have paid it while a list, or an exported file, said that it was open."""
    paid, stale = replace(KNOWN, state=SETTLED), Outcome("refund_1", FAILED, reason="do not pay")
    with pytest.raises(SettlementProblem, match="recorded as paid; if the money has come back"):
        check_outcome(paid, stale)
    assert check_outcome(paid, replace(stale, came_back=True))


PAID = replace(KNOWN, state=SETTLED, decided_by=OLGA, decided_at=NOW, bank_reference="SEPA 1")
BROKEN = replace(PAID, state=FAILED, reason="closed")


@pytest.mark.parametrize(
    ("known", "person", "reported", "in_file", "problem"),
    [
        (PAID, OLGA, "SEPA 1", False, ""),
        (PAID, OLGA.upper(), None, False, ""),
        (PAID, OLGA, "SEPA 2", False, "reference: SEPA 1; your report"),
        (PAID, MONA, "SEPA 1", False, "recorded it as paid, 20 November 2026, 12:00 UTC"),
        (PAID, MONA, None, False, "paid twice"),
        (PAID, MONA, "SEPA 1", True, ""),
        (PAID, OLGA, None, True, ""),
        (PAID, MONA, None, True, "leave its line out"),
        (PAID, OLGA, "SEPA 2", True, "paid twice"),
        (replace(PAID, bank_reference=None), MONA, None, True, ""),
        (replace(PAID, bank_reference=None), MONA, None, False, "reference: –"),
        (replace(PAID, bank_reference=None), OLGA, "SEPA 2", True, "reference: –"),
        (replace(PAID, credit=PAID.amount), MONA, "CODE-2", False, "cancel one of the two"),
        (replace(PAID, decided_by="at once"), OLGA, None, False, "at once recorded it"),
        (BROKEN, MONA, "closed", False, ""),
        (BROKEN, OLGA, "another name", False, "12:00 UTC: closed; your report"),
        (BROKEN, MONA, "another name", True, "leave its line out"),
        (replace(BROKEN, reason="erased"), MONA, "closed", False, ""),
        (replace(BROKEN, reason="erased"), MONA, "closed", True, ""),
    ],
)
def test_only_a_report_that_may_be_of_a_second_payment_is_a_problem(
    known: Settlement, person: str, reported: str | None, in_file: bool, problem: str
) -> None:
    if known.state is FAILED:
        outcome = Outcome("refund_1", FAILED, reason=reported)
    else:
        outcome = Outcome("refund_1", SETTLED, bank_reference=reported)
    assert not check_outcome(known, outcome)
    if not problem:
        check_again(known, outcome, person, in_file)
        return
    with pytest.raises(ReportedAgain, match=problem):
        check_again(known, outcome, person, in_file)


@pytest.mark.parametrize(
    ("known", "outcome", "what"),
    [
        (None, Outcome("refund_9", SETTLED), "there is no settlement refund_9"),
        (KNOWN, Outcome("refund_1", FAILED), "needs a reason"),
        (replace(KNOWN, state=FAILED), Outcome("refund_1", SETTLED), "it has failed before"),
        (
            KNOWN,
            Outcome("refund_1", SETTLED, amount=Money(4998, "USD")),
            r"the amount is \$49.99, not \$49.98",
        ),
    ],
)
def test_what_cannot_be_says_what_to_do(
    known: Settlement | None, outcome: Outcome, what: str
) -> None:
    with pytest.raises(SettlementProblem, match=what):
        check_outcome(known, outcome)


@pytest.mark.parametrize(
    ("known", "outcome", "stop"),
    [
        (None, Outcome("refund_9", SETTLED), None),
        (KNOWN, Outcome("refund_1", SETTLED, amount=Money(4998, "USD")), None),
        (replace(KNOWN, credit=KNOWN.amount), Outcome("refund_1", SETTLED), None),
        (KNOWN, Outcome("refund_1", FAILED), None),
        (replace(KNOWN, state=FAILED), Outcome("refund_1", SETTLED), None),
        (KNOWN, Outcome("refund_1", SETTLED), "it was cancelled"),
    ],
)
def test_every_problem_of_an_outcome_is_translated(
    known: Settlement | None, outcome: Outcome, stop: str | None
) -> None:
    with pytest.raises(SettlementProblem, match=r"^in German$"):
        check_outcome(known, outcome, stop, lambda _message, **_facts: "in German")


def test_the_shop_has_a_week_unless_it_promises_a_time() -> None:
    assert SettlementRules().due_at(NOW) == NOW + timedelta(days=7)
    assert SettlementRules(3).due_at(NOW) == NOW + timedelta(days=3)


@pytest.mark.parametrize(
    ("at_once", "method", "paid"),
    [
        (True, "card", True),
        (True, None, True),
        (True, "bank_transfer", False),
        (False, "card", False),
    ],
)
def test_people_pay_transfers_even_where_all_else_is_paid_at_once(
    at_once: bool, method: str | None, paid: bool
) -> None:
    assert SettlementRules(at_once=at_once).pays_at_once(method) is paid


def test_a_settlement_is_a_refund_at_the_gateway() -> None:
    states = [replace(KNOWN, state=each).as_refund("ledger").state for each in SettlementState]
    assert states == [RefundState.PENDING, RefundState.SETTLED, RefundState.FAILED]


# --- the file -------------------------------------------------------------------------------------


def test_a_file_is_filled_in_and_read_back() -> None:
    text = write_settlements(
        [KNOWN, replace(KNOWN, refund_id="refund_2", idempotency_key="refund_2")],
        {"refund_2": "it was cancelled"},
    )
    head, first, second = text.splitlines()
    assert "'=Ada" in first  # no formula
    assert read_outcomes(text.encode()) == []
    filled = [head, first.removesuffix(",,,") + ',settled,"SEPA 17",', second]
    ((line, outcome),) = read_outcomes("\r\n".join(filled).encode())
    assert line == 2
    assert outcome == Outcome("refund_1", SETTLED, "SEPA 17", None, Money(4999, "USD"))


def test_a_spreadsheet_may_save_it_with_semicolons_and_commas_in_amounts() -> None:
    data = "\ufeff" + HEAD.replace(",", ";") + "refund_1;49,99;USD;Settled;;\n;;;;;\n"
    ((_, outcome),) = read_outcomes(data.encode())
    assert outcome == Outcome("refund_1", SETTLED, None, None, Money(4999, "USD"))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe",
        b'a,b\n"1',
        b"order,outcome\nW1,settled\n",
        f"{HEAD}a,,,paid,,\nb,1.0.0,USD,settled,,\n,,,settled,,\nc,1,US$,failed,,\n".encode(),
        f"{HEAD}c,,,failed,,\nc,,,settled,,\nd,,,settled,{'x' * 201},\n".encode(),
    ],
)
def test_every_problem_of_a_file_is_translated(data: bytes) -> None:
    with pytest.raises(SettlementFileProblem) as caught:
        read_outcomes(data, lambda _message, **facts: str(facts.get("problem", "in German")))
    assert {each.replace("in German", "").strip() for each in caught.value.lines} == {""}


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (b"\xff\xfe", ["line 1: the file is not UTF-8; save it as CSV in UTF-8"]),
        (b'a,b\n"1', ["line 1: it cannot be read as CSV"]),
        (
            b"order,outcome\nW1,settled\n",
            ["line 2: a column is missing (settlement); keep the first"],
        ),
        (
            f"{HEAD}a,,,paid,,\nb,1.0.0,USD,settled,,\n,,,settled,,\nc,,,failed,,\nc,,,settled,,\n".encode(),
            [
                "line 2: “paid” is no outcome; write settled or failed",
                "line 3: “1.0.0”",
                "line 4: the settlement is missing; take its id from the exported list",
                "line 6: line 5 names the same settlement; keep one of them",
            ],
        ),
        (
            f"{HEAD}a,,,settled,{'x' * 201},\n".encode(),
            ["line 2: “reference” must be one line of at most 200 characters"],
        ),
    ],
)
def test_every_line_that_cannot_be_read_is_named(data: bytes, problems: list[str]) -> None:
    with pytest.raises(SettlementFileProblem) as caught:
        read_outcomes(data)
    assert len(caught.value.lines) == len(problems)
    for line, problem in zip(caught.value.lines, problems, strict=True):
        assert line.startswith(problem)
