"""A conversation: one customer's thread, who looks after it, and how much an answer may cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ConversationStatus(StrEnum):
    OPEN = "open"  # the agent answers
    HANDED_OVER = "handed_over"  # people answer


class HandOverReason(StrEnum):
    """Why a conversation went to people."""

    MODEL_ASKED = "the agent asked for a person"
    CUSTOMER_ASKED = "the customer asked for a person"
    REPLY_NOT_TRUE = "the agent's answer did not agree with our records"
    MODEL_REFUSED = "the model would not answer"
    BUDGET_SPENT = "the agent used up its turns or tokens for this mail"
    PROVIDER_DOWN = "the model could not be reached for too long"
    PAYMENT_FAILED = "the payment gateway refused a refund"
    LEFT_UNANSWERED = "a mail stayed unanswered for too long"
    FUSE = "the fuse: too many automatic answers in a short time, perhaps a loop"


@dataclass(frozen=True, slots=True)
class Conversation:
    conversation_id: str
    customer_email: str
    subject: str
    status: ConversationStatus
    reply_token: str
    confirm_token: str
    team_token: str
    opened_at: datetime
    last_mail_at: datetime | None = None
    handed_over_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What answering one batch of mail may cost."""

    model_turns: int = 12
    tokens: int = 60_000
    unusable_replies: int = 2
    provider_retries: int = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """How much mail is worked on, against loops that nobody foresaw and against floods.

    `answers_per_hour` and `answers_to_sender_per_hour` blow the fuse; the mail budgets park mail.
    """

    answers_per_hour: int = 6
    answers_to_sender_per_hour: int = 20
    mails_of_sender_per_hour: int = 60
    mails_per_hour: int = 5_000
    old_thread_days: int = 60
