"""Assigning a conversation: taking it over, answering in it, giving it back; and edit conflicts.

The caller has locked the conversation, so a second click sees the result of the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import sqlalchemy as sa

from mailagent import handback, mailers, services
from mailagent.domain.mail.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail.draft import LONGEST_ANSWER, DraftState
from mailagent.domain.mail.message import MailKind, Purpose
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.mail.saved_reply import find_open
from mailagent.domain.text import name_in_address, without_controls
from mailagent.store import audit
from mailagent.store.console import timeline
from mailagent.store.console.timeline import Entry, EntryKind
from mailagent.store.mail import assignments, conversations, drafts, outbound, outgoing_files
from mailagent.store.refunds import goodwill
from mailagent.web.console import timeline_view
from mailagent.web.form import FormProblem
from mailagent.web.language import _


def parse_answer(typed: str) -> str:
    """Return a typed text with card numbers masked, ready to send to a customer. Raises FormProblem if it is
    empty, too long, or still has a placeholder."""
    text = mask_card_numbers(without_controls(typed)).strip()
    if not text:
        raise FormProblem("text", _("There is nothing in it. Write what the customer should read."))
    if len(text) > LONGEST_ANSWER:
        raise FormProblem(
            "text",
            _(
                "It is %(length)s characters long; %(most)s are the most. Shorten it.",
                length=len(text),
                most=LONGEST_ANSWER,
            ),
        )
    if names := find_open(text):
        raise FormProblem(
            "text", _("{{%(name)s}} is still in it. Write what it stands for.", name=names[0])
        )
    return text


def take_over(connection: sa.Connection, conversation: Conversation, email: str) -> None:
    """Assign a conversation to a person who asks for it, and leave its waiting mail to them."""
    assignments.leave(connection, conversation.conversation_id)
    _give_to(connection, conversation, email, email)
    now = services.current().now()
    audit.record(connection, now, email, "conversation taken over", conversation.conversation_id)


def assign(
    connection: sa.Connection, conversation: Conversation, email: str, owner: str | None
) -> None:
    """Assign a conversation to `owner`, one of the shop's people; None: to nobody. `email`: who assigns it."""
    now, conversation_id = services.current().now(), conversation.conversation_id
    if conversation.owner_email == owner:
        return
    if owner is None:
        conversations.assign(connection, conversation_id, None)
    else:
        _give_to(connection, conversation, email, owner)
    details = {"to": owner or "the team"}
    audit.record(connection, now, email, "conversation assigned", conversation_id, details)


def _give_to(connection: sa.Connection, conversation: Conversation, email: str, owner: str) -> None:
    """Make a person the owner. If the agent has the conversation, or may take it back, hand it over, supersede
    its drafts, and leave its waiting mail to them."""
    now, conversation_id = services.current().now(), conversation.conversation_id
    if conversation.with_people and not conversation.stopped_by_loop_guard:
        conversations.assign(connection, conversation_id, owner)
        return
    reason = HandOverReason.TAKEN_OVER.value
    for draft in drafts.list_waiting_of(connection, conversation_id):
        drafts.record_decision(connection, draft.draft_id, DraftState.DISCARDED, email, now)
        audit.record(connection, now, email, "draft discarded", draft.draft_id, {"why": reason})
    assignments.leave(connection, conversation_id)
    conversations.hand_over(connection, conversation_id, reason, now, owner_email=owner)


def was_sent(connection: sa.Connection, conversation_id: str, once: str) -> bool:
    """Return whether the answer of the form with the id `once` was sent before."""
    return once.isprintable() and outbound.is_recorded(connection, _key(conversation_id, once))


def _key(conversation_id: str, once: str) -> str:
    return f"person:{conversation_id}:{once}"


def answer(
    connection: sa.Connection,
    conversation: Conversation,
    email: str,
    text: str,
    once: str,
    files: tuple[OutgoingFile, ...] = (),
) -> None:
    """Record a person's answer to the customer, who has seen all mail, and enqueue its delivery. Call
    `was_sent` before.

    `once`: the form's id. A person who answers in a conversation of the agent takes it over.
    """
    live, conversation_id = services.current(), conversation.conversation_id
    if conversation.status is ConversationStatus.OPEN:
        take_over(connection, conversation, email)
    assignments.leave(connection, conversation_id)
    member = name_in_address(email)
    key = _key(conversation_id, once)
    outbound_id = mailers.write_person_reply(connection, conversation, member, text, key, files)
    assignments.answer(connection, conversation_id, outbound_id)
    conversations.record_answered(connection, conversation_id, Purpose.TEAM_REPLY, live.now())
    live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    details: dict[str, Any] = {"outbound_id": outbound_id}
    if files:
        details["files"] = len(files)
    audit.record(connection, live.now(), email, "customer answered", conversation_id, details)


def give_back(connection: sa.Connection, conversation: Conversation, email: str) -> None:
    """Give a conversation back to the agent and enqueue its unanswered mail. If the agent has it already, do
    nothing."""
    if handback.give_back(connection, conversation.conversation_id):
        now = services.current().now()
        audit.record(connection, now, email, audit.GIVEN_BACK, conversation.conversation_id)


# --- edit conflicts -------------------------------------------------------------------------------


NEWS_MAX = 20  # the conversation's page has more

_SEEN = re.compile(r"(\d{1,9})\|(\d{1,9})\|([^|]*)\|(.*)")
_SHOWN_KINDS = (MailKind.CUSTOMER.value, MailKind.TEAM.value)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the author of an answer saw: how many mails from and to the customer, the newest waiting draft, and
    the owner; the last two are empty if there is none.

    We count mails because their ids and times come from several machines.
    """

    mails_in: int = 0
    mails_out: int = 0
    draft_id: str = ""
    owner: str = ""

    def __str__(self) -> str:
        return "|".join(map(str, astuple(self)))

    def differs_from(self, now: Seen, person: str) -> bool:
        """Return whether something has happened that the person should read first. Their own take-over does not
        count."""
        return now.owner not in {self.owner, person} or replace(now, owner=self.owner) != self


@dataclass(frozen=True, slots=True)
class News:
    """What the author of an answer has not seen: a sentence about a new owner, if there is one, and mails and
    drafts."""

    owner_change: str
    entries: tuple[Entry, ...]


def parse_seen(text: str) -> Seen:
    """Return what the form's author saw, from its hidden field; an empty Seen for an invalid value."""
    parts = _SEEN.fullmatch(text)
    return Seen(int(parts[1]), int(parts[2]), parts[3], parts[4]) if parts else Seen()


def find_seen(connection: sa.Connection, conversation: Conversation) -> Seen:
    """Return what the conversation's page shows now."""
    email, conversation_id = conversation.customer_email, conversation.conversation_id
    came, went = timeline.count_mails(connection, conversation_id, _SHOWN_KINDS, email)
    waiting = drafts.list_waiting_of(connection, conversation_id)
    newest = waiting[-1].draft_id if waiting else ""
    return Seen(came, went, newest, conversation.owner_email or "")


def news_since(
    connection: sa.Connection, conversation: Conversation, seen: Seen, now: Seen
) -> News:
    """Return what has happened in a conversation between `seen` and `now`, the newest first."""
    email, conversation_id = conversation.customer_email, conversation.conversation_id
    page = timeline.read_page(connection, conversation_id, None)
    new = _new_of(page.rows, seen, now, email)
    codes = goodwill.list_codes_for(connection, conversation_id, email)
    sent = [entry.facts["outbound_id"] for entry in new if entry.kind is EntryKind.MAIL_OUT]
    files = outgoing_files.list_of(connection, sent)
    owner_change = ""
    if seen.owner != now.owner:
        owner_change = (
            _("%(owner)s is assigned to it now.", owner=now.owner)
            if now.owner
            else _("It is not assigned to %(owner)s any more.", owner=seen.owner)
        )
    return News(owner_change, tuple(timeline_view.of_entries(new[:NEWS_MAX], {}, codes, files)))


def _new_of(entries: Sequence[Entry], seen: Seen, now: Seen, email: str) -> list[Entry]:
    """Return those of the entries, the newest first, that came after `seen`: as many of the newest mails as
    there are more now, and the drafts that changed."""
    came = [e for e in entries if e.kind is EntryKind.MAIL_IN and e.facts["kind"] in _SHOWN_KINDS]
    went = [e for e in entries if e.kind is EntryKind.MAIL_OUT and e.facts["to_address"] == email]
    changed = {seen.draft_id, now.draft_id} if seen.draft_id != now.draft_id else set()
    new = [
        *came[: max(now.mails_in - seen.mails_in, 0)],
        *went[: max(now.mails_out - seen.mails_out, 0)],
        *(e for e in entries if e.kind is EntryKind.DRAFT and e.facts["draft_id"] in changed),
    ]
    return sorted(new, key=lambda entry: entry.cursor, reverse=True)
