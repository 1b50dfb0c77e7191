"""What the author of an answer saw of its conversation, and what has happened in it since: two people, or a
person and the agent, must not answer the same mail without knowing of each other."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.message import MailKind
from mailagent.store.console import timeline
from mailagent.store.console.timeline_entries import Entry, EntryKind
from mailagent.store.mail import drafts
from mailagent.store.refunds import goodwill
from mailagent.web.console import timeline_view
from mailagent.web.console.timeline_view import ShownEntry

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

    owner_words: str
    entries: tuple[ShownEntry, ...]

    @property
    def is_something(self) -> bool:
        return bool(self.owner_words or self.entries)


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
    return Meanwhile(_owner_words(seen, now), tuple(shown))


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


def _owner_words(seen: Seen, now: Seen) -> str:
    if seen.owner == now.owner:
        return ""
    if now.owner:
        return f"{now.owner} looks after it now."
    return f"It is not {seen.owner}’s any more."
