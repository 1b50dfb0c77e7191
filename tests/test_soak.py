"""The soak's checker finds each kind of damage, and nothing where there is none. The soak itself is run on
demand: `python -m tests.programs.soak`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mailagent.domain.mail.conversation import HandOverReason
from tests.cast import ADA, GRACE, MAX, MONA, TESS
from tests.programs.soak.checker import find_damage
from tests.programs.soak.evidence import (
    Arrived,
    Evidence,
    InboundMail,
    Moved,
    OurMail,
    RefundRow,
    RunRow,
)
from tests.programs.soak.story import Click, Damage, End, Kind, Story, TakeOver, Written

OVERDUE = HandOverReason.LEFT_UNANSWERED.value
STRANGER = "mallory@evil.example"

# Ada wants 49.99 back, Grace 1499.00, which Mona approves.
WRITTEN = Written("m1@example.com", Kind.SMALL, ADA, ADA, "W1001", 4999)
BIG_WRITTEN = Written("m2@example.org", Kind.BIG, GRACE, GRACE, "W1002", 149900)
APPROVED = Click("W1002", MONA, "approve", recorded=True)
STORY = Story([WRITTEN, BIG_WRITTEN], {"m1@example.com", "m2@example.org"}, clicks=[APPROVED])

MAIL = InboundMail("mail_1", "m1@example.com", "answered", None, "outbound_1", "case_1")
BIG_MAIL = InboundMail("mail_2", "m2@example.org", "answered", None, "outbound_3", "case_2")
REPLY = OurMail("outbound_1", "sent", "reply", None, "", ADA, "case_1")
RECEIPT = OurMail("outbound_2", "sent", "receipt", "refund_1", "Paid: $49.99", ADA, "case_1")
BIG_REPLY = OurMail("outbound_3", "sent", "reply", None, "", GRACE, "case_2")
BIG_RECEIPT = OurMail(
    "outbound_4", "sent", "receipt", "refund_2", "Paid: $1,499.00", GRACE, "case_2"
)
REFUND = RefundRow("refund_1", "W1001", "paid", 4999, False, (), None, "policy")
BIG_REFUND = RefundRow("refund_2", "W1002", "paid", 149900, True, (MONA,), "approve", MONA)
MOVED = Moved("refund_1", "pi_W1001", 4999)
BIG_MOVED = Moved("refund_2", "pi_W1002", 149900)
RUN = RunRow("conversation-1", "conversation", "SUCCESS")
CASE = OurMail("outbound_5", "sent", "hand_over", None, "", TESS, "case_1")


def seen(ours: list[OurMail], **others: Any) -> Evidence:
    """Return what was left behind, with these mails of ours, all of which arrived."""
    parts: dict[str, Any] = {
        "story": STORY,
        "inbound": [MAIL, BIG_MAIL],
        "ours": ours,
        "arrived": [Arrived(mail.outbound_id, mail.to, mail.text) for mail in ours],
        "refunds": [REFUND, BIG_REFUND],
        "moved": [MOVED, BIG_MOVED],
        "paid": {"pi_W1001": 4999, "pi_W1002": 149900},
        "managers": frozenset({MONA, MAX}),
        "team": frozenset({TESS}),
        "runs": [RUN],
    }
    return Evidence(**{**parts, **others})


ALL = [REPLY, RECEIPT, BIG_REPLY, BIG_RECEIPT]
BIG_ONES, SMALL_ONES = [BIG_REPLY, BIG_RECEIPT], [REPLY, RECEIPT]
SOUND = seen(ALL)


def story(**others: Any) -> Evidence:
    return replace(SOUND, story=replace(STORY, **others))


def small(kind: Kind, ours: list[OurMail], **mail: Any) -> Evidence:
    """Return what was left behind when Ada wrote something that no refund comes of."""
    ada = replace(WRITTEN, kind=kind)
    return seen(
        [*BIG_ONES, *ours],
        story=replace(STORY, written=[ada, BIG_WRITTEN]),
        inbound=[replace(MAIL, **mail), BIG_MAIL],
        refunds=[BIG_REFUND],
        moved=[BIG_MOVED],
    )


def big(ours: list[OurMail], *, click: str | None = None, **refund: Any) -> Evidence:
    """Return what was left behind when no money moved for Grace. `click`: what Mona clicked."""
    clicks = [replace(APPROVED, decision=click)] if click else []
    return seen(
        [*SMALL_ONES, *ours],
        story=replace(STORY, clicks=clicks),
        refunds=[REFUND, replace(BIG_REFUND, **refund)],
        moved=[MOVED],
    )


LOST_REQUEST = replace(BIG_RECEIPT, outbound_id="outbound_7", status="unknown", to=MONA)
LOST_REQUEST = replace(LOST_REQUEST, purpose="approval_request")
TO_MAX = replace(LOST_REQUEST, outbound_id="outbound_8", status="sent", to=MAX)
TO_MAX_OF_ANOTHER = replace(TO_MAX, refund_id="refund_1")
OUTCOME = replace(BIG_RECEIPT, purpose="refund_outcome", text="Nothing of $1,499.00 was refunded")
NEVER_MIND = Written("m3@example.org", Kind.NEVER_MIND, GRACE, GRACE, "W1002")
WITHDRAWN = replace(
    big([BIG_REPLY], status="withdrawn", decision=None, decided_by="customer"),
    story=replace(
        STORY,
        written=[WRITTEN, replace(BIG_WRITTEN, kind=Kind.WITHDRAWAL), NEVER_MIND],
        accepted={*STORY.accepted, "m3@example.org"},
        clicks=[],
    ),
    inbound=[MAIL, BIG_MAIL, replace(BIG_MAIL, mail_id="mail_3", message_id="m3@example.org")],
)
TEAM_WORDS = Written("m4@shop.example", Kind.TEAM_REPLY, TESS, ADA, "W1001")
PASSED_ON = OurMail("outbound_6", "sent", "team_reply", None, "", ADA, "case_1")
BY_TEAM = seen(
    [*ALL, PASSED_ON],
    story=replace(
        STORY, written=[*STORY.written, TEAM_WORDS], accepted={*STORY.accepted, "m4@shop.example"}
    ),
    inbound=[
        *(MAIL, BIG_MAIL),
        InboundMail("mail_4", "m4@shop.example", "answered", None, "outbound_6", "case_1"),
    ],
)
LATE = End("worker-1", 100.0, 130.0, killed=True)
FAILED_SWEEP = RunRow("s", "sweep", "ERROR", "no such column", 100.0, 120.0)
SLOW = TakeOver("worker-1", 100.0, 161.0, runs=3)

EXPLAINED = {
    "all as it should be": SOUND,
    "a mail that people have": small(
        Kind.QUESTION, [CASE], status="no_answer", reason=OVERDUE, answered_by=None
    ),
    "a request that may be lost, after which another manager was asked": seen(
        [*ALL, LOST_REQUEST, TO_MAX]
    ),
    "a wish for money that people have": small(Kind.SMALL, [REPLY, CASE]),
    "a hand-over": small(Kind.HAND_OVER, [REPLY, CASE]),
    "a mail nobody knows of, and people were told": seen(
        [replace(REPLY, status="unknown"), RECEIPT, *BIG_ONES], told=frozenset({"outbound_1"})
    ),
    "a rejected refund": big([BIG_REPLY, OUTCOME], click="reject", status="rejected",
                             decision="reject"),
    "a withdrawn refund": WITHDRAWN,
    "an answer of the team": BY_TEAM,
    "an end in time": story(ends=[replace(LATE, killed=False)]),
    "an end without the database": story(ends=[LATE], outages=[(129.0, 140.0)]),
    "a take-over in time": story(take_overs=[replace(SLOW, taken=150.0)]),
    "a slow take-over without the database": story(take_overs=[SLOW], outages=[(155.0, 160.0)]),
    "a killed worker that had nothing": story(take_overs=[replace(SLOW, runs=0)]),
    "a sweep that is just running": replace(SOUND, runs=[RunRow("s", "sweep", "PENDING")]),
    "a sweep that failed without the database": replace(
        story(outages=[(110.0, 140.0)]), runs=[FAILED_SWEEP]
    ),
}  # fmt: skip

TWICE = replace(SOUND, arrived=[*SOUND.arrived, SOUND.arrived[0]])
# What is damaged, and a word of the finding that has to say so.
DAMAGED = {
    "no mail at all": (Damage.LOST, "nobody wrote", Evidence(Story())),
    "a mail thanked for and not stored": (
        Damage.LOST, "not stored", replace(SOUND, inbound=[BIG_MAIL]),
    ),
    "a mail stored twice": (
        Damage.DOUBLED, "stored 2 times",
        replace(SOUND, inbound=[MAIL, replace(MAIL, mail_id="mail_9"), BIG_MAIL]),
    ),
    "a mail nobody answers": (
        Damage.LOST, "is unanswered",
        replace(SOUND, inbound=[replace(MAIL, status="unanswered", answered_by=None), BIG_MAIL]),
    ),
    "a hand-over that the team never saw": (
        Damage.LOST, "not handed over", small(Kind.HAND_OVER, [REPLY]),
    ),
    "two replies to one mail": (
        Damage.DOUBLED, "answers no mail", seen([*ALL, replace(REPLY, outbound_id="outbound_9")]),
    ),
    "a reply to another customer": (
        Damage.UNEXPLAINED, "went to grace", seen([replace(REPLY, to=GRACE), RECEIPT, *BIG_ONES]),
    ),
    "a mail sent twice": (Damage.DOUBLED, "was sent 2 times", TWICE),
    "a mail that says sent and never arrived": (
        Damage.LOST, "never arrived", replace(SOUND, arrived=SOUND.arrived[1:]),
    ),
    "a mail that failed, and nobody was told": (
        Damage.UNEXPLAINED, "is failed, untold",
        seen([replace(REPLY, status="failed"), RECEIPT, *BIG_ONES]),
    ),
    "a request that may be lost, and no other manager was asked": (
        Damage.UNEXPLAINED, "is unknown, untold", seen([*ALL, LOST_REQUEST, TO_MAX_OF_ANOTHER]),
    ),
    "a refund paid twice": (
        Damage.DOUBLED, "was paid 2 times", replace(SOUND, moved=[MOVED, MOVED, BIG_MOVED]),
    ),
    "two refunds of one order": (
        Damage.DOUBLED, "was refunded 2 times",
        replace(SOUND, refunds=[REFUND, BIG_REFUND, replace(REFUND, refund_id="refund_9")]),
    ),
    "more given back than was paid": (
        Damage.DOUBLED, "were given back", replace(SOUND, paid={**SOUND.paid, "pi_W1001": 4998}),
    ),
    "a refund that says paid and moved nothing": (
        Damage.LOST, "moved []", replace(SOUND, moved=[BIG_MOVED]),
    ),
    "another amount moved": (
        Damage.LOST, "moved [4998]",
        replace(SOUND, moved=[replace(MOVED, amount_minor=4998), BIG_MOVED]),
    ),
    "money moved for a refund that was rejected": (
        Damage.UNEXPLAINED, "is rejected, moved",
        replace(SOUND, refunds=[REFUND, replace(BIG_REFUND, status="rejected")]),
    ),
    "money moved for no refund": (
        Damage.UNEXPLAINED, "no refund of ours",
        replace(SOUND, moved=[*SOUND.moved, replace(MOVED, refund_id="x")]),
    ),
    "a wish for money that nothing came of": (
        Damage.LOST, "has no refund", small(Kind.SMALL, [REPLY]),
    ),
    "a refund that nobody asked for": (
        Damage.UNEXPLAINED, "nobody asked for",
        story(written=[replace(WRITTEN, kind=Kind.QUESTION), BIG_WRITTEN]),
    ),
    "a big refund paid without a click": (Damage.UNEXPLAINED, "never clicked", story(clicks=[])),
    "a big refund paid on a click to reject": (
        Damage.UNEXPLAINED, "never clicked", story(clicks=[replace(APPROVED, decision="reject")]),
    ),
    "a big refund that a stranger approved": (
        Damage.UNEXPLAINED, "was decided by mallory",
        replace(SOUND, refunds=[REFUND, replace(BIG_REFUND, decided_by=STRANGER)]),
    ),
    "approved and expired unpaid": (
        Damage.LOST, "ought to be paid", big([BIG_REPLY, OUTCOME], click="approve", status="expired"),
    ),
    "rejected and paid": (
        Damage.UNEXPLAINED, "ought to be rejected",
        replace(SOUND, refunds=[REFUND, replace(BIG_REFUND, decision="reject")]),
    ),
    "rejected and never told": (
        Damage.LOST, "never told",
        big([BIG_REPLY], click="reject", status="rejected", decision="reject"),
    ),
    "withdrawn and paid": (
        Damage.UNEXPLAINED, "ought to be withdrawn",
        replace(WITHDRAWN, refunds=[REFUND, replace(BIG_REFUND, decision=None)]),
    ),
    "no receipt": (Damage.LOST, "never told", seen([REPLY, *BIG_ONES])),
    "two receipts": (
        Damage.DOUBLED, "told 2 times", seen([*ALL, replace(RECEIPT, outbound_id="outbound_9")]),
    ),
    "a receipt with another amount": (
        Damage.UNEXPLAINED, "the books 4999",
        seen([REPLY, replace(RECEIPT, text="Paid: $1,499.00"), *BIG_ONES]),
    ),
    "a receipt to another customer": (
        Damage.UNEXPLAINED, "told to grace", seen([REPLY, replace(RECEIPT, to=GRACE), *BIG_ONES]),
    ),
    "a run that never ends": (
        Damage.LOST, "still PENDING", replace(SOUND, runs=[replace(RUN, status="PENDING")]),
    ),
    "a run that failed": (
        Damage.UNEXPLAINED, "is ERROR", replace(SOUND, runs=[replace(RUN, status="ERROR")]),
    ),
    "a worker that outlived its time to end": (
        Damage.UNEXPLAINED, "had not ended", story(ends=[LATE], outages=[(0.0, 99.0)]),
    ),
    "runs of a killed worker that waited": (
        Damage.UNEXPLAINED, "waited 61 s", story(take_overs=[SLOW], outages=[(162.0, 170.0)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EXPLAINED)
def test_what_is_explained_is_no_damage(what: str) -> None:
    assert find_damage(EXPLAINED[what]) == []


@pytest.mark.parametrize("what", DAMAGED)
def test_each_kind_of_damage_is_found_and_called_by_its_name(what: str) -> None:
    damage, word, left_behind = DAMAGED[what]
    found = find_damage(left_behind)
    assert any(each.damage is damage and word in each.what for each in found), found
