"""A conversation: one customer's thread, its owner and status, what an answer may cost, and when the loop guard
stops automatic answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class ConversationStatus(StrEnum):
    OPEN = "open"  # the agent answers
    HANDED_OVER = "handed_over"  # people answer


class Progress(StrEnum):
    """Whose turn it is."""

    OPEN = "open"  # the customer waits for an answer
    PENDING = "pending"  # they have one: we wait for the customer
    CLOSED = "closed"  # a person closed it; the customer's next mail opens it again


class HandOverReason(StrEnum):
    """Why a conversation went to people."""

    MODEL_ASKED = "the agent asked for a person"
    CUSTOMER_ASKED = "the customer asked for a person"
    NOT_IN_KNOWLEDGE = "the shop's knowledge has no answer"
    REPLY_NOT_TRUE = "the agent's answer did not agree with our records"
    MODEL_REFUSED = "the model would not answer"
    BUDGET_SPENT = "the agent used up its turns, tool calls or tokens for this mail"
    PROVIDER_DOWN = "the model could not be reached for too long"
    PAYMENT_FAILED = "a refund could not be paid"
    PAYMENT_RETURNED = "a refund that had been paid came back"
    REFUSED_AFTER_ALL = "a refund that had been approved was refused after all"
    DONE_UNPAID = "its items are cancelled or back, and no refund was approved"
    DONE_PART_UNPAID = "more items are cancelled or back than were approved to be refunded"
    BACK_TOO_LATE = "goods came back after their return had ended: see whether they were refunded"
    TASK_OVERDUE = "a task was not done in time"
    REFUND_STUCK = "a refund cannot be brought to its end"
    LEFT_UNANSWERED = "a mail stayed unanswered for too long"
    RESTORED = "a backup was restored: it may have been answered in the time that is lost"
    TAKEN_OVER = "a person took over"
    LOOP_DETECTED = "the loop guard: too many automatic answers in a short time, perhaps a loop"


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
    handed_over_at: datetime | None = None
    language: str | None = None  # the customer's, such as `de`; None while unknown
    owner_email: str | None = (
        None  # the person of the shop who answers it; None while it has no owner
    )
    customer_name: str = ""  # from the From field of their mail
    progress: Progress = Progress.OPEN
    snoozed_until: datetime | None = None  # until then the lists of work leave it out

    def is_snoozed(self, now: datetime) -> bool:
        return self.snoozed_until is not None and now < self.snoozed_until

    @property
    def with_people(self) -> bool:
        return self.status is ConversationStatus.HANDED_OVER

    @property
    def stopped_by_loop_guard(self) -> bool:
        return self.handed_over_reason == HandOverReason.LOOP_DETECTED.value


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What answering one batch of mail may take. `tool_calls` counts every call that the model asks for, also
    refused ones; one order takes two or three. `tokens` are input and output together. After
    `unusable_replies` replies that cannot be sent, a person takes over."""

    model_turns: int = 12
    tool_calls: int = 10
    tokens: int = 60_000
    unusable_replies: int = 2
    provider_retries: int = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the mail that we answer, against loops and floods.

    More than `answers_per_hour` in a conversation, or `answers_to_sender_per_hour`, trip the loop guard. Above
    the limits of mails, mail is throttled. Mail of proven and of unproven senders is counted apart, so that a
    stranger who writes in a customer's name does not use up the customer's limit. After `old_thread_days`
    without mail, the customer's next mail begins a new conversation.
    """

    answers_per_hour: int = 6
    answers_to_sender_per_hour: int = 20
    mails_of_sender_per_hour: int = 60
    mails_per_hour: int = 5_000
    old_thread_days: int = 60

    def mails_of_key_per_hour(self, key: str) -> int:
        """Return how many mails an hour we answer for a `rate_limit_key`, which is a mailbox or a domain. The
        mails above that are throttled."""
        of_sender = self.mails_of_sender_per_hour
        return of_sender if "@" in key else max(of_sender, self.mails_per_hour // 10)


HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LOOP_WINDOW = DAY


def is_loop(times: Iterable[datetime], most_per_hour: int) -> bool:
    """Decide whether the loop guard stops automatic answers: some hour of the last day had `most_per_hour`.

    `times`: within the last `LOOP_WINDOW`, when we sent each automatic answer, and when each mail came that the
    loop guard left unanswered. So the loop guard resets after a day with no such hour, and a machine that goes
    on writing keeps it tripped.
    """
    ordered = sorted(times)
    return any(
        last - first < HOUR
        for first, last in zip(ordered, ordered[most_per_hour - 1 :], strict=False)
    )


# --- tags -----------------------------------------------------------------------------------------

TAGS_MAX = 10
TAG_LENGTH_MAX = 40
NOTE_LENGTH_MAX = 5_000  # characters


def parse_tag(typed: str) -> str | None:
    """Return a tag in lower case; None if it is empty, longer than TAG_LENGTH_MAX, or has other characters than
    letters, digits, spaces and hyphens."""
    tag = " ".join(typed.lower().split())
    is_plain = all(each.isalnum() or each in " -" for each in tag)
    return tag if 0 < len(tag) <= TAG_LENGTH_MAX and is_plain else None
