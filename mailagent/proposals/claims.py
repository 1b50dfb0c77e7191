"""Finds the earlier mails by which a customer claimed in time what they ask for again. It reads rows only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import InboundMail, first_received_at
from mailagent.domain.refunds.duplicates import find_holding
from mailagent.domain.refunds.offer import units_of
from mailagent.domain.refunds.policy import DeclineReason, ManagerReason
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import SENT_AGAIN, STANDING, Remedy, RemedyStatus
from mailagent.proposals.facts import Asked, list_refusals_now
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound
from mailagent.store.refunds import offers, remedies

# How long a claim counts: from the mail that we answered with a question, or from when the claim
# ended unmet. Without this limit, an old claim would keep the return window open for ever.
COUNTS_FOR = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a mail asked for: units by item id. `conversation_id`: None for the one that is asked about."""

    mail_id: str
    reason: str | None
    units: Mapping[str, int]
    conversation_id: str | None = None


def by_mails(
    connection: sa.Connection, asked: Asked, conversation_id: str, mails: Sequence[InboundMail]
) -> Asked:
    """Return `asked` with `refused_before` and `asked_at` for these mails. If an earlier mail
    claimed these units, `asked_at` is that mail's time: see `_list_claiming`."""
    tasks = remedies.list_of_order(connection, asked.order.order_id)
    refused = list_refusals_now(connection, asked, [each.mail_id for each in mails])
    refused += list_refused_tasks(asked, tasks)
    earlier = _list_claiming(connection, asked, tasks, conversation_id, mails[0].received_at)
    asked_at = first_received_at([*earlier, *mails], asked.order.delivered_at)
    return replace(asked, refused_before=refused, asked_at=asked_at)


def by_person(connection: sa.Connection, asked: Asked, conversation_id: str) -> Asked:
    """Return `asked` with `refused_before` and `asked_at` for a request by a person of the shop. If
    an earlier mail of the customer claimed these units, `asked_at` is that mail's time."""
    at, since = asked.asked_at, asked.order.delivered_at or asked.order.placed_at
    tasks, now = remedies.list_of_order(connection, asked.order.order_id), services.current().now()
    earlier = _list_claiming(connection, asked, tasks, conversation_id, at or now)
    times = [at, *(mail.received_at for mail in earlier if mail.received_at >= since)]
    refused = list_refused_tasks(asked, tasks)
    return replace(asked, asked_at=min(filter(None, times), default=None), refused_before=refused)


def list_refused_tasks(asked: Asked, tasks: Sequence[Remedy]) -> tuple[ManagerReason, ...]:
    """Return NOT_SENT_AGAIN if a manager said of some of these items that they cannot be sent again: perhaps
    the claim itself was wrong."""
    is_refused = any(
        each.kind in SENT_AGAIN
        and each.needs_manager
        and each.status is RemedyStatus.NOT_POSSIBLE
        and each.touches(each.kind, asked.item_ids)
        for each in tasks
    )
    return (ManagerReason.NOT_SENT_AGAIN,) if is_refused else ()


def _list_claiming(
    connection: sa.Connection,
    asked: Asked,
    tasks: Sequence[Remedy],
    conversation_id: str,
    at: datetime,
) -> list[InboundMail]:
    """Return the mails that claimed these units, perhaps with others, for the same reason, if we answered
    with a question or the claim ended unmet; and the mails with the same answer. `at`: when they ask again.
    Leave out mails from before the last grant of these items, and claims older than COUNTS_FOR. An unmet
    claim counts from its end, in all conversations of the customer; any other from its mail, in this one."""
    since, here = at - COUNTS_FOR, [conversation_id]
    asked_back = [each for each in _list_asked_back(connection, asked) if _is_for(each, asked)]
    unmet = [each for each in _list_unmet(asked, tasks, since) if _is_for(each, asked)]
    threads = _list_threads(connection, conversation_id, unmet)
    found = [m for m in _mails_of(connection, here, asked_back) if m.received_at >= since]
    found += _mails_of(connection, threads, unmet)
    granted = [each.requested_at for each in find_holding(asked.item_ids, asked.earlier)] + [
        each.requested_at
        for each in tasks
        if each.status in STANDING and each.touches(each.kind, asked.item_ids)
    ]
    return [mail for mail in found if not granted or mail.received_at >= max(granted)]


def _is_for(claim: _Claim, asked: Asked) -> bool:
    # No units: a refund that waits has them.
    is_same = bool(asked.units) and asked.units <= Counter(claim.units)
    return is_same and claim.reason == asked.reason.value


def _list_asked_back(connection: sa.Connection, asked: Asked) -> Iterator[_Claim]:
    """Yield the claims on an order for which we offered part of the price or store credit, or asked for a
    photo."""
    order_id = asked.order.order_id
    for offer in offers.list_of_order(connection, order_id):
        yield _Claim(offer.mail_id, offer.reason.value, dict(offer.items))
    for declined in audit.list_details(connection, order_id, audit.DECLINED):
        if declined["reason"] == DeclineReason.PHOTO_NEEDED.value:
            reason, units = declined["facts"]["reason"], declined.get("units", {})
            yield _Claim(declined["mail_id"], reason, units)
    for credit in audit.list_details(connection, order_id, audit.CREDIT_ASKED_FOR):
        yield _Claim(credit["mail_id"], credit.get("reason"), credit["units"])


def _list_unmet(asked: Asked, tasks: Sequence[Remedy], since: datetime) -> Iterator[_Claim]:
    """Yield the claims on an order that we did not meet, and that ended since a time: the shop could not send
    goods again, or no person did it in time, or no manager decided in time. Leave out those from before a
    manager refused these items. A refund that failed is not among them: people see to it, and may have paid it
    in another way."""
    refused_at = max(
        (each.requested_at for each in asked.earlier if _refuses(each, asked)), default=None
    )
    for each in asked.earlier:
        if each.status is RefundStatus.EXPIRED and _counts(each, refused_at, since):
            units = dict(units_of(each.item_ids, each.lines))
            yield _Claim(each.mail_id, each.reason.value, units, each.conversation_id)
    for task in tasks:
        is_unmet = task.status in (RemedyStatus.NOT_POSSIBLE, RemedyStatus.EXPIRED)
        if task.kind in SENT_AGAIN and is_unmet and _counts(task, refused_at, since):
            yield _Claim(task.mail_id, task.reason, task.units, task.conversation_id)


def _refuses(refund: Refund, asked: Asked) -> bool:
    """Return whether a manager rejected a refund of some of these items, or left items out of it."""
    whole = refund.whole or refund
    is_refused = refund.status is RefundStatus.REJECTED or refund.whole is not None
    return is_refused and not set(asked.item_ids).isdisjoint(whole.item_ids)


def _counts(each: Refund | Remedy, refused_at: datetime | None, since: datetime) -> bool:
    is_last_word = refused_at is None or each.requested_at > refused_at
    return is_last_word and (each.decided_at or each.requested_at) >= since


def _list_threads(
    connection: sa.Connection, conversation_id: str, claims: Sequence[_Claim]
) -> list[str]:
    """Return the conversations of these claims that are the same customer's as this one."""
    if not claims:
        return []
    customer = conversations.load(connection, conversation_id).customer_email
    threads = sorted({each.conversation_id for each in claims if each.conversation_id})
    found = [conversations.load(connection, each) for each in threads]
    return [each.conversation_id for each in found if each.customer_email == customer]


def _mails_of(
    connection: sa.Connection, threads: Sequence[str], claims: Collection[_Claim]
) -> list[InboundMail]:
    """Return the mails of these claims, and those with the same answer, in the threads."""
    ids = {each.mail_id for each in claims}
    mails = [m for each in threads if ids for m in inbound.list_of_conversation(connection, each)]
    answers = {mail.answered_by for mail in mails if mail.mail_id in ids} - {None}
    return [mail for mail in mails if mail.mail_id in ids or mail.answered_by in answers]
