"""What follows when a task ends: people have done it or cannot, it is too late, or the customer does not want
it any more. The row, the audit log and the customer's mail are one transaction.

Modules of `workflows` import this one as `ending`, beside the rows of `store.refunds.remedies`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.refunds.escalation import list_candidates
from mailagent.domain.refunds.offer import units_of
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import needs_two
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.remedies.remedy import (
    SENT_AGAIN,
    STANDING,
    Remedy,
    RemedyKind,
    RemedyStatus,
    TaskOutcome,
    TaskProblem,
    check_outcome,
    name_items,
)
from mailagent.domain.shop import person_of
from mailagent.engine import REFUND, run_id_of
from mailagent.proposals.returns import list_due
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound, outbound
from mailagent.store.orders import versions
from mailagent.store.refunds import orders, refunds, remedies, stops

_ACTIONS: Mapping[RemedyStatus, audit.Action] = {
    RemedyStatus.DONE: "request done",
    RemedyStatus.NOT_POSSIBLE: "request not possible",
    RemedyStatus.WITHDRAWN: audit.REQUEST_WITHDRAWN,
    RemedyStatus.EXPIRED: "request expired",
}


def finish(
    connection: sa.Connection,
    remedy_id: str,
    person: str,
    is_done: bool,
    note: str | None,
    *,
    approves: bool = False,
) -> bool:
    """Record that a person has done a task, or cannot do it, and tell the customer. If two managers are needed,
    the first one only approves it. `person`: their address. `note`: for the customer; needed if the task is not
    possible. `approves`: the person wants to be the first of two. Returns False if it is recorded already.
    Raises TaskProblem if it may not be recorded; its text says why."""
    remedy = remedies.lock(connection, remedy_id)
    if remedy is None:
        raise TaskProblem("there is no such task; look at the list")
    order = orders.load(connection, remedy.order_id)
    asked_by = conversations.load(connection, remedy.conversation_id).customer_email
    addresses = services.current().shop.manager_emails
    managers = (each.casefold() for each in addresses)
    first = remedies.find_approvals(connection, [remedy], addresses).get(remedy_id)
    is_first = first is not None and person_of(first.actor) == person_of(person)
    outcome = TaskOutcome(
        is_done,
        # The page begins with the first one's words: they are no reason why it is not possible.
        note if is_done or note != remedy.note else None,
        is_manager=person.casefold() in managers,
        is_theirs=person_of(person) in map(person_of, (order.customer_email, asked_by)),
        refund_waits=find_waiting(connection, remedy) is not None,
        stop=stops.find_task_stop(connection, order, remedy),
        has_approved=is_first,
        is_late=approves and first is not None,
    )
    if not check_outcome(remedy, outcome):
        return False
    if is_done and not first and needs_two(remedy.policy_reasons):
        now, told = services.current().now(), {"order_id": order.order_id}
        audit.record(connection, now, person, audit.FIRST_APPROVED, remedy_id, told)
        waiting = remedies.note(connection, remedy, note=note)
        mailers.ask_second_for_task(connection, waiting, order.customer_email, person)
        return True
    status = RemedyStatus.DONE if is_done else RemedyStatus.NOT_POSSIBLE
    end(connection, remedy, status, person, note)
    return True


def find_waiting(connection: sa.Connection, remedy: Remedy) -> Refund | None:
    """Return the refund that awaits approval for units which a remedy sends again. Until it is decided, a
    person must not send them."""
    return find_all_waiting(connection, [remedy]).get(remedy.remedy_id)


def find_all_waiting(connection: sa.Connection, tasks: Sequence[Remedy]) -> dict[str, Refund]:
    """Return the refunds that hold up these tasks as `find_waiting` says, by the task's id."""
    order_ids = {each.order_id for each in tasks if each.kind in SENT_AGAIN}
    known = refunds.list_of_orders(connection, sorted(order_ids)) if order_ids else ()
    waiting = [each for each in known if each.status is RefundStatus.AWAITING_APPROVAL]
    replaced = remedies.list_replaced_by(connection, waiting) if waiting else {}
    found: dict[str, Refund] = {}
    for refund in waiting:
        for each in replaced[refund.refund_id]:
            found.setdefault(each.remedy_id, refund)
    return found


def end(
    connection: sa.Connection,
    remedy: Remedy,
    status: RemedyStatus,
    actor: str,
    note: str | None = None,
    **details: str,
) -> None:
    """End a locked remedy, and tell the customer. `actor`: who ended it. `details` go into the audit log."""
    close(connection, remedy, status, actor, note, **details)
    if remedy.kind is RemedyKind.RETURN and status is RemedyStatus.DONE and not note:
        return  # the receipt of its refund tells it
    ended = remedies.find(connection, remedy.remedy_id)
    if ended is not None:
        outbound_id = mailers.write_remedy(connection, ended, remedies.outcome_key(ended))
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


def receive(connection: sa.Connection, row_id: str, actor: str) -> bool:
    """Record that the goods of a return are back. `row_id`: the id of the return, of its refund, or
    of its order. Returns False if that is recorded already. Raises LookupError if there is no such
    return. Raises TaskProblem if it has ended otherwise, or if the goods may belong to several
    requests: commit even then, because the conversation may have been handed over."""
    found = remedies.find(connection, row_id) or remedies.find_of_refund(connection, row_id)
    found = found or _find_only_return(connection, row_id)
    remedy = remedies.lock(connection, found.remedy_id) if found else None
    if remedy is None or remedy.kind is not RemedyKind.RETURN:
        raise LookupError(f"there is no return {row_id}")
    outcome = TaskOutcome(is_done=True, note=None, is_manager=False)
    try:
        is_news = check_outcome(remedy, outcome)
    except TaskProblem:
        _hand_over_late(connection, remedy, actor)
        raise
    if is_news:
        end(connection, remedy, RemedyStatus.DONE, actor)
    return is_news


def _find_only_return(connection: sa.Connection, order_id: str) -> Remedy | None:
    """Return the RETURN remedy of an order; None if there is none. If the goods may belong to another request,
    too, tell people and raise TaskProblem. A return that has ended counts as well: its goods may come late."""
    known = remedies.list_of_orders(connection, orders.spellings(order_id))
    returns = [each for each in known if each.kind is RemedyKind.RETURN]
    # No goods come for a return that ended before the customer was asked to send them.
    returns = [each for each in returns if _may_come(connection, each)] or returns
    # For an exchange the team asks in its own words, so its goods may come however it ended.
    back = [each for each in known if each.kind is RemedyKind.EXCHANGE or each in returns]
    found = next(iter(returns), None)
    if found and len(back) > 1:
        told = [f"{each.remedy_id} ({each.kind}, {each.status.replace('_', ' ')})" for each in back]
        _tell_of_unnamed(connection, back, told)
        raise TaskProblem(f"several goods may be back; name a return by its id: {', '.join(told)}")
    return found


def _may_come(connection: sa.Connection, remedy: Remedy) -> bool:
    asked = remedies.asked_key(remedy)
    return remedy.status in STANDING or outbound.is_recorded(connection, asked)


def _tell_of_unnamed(
    connection: sa.Connection, back: Sequence[Remedy], told: Sequence[str]
) -> None:
    """Tell people of goods that may be for several requests: once, and again after one of these ends or another
    is made. Until a person says which goods came, no return counts as back, and each lapses on its date."""
    newest, number = back[-1], sum(each.is_open for each in back)
    lines = [
        "The shop's system says that goods are back, but not for which of these:",
        *told,
        "Please see which goods came, and tick off what they are for. "
        "If the team does not tick off a return, it lapses.",
        f"What is wanted: {services.current().shop.public_url}/ops/tasks",
    ]
    title = f"Goods are back, order {newest.order_id}"
    _tell_doers(
        connection, newest, mailers.Notice(f"back:{newest.remedy_id}:{number}", title, lines)
    )


def _hand_over_late(connection: sa.Connection, remedy: Remedy, actor: str) -> None:
    """Give the team, once, the case of goods that are back though their return had lapsed, was withdrawn, or
    ended because its refund must not be paid. They see whether another return paid for these goods."""
    is_stopped = remedy.status is RemedyStatus.NOT_POSSIBLE and remedy.decided_by == audit.CLOCK
    has_ended = remedy.status in (RemedyStatus.EXPIRED, RemedyStatus.WITHDRAWN)
    if not has_ended and not (is_stopped and _may_come(connection, remedy)):
        return
    if audit.latest_at(connection, remedy.remedy_id, audit.BACK_TOO_LATE) is None:
        now, told = services.current().now(), {"order_id": remedy.order_id}
        audit.record(connection, now, actor, audit.BACK_TOO_LATE, remedy.remedy_id, told)
        conversation = conversations.lock(connection, remedy.conversation_id)
        key = f"late:{remedy.remedy_id}"
        mailers.hand_to_team(connection, conversation, HandOverReason.BACK_TOO_LATE, key, actor)


def withdraw(
    connection: sa.Connection, order_id: str, mail_id: str, later: Collection[str]
) -> None:
    """Withdraw the tasks of a locked order that the customer does not want any more, unless one of the mails
    `later` asked for them. The reply to their mail tells it. A task that the shop's system may have done
    already goes on."""
    for remedy in remedies.list_of_order(connection, order_id):
        if remedy.can_be_withdrawn and remedy.mail_id not in later:
            close(connection, remedy, RemedyStatus.WITHDRAWN, audit.CUSTOMER, mail_id=mail_id)


def withdraw_all(connection: sa.Connection, order_id: str, mail_ids: Sequence[str]) -> None:
    """Withdraw the tasks of a locked order that older mails than the last of these asked for, because the
    order is cancelled instead."""
    known = remedies.list_of_order(connection, order_id)
    later = inbound.list_later(connection, [each.mail_id for each in known], mail_ids)
    for each in known:
        is_other = each.status is RemedyStatus.TASK and each.kind is not RemedyKind.CANCEL
        if is_other and each.mail_id not in {mail_ids[-1], *later}:
            close(connection, each, RemedyStatus.WITHDRAWN, audit.CUSTOMER, mail_id=mail_ids[-1])


def supersede(connection: sa.Connection, refund: Refund) -> None:
    """When a refund is approved, or its offer is accepted, withdraw the waiting exchanges and
    replacements of its items, and tell the customer. Lock the order first."""
    for each in remedies.list_replaced(connection, refund):
        if each.status is RemedyStatus.TASK:
            actor, mail_id = audit.CUSTOMER, refund.mail_id
            end(connection, each, RemedyStatus.WITHDRAWN, actor, mail_id=mail_id)


def narrow(connection: sa.Connection, before: Refund, refund: Refund) -> None:
    """Reduce a cancellation to fewer units if a manager approved fewer of a refund than it had
    `before`. Do nothing if the shop's system was asked already. Lock the order first."""
    asked, approved = (
        Counter(dict(units_of(each.item_ids, each.lines))) for each in (before, refund)
    )
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if asked == approved or remedy is None or remedy.kind is not RemedyKind.CANCEL:
        return
    if not remedy.is_open or remedy.asked_at is not None:
        return
    order = orders.load(connection, remedy.order_id)
    others = count_cancelled(connection, order, but=remedy.remedy_id)
    # An earlier refund may be for other units of it.
    units = (remedy.units or order.units - others) - (asked - approved)
    # A remedy without units would be for the whole order.
    keep_only(connection, remedy, units or approved, "A manager approved no refund of the rest.")


def count_cancelled(connection: sa.Connection, order: Order, but: str = "") -> Counter[str]:
    """Return how many units the cancellations of an order have, done or open, by item id, without units
    that the order's record no longer lists: it may lag. `but`: the id of a remedy that does not count."""
    cancels = [
        each
        for each in remedies.list_of_order(connection, order.order_id)
        if each.kind is RemedyKind.CANCEL and each.status in STANDING and each.remedy_id != but
    ]
    if not cancels:
        return Counter()
    gone = versions.units_before(connection, cancels[0]) - order.units
    return sum((each.units or order.units for each in cancels), Counter[str]()) - gone


def keep_only(connection: sa.Connection, remedy: Remedy, units: Counter[str], why: str) -> None:
    """Have a remedy done for fewer units; if it is a task, tell the people who may do it. `units`: by item id.
    Lock the order first."""
    items = name_items(units, orders.load(connection, remedy.order_id).names)
    remedies.note(connection, remedy, items=items)
    if remedy.status is not RemedyStatus.TASK:
        return
    what = REMEDY_KINDS[remedy.kind].capitalize()
    lines = [
        *(f"{item.quantity} × {item.name}" for item in items),
        f"{why} Please do it for nothing else.",
        f"What is wanted: {services.current().shop.public_url}/ops/tasks",
    ]
    key = f"fewer:{remedy.remedy_id}:{units.total()}"
    title = f"{what} of fewer items, order {remedy.order_id}"
    _tell_doers(connection, remedy, mailers.Notice(key, title, lines))


def resume(connection: sa.Connection, refund: Refund) -> None:
    """Give people more time for the exchanges and replacements that a refund held up, because it was not
    approved. Lock the order first."""
    for each in remedies.list_of_order(connection, refund.order_id):
        is_sent = each.kind in SENT_AGAIN and each.touches(each.kind, refund.item_ids)
        if is_sent and each.status is RemedyStatus.TASK:
            postpone(connection, each)


def postpone(connection: sa.Connection, remedy: Remedy) -> None:
    """Give people more time for a locked task, and tell the customer the new date: we had promised to write to
    them by the old one."""
    due_at = next_due_at()
    if due_at <= remedy.due_at:
        return
    later = remedies.note(connection, remedy, due_at=due_at)
    if due_at.date() > remedy.due_at.date():
        key = f"{remedies.outcome_key(remedy)}:by:{due_at:%Y-%m-%d}"
        outbound_id = mailers.write_remedy(connection, later, key)
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


def next_due_at() -> datetime:
    """Return when a task is due that people are given now."""
    live = services.current()
    return live.now() + timedelta(days=live.policy.remedies.task_days)


def close(
    connection: sa.Connection,
    remedy: Remedy,
    status: RemedyStatus,
    actor: str,
    note: str | None = None,
    **details: str,
) -> None:
    """Record the end of a locked remedy; write no mail to the customer. Wake the refund that waits
    for it, and withdraw that refund if the remedy was not done. Also end other remedies that this
    one completes. If a task is withdrawn, tell the people who may do it."""
    now = services.current().now()
    remedies.move(connection, remedy, status, decided_by=actor, decided_at=now, note=note)
    told = {"kind": remedy.kind.value, "order_id": remedy.order_id, **details}
    audit.record(connection, now, actor, _ACTIONS[status], remedy.remedy_id, told)
    if remedy.refund_id is not None:
        _follow(connection, remedy.refund_id, status, actor)
    if remedy.kind is RemedyKind.RETURN and status is RemedyStatus.DONE:
        _end_same_returns(connection, remedy, actor)
    if remedy.is_whole_cancellation and status is RemedyStatus.DONE:
        for each in remedies.list_of_order(connection, remedy.order_id):
            if each.kind is RemedyKind.CANCEL and each.is_open and each.items:
                close(connection, each, status, actor)
    if remedy.status is RemedyStatus.TASK and status is RemedyStatus.WITHDRAWN:
        _call_off(connection, remedy)


def _call_off(connection: sa.Connection, remedy: Remedy) -> None:
    what = REMEDY_KINDS[remedy.kind]
    lines = [
        *(f"{item.quantity} × {item.name}" for item in remedy.items),
        f"Please do not do it. If the {what} is done already, write to the customer.",
        f"What is wanted: {services.current().shop.public_url}/ops/tasks",
    ]
    title = f"{what.capitalize()} not wanted any more, order {remedy.order_id}"
    _tell_doers(connection, remedy, mailers.Notice(f"withdrawn:{remedy.remedy_id}", title, lines))


def _tell_doers(connection: sa.Connection, remedy: Remedy, notice: mailers.Notice) -> None:
    """Write a notice to those who may do a task: they may work from the mail about it."""
    shop = services.current().shop
    readers = shop.team_emails
    if remedy.needs_manager:
        owner = orders.load(connection, remedy.order_id).customer_email
        readers += list_candidates(shop.manager_emails, (owner,))
    written = mailers.write_notice(connection, notice, tuple(dict.fromkeys(readers)))
    services.current().workflow_client.queue.enqueue_deliveries(connection, written)


def _end_same_returns(connection: sa.Connection, remedy: Remedy, actor: str) -> None:
    """End the other returns of an order that wait for goods which came back with this one."""
    order = orders.load(connection, remedy.order_id)
    for each in remedies.list_of_order(connection, remedy.order_id):
        if each.kind is RemedyKind.RETURN and each.is_open and each.refund_id is not None:
            refund = refunds.load(connection, each.refund_id)
            if not list_due(connection, refund, order):
                close(connection, each, RemedyStatus.DONE, actor)
                break  # `close` has ended the others


def _follow(connection: sa.Connection, refund_id: str, status: RemedyStatus, actor: str) -> None:
    """Wake the refund that waits for a remedy; withdraw it if the remedy was not done."""
    live = services.current()
    refund = refunds.lock(connection, refund_id)
    if refund.status not in (RefundStatus.AWAITING_APPROVAL, RefundStatus.APPROVED):
        return
    if status is not RemedyStatus.DONE:
        ended = {"decided_by": actor, "decided_at": live.now()}
        refunds.move(connection, refund, RefundStatus.WITHDRAWN, **ended)
        details = {"amount": str(refund.amount), "why": f"the request is {status.value}"}
        audit.record(connection, live.now(), actor, audit.WITHDRAWN, refund_id, details)
    wake(connection, refund, status.value)


def wake(connection: sa.Connection, refund: Refund, again: str) -> None:
    """Wake a refund's run, so that it reads its rows now; enqueue one if none is active. `again`: a part of the
    new run's id."""
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    queue = services.current().workflow_client.queue
    run_id = queue.enqueue_refund(connection, refund.refund_id, asked_by, again)
    refunds.claim(connection, refund.refund_id, run_id)
