"""Mail to managers: approval requests, reminders, and what became of a request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import (
    Door,
    InboundMail,
    Purpose,
    ThreadHeaders,
    answer_headers,
    token_address,
)
from mailagent.domain.mail.redaction import inert_address
from mailagent.domain.mail.reply_commands import holds_word
from mailagent.domain.refunds.credit import credit_of
from mailagent.domain.refunds.escalation import (
    MOST_REMINDERS,
    ApprovalRequest,
    Question,
    Skip,
    list_candidates,
)
from mailagent.domain.refunds.labels import REFUND_REASONS, REFUND_STATES, tell_reasons
from mailagent.domain.refunds.offer import allows_offer
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.labels import REMEDY_KINDS, tell_done
from mailagent.domain.remedies.remedy import Remedy
from mailagent.domain.text import tell_moment
from mailagent.mailers import approval_routing
from mailagent.mailers.approval_routing import Routing, describe_request, load_routing
from mailagent.mailers.compose import MailContent, Notice, queue_mail, render, write_notice
from mailagent.store import audit
from mailagent.store.mail import outbound
from mailagent.store.refunds import approvals, refunds, reviews
from mailagent.store.refunds.approvals import RecordedDecision

EARLIER_IN_MAIL = 10  # the page has more

_KEYS = {Question.APPROVE: "approval_request", Question.COUNTERSIGN: "countersign_request"}


def ask_managers(
    connection: sa.Connection, refund: Refund, standing: approvals.Standing | None = None
) -> Routing:
    """Ask and remind the managers who are due. Return the routing as it was before; the caller sends the mails
    that `list_unsent_requests` returns. `standing` is the refund's, if you have read it since locking the
    refund.

    Raises LookupError if there is no manager for the second approval.
    """
    before = load_routing(connection, refund, standing)
    if not before.candidates:
        managers = services.current().shop.manager_emails
        if any(approval_routing.is_one_of(before.owners, each) for each in managers):
            _report_no_manager(connection, refund, before)
            return before
        raise LookupError(
            f"refund {refund.refund_id} needs a second manager beside the one who approved it, and"
            " there is none: add one to MANAGER_EMAILS, then replay this run"
        )
    routing, due = before, before.due
    if due.ask:
        _, routing = write_request(connection, refund, due.ask, routing)
        _report_escalation(connection, refund, before, due.ask)
    for request in before.requests:
        if request.manager_email in due.remind:
            routing = _remind(connection, refund, request, routing)
    report_if_unread(connection, refund, routing)
    return before


def _remind(
    connection: sa.Connection, refund: Refund, request: ApprovalRequest, routing: Routing
) -> Routing:
    now, number = services.current().now(), request.reminders + 1
    routing = routing.with_request(approvals.record_reminder(connection, request, now))
    write_request(connection, refund, request.manager_email, routing, number)
    reminder = f"{number} of {MOST_REMINDERS}"
    told = describe_request(connection, refund, routing.question, request.manager_email)
    details = told | {"reminder": reminder}
    audit.record(connection, now, audit.CLOCK, audit.MANAGER_REMINDED, refund.refund_id, details)
    return routing


def list_unsent_requests(connection: sa.Connection, refund_id: str) -> list[str]:
    """Return the requests and reminders about a refund that are not sent yet, including those of a step that
    crashed before it returned them."""
    return outbound.list_queued_of_refund(connection, refund_id, Purpose.APPROVAL_REQUEST)


def write_request(
    connection: sa.Connection, refund: Refund, manager: str, routing: Routing, reminder: int = 0
) -> tuple[str, Routing]:
    """Write a request, or reminder number `reminder`; return the mail and the routing then."""
    request = approval_routing.record_request(connection, refund, routing, manager)
    routing = routing.with_request(request)
    key = f"{_KEYS[routing.question]}:{routing.approval.approval_id}:{manager}"
    values = _values(reviews.load(connection, refund), routing, request, reminder)
    content = MailContent(
        Purpose.APPROVAL_REQUEST,
        "approval_request",
        values | {"reply_decides": True},
        to_address=manager,
        dedup_key=f"reminder:{reminder}:{key}" if reminder else key,
        refund_id=refund.refund_id,
        reply_to=reply_address(request),
    )
    rendered = render(content)
    if holds_word(rendered.text):
        # If a reply quotes this line, it could be taken for a decision: let no reply decide.
        content = replace(content, values=values | {"reply_decides": False})
        rendered = render(content)
    return queue_mail(connection, content, rendered), routing


def reply_address(request: ApprovalRequest) -> str:
    """Return the address where this manager's reply decides."""
    reply_domain = services.current().shop.reply_domain
    return token_address(Door.APPROVAL, request.reply_token, reply_domain)


def _values(
    review: reviews.Review, routing: Routing, request: ApprovalRequest, reminder: int
) -> dict[str, Any]:
    refund, order, first = review.refund, review.order, routing.first
    due, done = routing.due, tell_done(review.condition)
    why = tell_reasons(refund.policy_reasons, review.exceeded, order.currency)
    return {
        "order_id": order.order_id,
        "customer_name": order.customer_name,
        "customer_email": inert_address(order.customer_email),
        "customer_since": review.customer_since,
        "amount": refund.asked,
        "credit": credit_of(refund),
        "may_offer": allows_offer(refund, services.current().policy),
        "already_refunded": review.already_refunded,
        "paid": order.paid,
        "items": reviews.items_of(refund, order),
        "shipping": refund.shipping,
        "short": refund.short,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": [*why, done] if done else why,
        "withdraws": review.withdraws,
        "delivered_at": order.delivered_at,
        "order_status": order.status.value,
        "earlier": [_earlier(each) for each in review.earlier[:EARLIER_IN_MAIL]],
        "customer_text": review.customer_text,
        "attachments": review.attachments,
        "requested_at": refund.requested_at,
        "expires_at": routing.approval.expires_at,
        "first_approval": first
        and {
            "decided_by": first.decided_by,
            "decided_at": first.decided_at,
            "amount": refund.amount,  # less than `asked`, if the first manager lowered it
            "note": first.note,
        },
        "notes": routing.notes,
        "link_url": services.current().links.sign_approval(
            request.approval_id, request.manager_email
        ),
        "manager_email": request.manager_email,
        "reminds_of": request.asked_at if reminder else None,
        "others": [
            each for each in routing.requests if each.manager_email != request.manager_email
        ],
        "following": due.following,
        "escalates_at": due.escalates_at,
    }


def _earlier(refund: Refund) -> dict[str, Any]:
    return {
        "order_id": refund.order_id,
        "amount": refund.amount,
        "state": REFUND_STATES[refund.status],
        "requested_at": refund.requested_at,
        "closed_at": refund.closed_at,
    }


def ask_next_manager(
    connection: sa.Connection, refund_id: str, manager: str, why: Skip
) -> str | None:
    """Skip a manager who gets no mail or is absent, for the time of `waits.manager_absence`. Return the id of
    the request to the next one.

    Return None if there is no other manager to ask. The manager who gave the first approval is never asked.
    """
    live = services.current()
    if manager not in live.shop.manager_emails:
        return None
    now = live.now()
    # Lock the refund first: a manager who decides has locked it when they are recorded as back.
    refund = refunds.lock(connection, refund_id)
    until = now + live.waits.manager_absence
    approvals.record_absence(connection, manager, why.value, now, until)
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return None
    routing, mail = approval_routing.skip(connection, refund, manager, why), None
    if routing.instead:
        mail, routing = write_request(connection, refund, routing.instead, routing)
    if mail or why is Skip.AWAY:  # A lost mail that leaves no manager is reported anyway.
        report_if_unread(connection, refund, routing)
    return mail


# --- reports --------------------------------------------------------------------------------------


def answer_manager(
    connection: sa.Connection, request: ApprovalRequest, notice: Notice, mail: InboundMail | None
) -> None:
    """Tell a manager what became of their reply, in the thread of `mail` if it is provably theirs."""
    content = MailContent(
        Purpose.NOTICE,
        "notice",
        notice.facts(),
        to_address=request.manager_email,
        dedup_key=f"{notice.key}:{request.manager_email}",
        headers=answer_headers(mail) if mail else ThreadHeaders(""),
        reply_to=reply_address(request),
    )
    _enqueue(connection, [queue_mail(connection, content)])


def _report_escalation(
    connection: sa.Connection, refund: Refund, before: Routing, following: str
) -> None:
    """Tell the managers who were asked before that another one is asked too; a reminder says so itself."""
    readers = [
        each.manager_email
        for each in before.requests
        if each.stands and each.manager_email not in before.due.remind
    ]
    notice = Notice(
        f"escalated:{before.approval.approval_id}:{before.question.value}:{following}",
        f"{following} is asked, too: refund of {refund.amount.tell()}, order {refund.order_id}",
        [
            "Nobody has decided so far.",
            "You may still decide: the link in the mail that you got works as before.",
            "The first decision stands, whoever makes it.",
        ],
    )
    _enqueue(connection, write_notice(connection, notice, readers, None, refund.refund_id))


def _report_no_manager(connection: sa.Connection, refund: Refund, routing: Routing) -> None:
    """Tell the team and the operators, once, that no manager is left but the refund's owners. The refund waits
    for a new manager."""
    shop = services.current().shop
    notice = Notice(
        f"nobody_decides:{routing.approval.approval_id}:{routing.question.value}",
        f"Nobody can decide: refund of {refund.amount.tell()}, order {refund.order_id}",
        [
            "It is the order or the request of a manager, and managers do not decide on their own refunds.",
            "No other manager is left: add one to MANAGER_EMAILS, and restart. They are asked then.",
            f"Nothing is paid before. It is closed without a refund at"
            f" {tell_moment(routing.approval.expires_at)}.",
        ],
    )
    readers = tuple(dict.fromkeys((*shop.team_emails, *shop.ops_emails)))
    _report_once(connection, refund, notice, readers)


def report_if_unread(connection: sa.Connection, refund: Refund, routing: Routing) -> None:
    """Tell the team, once for each question, that every manager who may decide is skipped or absent."""
    skipped = {each.manager_email for each in routing.requests if not each.stands}
    readers = [
        each for each in routing.candidates if each not in routing.away and each not in skipped
    ]
    if readers or not routing.requests:
        return
    notice = Notice(
        f"unread:{routing.approval.approval_id}:{routing.question.value}",
        f"Nobody reads the request: refund of {refund.amount.tell()}, order {refund.order_id}",
        [
            "A refund waits for a manager, and every manager who may decide on it is away or gets no"
            " mail from us.",
            *(f"{each.manager_email}: {each.skipped_why or 'away'}." for each in routing.requests),
            f"If nobody decides by {tell_moment(routing.approval.expires_at)}, it is closed"
            " without a refund.",
            "Please tell one of them, or have somebody who is there put into MANAGER_EMAILS.",
            "You get this mail once.",
        ],
    )
    _report_once(connection, refund, notice, _list_helpers(routing.candidates))


def write_expired(
    connection: sa.Connection, refund: Refund, first: RecordedDecision | None
) -> None:
    """Tell all managers who were asked that the date has passed; if we waited for none of them, also tell
    the team. `first` is the first of two approvals."""
    asked = approvals.list_requests(connection, refund.refund_id)
    named = [*([first.decided_by] if first else []), *(each.manager_email for each in asked)]
    managers = services.current().shop.manager_emails
    readers = dict.fromkeys(each for each in named if each in managers)
    last = [each for each in asked if each.question is Question.COUNTERSIGN or not first]
    if not any(each.stands for each in last):
        readers |= dict.fromkeys(_list_helpers(managers))
    missing = "a second manager approved" if first else "anybody decided"
    notice = Notice(
        f"expired:{refund.refund_id}",
        f"Closed without a decision: refund of {refund.amount.tell()}, order {refund.order_id}",
        [
            f"The date passed before {missing}, so the request is closed without a refund.",
            "The customer is told by mail, and may ask again.",
        ],
    )
    about = (refund.conversation_id, refund.refund_id)
    _enqueue(connection, write_notice(connection, notice, tuple(readers), *about))


def ask_second_for_task(connection: sa.Connection, task: Remedy, owner: str, first: str) -> None:
    """Ask the managers beside the `first` one to do a task that needs two; if there are none, tell the team.
    `owner`: the order's customer, who is none of them."""
    shop = services.current().shop
    others = list_candidates(shop.manager_emails, (owner, first))
    missing = ["No other manager may do it: please add one to MANAGER_EMAILS, and restart."]
    lines = [
        *(f"{each.quantity} × {each.name}" for each in task.items),
        f"{first} has approved it. Another manager has to do it by {tell_moment(task.due_at)},"
        " and say so: the customer then gets a mail.",
        *([] if others else missing),
    ]
    title = f"{REMEDY_KINDS[task.kind].capitalize()}, order {task.order_id}: approved by {first}"
    button = ("What is wanted", f"{shop.public_url}/ops/tasks")
    notice = Notice(f"second:{task.remedy_id}:{first}", title, lines, button)
    readers = others or _list_helpers(shop.manager_emails)
    _enqueue(connection, write_notice(connection, notice, readers))


def _report_once(
    connection: sa.Connection, refund: Refund, notice: Notice, readers: Collection[str]
) -> None:
    """Send a notice to the readers who have not got it yet."""
    keys = {each: f"{notice.key}:{each}" for each in readers}
    sent = outbound.list_recorded(connection, list(keys.values()))
    new = [each for each in readers if keys[each] not in sent]
    about = (refund.conversation_id, refund.refund_id)
    _enqueue(connection, write_notice(connection, notice, new, *about))


def _list_helpers(managers: Collection[str]) -> tuple[str, ...]:
    """Return whom to tell if managers do not read their mail: the team, else the operators, without the
    managers."""
    shop = services.current().shop
    for circle in (shop.team_emails, shop.ops_emails):
        others = tuple(address for address in circle if address not in managers)
        if others:
            return others
    return ()


def _enqueue(connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
    services.current().workflow_client.queue.enqueue_deliveries(connection, outbound_ids)
