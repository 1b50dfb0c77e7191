"""Labels of remedies, for people of the shop."""

from __future__ import annotations

from collections.abc import Mapping

from mailagent.domain.remedies.remedy import Remedy, RemedyKind, RemedyStatus

REMEDY_KINDS: Mapping[RemedyKind, str] = {
    RemedyKind.EXCHANGE: "exchange",
    RemedyKind.REPLACEMENT: "replacement",
    RemedyKind.CHANGE_ADDRESS: "change of address",
    RemedyKind.CANCEL: "cancellation",
    RemedyKind.RETURN: "return",
}
REMEDY_STATES: Mapping[RemedyStatus, str] = {
    RemedyStatus.ASKED: "the shop's system is asked",
    RemedyStatus.TASK: "to be done",
    RemedyStatus.AWAITING_GOODS: "the goods are awaited",
    RemedyStatus.DONE: "done",
    RemedyStatus.NOT_POSSIBLE: "not possible",
    RemedyStatus.WITHDRAWN: "withdrawn by the customer",
    RemedyStatus.EXPIRED: "not done in time",
}

# A manager who has yet to decide on a refund reads this if the remedy before it is already done.
DONE_BEFORE_APPROVAL: Mapping[RemedyKind, str] = {
    RemedyKind.CANCEL: "Its items are cancelled already. Without this refund, the team gets the case.",
    RemedyKind.RETURN: "The goods are back already. Without this refund, the team gets the case.",
}


def tell_done(remedy: Remedy | None) -> str:
    """Return the sentence for a manager about a remedy that is already done; empty if it is not."""
    is_done = remedy is not None and remedy.status is RemedyStatus.DONE
    return DONE_BEFORE_APPROVAL.get(remedy.kind, "") if remedy and is_done else ""
