"""The page of a conversation: its timeline, its files, and its buttons: take over, answer, give back."""

from __future__ import annotations

import re
from dataclasses import replace

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.store import audit
from mailagent.store.console import inbox, timeline
from mailagent.store.console.timeline import Entry, EntryKind
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, suppressions
from mailagent.store.operations import model_calls
from mailagent.store.pagination import Cursor, Part, parse_cursor
from mailagent.store.refunds import goodwill
from mailagent.web.approvals.attachments import fetch, find_position, may_be_key, saved, shown
from mailagent.web.console import assignment, timeline_view
from mailagent.web.console.assignment import News, Seen, find_seen, parse_seen
from mailagent.web.console.page import (
    address,
    found,
    go_to,
    not_found,
    page,
    redact,
    safe_path,
    typed,
)
from mailagent.web.console.run_steps import ToolCalls, read_tool_calls
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_conversations", __name__)


@blueprint.get("/ops/conversations/<conversation_id>")
@needs(Permission.VIEW)
def show(conversation_id: str) -> Response:
    """Show one page of what has happened in a conversation, the newest first."""
    before = parse_cursor(request.args.get("before"))
    with services.current().database.snapshot() as connection:
        conversation = found(conversations.find(connection, conversation_id), "conversation")
        waiting = timeline.count_waiting(connection, conversation_id)
        part = timeline.read_page(connection, conversation_id, before)
        sent = [each.facts for each in part.rows if each.kind is EntryKind.MAIL_OUT]
        events = timeline.list_events(connection, [facts["outbound_id"] for facts in sent])
        use = model_calls.sum_of(connection, conversation_id)
        seen = find_seen(connection, conversation)
        codes = goodwill.list_codes_for(connection, conversation_id, conversation.customer_email)
    calls = _tool_calls(part, before)
    entries = sorted(
        (*part.rows, *calls.entries), key=lambda entry: (entry.at, entry.key), reverse=True
    )
    return page(
        "ops/conversation.html",
        waiting=waiting,
        subject=redact(conversation.subject, codes),
        conversation=conversation,
        entries=timeline_view.of_entries(entries, events, codes),
        use=timeline_view.of_use(use),
        calls=calls,
        is_newest=before is None,
        older=address(request.path, {"before": str(part.older)}) if part.older else None,
        erased=conversation.customer_email.endswith(f"@{suppressions.ERASED_DOMAIN}"),
        once=new_id("act"),
        seen=seen,
        now=services.current().now(),
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
    """Return one file of a customer's mail, to be saved and never shown: a stranger made it."""
    file = found(fetch(mail_id, _find_position(conversation_id, mail_id, number)), "file")
    return page("ops/file_kept_back.html", 403, name=file.name) if may_be_key(file) else saved(file)


@blueprint.get("/ops/conversations/<conversation_id>/photos/<mail_id>/<number>")
@needs(Permission.VIEW)
def preview(conversation_id: str, mail_id: str, number: str) -> Response:
    """Show a photo of a customer as a new picture that we made from it."""
    return shown(mail_id, _find_position(conversation_id, mail_id, number))


def _find_position(conversation_id: str, mail_id: str, number: str) -> int:
    with services.current().database.snapshot() as connection:
        return found(find_position(connection, conversation_id, mail_id, number), "file")


# --- buttons --------------------------------------------------------------------------------------


_ONCE = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")


@blueprint.post("/ops/conversations/<conversation_id>/take-over")
@needs(Permission.ANSWER)
def take_over(conversation_id: str) -> Response:
    """Assign the conversation to this person, unless its owner changed after they opened the page. Text
    that they had typed is shown again, and not sent."""
    person, form = current_person().email, request.form
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        owner = conversation.owner_email
        if owner != person and (owner or "") == form.get("owner", ""):
            assignment.take_over(connection, conversation, person)
            conversation = conversations.load(connection, conversation_id)
        if form.get("text", "").strip():
            seen = parse_seen(form.get("seen", ""))
            if conversation.owner_email == person:
                seen = replace(seen, draft_id="")  # their take-over discarded the draft
                return answer_page(connection, conversation, 200, form["text"], seen=seen)
            problem = "Its owner changed after you opened the page: it is not assigned to you."
            return answer_page(connection, conversation, 409, form["text"], problem, seen)
    return _back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/answer")
@needs(Permission.ANSWER)
def answer(conversation_id: str) -> Response:
    """Send this person's answer to the customer, once however often the button is pressed; unless something
    has happened in the conversation that they did not see."""
    person, typed = current_person().email, request.form.get("text", "")
    once, seen = request.form.get("once", ""), parse_seen(request.form.get("seen", ""))
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if assignment.was_sent(connection, conversation_id, once):
            return _back_to(conversation_id)
        try:
            text = assignment.parse_answer(typed)
            if not _ONCE.fullmatch(once):
                raise FormProblem("once", "The form was incomplete. Please send it again.")
        except FormProblem as problem:
            return answer_page(connection, conversation, 422, typed, str(problem), seen)
        if seen.differs_from(find_seen(connection, conversation), person):
            read_first = (
                "Something has happened in this conversation since you opened the page. Read it first:"
                " you may want to change your answer."
            )
            return answer_page(connection, conversation, 409, typed, read_first, seen)
        assignment.answer(connection, conversation, person, text, once, seen.mail_id)
    return _back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/give-back")
@needs(Permission.ANSWER)
def give_back(conversation_id: str) -> Response:
    """Give the conversation to the agent, who answers its unanswered mail."""
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        assignment.give_back(connection, conversation, current_person().email)
    return _back_to(conversation_id)


def _lock(connection: sa.Connection, conversation_id: str) -> Conversation:
    found(conversations.find(connection, conversation_id), "conversation")
    return conversations.lock(connection, conversation_id)


def _back_to(conversation_id: str) -> Response:
    return go_to(f"/ops/conversations/{conversation_id}")


def answer_page(
    connection: sa.Connection,
    conversation: Conversation,
    status: int,
    typed: str,
    problem: str = "",
    seen: Seen | None = None,
) -> Response:
    """Return the page with an unsent answer, and with what has happened since `seen`. The form keeps its
    id, so that the answer is sent once.

    `status`: 422 for an answer that cannot be sent as it is, 409 if something has happened that its author did
    not see, 200 if they took the conversation over and have not pressed "send" yet.
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
        typed=typed,
        problem=problem,
        news=news,
        seen=now,
        once=once if _ONCE.fullmatch(once) else new_id("once"),
    )


@blueprint.post("/ops/dismiss")
@needs(Permission.ANSWER)
def dismiss() -> Response:
    """Remove a lost mail, a failed refund or a failed run from the inbox; `act=back` brings it back."""
    live, email = services.current(), current_person().email
    subject = typed("subject", request.form)
    run = live.workflow_client.runs.find_run(subject)
    with live.database.transaction() as connection:
        if not (run is not None and run.has_failed) and not inbox.may_be(connection, subject):
            return not_found("thing to dismiss")
        if request.form.get("act") == "back":
            if inbox.forget(connection, subject):
                audit.record(connection, live.now(), email, "brought back", subject)
        else:
            inbox.record(connection, subject, email, live.now())
            audit.record(connection, live.now(), email, "dismissed", subject)
    return go_to(safe_path(request.form.get("back")))
