"""Labels of reasons and states for the shop's own people."""

from __future__ import annotations

from collections.abc import Mapping

from mailagent.domain.refunds.policy import DeclineReason, ManagerReason
from mailagent.domain.refunds.refund import RefundReason, RefundStatus

REFUND_REASONS: Mapping[RefundReason, str] = {
    RefundReason.DAMAGED: "arrived damaged or stopped working",
    RefundReason.WRONG_ITEM: "the wrong item came",
    RefundReason.NOT_AS_DESCRIBED: "not as described",
    RefundReason.NOT_DELIVERED: "never arrived",
    RefundReason.CHANGED_MIND: "changed their mind",
    RefundReason.OTHER: "another reason",
}

DECLINE_REASONS: Mapping[DeclineReason, str] = {
    DeclineReason.ORDER_CANCELLED: (
        "The order was cancelled, and nothing is left of what was paid for it."
    ),
    DeclineReason.CHARGED_BACK: "The customer's bank is taking a payment back.",
    DeclineReason.NOTHING_LEFT: "Nothing is left to refund of these items.",
    DeclineReason.ABOVE_BALANCE: "Nothing is left of what was paid.",
    DeclineReason.FINAL_SALE: "Some of it is on final sale.",
    DeclineReason.WINDOW_CLOSED: "The return window is over.",
    DeclineReason.PHOTO_NEEDED: "A photo is needed for this reason, and none came.",
}

MANAGER_REASONS: Mapping[str, str] = {
    ManagerReason.ABOVE_LIMIT: "The amount is above what is refunded without asking.",
    ManagerReason.ABOVE_LIMIT_TOGETHER: (
        "Together with earlier refunds of this order it is above what is refunded without asking."
    ),
    ManagerReason.NO_LIMIT_FOR_CURRENCY: "The policy sets no limit for this currency.",
    ManagerReason.NOT_DELIVERED: (
        "The order has not been delivered, or its date of delivery is still to come."
    ),
    ManagerReason.CANCELLED: (
        "The order was cancelled, and some of what was paid for it was not given back, as far as we"
        " know. Please look whether the shop's own system has refunded it."
    ),
    ManagerReason.REFUSED_BEFORE: (
        "A refund that covers some of the same items was rejected, expired without a decision, or came"
        " back after it was paid."
    ),
    ManagerReason.ITEM_AGAIN: (
        "Units of the same item were refunded before, or are about to be: perhaps the customer is"
        " only asking once more."
    ),
    ManagerReason.REMAINDER: (
        "It comes to more than is left of what was paid, such as because part of the order was"
        " refunded elsewhere. What is left is asked for."
    ),
    ManagerReason.PAYMENT_SHARED: (
        "Another order names the same payment. Please look what it was really for."
    ),
    ManagerReason.FINAL_SALE: (
        "Some of it is on final sale, but the customer says that the fault is ours."
    ),
    ManagerReason.REASON: "Refunds for this reason always need a person.",
    ManagerReason.CATEGORY: "Items of such a category always need a person.",
    ManagerReason.ITEM: "Some of these items always need a person.",
    ManagerReason.METHOD: "The order was paid in a way that always needs a person.",
    ManagerReason.ORDER_CAP: "The order has had as much as one order gets without asking.",
    ManagerReason.CUSTOMER_CAP: "The customer has had as much as one customer gets without asking.",
    ManagerReason.DAY_CAP: "The shop has paid as much within 24 hours as it does without asking.",
    ManagerReason.FOUR_EYES: "The amount is so high that a second person approves after the first.",
    ManagerReason.DRAFT_MODE: (
        "The shop is in draft mode: refunds wait for a person that would otherwise be paid at once."
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
