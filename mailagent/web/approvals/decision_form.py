"""What a manager sends with the form of an approval: parsed as if hostile, nothing recorded."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request

from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.money import Money, parse_money
from mailagent.domain.refunds.refund import Refund
from mailagent.domain.text import without_controls
from mailagent.store.refunds.approvals import RecordedDecision

LONGEST_NOTE = 2000


class FormProblem(ValueError):
    """What the manager sent cannot be taken; the text says what to change, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Form:
    approves: bool
    amount: Money | None
    note: str | None
    # Whether the page said that the order was cancelled.
    knows_cancelled: bool = False
    # The address that the page said the order has by now; empty where it has not changed.
    knows_customer: str = ""
    # Whether the customer gets the note, too.
    note_shared: bool = True
    # The manager's reply that this was written in, if it was not the page's form.
    mail_id: str | None = None


def parse_form(refund: Refund, first: RecordedDecision | None) -> Form:
    """Return what the manager decided; `first` is the approval that this one would be the second to.

    Raises FormProblem, also for a page that was opened before there was a first approval.
    """
    decision = request.form.get("decision", "")
    if decision not in ("approve", "reject"):
        raise FormProblem("decision", "Please press Approve or Reject: the form did not say which.")
    if first is not None and request.form.get("first_decision") == "awaited":
        raise FormProblem(
            "decision",
            f"{first.decided_by} approved {refund.amount} while this page was open. What you decide"
            " now is the second decision.",
        )
    note = mask_card_numbers(typed("note"))
    if len(note) > LONGEST_NOTE:
        raise FormProblem(
            "note", f"The note is longer than {LONGEST_NOTE} characters. Please shorten it."
        )
    amount = _parse_amount(refund) if decision == "approve" else None
    return Form(
        decision == "approve",
        amount,
        note or None,
        knows_cancelled=request.form.get("order_status") == "cancelled",
        knows_customer=request.form.get("order_customer", ""),
        note_shared=request.form.get("note_private") != "yes",
    )


def typed(field: str) -> str:
    """Return what was typed into a field, without control characters and outer blanks."""
    return without_controls(request.form.get(field, "")).strip()


def _parse_amount(refund: Refund) -> Money | None:
    text = typed("amount")
    if not request.form.get("amount", ""):
        return None  # all of it; blank is not empty: whoever typed something meant an amount
    try:
        amount = parse_money(text, refund.amount.currency)
    except ValueError as problem:
        raise FormProblem("amount", f"The amount cannot be read: {problem}.") from None
    if not 0 < amount.minor <= refund.amount.minor:
        raise FormProblem("amount", f"The amount must be above 0 and at most {refund.amount}.")
    return amount if amount != refund.amount else None
