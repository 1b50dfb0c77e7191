"""A manager's mail in answer to an approval request: a decision, a note, or an automatic answer.

We handle it in the transaction that stores the mail. The reply address has a token that only one manager got by
mail; it counts only together with proof (SPF or DKIM) that this manager wrote.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.adapters.mime.reply_text import words_to_pass_on
from mailagent.decisions import apply_decisions
from mailagent.domain.mail.auto_response import READ_RECEIPT
from mailagent.domain.mail.message import Door, Identity, MailKind, ParsedMail, Purpose, find_token
from mailagent.domain.mail.redaction import inert_address, without_keys
from mailagent.domain.mail.reply_commands import ManagersReply, read_reply
from mailagent.domain.money import Money
from mailagent.domain.refunds.escalation import ApprovalRequest, Question, Skip
from mailagent.domain.refunds.offer import part_of_price
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.domain.text import tell_moment
from mailagent.mailers.approval_routing import is_one_of, told_elsewhere
from mailagent.store.database import required
from mailagent.store.mail import inbound, outbound
from mailagent.store.refunds import approvals, orders, refunds, remedies, reviews
from mailagent.store.refunds.approvals import RecordedDecision, Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals import decision
from mailagent.web.approvals.decision import Form
from mailagent.web.form import FormProblem
from mailagent.web.webhooks import threading

ANSWERS_PER_HOUR = 20  # mails that we send to one manager, counting all notices

_HOW = (
    'To decide, answer with the word "approve" or "reject" alone in the first line, above what your program'
    " quotes, or use the link."
)
_LINK = "Please use the link in the mail that asked you."
_BLOCKED = (
    "The request itself holds a line that reads like a decision, so a reply cannot decide it."
    f" {_LINK}"
)


def receive(connection: sa.Connection, mail: ParsedMail, mail_id: str, now: datetime) -> None:
    """If a stored mail answers an approval request, act on it, and record the outcome on the mail."""
    token = find_token(mail.envelope_to, services.current().shop.reply_domain)
    at_door = token is not None and token.door is Door.APPROVAL
    ask = approvals.find_request_by_token(connection, token.token) if token and at_door else None
    reason: str | None = None
    if mail.kind is MailKind.AUTO_REPLY:
        referred = (*mail.references, *mail.in_reply_to)
        ask = ask or approvals.find_request_by_message_ids(connection, referred)
        reason = _pass_over(connection, mail, ask) if ask else None
    elif mail.kind is MailKind.MANAGER:
        reason = _hear(connection, mail, mail_id, ask, now) if ask else _show_way(connection, mail)
    if reason:
        inbound.set_reason(connection, mail_id, reason)


def _pass_over(connection: sa.Connection, mail: ParsedMail, ask: ApprovalRequest) -> str | None:
    """If an automatic answer says that a manager is away, ask the next one. A forged answer does no harm,
    because the first manager may still decide."""
    theirs = person_of(mail.from_address) == person_of(ask.manager_email)
    if not theirs or mail.kind_reason == READ_RECEIPT:
        return None
    refund_id = _find(connection, ask).approval.refund_id
    following = mailers.ask_next_manager(connection, refund_id, ask.manager_email, Skip.AWAY)
    if following:
        services.current().workflow_client.queue.enqueue_delivery(connection, following)
    return f"{mail.kind_reason}: {ask.manager_email} is passed over for now"


def _find(connection: sa.Connection, ask: ApprovalRequest) -> Standing:
    standing = approvals.find_standing(connection, ask.approval_id)
    return required(standing, f"the approval {ask.approval_id} of a mailed request")


def _hear(
    connection: sa.Connection, mail: ParsedMail, mail_id: str, ask: ApprovalRequest, now: datetime
) -> str:
    """Act on a manager's reply. Return the outcome in words, for people who look at the mail."""
    refund = refunds.load(connection, _find(connection, ask).approval.refund_id)
    if ask.manager_email not in services.current().shop.manager_emails:
        return f"{ask.manager_email} does not decide on refunds any more; nothing was recorded"
    aligned = mail.identity in (Identity.DKIM, Identity.SPF)
    if mail.from_address != ask.manager_email or not aligned:
        return _refuse(connection, mail, ask, refund)
    # Lock in the same order as the page does: the order, because a decision changes what it has left; the
    # refund; the manager's absence.
    order = orders.lock_known(connection, refund.order_id)
    refund = refunds.lock(connection, refund.refund_id)
    approvals.end_absence(connection, ask.manager_email)
    reply = _read(connection, mail, ask, refund)
    standing = _find(connection, ask)
    refund = apply_decisions(connection, refund, standing)
    review = reviews.load(connection, refund, order)
    if is_one_of(review.owners, ask.manager_email):
        reply = ManagersReply(None, None)  # ignore it, also as a note
    if reply.note and reply.approves is None:
        approvals.record_note(connection, mail_id, ask, reply.note, now)
    title, lines = _decide(connection, mail_id, ask, standing, review, reply)
    reason = f"a manager's reply. {title}: {lines[0]}"
    since = now - timedelta(hours=1)
    if outbound.count_to(connection, ask.manager_email, Purpose.NOTICE, since) >= ANSWERS_PER_HOUR:
        return reason  # perhaps a machine answers our mails
    notice = mailers.Notice(
        f"reply:{mail_id}",
        f"{title}: refund of {refund.asked.tell()}, order {refund.order_id}",
        lines,
    )
    mailers.answer_manager(connection, ask, notice, inbound.find(connection, mail_id))
    return reason


def _read(
    connection: sa.Connection, mail: ParsedMail, ask: ApprovalRequest, refund: Refund
) -> ManagersReply:
    """Parse a manager's reply, without what it quotes of our mails in this thread, which are internal."""
    requests = outbound.list_requests(connection, refund.refund_id, ask.manager_email)
    referred = (*mail.references, *mail.in_reply_to)
    notices = outbound.list_texts_to(connection, ask.manager_email, referred)
    ours = [*map(without_keys, requests), *notices]
    words = words_to_pass_on(mail.body, ours, mail.subject)
    return read_reply(words, "\n".join(requests))


def _refuse(
    connection: sa.Connection, mail: ParsedMail, ask: ApprovalRequest, refund: Refund
) -> str:
    """Mail the manager, once for each request, that a reply came without proof that they wrote it. The sender
    gets no answer."""
    reason = "not provably from the manager who was asked; nothing was recorded"
    notice = mailers.Notice(
        f"unproven:{ask.approval_id}:{ask.question.value}",
        f"Nothing recorded: refund of {refund.asked.tell()}, order {refund.order_id}",
        [
            "A reply to our request came that does not provably come from your address.",
            f"It says that it is from {inert_address(mail.from_address)}.",
            f"If it was yours: {_LINK}",
            "You get this mail once for each request, whatever else comes.",
        ],
    )
    mailers.answer_manager(connection, ask, notice, None)
    return reason


def _show_way(connection: sa.Connection, mail: ParsedMail) -> str:
    """Mail a manager, once for each request, that their answer decides nothing, because it came to another
    address than the request's own reply address."""
    ask = threading.find_request(connection, mail)
    if ask is None:
        return "this address was not asked"
    standing = _find(connection, ask)
    refund = refunds.load(connection, standing.approval.refund_id)
    notice = mailers.Notice(
        f"elsewhere:{ask.approval_id}:{ask.question.value}",
        f"Nothing recorded: refund of {refund.asked.tell()}, order {refund.order_id}",
        [
            "Your answer to our request came to another address than the one for answers.",
            *(
                [
                    "To decide, use the link in the mail that asked you.",
                    "Or answer that mail, or this one, to the address that its Reply-To names.",
                ]
                if decision.is_open(refund, standing)
                else describe(standing, refund)
            ),
            "You get this mail once for each request.",
        ],
    )
    mailers.answer_manager(connection, ask, notice, None)
    return "a manager's reply, to another address than the request's; nothing was recorded"


def _decide(
    connection: sa.Connection,
    mail_id: str,
    ask: ApprovalRequest,
    standing: Standing,
    review: Review,
    reply: ManagersReply,
) -> tuple[str, list[str]]:
    """Record the decision of a reply, if it has one. Return the title and the lines of our mail to the
    manager."""
    first, refund = standing.first, review.refund
    if is_one_of(review.owners, ask.manager_email):
        return "Not recorded", [decision.tell_own(refund, ask.manager_email)]
    mine = decision.is_by(ask.manager_email, first)
    if reply.approves is None:
        kept = ["Your words are kept as a note for us; the customer does not get them."]
        waits = decision.is_open(refund, standing) and not mine
        title = "Noted, not decided" if reply.note else "Not decided"
        how = _BLOCKED if reply.blocked else _HOW
        so_far = [how] if waits else describe(standing, refund)
        return title, [*(kept if reply.note else []), *so_far]
    if mine or not decision.is_open(refund, standing):
        return "Nothing changed", describe(standing, refund)
    if first is not None and ask.question is Question.APPROVE:
        so_far = describe(standing, refund)
        return "Not recorded", [*so_far, f"Yours would be the second decision. {_LINK}"]
    form = Form(
        reply.approves,
        None,
        reply.note,
        knows_elsewhere=told_elsewhere(connection, refund, ask.question, ask.manager_email),
        note_shared=reply.note_shared,
        mail_id=mail_id,
        offer_percent=reply.offer_percent,
    )
    try:
        standing = decision.take(connection, ask.manager_email, standing, review, form)
    except FormProblem as problem:
        return "Not recorded", [str(problem), _LINK]
    decided = refunds.load(connection, refund.refund_id)
    return "Recorded", [*describe(standing, decided), *_tell_note(reply)]


def _tell_note(reply: ManagersReply) -> list[str]:
    if not reply.note:
        return []
    if reply.note_shared:
        return [f"The customer gets this note with the decision: {reply.note}"]
    return ["What you wrote below is kept as a note for us; the customer does not get it."]


# --- decision words -------------------------------------------------------------------------------


def describe(standing: Standing, refund: Refund) -> list[str]:
    """Return sentences about the state of a refund: which manager decided what and when, or why none can
    decide."""
    made = [each for each in (standing.first, standing.second) if each]
    lines, closes = [_of(each, refund) for each in made], tell_moment(standing.approval.expires_at)
    if remedies.has_lapsed(refund):
        return [*lines, "It ended unpaid: what it waited for was not done."]
    if refund.status is RefundStatus.WITHDRAWN:
        return [*lines, "The customer has withdrawn the request. There is nothing to decide."]
    until, last = decision.undo_until(refund, standing), standing.last
    if until and last:
        lines.append(
            f"Until {tell_moment(until)} {last.decided_by} can take that back, by the link in the mail that"
            " asked them. Nothing is paid before."
        )
    if decision.is_open(refund, standing):
        waits = "A second manager has to approve it, too." if made else "Nobody has decided so far."
        return [*lines, f"{waits} It is closed without a refund at {closes}."]
    final = standing.final(refund.four_eyes)
    if refund.status is RefundStatus.EXPIRED or final is None:
        return [*lines, f"The date passed at {closes}: closed without a refund."]
    if refund.status is RefundStatus.REJECTED and final.approves:
        return [*lines, f"{refund.decided_by} refused it after all. Nothing was paid."]
    return lines


def _of(made: RecordedDecision, refund: Refund) -> str:
    verb = "approved" if made.approves else "rejected"
    lowered = made.amount_minor
    less = f", lowered to {Money(lowered, refund.amount.currency)}" if lowered is not None else ""
    percent, offered = made.offer_percent, ""
    if percent:
        amount = part_of_price(refund.covering(made.units), percent)
        offered = f", and offered {percent} % of the price, which is {amount}"
    return f"{made.decided_by} {verb} it on {tell_moment(made.decided_at)}{less}{offered}."
