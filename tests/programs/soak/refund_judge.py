"""Judges by the story what became of each order whose money somebody wanted back: who had to decide, what
they clicked, the end that follows from it, and the letter that tells of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mailagent.domain.mail.message import Purpose
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import RefundStatus
from tests.programs.soak.evidence import Evidence, OurMail, RefundRow
from tests.programs.soak.story import Damage, Found, Kind, Written

_LIMIT_MINOR = Policy().limits["USD"]
_FIGURE = re.compile(r"\$([\d,]+)\.(\d\d)")
_LETTERS = (Purpose.RECEIPT, Purpose.REFUND_OUTCOME)
_ENDS = {"approve": RefundStatus.PAID, "reject": RefundStatus.REJECTED}


def asked_for(seen: Evidence) -> Found:
    """Each wish for money has one refund or is with people; and nobody gets what they did not ask for."""
    conversations = {row.message_id: row.conversation_id for row in seen.inbound}
    wishes = [mail for mail in seen.story.written if mail.kind.wants_money]
    for mail in wishes:
        of_order = [each for each in seen.refunds if each.order_id == mail.order_id]
        paid = [each for each in of_order if each.status == RefundStatus.PAID]
        if len(paid) > 1:
            yield Damage.DOUBLED, f"order {mail.order_id} was refunded {len(paid)} times"
        with_people = seen.team_has(conversations.get(mail.message_id))
        if not of_order and not with_people and mail.message_id in conversations:
            yield Damage.LOST, f"{mail.kind} of order {mail.order_id} has no refund"
    for refund in seen.refunds:
        if refund.order_id not in {mail.order_id for mail in wishes}:
            yield Damage.UNEXPLAINED, f"refund {refund.refund_id} is one that nobody asked for"


def decided(seen: Evidence) -> Found:
    """Above the limit a manager who was asked decided, by a click that really was; below nobody."""
    for mail, refund in _refunds_of_wishes(seen):
        name = f"refund {refund.refund_id} ({mail.kind})"
        if refund.amount_minor != mail.price_minor:
            yield Damage.UNEXPLAINED, f"{name} is over {refund.amount_minor}"
        if (mail.price_minor > _LIMIT_MINOR) != (refund.has_approval and bool(refund.asked)):
            yield Damage.UNEXPLAINED, f"{name} of {mail.price_minor}: asked {refund.asked or None}"
        if refund.decision is None:
            continue
        if refund.decided_by not in seen.managers & frozenset(refund.asked):
            yield (
                Damage.UNEXPLAINED,
                f"{name} was decided by {refund.decided_by}, who was not asked",
            )
        clicked = {(click.manager, click.decision) for click in seen.story.clicks_on(mail.order_id)}
        if (refund.decided_by, refund.decision) not in clicked:
            yield Damage.UNEXPLAINED, f"{name}: {refund.decided_by} never clicked {refund.decision}"


def ended(seen: Evidence) -> Found:
    """Each refund has the end that was decided."""
    for mail, refund in _refunds_of_wishes(seen):
        due = _end_of(seen, mail, refund)
        name = f"refund {refund.refund_id} ({mail.kind}) is {refund.status}"
        clicks = [click for click in seen.story.clicks_on(mail.order_id) if click.recorded]
        if clicks and refund.decision is None:
            yield Damage.LOST, f"{name}; the click of {clicks[0].manager} is not recorded"
        if due is None:
            yield Damage.LOST, f"{name}, and nobody decided"
        elif refund.status != due:
            damage = Damage.UNEXPLAINED if refund.status == RefundStatus.PAID else Damage.LOST
            yield damage, f"{name} and ought to be {due}"


def told(seen: Evidence) -> Found:
    """One letter tells the customer of the end, with the amount that the books have."""
    for mail, refund in _refunds_of_wishes(seen):
        letters = [
            each
            for each in seen.ours
            if each.refund_id == refund.refund_id and each.purpose in _LETTERS
        ]
        name = f"refund {refund.refund_id} ({refund.status})"
        due = _letter_of(refund)
        if due and not letters:
            yield Damage.LOST, f"{name}: the customer was never told"
        if len(letters) > 1:
            yield Damage.DOUBLED, f"{name} was told {len(letters)} times"
        for each in letters:
            if each.purpose != due:
                yield Damage.UNEXPLAINED, f"{name} was told by a {each.purpose}"
            if each.to != mail.sender:
                yield Damage.UNEXPLAINED, f"{name} was told to {each.to}"
            yield from _figures_of(seen, refund, each)


def _figures_of(seen: Evidence, refund: RefundRow, letter: OurMail) -> Found:
    moved = sum(each.amount_minor for each in seen.moved if each.refund_id == refund.refund_id)
    due = moved if refund.status == RefundStatus.PAID else refund.amount_minor
    arrived = [each.text for each in seen.arrived if each.outbound_id == letter.outbound_id]
    for text in arrived or [letter.text]:
        figures = {int(whole.replace(",", "") + cents) for whole, cents in _FIGURE.findall(text)}
        if figures != {due}:
            yield (
                Damage.UNEXPLAINED,
                f"{letter.outbound_id} names {sorted(figures)}, the books {due}",
            )


def _end_of(seen: Evidence, mail: Written, refund: RefundRow) -> RefundStatus | None:
    if refund.decision is not None:
        return _ENDS[refund.decision]
    if mail.price_minor <= _LIMIT_MINOR:
        return RefundStatus.PAID
    taken_back = {each.order_id for each in seen.story.written if each.kind is Kind.NEVER_MIND}
    return RefundStatus.WITHDRAWN if mail.order_id in taken_back else None


def _letter_of(refund: RefundRow) -> Purpose | None:
    """Return which letter is due; of a withdrawal the customer reads in the answer to theirs."""
    if refund.status == RefundStatus.PAID:
        return Purpose.RECEIPT
    return None if refund.status == RefundStatus.WITHDRAWN else Purpose.REFUND_OUTCOME


def _refunds_of_wishes(seen: Evidence) -> Iterator[tuple[Written, RefundRow]]:
    wishes = {mail.order_id: mail for mail in seen.story.written if mail.kind.wants_money}
    for refund in seen.refunds:
        if refund.order_id in wishes:
            yield wishes[refund.order_id], refund
