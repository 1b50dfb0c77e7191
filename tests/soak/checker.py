"""Goes over what a soak left behind and names every promise that was broken. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.soak.evidence import Evidence

_AT_REST = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}
_RECEIPTS = "receipt"


class Damage(StrEnum):
    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Finding:
    """What is broken, how, and what it is about."""

    damage: Damage
    what: str


def find_damage(seen: Evidence) -> list[Finding]:
    """Return everything that the promises forbid; nothing if they held."""
    return [
        Finding(damage, what)
        for look in (_stored, _answered, _sent, _paid, _decided, _told, _at_rest)
        for damage, what in look(seen)
    ]


Found = Iterator[tuple[Damage, str]]


def _stored(seen: Evidence) -> Found:
    stored = Counter(mail.message_id for mail in seen.inbound)
    for message_id in sorted(seen.accepted - stored.keys()):
        yield Damage.LOST, f"mail {message_id} was thanked for and is not stored"
    for message_id, count in stored.items():
        if count > 1:
            yield Damage.DOUBLED, f"mail {message_id} is stored {count} times"


def _answered(seen: Evidence) -> Found:
    ours = {mail.outbound_id for mail in seen.ours}
    for mail in seen.inbound:
        if mail.status == "answered":
            if mail.answered_by not in ours:
                yield Damage.LOST, f"the answer of mail {mail.mail_id} does not exist"
        elif mail.status != "no_answer":
            yield Damage.LOST, f"mail {mail.mail_id} is {mail.status}"
        elif not mail.reason:
            yield Damage.UNEXPLAINED, f"mail {mail.mail_id} has no answer and no reason"


def _sent(seen: Evidence) -> Found:
    for mail in seen.ours:
        arrived = seen.arrived.get(mail.outbound_id, 0)
        if arrived > 1:
            yield Damage.DOUBLED, f"{mail.purpose} {mail.outbound_id} was sent {arrived} times"
        if mail.status in ("queued", "sending"):
            yield Damage.LOST, f"{mail.purpose} {mail.outbound_id} is still {mail.status}"
        elif mail.status == "sent" and not arrived:
            yield Damage.LOST, f"{mail.purpose} {mail.outbound_id} says sent and never arrived"
        elif (
            mail.status != "sent" and mail.outbound_id not in seen.told and mail.purpose != "notice"
        ):
            yield Damage.UNEXPLAINED, f"{mail.purpose} {mail.outbound_id} is {mail.status}, untold"
    for outbound_id in sorted(seen.arrived.keys() - {mail.outbound_id for mail in seen.ours}):
        yield Damage.UNEXPLAINED, f"{outbound_id} was sent and is no mail of ours"


def _paid(seen: Evidence) -> Found:
    amounts: dict[str, list[int]] = defaultdict(list)
    taken: Counter[str] = Counter()
    for each in seen.moved:
        amounts[each.refund_id].append(each.amount_minor)
        taken[each.payment_id] += each.amount_minor
    for payment_id, amount in taken.items():
        if amount > seen.paid.get(payment_id, 0):
            yield Damage.DOUBLED, f"of payment {payment_id} {amount} were given back"
    for refund in seen.refunds:
        moved = amounts.pop(refund.refund_id, [])
        if len(moved) > 1:
            yield Damage.DOUBLED, f"refund {refund.refund_id} was paid {len(moved)} times"
        elif refund.status == "paid" and sum(moved) != refund.amount_minor:
            yield (
                Damage.LOST,
                f"refund {refund.refund_id} says {refund.amount_minor}, moved {moved}",
            )
        if refund.status != "paid" and moved:
            yield Damage.UNEXPLAINED, f"refund {refund.refund_id} is {refund.status}, moved {moved}"
        if refund.status in ("approved", "awaiting_approval"):
            yield Damage.LOST, f"refund {refund.refund_id} is still {refund.status}"
    for refund_id in amounts:
        yield Damage.UNEXPLAINED, f"money moved for {refund_id}, which is no refund of ours"


def _decided(seen: Evidence) -> Found:
    for refund in seen.refunds:
        decided = not refund.needs_manager or refund.decided_by in seen.managers
        if refund.status == "paid" and not decided:
            who = refund.decided_by or "nobody"
            yield Damage.UNEXPLAINED, f"refund {refund.refund_id} was paid on the word of {who}"


def _told(seen: Evidence) -> Found:
    receipts = Counter(mail.refund_id for mail in seen.ours if mail.purpose == _RECEIPTS)
    for refund in seen.refunds:
        count = receipts.get(refund.refund_id, 0)
        if refund.status == "paid" and count == 0:
            yield Damage.LOST, f"refund {refund.refund_id} has no receipt"
        if count > 1:
            yield Damage.DOUBLED, f"refund {refund.refund_id} has {count} receipts"
        if refund.status != "paid" and count:
            yield Damage.UNEXPLAINED, f"refund {refund.refund_id} is {refund.status}, has a receipt"


def _at_rest(seen: Evidence) -> Found:
    for run in seen.runs:
        if run.workflow in ("sweep", "housekeeping"):
            continue
        if run.status not in _AT_REST:
            yield Damage.LOST, f"run {run.run_id} is still {run.status}"
        elif run.status != "SUCCESS":
            yield Damage.UNEXPLAINED, f"run {run.run_id} is {run.status}: {run.error[:200]}"
