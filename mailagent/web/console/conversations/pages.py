"""The page of a conversation: the last mail beside the answer, the customer's orders, and what happened."""

from __future__ import annotations

import re

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.mime.attachment import AttachmentBytes
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.store.console import timeline
from mailagent.store.console.timeline import Entry, EntryKind
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, outgoing_files, suppressions
from mailagent.store.operations import model_calls
from mailagent.store.pagination import Cursor, Part, parse_cursor
from mailagent.store.refunds import goodwill
from mailagent.web.approvals.attachments import fetch, find_position, may_be_key, saved, shown
from mailagent.web.console import timeline_view
from mailagent.web.console.conversations import assignment, beside
from mailagent.web.console.conversations.assignment import News, Seen, find_seen
from mailagent.web.console.conversations.chosen_files import are_lost
from mailagent.web.console.page import address, found, page, redact
from mailagent.web.console.run_steps import ToolCalls, read_tool_calls
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_conversations", __name__)


@blueprint.get("/ops/conversations/<conversation_id>")
@needs(Permission.VIEW)
def show(conversation_id: str) -> Response:
    """Show a conversation with one page of its timeline, newest entry first."""
    return show_page(conversation_id)


def show_page(
    conversation_id: str, refused: str = "", typed_note: str = "", typed_tag: str = ""
) -> Response:
    """Return the page of a conversation. `refused`: why a form changed nothing; then the page shows its typed
    text again."""
    before = parse_cursor(request.args.get("before"))
    with services.current().database.snapshot() as connection:
        conversation = found(conversations.find(connection, conversation_id), "conversation")
        part = timeline.read_page(connection, conversation_id, before)
        sent = [each.facts for each in part.rows if each.kind is EntryKind.MAIL_OUT]
        sent_ids = [facts["outbound_id"] for facts in sent]
        events = timeline.list_events(connection, sent_ids)
        files = outgoing_files.list_of(connection, sent_ids)
        use = model_calls.sum_of(connection, conversation_id)
        seen = find_seen(connection, conversation)
        codes = goodwill.list_codes_for(connection, conversation_id, conversation.customer_email)
        facts_beside = beside.read(connection, conversation, codes)
    calls = _tool_calls(part, before)
    entries = sorted(
        (*part.rows, *calls.entries), key=lambda entry: (entry.at, entry.key), reverse=True
    )
    return page(
        "ops/conversation.html",
        422 if refused else 200,
        refused=refused,
        typed_note=typed_note,
        typed_tag=typed_tag,
        subject=redact(conversation.subject, codes),
        conversation=conversation,
        groups=timeline_view.grouped(timeline_view.of_entries(entries, events, codes, files)),
        use=timeline_view.of_use(use),
        calls=calls,
        is_newest=before is None,
        older=address(request.path, {"before": str(part.older)}) if part.older else None,
        erased=suppressions.is_erased(conversation.customer_email),
        once=new_id("act"),
        seen=seen,
        now=services.current().now(),
        **facts_beside,
    )


def _tool_calls(part: Part[Entry], before: Cursor | None) -> ToolCalls:
    """Return the tool calls in the time span of a page, from the runs of its mails and model calls."""
    runs = [
        entry.facts["run_id"]
        for entry in part.rows
        if entry.kind in (EntryKind.MODEL_CALL, EntryKind.MAIL_IN) and entry.facts["run_id"]
    ]
    since = part.rows[-1].at if part.older else None
    return read_tool_calls(list(dict.fromkeys(runs)), since, before.at if before else None)


@blueprint.get("/ops/conversations/<conversation_id>/attachments/<mail_id>/<number>")
@needs(Permission.VIEW)
def download(conversation_id: str, mail_id: str, number: str) -> Response:
    """Send one file of a customer's mail. Browsers save it and never show it, because a stranger made it."""
    file = found(fetch(mail_id, _find_position(conversation_id, mail_id, number)), "file")
    return page("ops/file_kept_back.html", 403, name=file.name) if may_be_key(file) else saved(file)


@blueprint.get("/ops/conversations/<conversation_id>/sent-files/<outbound_id>/<int(max=99):number>")
@needs(Permission.VIEW)
def download_sent(conversation_id: str, outbound_id: str, number: int) -> Response:
    """Send one file that a person of the shop sent to the customer. Browsers save it."""
    with services.current().database.snapshot() as connection:
        sent = outgoing_files.find(connection, conversation_id, outbound_id, number)
    file = found(sent, "file")
    return saved(AttachmentBytes(file.name, file.content))


@blueprint.get("/ops/conversations/<conversation_id>/photos/<mail_id>/<number>")
@needs(Permission.VIEW)
def preview(conversation_id: str, mail_id: str, number: str) -> Response:
    """Send the preview of a customer's photo: a new picture that a worker made from it."""
    return shown(mail_id, _find_position(conversation_id, mail_id, number))


def _find_position(conversation_id: str, mail_id: str, number: str) -> int:
    with services.current().database.snapshot() as connection:
        return found(find_position(connection, conversation_id, mail_id, number), "file")


# --- an answer that was not sent ------------------------------------------------------------------


ONCE = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")


def answer_page(
    connection: sa.Connection,
    conversation: Conversation,
    status: int,
    typed: str,
    problem: str | FormProblem = "",
    seen: Seen | None = None,
    heading: str = "It is yours now",
) -> Response:
    """Return the page with an unsent answer, and with what has happened since `seen`. The form keeps its
    id, so that the answer is sent once.

    `status`: 422 for an answer that cannot be sent as it is, 409 if something has happened that its author did
    not see, 200 if they have not pressed "send" yet; `heading` then says what they pressed.
    """
    now, once = find_seen(connection, conversation), request.form.get("once", "")
    news = News("", ())
    if seen is not None and seen.differs_from(now, current_person().email):
        news = assignment.news_since(connection, conversation, seen, now)
    return page(
        "ops/answer.html",
        status,
        conversation=conversation,
        unsent=status,
        heading=heading,
        typed=typed,
        problem=problem,
        news=news,
        seen=now,
        once=once if ONCE.fullmatch(once) else new_id("once"),
        files_lost=are_lost(),
        **beside.read(connection, conversation),
    )
