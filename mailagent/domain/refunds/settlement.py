"""Settlements: whether the shop has paid what its ledger recorded, and until when it must. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState

# How long the shop may take before the operators are told, unless it promises a time.
USUAL_DAYS = 7
LONGEST_TEXT = 200
# The person who pays it wakes the refund. This look is for a wake-up that was lost.
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
    """`promise_days`: days within which the shop pays, as customers are told; None: they are told when it is
    paid. `at_once`: what is recorded counts as paid, unless it was paid by bank transfer, as in the demo."""

    promise_days: int | None = None
    at_once: bool = False

    def pays_at_once(self, method: str | None) -> bool:
        """Return whether a refund to this payment method counts as paid when it is recorded."""
        return self.at_once and method != "bank_transfer"

    def due_at(self, now: datetime) -> datetime:
        """Return until when a refund that is recorded now must be paid."""
        return now + timedelta(days=self.promise_days or USUAL_DAYS)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The settlement of one entry of the ledger, by the key of its refund payment. `reference` is the entry's,
    `bank_reference` the shop's. `promised`: the customer was told `due_at`. `credit`: the store credit to give
    instead of the amount."""

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
        """Return it as a refund at the gateway."""
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
    """What people say of a settlement: settled, with the bank's reference if they know it or the code of store
    credit, or failed, for a reason. `amount`: of how much, if they say so. `paid_before`: they have paid it
    already, although it must not be paid any more."""

    idempotency_key: str
    state: SettlementState
    bank_reference: str | None = None
    reason: str | None = None
    amount: Money | None = None
    paid_before: bool = False


class SettlementProblem(ValueError):
    """An outcome cannot be recorded; the text says why, and what to do."""


class SettlementFileProblem(ValueError):
    """Lines of a file that cannot be taken: their numbers, and what is wrong with each."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        self.lines = [f"line {line_no}: {text}" for line_no, text in sorted(problems)]
        super().__init__("; ".join(self.lines))


def check_outcome(known: Settlement | None, outcome: Outcome, stop: str | None = None) -> bool:
    """Return whether an outcome is news. Raises SettlementProblem if it cannot be. `stop`: why it must not be
    paid any more.

    What was settled may fail later, when the money comes back. What failed is left to people, so it is over.
    """
    if known is None:
        raise SettlementProblem(
            f"there is no settlement {outcome.idempotency_key}; take the ids from the exported list"
        )
    if outcome.amount not in (None, known.to_give):
        raise SettlementProblem(
            f"the amount is {known.to_give}, not {outcome.amount}; pay exactly what is recorded"
        )
    gives_credit = known.credit and outcome.state is SettlementState.SETTLED
    if gives_credit and not (outcome.bank_reference or known.bank_reference):
        raise SettlementProblem(
            "store credit needs its code, which the receipt tells; add it as the reference"
        )
    if outcome.state is SettlementState.FAILED and not outcome.reason:
        raise SettlementProblem("a failed payment needs a reason; say why")
    if known.state is SettlementState.FAILED and outcome.state is SettlementState.SETTLED:
        raise SettlementProblem(
            "it has failed before, and the refund was given to people; tell the team that it is paid"
        )
    is_paid = outcome.state is SettlementState.SETTLED and known.state is SettlementState.OPEN
    if stop and is_paid and not outcome.paid_before:
        raise SettlementProblem(
            f"{stop}. If you have paid it already, say that it was paid before; else do not pay it, and say"
            " that it could not be paid, with this reason"
        )
    return known.state is not outcome.state
