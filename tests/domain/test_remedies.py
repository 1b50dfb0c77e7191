"""Remedies: their states, the customer's own words, and who may tick a task off."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from mailagent.domain.remedies.labels import REMEDY_KINDS, REMEDY_STATES
from mailagent.domain.remedies.remedy import (
    OPEN,
    Remedy,
    RemedyItem,
    RemedyKind,
    RemedyStatus,
    TaskOutcome,
    TaskProblem,
    TaskStop,
    check_outcome,
    check_transition,
    quotes,
    tell_again,
)
from tests.cast import MONA, NOW, TESS

TASK = Remedy(
    "remedy_1",
    RemedyKind.EXCHANGE,
    RemedyStatus.TASK,
    "W1001",
    "conversation_1",
    "mail_1",
    (RemedyItem("K1", "Kettle", 1),),
    NOW,
    NOW + timedelta(days=3),
)


ASKED, TASK_STATE = RemedyStatus.ASKED, RemedyStatus.TASK
ALLOWED = {
    *((TASK_STATE, each) for each in RemedyStatus if each not in OPEN),
    *((RemedyStatus.AWAITING_GOODS, each) for each in RemedyStatus if each not in OPEN),
    *((ASKED, each) for each in (RemedyStatus.DONE, RemedyStatus.NOT_POSSIBLE, TASK_STATE)),
}


@pytest.mark.parametrize(("before", "after"), list(product(RemedyStatus, RemedyStatus)))
def test_a_remedy_ends_once(before: RemedyStatus, after: RemedyStatus) -> None:
    if (before, after) in ALLOWED:
        check_transition(before, after)
        return
    with pytest.raises(ValueError, match="cannot become"):
        check_transition(before, after)


def test_every_kind_and_state_has_a_label() -> None:
    assert set(REMEDY_KINDS) == set(RemedyKind)
    assert set(REMEDY_STATES) == set(RemedyStatus)


@pytest.mark.parametrize(
    ("kind", "item_ids", "touched"),
    [
        (RemedyKind.EXCHANGE, ["K1"], True),
        (RemedyKind.EXCHANGE, ["K1", "M1"], True),
        (RemedyKind.EXCHANGE, ["M1"], False),
        (RemedyKind.REPLACEMENT, ["K1"], True),  # goods are sent again once
        (RemedyKind.REPLACEMENT, ["M1"], False),
        (RemedyKind.CANCEL, ["K1"], False),
    ],
)
def test_a_remedy_is_for_its_kind_and_its_items(
    kind: RemedyKind, item_ids: list[str], touched: bool
) -> None:
    assert TASK.touches(kind, item_ids) is touched
    assert replace(TASK, items=()).touches(TASK.kind, item_ids)  # the whole order


MAIL = "Hello,\nplease send it to:\nAda Example\n12 New Road\nSpringfield 12345\n\nAda"


@pytest.mark.parametrize(
    ("wish", "stands_there"),
    [
        ("Ada Example\n12 New Road\nSpringfield 12345", True),
        ("ada example, 12 New Road, Springfield 12345", True),
        ("12 New Road", True),
        ("2 New Road", False),  # whole words only
        ("12 New Road, Shelbyville", False),
        ("Springfield 12345, 12 New Road", False),
        ("", False),
        ("...", False),
    ],
)
def test_a_wish_stands_word_for_word_in_a_mail(wish: str, stands_there: bool) -> None:
    assert quotes(wish, ["Another mail", MAIL]) is stands_there


def test_words_of_two_mails_are_no_wish() -> None:
    assert not quotes("12 New Road", ["It is number 12", "New Road"])


DONE = TaskOutcome(is_done=True, note=None, is_manager=False)
APPROVED, FOUR_EYES = replace(DONE, is_manager=True), ("above_four_eyes",)


@pytest.mark.parametrize(
    ("status", "policy_reasons", "outcome", "problem"),
    [
        ("task", (), DONE, ""),
        ("task", (), replace(DONE, is_done=False, note="sold out"), ""),
        ("task", (), replace(DONE, is_done=False), "the customer reads it"),
        ("task", (), replace(DONE, is_theirs=True), "your own order"),
        ("task", (), replace(DONE, refund_waits=True), "waits for a manager"),
        ("task", (), replace(DONE, stop=TaskStop.CANCELLED), "order is cancelled"),
        ("task", (), replace(DONE, stop=TaskStop.CANCELLED, is_manager=True), ""),
        ("task", (), replace(DONE, stop=TaskStop.NEW_CUSTOMER), "another customer"),
        ("task", (), replace(DONE, stop=TaskStop.NEW_CUSTOMER, is_manager=True), ""),
        ("task", ("above_limit",), DONE, "a manager"),
        ("task", ("above_limit",), replace(DONE, is_manager=True), ""),
        ("task", FOUR_EYES, replace(DONE, is_manager=True), ""),
        ("task", FOUR_EYES, replace(DONE, has_approved=True), "a manager"),
        ("task", FOUR_EYES, replace(APPROVED, has_approved=True), "approved it already"),
        ("task", FOUR_EYES, replace(APPROVED, is_late=True), "approved it meanwhile"),
        ("task", FOUR_EYES, replace(APPROVED, has_approved=True, is_done=False, note="no"), ""),
        ("withdrawn", (), DONE, "ended already"),
        ("expired", (), DONE, "ended already"),
        ("not_possible", (), DONE, "ended already"),
    ],
)
def test_who_may_say_what_of_a_task(
    status: str, policy_reasons: tuple[str, ...], outcome: TaskOutcome, problem: str
) -> None:
    task = replace(TASK, status=RemedyStatus(status), policy_reasons=policy_reasons)
    if not problem:
        assert check_outcome(task, outcome)
        return
    with pytest.raises(TaskProblem, match=problem):
        check_outcome(task, outcome)


@pytest.mark.parametrize(("status", "is_done"), [("done", True), ("not_possible", False)])
def test_the_same_outcome_again_is_no_news(status: str, is_done: bool) -> None:
    task = replace(TASK, status=RemedyStatus(status))
    assert not check_outcome(task, replace(DONE, is_done=is_done))


ENDED = replace(
    TASK,
    status=RemedyStatus.DONE,
    decided_by=TESS,
    decided_at=NOW,
    note="By UPS.",
    policy_reasons=(),
)
REFUSED = replace(ENDED, status=RemedyStatus.NOT_POSSIBLE)
# Without a note no mail has told the customer, and goods come back once.
AS_BACK = f"{TESS} recorded the goods as back, 20 November 2026, 12:00 UTC; write to the customer what else"


@pytest.mark.parametrize(
    ("task", "person", "note", "approves", "told"),
    [
        (ENDED, TESS, None, False, ""),
        (ENDED, TESS.upper(), "By UPS.", False, ""),
        (ENDED, TESS, "By DHL.", False, "done twice"),
        (ENDED, MONA, None, False, f"{TESS} said that it is done"),
        (ENDED, MONA, "By UPS.", False, "done twice"),
        (ENDED, MONA, None, True, ""),  # the first of two managers does nothing
        (ENDED, MONA, "By DHL.", True, "write to the customer"),
        (replace(ENDED, kind=RemedyKind.RETURN), MONA, None, False, ""),  # goods come back once
        (replace(ENDED, kind=RemedyKind.RETURN), MONA, "Thanks.", False, AS_BACK),
        (REFUSED, MONA, None, False, ""),
        (REFUSED, MONA, "By UPS.", False, ""),
        (REFUSED, TESS, "Sold out.", False, f"{TESS} said that it is not possible"),
    ],
)
def test_who_may_have_done_it_twice_or_loses_words_reads_so(
    task: Remedy, person: str, note: str | None, approves: bool, told: str
) -> None:
    again = tell_again(task, person, note, approves)
    assert (again is None) if not told else (told in str(again))
