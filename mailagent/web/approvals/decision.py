"""A manager's decision: its form, its checks and its rows; with `four_eyes`, the first and the second decision.

Lock the order and the refund first. The decision and the wake-up of the refund's run are one transaction.
Its effect is in `mailagent.decisions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
from flask import request

from mailagent import services
from mailagent.decisions import apply_decisions
from mailagent.domain.amount_field import parse_typed_amount
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.money import Money, step_of
from mailagent.domain.operations.run_about import hash_customer
from mailagent.domain.refunds.offer import allows_offer, part_of_price
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.shop import person_of
from mailagent.domain.text import without_controls
from mailagent.engine import REFUND, run_id_of
from mailagent.mailers.approval_routing import is_one_of
from mailagent.store import audit
from mailagent.store.refunds import approvals, external_refunds, offers, refunds
from mailagent.store.refunds.approvals import Approval, RecordedDecision, Standing
from mailagent.store.refunds.reviews import Review
from mailagent.web.approvals.review_facts import balance_of, has_odd_part
from mailagent.web.form import FormProblem
from mailagent.web.language import _

LONGEST_NOTE = 2000
_PERCENT = re.compile("[1-9][0-9]?")
# For so long after a refund's decision, the page of a mailed link shows what the customer wrote and sent. Links
# stay in mailboxes for years.
SHOWN_AFTER_CLOSING = timedelta(days=7)
# After taking a decision back, a manager has at least this time to decide again.
REOPENED_FOR = timedelta(hours=1)


def is_open(refund: Refund, standing: Standing) -> bool:
    """Return whether a manager may still decide. After the approval's date no manager may, even if the run
    has not expired the refund yet."""
    waits = refund.status is RefundStatus.AWAITING_APPROVAL
    in_time = services.current().now() < standing.approval.expires_at
    return waits and in_time and standing.final(refund.four_eyes) is None


def shows_details(refund: Refund, approval: Approval) -> bool:
    """Return whether mailed links still show details: until the refund is decided or its approval expires, and
    SHOWN_AFTER_CLOSING after that."""
    closed_at = refund.decided_at or approval.expires_at
    return services.current().now() < closed_at + SHOWN_AFTER_CLOSING


def undo_until(refund: Refund, standing: Standing) -> datetime | None:
    """Return until when the last decision can be taken back; None if it cannot."""
    if refund.status is not RefundStatus.AWAITING_APPROVAL:
        return None
    return standing.undo_until(services.current().now())


def is_by(manager: str, first: RecordedDecision | None) -> bool:
    return first is not None and person_of(first.decided_by) == person_of(manager)


def is_proposer(refund: Refund, manager: str) -> bool:
    return refund.proposed_by is not None and is_one_of((refund.proposed_by,), manager)


def tell_own(refund: Refund, manager: str) -> str:
    """Return a sentence for a manager that says why they must not decide on this refund: it is their own order,
    or they asked for it (`Review.owners`)."""
    if is_proposer(refund, manager):
        return _("You asked for this refund; somebody else decides on it.")
    return _("This is your own order; somebody else decides on it.")


def find_missing_first(first: RecordedDecision | None) -> str | None:
    """Return why the first of two approvals does not count: its author is not a manager any more. None if it
    counts, or is missing."""
    if first is None or first.decided_by in services.current().shop.manager_emails:
        return None
    return _(
        "%(manager)s approved this, but does not decide on refunds any more, so that approval does not"
        " count. Please reject the request, or first have the address put back into MANAGER_EMAILS.",
        manager=first.decided_by,
    )


# --- form -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """What a manager decided. `amount` is set for a lower amount, and `quantities`, by line number, for fewer
    units. `note_shared`: the customer gets the note.

    What the manager was told: `knows_cancelled`, that the order was cancelled; `knows_customer`, its new
    address; `knows_elsewhere`, the sum refunded elsewhere, in minor units. `mail_id`: the manager's reply, if
    the decision came by mail. `offer_percent`: a rejection offers this part of the price instead.
    """

    approves: bool
    amount: Money | None
    note: str | None
    knows_cancelled: bool = False
    knows_customer: str = ""
    knows_elsewhere: int = 0
    note_shared: bool = False
    mail_id: str | None = None
    quantities: Mapping[int, int] = field(default_factory=dict)
    offer_percent: int | None = None


def parse_form(refund: Refund, first: RecordedDecision | None) -> Form:
    """Return the decision in the request's form. `first`: the first of two decisions, None if there is none.

    Raises FormProblem, also for a page that was opened before the first approval was made.
    """
    decision = request.form.get("decision", "")
    if decision not in ("approve", "reject", "offer"):
        raise FormProblem(
            "decision", _("Please press Approve or Reject: the form did not say which.")
        )
    if first is not None and request.form.get("first_decision") == "awaited":
        raise FormProblem(
            "decision",
            _(
                "%(manager)s approved %(amount)s while this page was open. What you decide now is the"
                " second decision.",
                manager=first.decided_by,
                amount=refund.amount,
            ),
        )
    note = mask_card_numbers(typed("note"))
    if len(note) > LONGEST_NOTE:
        raise FormProblem(
            "note",
            _("The note is longer than %(most)s characters. Please shorten it.", most=LONGEST_NOTE),
        )
    quantities = {} if decision == "reject" else parse_quantities(refund)
    return Form(
        decision == "approve",
        _parse_amount(refund, quantities) if decision == "approve" else None,
        note or None,
        quantities=quantities,
        knows_cancelled=request.form.get("order_status") == "cancelled",
        knows_customer=request.form.get("order_customer", ""),
        knows_elsewhere=request.form.get("refunded_elsewhere", 0, type=int),
        note_shared=request.form.get("note_shared") == "yes",
        offer_percent=_parse_percent() if decision == "offer" else None,
    )


def _parse_percent() -> int:
    text = typed("offer_percent").rstrip("% ")
    if not _PERCENT.fullmatch(text):
        raise FormProblem("offer", _("Please offer from 1 to 99 percent of the price."))
    return int(text)


def typed(field: str) -> str:
    """Return a form field without control characters and surrounding blanks."""
    return without_controls(request.form.get(field, "")).strip()


def typed_quantities(refund: Refund) -> dict[int, str]:
    """Return the typed number of units of each line, by line number. An unticked box sends only the hidden 0
    before it."""
    sent = {line.line_no: request.form.getlist(f"quantity_{line.line_no}") for line in refund.lines}
    return {line_no: without_controls(each[-1]).strip() for line_no, each in sent.items() if each}


def parse_quantities(refund: Refund) -> dict[int, int]:
    """Return the chosen units, by line number, of lines with fewer units than the refund has. Raises
    FormProblem."""
    most, found = {line.line_no: line.quantity for line in refund.lines}, dict[int, int]()
    for line_no, text in typed_quantities(refund).items():
        limit = most[line_no]
        if not (text.isascii() and text.isdigit() and int(text[:9]) <= limit):
            raise FormProblem(
                "items",
                _("“%(text)s” is not a quantity from 0 to %(most)s.", text=text, most=limit),
            )
        if int(text) < limit:
            found[line_no] = int(text)
    if found and not refund.covering(found).amount.minor:
        raise FormProblem(
            "items", _("Nothing is left of the items. Tick some, or reject the request.")
        )
    return found


def _parse_amount(refund: Refund, quantities: Mapping[int, int]) -> Money | None:
    """Return the approved amount if it is lower than what was asked for: the typed amount, or what fewer units
    are worth. Else None. Raises FormProblem."""
    most = refund.covering(quantities).amount
    if not request.form.get("amount", ""):
        # An empty field means all of it. Blanks are refused below: an amount was meant.
        return most if quantities else None
    try:
        amount = parse_typed_amount(typed("amount"), refund.amount.currency, _)
    except ValueError as problem:
        raise FormProblem(
            "amount", _("The amount cannot be read: %(problem)s", problem=problem)
        ) from None
    if not 0 < amount.minor <= most.minor:
        raise FormProblem(
            "amount",
            _(
                "The amount must be above 0 and at most %(most)s, which the chosen items come to.",
                most=most,
            )
            if quantities
            else _("The amount must be above 0 and at most %(most)s.", most=most),
        )
    return amount if quantities or amount != most else None


# --- record ---------------------------------------------------------------------------------------


def take(
    connection: sa.Connection, manager: str, standing: Standing, review: Review, form: Form
) -> Standing:
    """Check a decision and record it; return the approval's decisions after that. Read `standing` and `review`
    after locking the order.

    Raises FormProblem for the manager's own order or proposal, while the first decision can be taken back, for
    an offer or amount that is not possible, for a change of the order that the page did not show, and for a
    second approval after a first one that does not count."""
    if is_one_of(review.owners, manager):
        raise FormProblem("decision", tell_own(review.refund, manager))
    first, until = standing.first, undo_until(review.refund, standing)
    if first and until:
        raise FormProblem(
            "decision",
            _(
                "%(manager)s can take the first approval back until %(until)s. Please decide after that.",
                manager=first.decided_by,
                until=until,
            ),
        )
    if form.offer_percent is not None:
        _check_offer(connection, review)
    if form.approves or form.offer_percent is not None:
        _check_balance(connection, review, form)
    if form.approves and (missing := find_missing_first(first)):
        raise FormProblem("decision", missing)
    return _record(connection, manager, standing, review, form)


def _check_offer(connection: sa.Connection, review: Review) -> None:
    live = services.current()
    if not allows_offer(review.refund, live.policy):
        raise FormProblem("decision", _("Part of the price cannot be offered for this refund."))
    this = review.refund.refund_id
    if offers.has_open(connection, review.order.order_id, live.now(), but_refund_id=this):
        raise FormProblem("decision", _("Another offer for this order is still open."))


def _check_balance(connection: sa.Connection, review: Review, form: Form) -> None:
    balance = balance_of(review)
    wanted = form.amount or review.refund.amount
    if form.offer_percent is not None:
        wanted = part_of_price(review.refund.covering(form.quantities), form.offer_percent)
    if not wanted.minor:
        raise FormProblem("offer", _("That comes to nothing. Please offer more."))
    if wanted.minor > balance.most.minor:
        field = "amount" if balance.most.minor else "decision"
        problem = _("%(amount)s cannot be approved.", amount=wanted)
        raise FormProblem(field, f"{problem} {balance.news}".rstrip())
    if form.amount and has_odd_part(connection, review.order, form.amount):
        step = step_of(wanted.currency)
        raise FormProblem("amount", _("A card gives back only multiples of %(step)s.", step=step))
    cancelled = review.order.status is OrderStatus.CANCELLED and not form.knows_cancelled
    moved = review.new_customer is not None and form.knows_customer != review.new_customer
    more_elsewhere = review.elsewhere.minor > form.knows_elsewhere
    if cancelled or moved or more_elsewhere:
        happened = _("Something has happened while this page was open.")
        if form.mail_id:  # a reply, which the answer to it quotes in English
            happened = "Something has happened since we asked you."
        raise FormProblem("decision", f"{happened} {balance.news}")


def _record(
    connection: sa.Connection, manager: str, standing: Standing, review: Review, form: Form
) -> Standing:
    approval, refund = standing.approval, review.refund
    decision = _decision(approval, manager, review, form)
    if approvals.record_decision(connection, decision):
        standing = replace(standing, first=decision)
    else:
        # Another decision was faster, and counts.
        standing = approvals.find_standing(connection, approval.approval_id) or standing
        first = standing.first
        if first is None or not refund.four_eyes or is_by(manager, first):
            return standing
        if not approvals.record_countersignature(connection, decision):
            return standing
        standing = replace(standing, second=decision)
    if standing.final(refund.four_eyes) is None:
        standing = _await_second(connection, standing, decision)
    _audit_decision(connection, refund, standing, decision)
    apply_decisions(connection, refund, standing)
    _enqueue(connection, refund, "decided", decision.decided_at)
    return standing


def _decision(approval: Approval, manager: str, review: Review, form: Form) -> RecordedDecision:
    live = services.current()
    now, undo = live.now(), live.waits.approval_undo
    order, new_customer = review.order, review.new_customer
    return RecordedDecision(
        approval_id=approval.approval_id,
        decision="approve" if form.approves else "reject",
        decided_by=manager,
        decided_at=now,
        amount_minor=form.amount.minor if form.amount else None,
        note=form.note,
        note_shared=form.note_shared,
        mail_id=form.mail_id,
        quantities={str(line_no): units for line_no, units in form.quantities.items()},
        despite_cancel=form.approves and order.status is OrderStatus.CANCELLED,
        approved_for=hash_customer(new_customer) if form.approves and new_customer else None,
        undo_until=now + undo if undo else None,
        offer_percent=form.offer_percent,
    )


def _await_second(
    connection: sa.Connection, standing: Standing, decision: RecordedDecision
) -> Standing:
    """Let the refund wait for a second manager, with at least as much time as the first one had."""
    approval, live = standing.approval, services.current()
    expires_at = max(approval.expires_at, decision.decided_at + live.waits.approval_expiry)
    approvals.extend(connection, approval.approval_id, expires_at)
    return replace(standing, approval=replace(approval, expires_at=expires_at))


def take_back(
    connection: sa.Connection, manager: str, standing: Standing, refund: Refund
) -> Standing:
    """Take back the manager's own last decision if it has no effect yet; return the approval's decisions after
    that."""
    last, now = standing.last, services.current().now()
    if last is None or not is_by(manager, last) or undo_until(refund, standing) is None:
        return standing
    details = {"decision": last.decision, "decided_at": last.decided_at.isoformat("T", "seconds")}
    by = last.decided_by  # the same person, in the spelling that the trigger looks for
    audit.record(connection, now, by, audit.TAKEN_BACK, refund.refund_id, details)
    approvals.take_back(connection, standing)
    # The approval's date may have passed, so give time to decide again.
    approvals.extend(connection, standing.approval.approval_id, now + REOPENED_FOR)
    _enqueue(connection, refund, "undone", now)
    return approvals.find_standing(connection, standing.approval.approval_id) or standing


def _audit_decision(
    connection: sa.Connection, refund: Refund, standing: Standing, decision: RecordedDecision
) -> None:
    lowered, amount = decision.amount_minor, refund.amount
    if lowered is not None:
        amount = Money(lowered, amount.currency)
    elsewhere = external_refunds.given_back(connection, refund.order_id, amount.currency)
    facts = {"amount": str(amount), "note": decision.note, "elsewhere": str(elsewhere)}
    action: audit.Action = "refund approved" if decision.approves else "refund rejected"
    if standing.final(refund.four_eyes) is None:
        action = "refund approved, second approval awaited"
        facts["second_by"] = standing.approval.expires_at.isoformat(timespec="seconds")
    if standing.second and standing.first:
        facts["first_approved_by"] = standing.first.decided_by
    if decision.offer_percent is not None:
        facts["offered_percent"] = str(decision.offer_percent)
    if decision.quantities:
        facts["units"] = ", ".join(f"line {no}: {n}" for no, n in decision.quantities.items())
    if decision.undo_until:
        facts["undo_until"] = decision.undo_until.isoformat(timespec="seconds")
    if decision.note and not decision.note_shared:
        facts["note_for"] = "the shop only"
    if decision.mail_id:
        facts["mail_id"] = decision.mail_id
    at, by = decision.decided_at, decision.decided_by
    audit.record(connection, at, by, action, refund.refund_id, facts)


def _enqueue(connection: sa.Connection, refund: Refund, why: str, at: datetime) -> None:
    asked_by = refund.run_id or run_id_of(REFUND, refund.refund_id)
    client = services.current().workflow_client
    again = f"{why}-{at:%Y%m%dT%H%M%S%f}"  # an earlier decision's run may be cancelled
    run_id = client.queue.enqueue_refund(connection, refund.refund_id, asked_by, again)
    if run_id != refund.run_id:  # The refund is locked, so no other run has claimed it.
        refunds.claim(connection, refund.refund_id, run_id)
