"""The soak's checker finds each kind of damage, and nothing where there is none. The soak itself is run on
demand: `python -m tests.soak`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cast import ADA, MONA
from tests.soak.checker import Damage, find_damage
from tests.soak.evidence import Evidence, InboundMail, Moved, OurMail, RefundRow, RunRow

MAIL = InboundMail("mail_1", "m1@example.com", "answered", None, "outbound_1")
REPLY = OurMail("outbound_1", "sent", "reply", None, "", ADA)
RECEIPT = OurMail("outbound_2", "sent", "receipt", "refund_1", "", ADA)
REFUND = RefundRow("refund_1", "W1001", "paid", 4999, False, None)
MOVED = Moved("refund_1", "pi_W1001", 4999)
RUN = RunRow("conversation-1", "conversation", "SUCCESS")

SOUND = Evidence(
    accepted=frozenset({"m1@example.com"}),
    inbound=[MAIL],
    ours=[REPLY, RECEIPT],
    arrived={"outbound_1": 1, "outbound_2": 1},
    refunds=[REFUND],
    moved=[MOVED],
    paid={"pi_W1001": 4999},
    managers=frozenset({MONA}),
    runs=[RUN],
)

EXPLAINED = {
    "all as it should be": SOUND,
    "a mail that people have": replace(
        SOUND, inbound=[replace(MAIL, status="no_answer", reason="customer_asked")]
    ),
    "a mail nobody knows of, and people were told": replace(
        SOUND,
        ours=[replace(REPLY, status="unknown"), RECEIPT],
        told=frozenset({"outbound_1"}),
    ),
    "a big refund that a manager approved": replace(
        SOUND, refunds=[replace(REFUND, needs_manager=True, decided_by=MONA)]
    ),
    "a sweep that is just running": replace(SOUND, runs=[RunRow("s", "sweep", "PENDING")]),
}

DAMAGED = {
    "a mail thanked for and not stored": (Damage.LOST, replace(SOUND, inbound=[])),
    "a mail stored twice": (
        Damage.DOUBLED, replace(SOUND, inbound=[MAIL, replace(MAIL, mail_id="mail_2")]),
    ),
    "a mail nobody answers": (
        Damage.LOST, replace(SOUND, inbound=[replace(MAIL, status="unanswered", answered_by=None)]),
    ),
    "a mail that is parked for ever": (
        Damage.LOST, replace(SOUND, inbound=[replace(MAIL, status="parked")]),
    ),
    "an answer that does not exist": (
        Damage.LOST, replace(SOUND, inbound=[replace(MAIL, answered_by="outbound_9")]),
    ),
    "no answer and no reason": (
        Damage.UNEXPLAINED, replace(SOUND, inbound=[replace(MAIL, status="no_answer")]),
    ),
    "a mail sent twice": (
        Damage.DOUBLED, replace(SOUND, arrived={"outbound_1": 2, "outbound_2": 1}),
    ),
    "a mail that says sent and never arrived": (
        Damage.LOST, replace(SOUND, arrived={"outbound_2": 1}),
    ),
    "a mail that still waits": (
        Damage.LOST, replace(SOUND, ours=[replace(REPLY, status="queued"), RECEIPT]),
    ),
    "a mail that failed, and nobody was told": (
        Damage.UNEXPLAINED, replace(SOUND, ours=[replace(REPLY, status="failed"), RECEIPT]),
    ),
    "a mail that is not ours": (
        Damage.UNEXPLAINED, replace(SOUND, arrived={**SOUND.arrived, "outbound_9": 1}),
    ),
    "a refund paid twice": (
        Damage.DOUBLED, replace(SOUND, moved=[MOVED, MOVED], paid={"pi_W1001": 9998}),
    ),
    "more given back than was paid": (Damage.DOUBLED, replace(SOUND, paid={"pi_W1001": 4998})),
    "a refund that says paid and moved nothing": (Damage.LOST, replace(SOUND, moved=[])),
    "another amount moved": (
        Damage.LOST, replace(SOUND, moved=[replace(MOVED, amount_minor=4998)]),
    ),
    "money moved for a refund that was rejected": (
        Damage.UNEXPLAINED,
        replace(SOUND, refunds=[replace(REFUND, status="rejected")], ours=[REPLY],
                arrived={"outbound_1": 1}),
    ),
    "money moved for no refund": (
        Damage.UNEXPLAINED,
        replace(SOUND, moved=[MOVED, replace(MOVED, refund_id="x")], paid={"pi_W1001": 9998}),
    ),
    "a refund that still waits": (
        Damage.LOST,
        replace(SOUND, refunds=[replace(REFUND, status="approved")], moved=[], ours=[REPLY],
                arrived={"outbound_1": 1}),
    ),
    "a big refund that nobody approved": (
        Damage.UNEXPLAINED, replace(SOUND, refunds=[replace(REFUND, needs_manager=True)]),
    ),
    "a big refund that a stranger approved": (
        Damage.UNEXPLAINED,
        replace(SOUND, refunds=[replace(REFUND, needs_manager=True, decided_by=ADA)]),
    ),
    "no receipt": (Damage.LOST, replace(SOUND, ours=[REPLY], arrived={"outbound_1": 1})),
    "two receipts": (
        Damage.DOUBLED,
        replace(SOUND, ours=[REPLY, RECEIPT, replace(RECEIPT, outbound_id="outbound_3")],
                arrived={**SOUND.arrived, "outbound_3": 1}),
    ),
    "a receipt of what was not paid": (
        Damage.UNEXPLAINED,
        replace(SOUND, refunds=[replace(REFUND, status="withdrawn")], moved=[]),
    ),
    "a run that never ends": (Damage.LOST, replace(SOUND, runs=[replace(RUN, status="PENDING")])),
    "a run that failed": (Damage.UNEXPLAINED, replace(SOUND, runs=[replace(RUN, status="ERROR")])),
}  # fmt: skip


@pytest.mark.parametrize("what", EXPLAINED)
def test_what_is_explained_is_no_damage(what: str) -> None:
    assert find_damage(EXPLAINED[what]) == []


@pytest.mark.parametrize("what", DAMAGED)
def test_each_kind_of_damage_is_found_and_called_by_its_name(what: str) -> None:
    damage, seen = DAMAGED[what]
    assert [finding.damage for finding in find_damage(seen)] == [damage], find_damage(seen)
