"""What waits in draft mode, and what a shop is told that it could turn off."""

from __future__ import annotations

import pytest

from mailagent.domain.draft import DraftReplies, DraftState, Topic, waits_for_click
from mailagent.domain.draft_figures import (
    ANSWERS_ENOUGH,
    REFUNDS_ENOUGH,
    Count,
    DraftedRefund,
    advise,
    amounts_to_trust,
    may_stop_replies,
    reasons_to_trust,
    tally,
)
from mailagent.domain.policy import Policy, Unasked
from mailagent.domain.refund import RefundReason

NONE, ALL, REFUNDS = DraftReplies.NONE, DraftReplies.ALL, DraftReplies.REFUNDS


@pytest.mark.parametrize(
    ("setting", "topics", "waits"),
    [
        (NONE, (Topic.REFUND,), False),
        (ALL, (Topic.OTHER,), True),
        (REFUNDS, (Topic.OTHER,), False),
        (REFUNDS, (Topic.ORDERS,), False),
        (REFUNDS, (Topic.ORDERS, Topic.REFUND), True),
        (REFUNDS, (Topic.WITHDRAWAL,), True),
        (REFUNDS, (Topic.GOODWILL,), True),
    ],
)
def test_the_setting_and_the_topics_decide_what_waits(
    setting: DraftReplies, topics: tuple[Topic, ...], waits: bool
) -> None:
    assert waits_for_click(setting, topics) is waits


def count(topic: Topic, state: DraftState, month: int, quarter: int | None = None) -> Count:
    return Count((topic,), state, 0, month, month if quarter is None else quarter)


def counts(topic: Topic, sent: int, edited: int = 0, discarded: int = 0) -> list[Count]:
    return [
        count(topic, DraftState.SENT, sent),
        count(topic, DraftState.EDITED, edited),
        count(topic, DraftState.DISCARDED, discarded),
    ]


def test_what_was_overtaken_counts_neither_for_nor_against_the_agent() -> None:
    found = tally(
        [*counts(Topic.OTHER, 2, 1, 1), count(Topic.OTHER, DraftState.SUPERSEDED, 96)], "in_30_days"
    )
    assert (found.sent, found.edited, found.discarded, found.superseded) == (2, 1, 1, 96)
    assert found.changed_percent == 50
    assert tally([], "in_90_days").changed_percent is None


def test_windows_and_topics_are_counted_apart() -> None:
    old = count(Topic.REFUND, DraftState.EDITED, 0, quarter=3)
    found = [*counts(Topic.OTHER, 5), old]
    assert tally(found, "in_30_days").edited == 0
    assert tally(found, "in_90_days").edited == 3
    assert tally(found, "in_90_days", Topic.OTHER).decided == 5


ENOUGH = ANSWERS_ENOUGH  # 5 % of them is one


@pytest.mark.parametrize(
    ("setting", "money", "other", "following"),
    [
        pytest.param(ALL, (0,), (ENOUGH,), REFUNDS, id="only others were seen"),
        pytest.param(ALL, (0,), (ENOUGH - 1,), None, id="one too few"),
        pytest.param(ALL, (0,), (ENOUGH - 1, 1), REFUNDS, id="one in twenty edited"),
        pytest.param(ALL, (0,), (ENOUGH - 2, 1, 1), None, id="two in twenty changed"),
        pytest.param(ALL, (ENOUGH,), (ENOUGH,), NONE, id="both are trusted"),
        pytest.param(ALL, (ENOUGH,), (0,), None, id="money first is no way"),
        pytest.param(REFUNDS, (ENOUGH,), (0,), NONE, id="then money"),
        pytest.param(REFUNDS, (0, 0, ENOUGH), (0,), None, id="all were thrown away"),
        pytest.param(NONE, (ENOUGH,), (ENOUGH,), None, id="nothing is left to turn off"),
    ],
)
def test_what_could_be_turned_off_follows_from_what_people_changed(
    setting: DraftReplies,
    money: tuple[int, ...],
    other: tuple[int, ...],
    following: DraftReplies | None,
) -> None:
    found = [*counts(Topic.REFUND, *money), *counts(Topic.ORDERS, *other)]
    assert may_stop_replies(setting, found) is following


def refund(minor: int = 10_00, outcome: str = "approved", reason: str = "damaged") -> DraftedRefund:
    return DraftedRefund(reason, "USD", minor, outcome)


def refunds(number: int, *others: DraftedRefund) -> list[DraftedRefund]:
    return [refund(10_00 + each) for each in range(number)] + list(others)


@pytest.mark.parametrize(
    ("found", "reasons", "amounts"),
    [
        pytest.param(refunds(REFUNDS_ENOUGH - 1), (), {}, id="one too few"),
        pytest.param(refunds(REFUNDS_ENOUGH), ("damaged",), {"USD": 10_09}, id="just enough"),
        pytest.param(
            refunds(10, refund(50_00, "rejected")), (), {"USD": 10_09}, id="a dear one was rejected"
        ),
        pytest.param(refunds(10, refund(10_09, "lowered")), (), {}, id="the dearest was lowered"),
        pytest.param(
            refunds(10, refund(1, "rejected", "other")), ("damaged",), {}, id="for another reason"
        ),
        pytest.param(
            refunds(10, refund(1, "expired"), refund(1, "waiting")),
            ("damaged",),
            {"USD": 10_09},
            id="what nobody decided says nothing",
        ),
    ],
)
def test_refunds_are_trusted_by_reason_and_by_amount(
    found: list[DraftedRefund], reasons: tuple[str, ...], amounts: dict[str, int]
) -> None:
    assert reasons_to_trust(found) == reasons
    assert amounts_to_trust(found) == amounts


def test_the_advice_names_the_setting_and_leaves_out_what_is_turned_off_already() -> None:
    drafting = Policy(drafts_refunds=True)
    (reason, amount) = advise(NONE, [], drafting, refunds(10))
    assert "damaged" in reason
    assert "unasked_reasons" in reason
    assert "10.09 USD" in amount
    assert "refunds_above" in amount
    unasked = Unasked({"USD": 10_09}, frozenset({RefundReason.DAMAGED}))
    (nothing,) = advise(NONE, [], Policy(drafts_refunds=True, unasked=unasked), refunds(10))
    assert nothing.startswith("Nothing yet")
    assert list(advise(NONE, [], Policy(), refunds(10))) == []
    (replies,) = advise(ALL, counts(Topic.OTHER, ENOUGH), Policy(), [])
    assert "DRAFT_REPLIES=refunds" in replies
