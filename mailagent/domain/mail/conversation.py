"""A conversation: one customer's thread, who looks after it, how much an answer may cost, and when the
loop guard stops automatic answers."""

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
    DONE_UNPAID = "its items are cancelled or back, and no refund was approved"
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
    language: str | None = None  # in which the customer writes, such as `de`, once that is known
    owner_email: str | None = (
        None  # the person of the shop who answers it; None while it has no owner
    )
    customer_name: str = ""  # as their mail said it
    progress: Progress = Progress.OPEN
    snoozed_until: datetime | None = None  # until then it is in no list of work

    def is_snoozed(self, now: datetime) -> bool:
        return self.snoozed_until is not None and now < self.snoozed_until

    @property
    def with_people(self) -> bool:
        return self.status is ConversationStatus.HANDED_OVER

    @property
    def stopped_by_loop_guard(self) -> bool:
        return self.handed_over_reason == HandOverReason.LOOP_DETECTED.value


@dataclass(frozen=True, slots=True)
class Budget:
    """What answering one batch of mail may cost. `tool_calls` are all that the model makes, also those
    that are not done; it works through an order in two or three."""

    model_turns: int = 12
    tool_calls: int = 10
    tokens: int = 60_000
    unusable_replies: int = 2
    provider_retries: int = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """How much mail is worked on, against unforeseen loops and floods.

    `answers_per_hour` and `answers_to_sender_per_hour` trip the loop guard; above the mail limits, mail
    is throttled. Mail that is proven to be the sender's is counted apart from mail that is not, so that
    a stranger who writes in a customer's name uses up nothing of the customer's.
    """

    answers_per_hour: int = 6
    answers_to_sender_per_hour: int = 20
    mails_of_sender_per_hour: int = 60
    mails_per_hour: int = 5_000
    old_thread_days: int = 60

    def mails_of_key_per_hour(self, key: str) -> int:
        """Return how many mails an hour are let in of a `rate_limit_key`: of a mailbox or a domain."""
        of_sender = self.mails_of_sender_per_hour
        return of_sender if "@" in key else max(of_sender, self.mails_per_hour // 10)


HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LOOP_WINDOW = DAY


def is_loop(times: Iterable[datetime], most_per_hour: int) -> bool:
    """Decide whether automatic answers stop: some hour of the last day had as many as an hour may have.

    `times` are those of the last `LOOP_WINDOW`: of every automatic answer, and of every mail that
    the loop guard left without one. It resets by itself after a day in which no hour was above the
    limit; a machine that goes on writing keeps it tripped.
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
    """Return a tag in small letters; None for one that is empty, too long, or not letters, digits, spaces
    and dashes."""
    tag = " ".join(typed.lower().split())
    is_plain = all(each.isalnum() or each in " -" for each in tag)
    return tag if 0 < len(tag) <= TAG_LENGTH_MAX and is_plain else None
