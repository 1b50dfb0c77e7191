"""The remedy of a refund, which comes before its payment: the shop's own system cancels the items, or the
customer sends them back (see `returns`).

The remedy's id is the idempotency key of the cancellation, so we can ask again. If the system
cannot cancel, or cancels something else, the team gets a task.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent import remedies as ending
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.orders.source import (
    Cancelled,
    CancelOutcome,
    CancelRequest,
    NotSupported,
    SourceProblem,
    TooLate,
    Unsure,
)
from mailagent.domain.refunds.offer import units_of
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from mailagent.domain.refunds.refund import HOLDING, MAY_BE_PAID, Refund, RefundStatus
from mailagent.domain.remedies.remedy import STANDING, Remedy, RemedyKind, RemedyStatus
from mailagent.mailers import Notice, write_notice
from mailagent.store import audit
from mailagent.store.mail import conversations, outbound
from mailagent.store.orders import versions
from mailagent.store.refunds import approvals, order_import, orders, refunds, remedies
from mailagent.store.refunds.remedies import Asking
from mailagent.workflows.steps import order_source

logger = logging.getLogger(__name__)

_PLEASE_CANCEL = "Please cancel it before it is shipped, and say so: then its refund is paid."
_UNWANTED = (
    "But the customer has since asked to withdraw a request on this order: read that mail first."
)
# Early enough for a person to stop the parcel.
GIVEN_TO_PEOPLE_AFTER = timedelta(hours=6)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 1800.0
# While people work on it. A message ends the wait earlier.
LOOK_AGAIN_SECONDS = 6 * 3600.0


def advance_remedy(refund_id: str) -> float | None:
    """Have the items of a refund cancelled, if it waits for that. Returns the seconds until the next look; None
    if it needs none now."""
    with services.current().database.snapshot() as connection:
        remedy = remedies.find_of_refund(connection, refund_id)
        status = refunds.load(connection, refund_id).status
    if remedy is None or not remedy.is_open or status not in MAY_BE_PAID:
        return None
    if remedy.status is RemedyStatus.AWAITING_GOODS:  # see `returns`
        return None
    if remedy.status is not RemedyStatus.ASKED:
        return LOOK_AGAIN_SECONDS
    outcome = _ask_source(remedy)
    if isinstance(outcome, float):
        return outcome
    with services.current().database.transaction() as connection:
        _record(connection, remedy.remedy_id, outcome)
        after = remedies.find_of_refund(connection, refund_id)
    return LOOK_AGAIN_SECONDS if after is not None and after.is_open else None


def lock_payable(connection: sa.Connection, remedy: Remedy | None) -> Refund | None:
    """Lock the refund that waits for a locked remedy, and return it; None if it must not be paid: a manager may
    have refused it."""
    if remedy is None or remedy.refund_id is None:
        return None
    refund = refunds.lock(connection, remedy.refund_id)
    return refund if refund.status in MAY_BE_PAID else None


def fail(connection: sa.Connection, refund: Refund, why: str, gateway: str | None) -> None:
    """Record that a locked refund failed. `gateway`: who refused it; None if we stopped it ourselves."""
    now, actor = services.current().now(), gateway or audit.CLOCK
    refunds.move(connection, refund, RefundStatus.FAILED, gateway=gateway, failure=why)
    audit.record(connection, now, actor, "refund failed", refund.refund_id, {"why": why})


def _ask_source(remedy: Remedy) -> CancelOutcome | float:
    """Return the answer of the shop's system, or after how many seconds to ask again under the same key."""
    live = services.current()
    if live.order_source is None:
        return NotSupported("orders are imported")
    with live.database.transaction() as connection:
        # A manager may have approved fewer units since it was read, or refused the refund.
        remedy = remedies.lock(connection, remedy.remedy_id) or remedy
        refund = lock_payable(connection, remedy)
        if refund is None or (remedy.asked_at is None and _awaits_fewer(connection, refund)):
            return FIRST_PAUSE_SECONDS
        asking = remedies.note_asking(connection, remedy.remedy_id, live.now())
        is_whole = _is_whole(connection, remedy)
    if asking is None:  # it has moved on since it was read
        return FIRST_PAUSE_SECONDS
    items = () if is_whole else tuple(remedy.units.items())
    request = CancelRequest(remedy.remedy_id, remedy.order_id, items, "the customer cancelled")
    try:
        outcome = order_source.ask(lambda source: source.cancel_order(request))
    except (SourceProblem, OrderProblem) as problem:
        if isinstance(problem, SourceProblem) and problem.not_done:
            _note_not_done(asking)
        waited = live.now() - remedy.requested_at
        logger.warning(
            "order=%s event=not_cancelled: asked again, or given to the team: %s",
            remedy.order_id,
            problem,
        )
        # A system that refuses us, perhaps because our key may only read, is not asked again.
        refuses = isinstance(problem, SourceProblem) and problem.not_done and problem.operator
        if refuses or waited >= GIVEN_TO_PEOPLE_AFTER:
            return Unsure(str(problem))
        wanted = problem.retry_after_seconds if isinstance(problem, SourceProblem) else 0.0
        pause = max(wanted, waited.total_seconds() / 4)
        return float(min(max(pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS))
    if isinstance(outcome, NotSupported):
        _note_not_done(asking)
    return outcome


def _awaits_fewer(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether a manager approved fewer units, and this has no effect yet: the decision may be
    undone, or a second manager must decide. Until then, the shop's system would cancel too many units."""
    made = approvals.list_decisions(connection, refund.refund_id)
    waits = refund.status is RefundStatus.AWAITING_APPROVAL
    return waits and any(refund.covering(each.units) is not refund for each in made)


def _note_not_done(asking: Asking) -> None:
    with services.current().database.transaction() as connection:
        remedies.note_not_done(connection, asking)


def _record(connection: sa.Connection, remedy_id: str, outcome: CancelOutcome) -> None:
    """Record the answer of the shop's system, unless the remedy has moved on since it was asked."""
    remedy = remedies.lock(connection, remedy_id)
    if remedy is None or remedy.status is not RemedyStatus.ASKED:
        return
    actor = services.current().order_source_name or audit.CLOCK
    match outcome:
        case Cancelled(order):
            wrong = _find_difference(connection, remedy, order)
            if wrong is None:
                _keep(connection, order)
                ending.end(connection, remedy, RemedyStatus.DONE, actor)
                return
            _give_to_people(
                connection,
                remedy,
                f"The shop's system says that it is cancelled, but {wrong}.",
                "Please see what is cancelled, put it right, and say so: then its refund is paid.",
            )
        case TooLate():
            ending.end(connection, remedy, RemedyStatus.NOT_POSSIBLE, actor)
        case NotSupported(why):
            cannot = f"The shop's system cannot cancel it: {why}."
            _give_to_people(connection, remedy, cannot, _PLEASE_CANCEL)
        case Unsure(why) if remedy.asked_at is None:  # it was not reached, or refused our request
            has_not = f"The shop's system has not cancelled it: {why}."
            _give_to_people(connection, remedy, has_not, _PLEASE_CANCEL)
        case Unsure(why):
            _give_to_people(
                connection,
                remedy,
                f"The shop's system was asked, but it is not sure what it did: {why}.",
                "Please see whether it is cancelled, cancel it if not, and say so: then its refund is paid.",
            )


def _is_whole(connection: sa.Connection, remedy: Remedy) -> bool:
    """Return whether a remedy is for all of the order as it was when requested. A list of all items does not
    count if a carrier had a parcel: the system may list unshipped units only, and cannot cancel the rest."""
    if not remedy.items:
        return True
    before = versions.units_before(connection, remedy)
    has_all = bool(before) and not before - remedy.units
    return has_all and not versions.was_sent_before(connection, remedy)


def _find_difference(connection: sa.Connection, remedy: Remedy, order: Order) -> str | None:
    """Return how an order that a system calls cancelled differs from what was asked for; None if it does not.
    Units of the order's other refunds may be gone, too."""
    before, asked = versions.units_before(connection, remedy), remedy.units
    is_cancelled = order.status is OrderStatus.CANCELLED
    is_whole = _is_whole(connection, remedy)
    if is_cancelled and not is_whole:  # another request may have cancelled the whole
        known = remedies.list_of_order(connection, remedy.order_id)
        is_whole = any(x.is_whole_cancellation and x.status in STANDING for x in known)
    if order.order_id != remedy.order_id or is_whole is not is_cancelled:
        return f"order {order.order_id} is {order.status}"
    if is_whole:
        has_left = any(each.has_left for each in order.shipments)
        return "one of its parcels has left" if has_left else None
    others = _sum_units(
        each
        for each in refunds.list_of_order(connection, remedy.order_id)
        if each.refund_id != remedy.refund_id and each.status in HOLDING
    )
    gone = before - order.units
    if asked - gone or gone - asked - others:
        return f"these units are gone: {_tell_units(gone)}; asked for: {_tell_units(asked)}"
    return None


def _sum_units(known: Iterable[Refund]) -> Counter[str]:
    units = Counter[str]()
    for each in known:
        units.update(dict(units_of(each.item_ids, each.lines)))
    return units


def _tell_units(units: Counter[str]) -> str:
    return ", ".join(f"{number} of {item_id}" for item_id, number in units.items()) or "none"


def _keep(connection: sa.Connection, order: Order) -> None:
    """Save the returned order, unless it has another customer, or our refunds forbid the change."""
    stored = orders.find(connection, order.order_id)
    if stored is None or stored.customer_email != order.customer_email:
        return
    try:
        with connection.begin_nested():
            live = services.current()
            known = order_import.as_source_says(
                connection, order, live.now(), live.gateway.is_remote
            )
            order_import.save(connection, known, live.now())
    except OrderProblem as problem:
        logger.warning(
            "order=%s event=record_kept: the returned one is not used: %s", order.order_id, problem
        )


def list_restocks(connection: sa.Connection, refund: Refund) -> tuple[tuple[str, int], ...]:
    """Return the units of a refund, by item id, that came back and that the policy puts in stock again."""
    rules = services.current().policy.return_first
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if rules is None or remedy is None or refund.reason not in rules.restock_reasons:
        return ()
    is_back = remedy.kind is RemedyKind.RETURN and remedy.status is RemedyStatus.DONE
    # A line with `is_rest` has no goods of its own: they belong to the earlier refund that was lowered.
    own = [pair for pair in zip(refund.item_ids, refund.lines, strict=True) if not pair[1].is_rest]
    return units_of([each for each, _ in own], [line for _, line in own]) if is_back else ()


def give_up_refused(connection: sa.Connection, refund: Refund) -> None:
    """End the remedy of a refund that was rejected or has expired. A return ends at once. A
    cancellation becomes a task for the team, because it may be under way. If the remedy is done
    already, hand the conversation over: the customer has neither the goods nor the money."""
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if remedy is None:
        return
    if remedy.status is RemedyStatus.DONE:
        _hand_over(connection, remedy, HandOverReason.DONE_UNPAID)
    if not remedy.is_open:
        return
    if remedy.status is RemedyStatus.AWAITING_GOODS:
        ending.close(connection, remedy, RemedyStatus.NOT_POSSIBLE, audit.CLOCK)
        return
    remedy = remedies.note(connection, remedy, refund_id=None)
    if remedy.status is RemedyStatus.ASKED:
        remedies.move(connection, remedy, RemedyStatus.TASK)
        remedies.note(connection, remedy, due_at=ending.next_due_at())
    else:
        ending.postpone(connection, remedy)
    _tell_people(
        connection,
        remedy,
        f"refused:{remedy.remedy_id}",
        "No refund is paid for it, and it may be cancelled already.",
        "Please see what is so, agree on it with the customer, and say so.",
    )


def hand_over_unpaid(connection: sa.Connection, refund: Refund) -> None:
    """Give the case to the team if a manager approved fewer units of a refund than were cancelled, or are
    back: the customer has neither these goods nor the money."""
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if refund.whole is None or remedy is None or remedy.status is not RemedyStatus.DONE:
        return
    known = [refund]
    if remedy.kind is RemedyKind.CANCEL:  # it may have units of an earlier refund, too
        tied = {each.refund_id for each in remedies.list_of_order(connection, refund.order_id)}
        known += [
            each
            for each in refunds.list_of_order(connection, refund.order_id)
            if each.refund_id not in tied and each.holds_money and not each.keeps_items
        ]
    if not remedy.items or remedy.units - _sum_units(known):
        _hand_over(connection, remedy, HandOverReason.DONE_PART_UNPAID)


def _hand_over(connection: sa.Connection, remedy: Remedy, why: HandOverReason) -> None:
    """Give the conversation to the team, once: they may have given it back since."""
    conversation = conversations.lock(connection, remedy.conversation_id)
    key = f"refused:{remedy.remedy_id}"
    if not outbound.list_by_subject(connection, conversation.conversation_id, key):
        mailers.hand_to_team(connection, conversation, why, key)


def _give_to_people(connection: sa.Connection, remedy: Remedy, *lines: str) -> None:
    remedies.move(connection, remedy, RemedyStatus.TASK)
    unwanted_at = audit.latest_at(connection, remedy.order_id, audit.WITHDRAWAL_ASKED_FOR)
    if unwanted_at and unwanted_at > remedy.requested_at:
        lines = (*lines, _UNWANTED)
    _tell_people(
        connection,
        remedies.note(connection, remedy, due_at=ending.next_due_at()),
        f"task:{remedy.remedy_id}",
        *lines,
    )


def _tell_people(connection: sa.Connection, remedy: Remedy, key: str, *lines: str) -> None:
    live = services.current()
    page = f"What is wanted: {live.shop.public_url}/ops/tasks"
    notice = Notice(key, f"Cancellation, order {remedy.order_id}", [*lines, page])
    written = write_notice(connection, notice, live.shop.team_emails)
    live.workflow_client.queue.enqueue_deliveries(connection, written)
