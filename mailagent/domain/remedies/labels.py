"""Labels of remedies, for people of the shop."""

from __future__ import annotations

from collections.abc import Mapping

from mailagent.domain.remedies.remedy import RemedyKind, RemedyStatus

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
