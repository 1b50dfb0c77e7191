"""What a replay will do, told before it is begun."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import mailagent.backtest.shadow  # noqa: F401 - declares its steps
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import (
    EFFECTS,
    DecisionNow,
    MailNow,
    Reach,
    RecordedStep,
    RowsNow,
    effect_of,
    plan_replay,
    tell_rows,
)
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import RefundLine, RefundStatus
from mailagent.workflows.launch import WORKFLOWS
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.cast import ADA, MONA, NOW
from tests.domain.table_ware import earlier

REFUND = [
    RecordedStep(1, "claim_refund"),
    RecordedStep(2, "request_approval"),
    RecordedStep(3, "send_mail"),
    RecordedStep(4, "look_at_decision"),
    RecordedStep(5, "DBOS.recv"),
    RecordedStep(7, "look_at_decision"),
    RecordedStep(8, "pay_refund", error="out of order"),
]
STOP = {"stop": "it was cancelled"}
ASKED = earlier(RefundLine(1, 1, Money(4999, "USD")))


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
    ("workflow", "start", "among", "afterwards"),
    [
        ("refund", 1, ["mail provider", "gateway"], []),
        ("refund", 4, ["gateway"], ["mail provider"]),
        ("refund", 9, [], ["mail provider", "gateway"]),
        ("conversation", 9, [], ["model", "mail provider"]),
        ("sweep", 9, [], []),
    ],
)
def test_mail_and_money_that_a_replay_may_reach_are_told(
    workflow: str, start: int, among: list[str], afterwards: list[str]
) -> None:
    told = plan_replay(workflow, REFUND, start).reach
    assert len(told) == len(among) + len(afterwards)
    for beginning, words in (("Among", among), ("It may come to this", afterwards)):
        for word in words:
            assert any(line.startswith(beginning) and word in line for line in told)


def test_a_reply_that_is_written_again_may_ask_the_second_reader_again() -> None:
    steps = [RecordedStep(1, "ask_model"), RecordedStep(2, "write_reply")]
    assert plan_replay("conversation", steps, 2).again[0].reach is Reach.MODEL


def test_the_step_that_failed_is_marked() -> None:
    plan = plan_replay("refund", REFUND, 8)
    assert [step.failed for step in plan.again] == [True]
    assert not any(step.failed for step in plan.kept)


@pytest.mark.parametrize(
    ("name", "told"),
    [("step_of_next_year", "another version"), ("DBOS.patch-pay-in-parts", "which version")],
)
def test_a_step_that_nobody_knows_is_no_mistake(name: str, told: str) -> None:
    assert told in effect_of(name)


@pytest.mark.parametrize(
    ("status", "values", "rows", "told"),
    [
        (
            RefundStatus.PAID,
            {"gateway_reference": "led_7", "paid_at": NOW},
            {},
            "was paid on 20 November 2026, 12:00 UTC (reference led_7): it is not paid again",
        ),
        (
            RefundStatus.AWAITING_APPROVAL,
            {},
            {"expires_at": NOW},
            "until 20 November 2026, 12:00 UTC, then it expires: until then links in earlier mails work",
        ),
        (
            RefundStatus.AWAITING_APPROVAL,
            {},
            {"decision": DecisionNow(True, MONA, ASKED.amount, NOW), "expires_at": NOW},
            f"approved by {MONA}, and that counts from 20 November 2026, 12:00 UTC on: then it will be paid,",
        ),
        (
            RefundStatus.AWAITING_APPROVAL,
            {},
            {"decision": DecisionNow(False, MONA, ASKED.amount, NOW), "expires_at": NOW},
            f"rejected by {MONA}, and that counts from 20 November 2026, 12:00 UTC on: then the customer",
        ),
        (
            RefundStatus.APPROVED,
            {"decided_by": MONA},
            {},
            f"is approved by {MONA} and not paid: it will be paid, once",
        ),
        (RefundStatus.APPROVED, {}, {"held_up": True}, "waits for goods or a cancellation"),
        (RefundStatus.APPROVED, {}, {"asked": True}, "it is looked up first, and paid only if"),
        (
            RefundStatus.APPROVED,
            {},
            STOP,
            "a replay does not pay it: it was cancelled. It ends as failed",
        ),
        (
            RefundStatus.APPROVED,
            {},
            STOP | {"asked": True},
            "no more of it is paid: it was cancelled.",
        ),
        (
            RefundStatus.APPROVED,
            {},
            STOP | {"held_up": True},
            "it is not paid after that: it was cancelled.",
        ),
        (
            RefundStatus.APPROVED,
            {},
            STOP | {"asks_again": True, "asked": True},
            "the last look-up of its order found: it was cancelled. After goods",
        ),
        *(
            (status, {}, {}, f"is {REFUND_STATES[status]}: a replay does not change that")
            for status in (
                RefundStatus.REJECTED,
                RefundStatus.EXPIRED,
                RefundStatus.WITHDRAWN,
                RefundStatus.FAILED,
            )
        ),
    ],
)
def test_a_refund_as_it_is_now_is_told(
    status: RefundStatus, values: dict[str, Any], rows: dict[str, Any], told: str
) -> None:
    refund = replace(ASKED, status=RefundStatus(status), **values)
    (sentence,) = tell_rows(RowsNow(refund=refund, **rows))
    assert sentence.startswith("The refund of $49.99")
    assert told in sentence


@pytest.mark.parametrize(
    ("status", "sent", "told"),
    [
        (
            OutboundStatus.SENT,
            True,
            "sent on 20 November 2026, 12:00 UTC, it is not sent again",
        ),
        (OutboundStatus.UNDELIVERED, False, "it is not sent again"),
        (OutboundStatus.QUEUED, False, "has not gone out and is sent, once"),
        (OutboundStatus.SENDING, False, "may have gone out"),
        (OutboundStatus.FAILED, False, "it is not sent again"),
        (OutboundStatus.UNKNOWN, False, "it is not sent again"),
    ],
)
def test_a_mail_as_it_is_now_is_told(status: OutboundStatus, sent: bool, told: str) -> None:
    mail = MailNow(Purpose.REPLY, ADA, status, NOW if sent else None)
    (sentence,) = tell_rows(RowsNow(mails=(mail,)))
    assert sentence.startswith(f"The answer to {ADA}: ")
    assert told in sentence


@pytest.mark.parametrize(
    ("count", "handed_over", "told"),
    [
        (0, False, "nothing new is written"),
        (0, True, "nothing new is written"),
        (1, False, "Mails that wait for an answer: 1. The agent answers."),
        (2, True, "Mails that wait: 2. People look after this conversation"),
    ],
)
def test_what_waits_for_an_answer_is_told(count: int, handed_over: bool, told: str) -> None:
    (sentence,) = tell_rows(RowsNow(unanswered=count, handed_over=handed_over))
    assert told in sentence


@pytest.mark.parametrize(("unanswered", "sentences"), [(0, 1), (1, 2)])
def test_what_the_team_wrote_is_told_apart_from_what_goes_to_the_team(
    unanswered: int, sentences: int
) -> None:
    told = tell_rows(RowsNow(unanswered=unanswered, from_team=2, handed_over=True))
    assert len(told) == sentences
    assert told[0] == "Mails from the team that wait: 2. Answers among them go to the customer."
    assert ("it goes to the team" in told[-1]) is bool(unanswered)


@pytest.mark.parametrize(("unanswered", "sentences"), [(0, 1), (1, 2)])
def test_a_draft_that_waits_is_told_apart_from_mail_that_is_to_be_answered(
    unanswered: int, sentences: int
) -> None:
    told = tell_rows(RowsNow(unanswered=unanswered, draft_ids=("draft_1",)))
    assert len(told) == sentences
    assert "nothing new is written until somebody sends or discards it" in told[0]
    assert told[0].endswith(": /ops/drafts/draft_1")
    assert ("The agent answers" in told[-1]) is bool(unanswered)


def test_rows_are_told_with_the_plan() -> None:
    rows = RowsNow(refund=ASKED, mails=(MailNow(Purpose.RECEIPT, ADA, OutboundStatus.SENT, NOW),))
    assert plan_replay("refund", REFUND, 1, rows).facts == tell_rows(rows)
    assert plan_replay("refund", REFUND, 1).facts == ()
