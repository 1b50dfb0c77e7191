"""What people do with a conversation without writing to the customer: close, snooze, assign, tag, note."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from flask import Blueprint, Response, flash, request

from mailagent import services
from mailagent.domain.mail.conversation import (
    NOTE_LENGTH_MAX,
    TAG_LENGTH_MAX,
    TAGS_MAX,
    Conversation,
    Progress,
    parse_tag,
)
from mailagent.domain.mail.redaction import mask_card_numbers
from mailagent.domain.operations.access import Permission
from mailagent.domain.text import without_controls
from mailagent.store.mail import conversations
from mailagent.web.console.conversations import assignment
from mailagent.web.console.conversations.acts import back_to, lock_found
from mailagent.web.console.conversations.assignment import find_seen, parse_seen
from mailagent.web.console.conversations.beside import SNOOZES, list_assignees
from mailagent.web.console.conversations.pages import answer_page, show_page
from mailagent.web.console.page import record_act, typed
from mailagent.web.guard import current_person, needs
from mailagent.web.language import _, translate

blueprint = Blueprint("ops_organise", __name__)

TWICE_WITHIN = timedelta(minutes=1)  # the same note within this time is a second click
READ_FIRST = "Something has happened in this conversation since you opened the page. Read it first."


@blueprint.post("/ops/conversations/<conversation_id>/close")
@needs(Permission.ANSWER)
def close(conversation_id: str) -> Response:
    """Close a conversation, until the customer writes again."""
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        if conversation.progress is not Progress.CLOSED:
            if _has_news(connection, conversation):
                return _read_first(connection, conversation)
            conversations.close(connection, conversation_id)
            record_act(connection, "conversation closed", conversation_id)
    return back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/snooze")
@needs(Permission.ANSWER)
def snooze(conversation_id: str) -> Response:
    """Take a conversation out of the lists of work for some time, or until the customer writes."""
    if request.form.get("for") not in SNOOZES:
        return show_page(conversation_id, _("It was not snoozed: choose for how long."))
    until = services.current().now() + SNOOZES[request.form["for"]][1]
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        earlier = conversation.snoozed_until
        if earlier and abs(until - earlier) < TWICE_WITHIN:
            return back_to(conversation_id)
        if _has_news(connection, conversation):
            return _read_first(connection, conversation)
        conversations.snooze(connection, conversation_id, until)
        details = {"until": until.isoformat(timespec="minutes")}
        record_act(connection, "conversation snoozed", conversation_id, details)
    return back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/reopen")
@needs(Permission.ANSWER)
def reopen(conversation_id: str) -> Response:
    """Open a conversation that is closed or snoozed."""
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        if conversation.progress is not Progress.OPEN or conversation.snoozed_until:
            conversations.reopen(connection, conversation_id)
            record_act(connection, "conversation reopened", conversation_id)
    return back_to(conversation_id)


def _has_news(connection: sa.Connection, conversation: Conversation) -> bool:
    seen = parse_seen(request.form.get("seen", ""))
    return seen.differs_from(find_seen(connection, conversation), current_person().email)


def _read_first(connection: sa.Connection, conversation: Conversation) -> Response:
    seen = parse_seen(request.form.get("seen", ""))
    return answer_page(connection, conversation, 409, "", translate(READ_FIRST), seen)


@blueprint.post("/ops/conversations/<conversation_id>/assign")
@needs(Permission.ANSWER)
def assign(conversation_id: str) -> Response:
    """Assign a conversation to a person who may answer, or to no one."""
    owner = typed("owner", request.form) or None
    if owner is not None and owner not in list_assignees():
        gone = _("%(owner)s answers no customers any more. Assign it to someone else.", owner=owner)
        return show_page(conversation_id, gone)
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        assignment.assign(connection, conversation, current_person().email, owner)
    return back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/tags")
@needs(Permission.ANSWER)
def change_tags(conversation_id: str) -> Response:
    """Add a tag, or remove one: `change=remove`. Text that is no tag changes nothing, and the page says why."""
    tag, is_removed = parse_tag(typed("tag", request.form)), request.form.get("change") == "remove"
    if tag is None:
        no_tag = _(
            "A tag has 1 to %(most)s letters, digits, spaces and dashes, and nothing else. Write it so,"
            " then add it again.",
            most=TAG_LENGTH_MAX,
        )
        return show_page(conversation_id, no_tag, typed_tag=typed("tag", request.form))
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        if is_removed and conversations.remove_tag(connection, conversation_id, tag):
            record_act(connection, "tag removed", conversation_id, {"tag": tag})
        if not is_removed and _add_tag(connection, conversation, tag):
            record_act(connection, "tag added", conversation_id, {"tag": tag})
    return back_to(conversation_id)


def _add_tag(connection: sa.Connection, conversation: Conversation, tag: str) -> bool:
    conversation_id = conversation.conversation_id
    tags = conversations.list_tags(connection, [conversation_id]).get(conversation_id, ())
    if len(tags) >= TAGS_MAX and tag not in tags:
        flash(_("A conversation has at most %(most)s tags. Remove one first.", most=TAGS_MAX))
        return False
    return conversations.add_tag(connection, conversation, tag)


@blueprint.post("/ops/conversations/<conversation_id>/notes")
@needs(Permission.ANSWER)
def write_note(conversation_id: str) -> Response:
    """Add a note for the shop's people, which is never mailed."""
    text = mask_card_numbers(without_controls(request.form.get("note", ""))).strip()
    if len(text) > NOTE_LENGTH_MAX:
        too_long = _(
            "The note was not saved: it is %(length)s characters long, and %(most)s are the most. Shorten it.",
            length=len(text),
            most=NOTE_LENGTH_MAX,
        )
        return show_page(conversation_id, too_long, typed_note=text)
    if not text:
        flash(_("There is nothing in the note. Write what your colleagues should read."))
        return back_to(conversation_id)
    email, now = current_person().email, services.current().now()
    with services.current().database.transaction() as connection:
        lock_found(connection, conversation_id)
        note_id = conversations.write_note(connection, conversation_id, email, text, now)
        if note_id:
            record_act(connection, "note written", conversation_id, {"note_id": note_id})
    return back_to(conversation_id)
