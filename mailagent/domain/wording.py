"""What our own people read for reasons and states: one plain English phrase each."""

from __future__ import annotations

from collections.abc import Mapping

from mailagent.domain.policy import ManagerReason
from mailagent.domain.refund import RefundReason, RefundStatus

REFUND_REASONS: Mapping[RefundReason, str] = {
    RefundReason.DAMAGED: "arrived damaged or stopped working",
    RefundReason.WRONG_ITEM: "the wrong item came",
    RefundReason.NOT_AS_DESCRIBED: "not as described",
    RefundReason.NOT_DELIVERED: "never arrived",
    RefundReason.CHANGED_MIND: "changed their mind",
    RefundReason.OTHER: "another reason",
}

MANAGER_REASONS: Mapping[str, str] = {
    ManagerReason.ABOVE_LIMIT: "The amount is above what is refunded without asking.",
    ManagerReason.ABOVE_LIMIT_TOGETHER: (
        "Together with earlier refunds of this order it is above what is refunded without asking."
    ),
    ManagerReason.NO_LIMIT_FOR_CURRENCY: "The policy sets no limit for this currency.",
    ManagerReason.NOT_DELIVERED: "The order has not been delivered.",
    ManagerReason.REFUSED_BEFORE: (
        "A refund that covers some of the same items was rejected, or expired without a decision."
    ),
}

REFUND_STATES: Mapping[RefundStatus, str] = {
    RefundStatus.AWAITING_APPROVAL: "waits for a manager",
    RefundStatus.APPROVED: "approved, not yet paid",
    RefundStatus.PAID: "paid",
    RefundStatus.REJECTED: "rejected",
    RefundStatus.EXPIRED: "expired without a decision",
    RefundStatus.WITHDRAWN: "withdrawn by the customer",
    RefundStatus.FAILED: "failed at the payment gateway",
}
