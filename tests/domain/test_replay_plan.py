"""What a replay will do, told before it is begun."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import (
    EFFECTS,
    MailNow,
    Reach,
    RefundNow,
    RowsNow,
    effect_of,
    plan_replay,
    tell_reach,
    tell_rows,
)
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.workflows.launch import WORKFLOWS
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.cast import ADA, MONA, NOW


@dataclass(frozen=True)
class Step:
    number: int
    name: str
    error: str | None = None


REFUND = [
    Step(1, "claim_refund"),
    Step(2, "request_approval"),
    Step(3, "send_mail"),
    Step(4, "look_at_decision"),
    Step(5, "DBOS.recv"),
    Step(7, "look_at_decision"),
    Step(8, "pay_refund", "out of order"),
]
MONEY = Money(4999, "USD")


def test_every_step_of_every_workflow_is_told_in_words() -> None:
    assert WORKFLOWS  # they were imported, and with them their steps
    ours = {name for name in EFFECTS if not name.startswith("DBOS.")}
    assert ours == CRASH_POINTS.keys(), "enter the step in domain/operations/replay.py"


@pytest.mark.parametrize(
    ("start", "kept", "again"),
    [
        (1, [], [1, 2, 3, 4, 5, 7, 8]),
        (2, [1], [2, 3, 4, 5, 7, 8]),
        (6, [1, 2, 3, 4, 5], [7, 8]),  # DBOS gives a wait two numbers
        (8, [1, 2, 3, 4, 5, 7], [8]),
        (9, [1, 2, 3, 4, 5, 7, 8], []),
    ],
)
def test_what_is_recorded_before_the_start_is_kept(
    start: int, kept: list[int], again: list[int]
) -> None:
    plan = plan_replay("refund", REFUND, start)
    assert [step.number for step in plan.kept] == kept
    assert [step.number for step in plan.again] == again


@pytest.mark.parametrize(
    ("start", "reaches"),
    [(1, {Reach.MAIL, Reach.MONEY}), (4, {Reach.MONEY}), (9, set())],
)
def test_mail_and_money_among_the_steps_are_found(start: int, reaches: set[Reach]) -> None:
    assert plan_replay("refund", REFUND, start).reaches == reaches


def test_what_a_run_may_come_to_afterwards_is_told_too() -> None:
    told = tell_reach(plan_replay("refund", REFUND, 8))
    assert any(line.startswith("Among") and "gateway" in line for line in told)
    assert any(line.startswith("It may come to this") and "mail" in line for line in told)
    assert tell_reach(plan_replay("sweep", [], 1)) == ()


def test_the_step_that_failed_is_marked() -> None:
    plan = plan_replay("refund", REFUND, 8)
    assert [step.failed for step in plan.again] == [True]
    assert not any(step.failed for step in plan.kept)


@pytest.mark.parametrize("name", ["step_of_next_year", "DBOS.patch-pay-in-parts"])
def test_a_step_that_nobody_knows_is_no_mistake(name: str) -> None:
    assert effect_of(name).reaches == frozenset()


def test_an_unknown_step_is_told_as_such() -> None:
    assert "another version" in effect_of("step_of_next_year").does


@pytest.mark.parametrize(
    ("refund", "told"),
    [
        (
            RefundNow("refund_1", RefundStatus.PAID, MONEY, reference="led_7", paid_at=NOW),
            "was paid on 2026-11-20 at 12:00 UTC (reference led_7): it is not paid again",
        ),
        (
            RefundNow("refund_1", RefundStatus.AWAITING_APPROVAL, MONEY, expires_at=NOW),
            "until 2026-11-20 at 12:00 UTC: the links mailed before still work",
        ),
        (
            RefundNow("refund_1", RefundStatus.APPROVED, MONEY, decided_by=MONA),
            f"is approved by {MONA} and not paid: it will be paid, once",
        ),
        (
            RefundNow("refund_1", RefundStatus.APPROVED, MONEY, asked=True),
            "it is looked up first, and paid only if it was not",
        ),
        (
            RefundNow("refund_1", RefundStatus.REJECTED, MONEY),
            "is rejected: a replay does not change that",
        ),
    ],
)
def test_a_refund_as_it_is_now_is_told(refund: RefundNow, told: str) -> None:
    (sentence,) = tell_rows(RowsNow(refund=refund))
    assert sentence.startswith("The refund of 49.99 USD")
    assert told in sentence


@pytest.mark.parametrize("status", list(RefundStatus))
def test_every_state_of_a_refund_has_a_sentence(status: RefundStatus) -> None:
    assert len(tell_rows(RowsNow(refund=RefundNow("refund_1", status, MONEY)))) == 1


@pytest.mark.parametrize(
    ("status", "sent", "told"),
    [
        (OutboundStatus.SENT, True, "was sent on 2026-11-20 at 12:00 UTC: it is not sent again"),
        (OutboundStatus.UNDELIVERED, False, "was sent: it is not sent again"),
        (OutboundStatus.QUEUED, False, "has not gone out: it is sent, once"),
        (OutboundStatus.SENDING, False, "may have gone out"),
        (OutboundStatus.FAILED, False, "is failed: it is not sent again"),
        (OutboundStatus.UNKNOWN, False, "is unknown: it is not sent again"),
    ],
)
def test_a_mail_as_it_is_now_is_told(status: OutboundStatus, sent: bool, told: str) -> None:
    mail = MailNow(Purpose.REPLY, ADA, status, NOW if sent else None)
    (sentence,) = tell_rows(RowsNow(mails=(mail,)))
    assert sentence.startswith(f"The answer to {ADA} ")
    assert told in sentence


@pytest.mark.parametrize(
    ("count", "handed_over", "told"),
    [
        (0, False, "nothing new is written"),
        (0, True, "nothing new is written"),
        (1, False, "1 mail waits for an answer: the agent answers"),
        (2, True, "2 mails wait, and people look after this conversation"),
    ],
)
def test_what_waits_for_an_answer_is_told(count: int, handed_over: bool, told: str) -> None:
    (sentence,) = tell_rows(RowsNow(unanswered=count, handed_over=handed_over))
    assert told in sentence


@pytest.mark.parametrize(("unanswered", "sentences"), [(0, 1), (1, 2)])
def test_a_draft_that_waits_is_told_apart_from_mail_that_is_to_be_answered(
    unanswered: int, sentences: int
) -> None:
    told = tell_rows(RowsNow(unanswered=unanswered, draft_ids=("draft_1",)))
    assert len(told) == sentences
    assert "nothing new is written until somebody sends or discards it" in told[0]
    assert told[0].endswith(": /ops/drafts/draft_1")
    assert ("the agent answers" in told[-1]) is bool(unanswered)


def test_rows_are_told_with_the_plan() -> None:
    rows = RowsNow(
        refund=RefundNow("refund_1", RefundStatus.PAID, MONEY, paid_at=NOW + timedelta(days=1)),
        mails=(MailNow(Purpose.RECEIPT, ADA, OutboundStatus.SENT, NOW),),
    )
    assert plan_replay("refund", REFUND, 1, rows).facts == tell_rows(rows)
    assert plan_replay("refund", REFUND, 1).facts == ()
