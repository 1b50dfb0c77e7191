"""Settlements: whether the shop has paid an entry of the ledger, and by when it must. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState
from mailagent.domain.shop import person_of
from mailagent.domain.text import ERASED_NAME, Fill, fill

# After so many days we tell the operators that an entry is not paid, unless the shop promises another time.
USUAL_DAYS = 7
LONGEST_TEXT = 200
# A person who reports a payment wakes the refund's run. The run also looks by itself, in case that was lost.
LOOK_AGAIN_SECONDS = 24 * 3600.0


class SettlementState(StrEnum):
    OPEN = "open"
    SETTLED = "settled"
    FAILED = "failed"


_AT_GATEWAY: Mapping[SettlementState, RefundState] = {
    SettlementState.OPEN: RefundState.PENDING,
    SettlementState.SETTLED: RefundState.SETTLED,
    SettlementState.FAILED: RefundState.FAILED,
}


@dataclass(frozen=True, slots=True)
class SettlementRules:
    """How the shop pays the entries of its ledger. `promise_days`: within how many days, as we tell customers;
    None: customers only hear when it is paid. `at_once`: an entry counts as paid when it is recorded, unless
    the money goes back by bank transfer."""

    promise_days: int | None = None
    at_once: bool = False

    def pays_at_once(self, method: str | None) -> bool:
        """Return whether a refund to this payment method counts as paid when it is recorded."""
        return self.at_once and method != "bank_transfer"

    def due_at(self, now: datetime) -> datetime:
        """Return by when the shop must pay an entry that is recorded now."""
        return now + timedelta(days=self.promise_days or USUAL_DAYS)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The settlement of one entry of the ledger, under the key of its refund payment. `reference`: the ledger's
    id of the entry. `bank_reference`: what the shop noted when it paid; for store credit, the credit's code.
    `promised`: we told the customer `due_at`. `credit`: the store credit to give instead of `amount`."""

    idempotency_key: str
    reference: str
    refund_id: str
    order_id: str
    payment_id: str
    customer_name: str
    method: str
    amount: Money
    state: SettlementState
    recorded_at: datetime
    due_at: datetime
    promised: bool
    decided_by: str | None = None
    decided_at: datetime | None = None
    bank_reference: str | None = None
    reason: str | None = None
    credit: Money | None = None

    @property
    def to_give(self) -> Money:
        """What the customer gets: money, or store credit with its bonus."""
        return self.credit or self.amount

    def as_refund(self, gateway: str) -> GatewayRefund:
        """Return the entry in the form in which gateways report refunds."""
        return GatewayRefund(
            reference=self.reference,
            gateway=gateway,
            payment_ids=(self.payment_id,),
            amount=self.amount,
            state=_AT_GATEWAY[self.state],
            idempotency_key=self.idempotency_key,
            order_id=self.order_id,
            why=self.reason,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a person reports about a settlement. SETTLED may have the `bank_reference`, and for store credit
    needs its code there; FAILED needs a `reason`. `amount`: if given, it must be the recorded one.
    `paid_before`: they had already paid it when a reason came not to pay it any more. `came_back`: it was paid,
    and the money came back."""

    idempotency_key: str
    state: SettlementState
    bank_reference: str | None = None
    reason: str | None = None
    amount: Money | None = None
    paid_before: bool = False
    came_back: bool = False


class SettlementProblem(ValueError):
    """An outcome cannot be recorded; the text says why, and what to do."""


class ReportedAgain(SettlementProblem):
    """An outcome repeats the recorded one, but may be of a second payment, or give another reason. `again`: the
    recorded settlement, and that outcome."""

    def __init__(self, text: str, known: Settlement, outcome: Outcome) -> None:
        self.again = [(known, outcome)]
        super().__init__(text)


class SettlementFileProblem(ValueError):
    """Lines of a settlement file that we cannot read or record. `problems`: pairs of a line number and what is
    wrong. `_` translates the word before the number. `again`: see `ReportedAgain`."""

    def __init__(
        self,
        problems: Sequence[tuple[int, str]],
        _: Fill = fill,
        again: Sequence[tuple[Settlement, Outcome]] = (),
    ) -> None:
        self.again = list(again)
        self.lines = [
            _("line %(number)s: %(problem)s", number=str(line_no), problem=text)
            for line_no, text in sorted(problems)
        ]
        super().__init__("; ".join(self.lines))


def check_outcome(
    known: Settlement | None, outcome: Outcome, stop: str | None = None, _: Fill = fill
) -> bool:
    """Return whether an outcome changes the state. Raises SettlementProblem if it cannot be recorded. `stop`:
    why the entry must not be paid any more; None if it may be. `_` translates the problem.

    A settled entry fails only when the money comes back, and only if the person says that it came back: a
    colleague may have paid it while they had an older list open. A failed entry cannot become settled, because
    the team already has the refund.
    """
    if known is None:
        raise SettlementProblem(
            _(
                "there is no settlement %(key)s; take the ids from the exported list",
                key=outcome.idempotency_key,
            )
        )
    if outcome.amount not in (None, known.to_give):
        raise SettlementProblem(
            _(
                "the amount is %(recorded)s, not %(amount)s; pay exactly what is recorded",
                recorded=known.to_give,
                amount=outcome.amount,
            )
        )
    gives_credit = known.credit and outcome.state is SettlementState.SETTLED
    if gives_credit and not (outcome.bank_reference or known.bank_reference):
        raise SettlementProblem(
            _("store credit needs its code, which the receipt tells; add it as the reference")
        )
    if outcome.state is SettlementState.FAILED and not outcome.reason:
        raise SettlementProblem(_("a failed payment needs a reason; say why"))
    _check_order(known, outcome, _)
    is_paid = outcome.state is SettlementState.SETTLED and known.state is SettlementState.OPEN
    if stop and is_paid and not outcome.paid_before:
        raise SettlementProblem(
            _(
                "%(stop)s. If you have paid it already, say that it was paid before; else do not pay it, and"
                " say that it could not be paid, with this reason",
                stop=_(stop),
            )
        )
    return known.state is not outcome.state


def _check_order(known: Settlement, outcome: Outcome, _: Fill) -> None:
    """Raise SettlementProblem if an outcome cannot follow the state."""
    news = known.state, outcome.state
    if news == (SettlementState.SETTLED, SettlementState.FAILED) and not outcome.came_back:
        raise SettlementProblem(
            _(
                "it is recorded as paid; if the money has come back, say so in the list of what is paid, or"
                " with came_back in a file"
            )
        )
    if news == (SettlementState.FAILED, SettlementState.SETTLED):
        raise SettlementProblem(
            _(
                "it has failed before, and the refund was given to people; tell the team that it is paid"
            )
        )


def check_again(
    known: Settlement, outcome: Outcome, person: str, in_file: bool, _: Fill = fill
) -> None:
    """Raise ReportedAgain if a report repeats the recorded state, but may be of a second payment, or gives
    another reason. A double click is neither. `person`: who reports it. `in_file`: it is in a file, which
    others may import again."""
    facts = {
        "person": known.decided_by or "–",
        "decided_at": known.decided_at,
        "reference": known.bank_reference or "–",
        "reason": known.reason or "–",
    }
    if outcome.state is SettlementState.FAILED:
        # An erased reason may have been the same one; nothing must bring its words back.
        if known.reason in (outcome.reason, ERASED_NAME):
            return
        text = _(
            "%(person)s recorded that it failed, %(decided_at)s: %(reason)s; your report is in the audit log"
            " only. Tell the team your reason, too; in a file, leave its line out",
            **facts,
        )
        raise ReportedAgain(text, known, outcome)
    is_theirs = person_of(known.decided_by or "") == person_of(person)
    is_same = outcome.bank_reference == known.bank_reference
    if (is_same and (is_theirs or in_file)) or (is_theirs and outcome.bank_reference is None):
        return
    if known.credit:
        text = _(
            "%(person)s recorded it as given, %(decided_at)s, code: %(reference)s; your report is in the audit"
            " log only. If you gave another code, cancel one of the two; in a file, leave its line out",
            **facts,
        )
    else:
        text = _(
            "%(person)s recorded it as paid, %(decided_at)s, reference: %(reference)s; your report is in the"
            " audit log only. If it was paid twice, have one of the two payments taken back; in a file, leave"
            " its line out",
            **facts,
        )
    raise ReportedAgain(text, known, outcome)
