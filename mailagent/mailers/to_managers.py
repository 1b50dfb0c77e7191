"""Mail to managers: the approval request with its link, reminders, outcomes, and what could not be read."""

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
from mailagent.domain.mail.reply_commands import holds_word
from mailagent.domain.refunds.escalation import MOST_REMINDERS, ApprovalRequest, Question, Skip
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.wording import MANAGER_REASONS, REFUND_REASONS
from mailagent.mailers import approval_routing
from mailagent.mailers.approval_routing import Asking
from mailagent.mailers.compose import MailContent, Notice, queue_mail, render, write_notice
from mailagent.store import audit
from mailagent.store.mail import outbound
from mailagent.store.refunds import approval_requests, approvals, cases, refunds
from mailagent.store.refunds.approvals import RecordedDecision


def ask_managers(
    connection: sa.Connection, refund: Refund, standing: approvals.Standing | None = None
) -> Asking:
    """Do what is due while a refund waits: ask a manager, ask the next one too, remind. Returns how things
    stood; the mails are to be sent, see `list_unsent_requests`. `standing`: the refund's own, where somebody
    has read it since it was locked.

    Raises LookupError where nobody is left who could give the second approval.
    """
    live = services.current()
    before = approval_routing.look(connection, refund, standing)
    if not before.candidates and _is_own_of_somebody(before):
        _tell_that_nobody_decides(connection, refund, before)
        return before
    if not before.candidates:
        raise LookupError(
            f"refund {refund.refund_id} needs a second manager beside the one who approved it, and"
            " there is none: add one to MANAGER_EMAILS, then replay this run"
        )
    stands = before
    if before.due.ask:
        _, stands = _write_request(connection, refund, before.due.ask, stands)
        _tell_of_escalation(connection, refund, before, before.due.ask)
    for ask in before.requests:
        if ask.manager_email in before.due.remind:
            stands = approval_routing.record_reminder(connection, stands, ask)
            number = ask.reminders + 1
            _, stands = _write_request(connection, refund, ask.manager_email, stands, number)
            details = {"manager": ask.manager_email, "reminder": f"{number} of {MOST_REMINDERS}"}
            audit.record(
                connection, live.now(), audit.CLOCK, "manager reminded", refund.refund_id, details
            )
    _enqueue(connection, tell_if_unread(connection, refund, stands))
    return before


def _is_own_of_somebody(stands: Asking) -> bool:
    managers = services.current().shop.manager_emails
    return any(approval_routing.is_one_of(stands.owners, each) for each in managers)


def _tell_that_nobody_decides(connection: sa.Connection, refund: Refund, stands: Asking) -> None:
    """Tell the team and the operators, once, that the only manager left would decide on their own money.
    The refund waits: whoever is made a manager is asked when it is looked at next."""
    shop = services.current().shop
    notice = Notice(
        f"nobody_decides:{stands.approval.approval_id}:{stands.question.value}",
        f"Nobody can decide: refund of {refund.amount}, order {refund.order_id}",
        [
            "It is the order or the request of a manager, and nobody decides on a refund of their own.",
            "No other manager is left: add one to MANAGER_EMAILS, and restart. They are asked then.",
            f"Nothing is paid before. It is closed without a refund at"
            f" {stands.approval.expires_at:%d %B %Y, %H:%M} UTC.",
        ],
    )
    readers = tuple(dict.fromkeys((*shop.team_emails, *shop.ops_emails)))
    untold = list_untold(connection, notice, readers)
    _enqueue(connection, write_notice(connection, notice, untold, refund.conversation_id))


def list_unsent_requests(connection: sa.Connection, refund_id: str) -> list[str]:
    """Return the requests and reminders about a refund that have yet to be sent: also those of a step
    that died before it could name them."""
    return outbound.list_queued_of_refund(connection, refund_id, Purpose.APPROVAL_REQUEST)


def write_approval_request(connection: sa.Connection, refund: Refund, manager: str) -> str:
    """Ask one manager to decide, by a link that opens a page and decides nothing by itself. Where one
    has approved, this asks for the second approval, and says who gave the first."""
    before = approval_routing.look(connection, refund)
    return _write_request(connection, refund, manager, before)[0]


def _write_request(
    connection: sa.Connection, refund: Refund, manager: str, before: Asking, reminder: int = 0
) -> tuple[str, Asking]:
    """Do as `write_approval_request` says; return the mail, and how things stand then. `reminder` counts
    from 1; 0 is the question itself."""
    ask, stands = approval_routing.record_ask(connection, refund, before, manager)
    key = approval_routing.request_key(stands.approval, stands.question, manager)
    facts = _case_facts(connection, refund, stands) | _asking_facts(stands, ask, reminder)
    content = MailContent(
        Purpose.APPROVAL_REQUEST,
        "approval_request",
        facts | {"reply_decides": True},
        to_address=manager,
        dedup_key=f"reminder:{reminder}:{key}" if reminder else key,
        refund_id=refund.refund_id,
        reply_to=reply_address(ask),
    )
    rendered = render(content)
    if holds_word(rendered.text):
        # It has a line that could be taken for a decision when it is quoted: no reply decides.
        content = replace(content, facts=facts | {"reply_decides": False})
        rendered = render(content)
    return queue_mail(connection, content, rendered), stands


def reply_address(ask: ApprovalRequest) -> str:
    """Return the address by which one manager may decide."""
    return token_address(Door.APPROVAL, ask.reply_token, services.current().shop.reply_domain)


def _case_facts(connection: sa.Connection, refund: Refund, stands: Asking) -> dict[str, Any]:
    case, first = cases.load(connection, refund), stands.first
    return {
        "order_id": case.order.order_id,
        "customer_name": case.order.customer_name,
        "customer_email": case.order.customer_email,
        "customer_since": case.customer_since,
        "amount": case.amount,
        "already_refunded": case.already_refunded,
        "paid": case.order.paid,
        "items": case.items,
        "shipping": case.shipping,
        "short": case.short,
        "reason": REFUND_REASONS[refund.reason],
        "policy_reasons": [MANAGER_REASONS.get(each, each) for each in refund.policy_reasons],
        "customer_text": case.customer_text,
        "attachments": case.attachments,
        "requested_at": refund.requested_at,
        "expires_at": stands.approval.expires_at,
        "first_approval": _approval_facts(first, refund) if first else None,
        "notes": [
            {"manager_email": each.manager_email, "at": each.written_at, "text": each.text}
            for each in stands.notes
        ],
    }


def _asking_facts(stands: Asking, ask: ApprovalRequest, reminder: int) -> dict[str, Any]:
    links = services.current().links
    return {
        "link_url": links.sign_approval(ask.approval_id, ask.manager_email),
        "manager_email": ask.manager_email,
        "reminds_of": ask.asked_at if reminder else None,
        "others": [
            {"manager_email": each.manager_email, "at": each.asked_at, "why_not": each.skipped_why}
            for each in stands.requests
            if each.manager_email != ask.manager_email
        ],
        "following": stands.due.following,
        "escalates_at": stands.due.escalates_at,
    }


def _approval_facts(first: approvals.RecordedDecision, refund: Refund) -> dict[str, Any]:
    return {
        "decided_by": first.decided_by,
        "decided_at": first.decided_at,
        "amount": refund.amount,  # what the first manager left of it, if that was less
        "note": first.note,
    }


def ask_next_manager(
    connection: sa.Connection, refund_id: str, manager: str, why: Skip
) -> str | None:
    """Pass over a manager whom mail does not reach or who is away, now and for a while; return the
    request to whoever is asked instead, but never to whoever has approved already. None when nobody has
    to be asked, or nobody is left."""
    live = services.current()
    if manager not in live.shop.manager_emails:
        return None
    now = live.now()
    # The refund first: whoever decides on it holds it when they say that they are back.
    refund = refunds.lock(connection, refund_id)
    approval_requests.record_absence(
        connection, manager, why.value, now, now + live.waits.manager_absence
    )
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return None
    stands, request = approval_routing.pass_over(connection, refund, manager, why), None
    if stands.instead:
        request, stands = _write_request(connection, refund, stands.instead, stands)
    if request or why is Skip.AWAY:  # of a lost mail that leaves nobody, people are told anyway
        _enqueue(connection, tell_if_unread(connection, refund, stands))
    return request


# --- how it went on -------------------------------------------------------------------------------


def _tell_of_escalation(
    connection: sa.Connection, refund: Refund, before: Asking, following: str
) -> None:
    """Tell those who were asked before that somebody else is asked, too; a reminder says so by itself."""
    told = [
        each.manager_email
        for each in before.requests
        if each.stands and each.manager_email not in before.due.remind
    ]
    key = f"escalated:{before.approval.approval_id}:{before.question.value}:{following}"
    notice = Notice(
        key,
        f"{following} is asked, too: refund of {refund.amount}, order {refund.order_id}",
        [
            "Nobody has decided so far.",
            "You may still decide: the link in the mail that you got works as before.",
            "The first decision stands, whoever makes it.",
        ],
    )
    _enqueue(connection, write_notice(connection, notice, told))


def answer_manager(
    connection: sa.Connection, ask: ApprovalRequest, notice: Notice, mail: InboundMail | None
) -> None:
    """Tell the manager of an ask what became of a reply to it: `mail`, in whose thread this goes, if it
    is proven to be theirs."""
    content = MailContent(
        Purpose.NOTICE,
        "notice",
        {"title": notice.title, "lines": notice.lines},
        to_address=ask.manager_email,
        dedup_key=f"{notice.key}:{ask.manager_email}",
        headers=answer_headers(mail) if mail else ThreadHeaders(""),
        reply_to=reply_address(ask),
    )
    _enqueue(connection, [queue_mail(connection, content)])


def _enqueue(connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
    for outbound_id in outbound_ids:
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


# --- closing --------------------------------------------------------------------------------------


def write_expired(
    connection: sa.Connection, refund: Refund, first: RecordedDecision | None
) -> None:
    """Tell the managers who were asked that nobody decided in time, also those who were passed over;
    where nobody else was waited for, people beside them, too. `first`: the first of two approvals, if
    somebody gave it."""
    asked = approval_requests.list_requests(connection, refund.refund_id)
    named = [*([first.decided_by] if first else []), *(each.manager_email for each in asked)]
    managers = services.current().shop.manager_emails
    told = dict.fromkeys(each for each in named if each in managers)
    last = [each for each in asked if each.question is Question.COUNTERSIGN or not first]
    if not any(each.stands for each in last):
        told |= dict.fromkeys(list_helpers(managers))
    missing = "a second manager approved" if first else "anybody decided"
    notice = Notice(
        f"expired:{refund.refund_id}",
        f"Closed without a decision: refund of {refund.amount}, order {refund.order_id}",
        [
            f"The date passed before {missing}, so the request is closed without a refund.",
            "The customer is told by mail, and may ask again.",
        ],
    )
    for outbound_id in write_notice(connection, notice, tuple(told), refund.conversation_id):
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


# --- unread ---------------------------------------------------------------------------------------


def tell_if_unread(connection: sa.Connection, refund: Refund, stands: Asking) -> Sequence[str]:
    """Write, once for each question, that nobody reads the request: all who were asked are passed over
    or away, and so is whoever is left. Returns the mails; none where somebody reads it."""
    if not stands.requests or _is_read(stands):
        return ()
    notice = Notice(
        f"unread:{stands.approval.approval_id}:{stands.question.value}",
        f"Nobody reads the request: refund of {refund.amount}, order {refund.order_id}",
        [
            "A refund waits for a manager, and every manager who may decide on it is away or gets no"
            " mail from us.",
            *(f"{each.manager_email}: {each.skipped_why or 'away'}." for each in stands.requests),
            f"If nobody decides by {stands.approval.expires_at:%Y-%m-%d %H:%M} UTC, it is closed"
            " without a refund.",
            "Please tell one of them, or have somebody who is there put into MANAGER_EMAILS.",
            "You get this mail once.",
        ],
    )
    untold = list_untold(connection, notice, list_helpers(stands.candidates))
    return write_notice(connection, notice, untold, refund.conversation_id)


def _is_read(stands: Asking) -> bool:
    passed_over = {each.manager_email for each in stands.requests if not each.stands}
    return any(each not in stands.away and each not in passed_over for each in stands.candidates)


def list_untold(
    connection: sa.Connection, notice: Notice, readers: Collection[str]
) -> Sequence[str]:
    """Return whoever has not got this notice yet."""
    told = outbound.list_recorded(connection, [f"{notice.key}:{each}" for each in readers])
    return [each for each in readers if f"{notice.key}:{each}" not in told]


def list_helpers(managers: Collection[str]) -> tuple[str, ...]:
    """Return who is told when managers do not read: the team, else the operators, none of them
    themselves."""
    shop = services.current().shop
    for circle in (shop.team_emails, shop.ops_emails):
        others = tuple(address for address in circle if address not in managers)
        if others:
            return others
    return ()
