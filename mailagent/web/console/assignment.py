"""Taking a conversation, answering in it, giving it back; and what changed since the page was loaded.

The caller has locked the conversation, so a second click finds what the first one did.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent import handback, mailers, services
from mailagent.domain.mail.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail.draft import LONGEST_ANSWER, DraftState
from mailagent.domain.mail.message import MailKind
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.text import without_controls
from mailagent.store import audit
from mailagent.store.console import timeline
from mailagent.store.console.timeline_entries import Entry, EntryKind
from mailagent.store.mail import assignments, conversations, drafts, outbound
from mailagent.store.refunds import goodwill
from mailagent.web.console import timeline_view
from mailagent.web.console.timeline_view import ShownEntry


class AnswerProblem(ValueError):
    """What somebody typed cannot be sent; the text says what to change."""


def parse_answer(typed: str) -> str:
    """Return what somebody typed for a customer, as it is sent: card numbers masked. Raises
    AnswerProblem when it is empty or too long."""
    text = mask_card_numbers(without_controls(typed)).strip()
    if not text:
        raise AnswerProblem("There is nothing in it. Write what the customer should read.")
    if len(text) > LONGEST_ANSWER:
        raise AnswerProblem(
            f"It is {len(text):,} characters long; {LONGEST_ANSWER:,} are the most. Shorten it."
        )
    return text


def take_over(
    connection: sa.Connection,
    conversation: Conversation,
    email: str,
    up_to: str | None = None,
) -> None:
    """Make a conversation somebody's own: the agent stops, drafts are thrown away, and what waits is
    theirs to answer. Mail later than `up_to` still waits, and is passed on to them."""
    now, conversation_id = services.current().now(), conversation.conversation_id
    for draft in drafts.list_waiting_of(connection, conversation_id):
        drafts.settle(connection, draft.draft_id, DraftState.DISCARDED, email, now)
        why = {"why": HandOverReason.TAKEN_OVER.value}
        audit.record(connection, now, email, "draft discarded", draft.draft_id, why)
    assignments.leave(connection, conversation_id, up_to)
    why_over = HandOverReason.TAKEN_OVER.value
    conversations.hand_over(connection, conversation_id, why_over, now, owner_email=email)
    audit.record(connection, now, email, "conversation taken over", conversation_id)


def was_sent(connection: sa.Connection, conversation_id: str, once: str) -> bool:
    """Say whether the answer of this form was sent before."""
    return once.isprintable() and outbound.is_recorded(connection, _key(conversation_id, once))


def _key(conversation_id: str, once: str) -> str:
    return f"person:{conversation_id}:{once}"


def answer(
    connection: sa.Connection,
    conversation: Conversation,
    email: str,
    text: str,
    once: str,
    up_to: str | None = None,
) -> bool:
    """Write to the customer what somebody of the shop answers, and enqueue it; return False if this
    form was sent before. `once` is the form's own id, `up_to` the newest mail that they saw: it answers
    no later one. Who answers for the agent takes over."""
    live, conversation_id = services.current(), conversation.conversation_id
    key = _key(conversation_id, once)
    if outbound.is_recorded(connection, key):
        return False
    if conversation.status is ConversationStatus.OPEN:
        take_over(connection, conversation, email, up_to)
    assignments.leave(connection, conversation_id, up_to)
    member = email.partition("@")[0]
    outbound_id = mailers.write_person_reply(connection, conversation, member, text, key)
    assignments.answer(connection, conversation_id, outbound_id, up_to)
    live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    details = {"outbound_id": outbound_id}
    audit.record(connection, live.now(), email, "customer answered", conversation_id, details)
    return True


def give_back(connection: sa.Connection, conversation: Conversation, email: str) -> bool:
    """Give a conversation to the agent, and enqueue what was left unanswered in it; return False if the
    agent has it already."""
    if not handback.give_back(connection, conversation.conversation_id):
        return False
    now = services.current().now()
    audit.record(connection, now, email, audit.GIVEN_BACK, conversation.conversation_id)
    return True


# --- seen -----------------------------------------------------------------------------------------


MEANWHILE_MAX = 20  # more than that is read in the conversation

_LONGEST = 600
_WORDS_OF = (MailKind.CUSTOMER.value, MailKind.TEAM.value)


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest mail from and to the customer, the newest draft that waits, and whose the conversation
    is; each empty if there is none."""

    mail_id: str = ""
    outbound_id: str = ""
    draft_id: str = ""
    owner: str = ""

    def __str__(self) -> str:
        return "|".join((self.mail_id, self.outbound_id, self.draft_id, self.owner))

    def differs_from(self, now: Seen, person: str) -> bool:
        """Say whether something has happened that the author should read first; that the conversation
        is their own by now is nothing."""
        if now.owner not in {self.owner, person}:
            return True
        mine, theirs = ((each.mail_id, each.outbound_id, each.draft_id) for each in (self, now))
        return mine != theirs


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What an author has not seen: whose it is now, in a sentence or nothing, and mails and drafts."""

    owner_label: str
    entries: tuple[ShownEntry, ...]

    @property
    def is_something(self) -> bool:
        return bool(self.owner_label or self.entries)


def parse_seen(text: str) -> Seen:
    """Return what a form says that its author saw; nothing at all for what no page of ours wrote."""
    parts = text.split("|", 3)
    if len(parts) != 4 or len(text) > _LONGEST or not text.isprintable():
        return Seen()
    return Seen(*parts)


def look(connection: sa.Connection, conversation: Conversation) -> Seen:
    """Return what there is to see of a conversation now."""
    conversation_id = conversation.conversation_id
    mail_id = timeline.newest_mail_in(connection, conversation_id, _WORDS_OF)
    outbound_id = timeline.newest_mail_to(connection, conversation_id, conversation.customer_email)
    waiting = drafts.list_waiting_of(connection, conversation_id)
    draft_id = max((draft.draft_id for draft in waiting), default="")
    return Seen(mail_id or "", outbound_id or "", draft_id, conversation.owner_email or "")


def since(
    connection: sa.Connection, conversation: Conversation, seen: Seen, now: Seen
) -> Meanwhile:
    """Return what has happened between two looks at a conversation, the newest first."""
    email, conversation_id = conversation.customer_email, conversation.conversation_id
    page = timeline.read_page(connection, conversation_id, None)
    found = [entry for entry in page.entries if _is_new(entry, seen, now, email)]
    codes = goodwill.list_codes_for(connection, conversation_id, email)
    shown = timeline_view.of_entries(found[:MEANWHILE_MAX], {}, codes)
    return Meanwhile(_owner_label(seen, now), tuple(shown))


def _is_new(entry: Entry, seen: Seen, now: Seen, email: str) -> bool:
    facts = entry.facts
    if entry.kind is EntryKind.MAIL_IN:
        return bool(facts["kind"] in _WORDS_OF and facts["mail_id"] > seen.mail_id)
    if entry.kind is EntryKind.MAIL_OUT:
        return bool(facts["to_address"] == email and facts["outbound_id"] > seen.outbound_id)
    changed = seen.draft_id != now.draft_id
    return changed and entry.kind is EntryKind.DRAFT and facts["draft_id"] in (
        seen.draft_id, now.draft_id,
    )  # fmt: skip


def _owner_label(seen: Seen, now: Seen) -> str:
    if seen.owner == now.owner:
        return ""
    if now.owner:
        return f"{now.owner} looks after it now."
    return f"It is not {seen.owner}’s any more."
