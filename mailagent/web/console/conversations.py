"""The page of a conversation: timeline, files, and its buttons (hand over, answer, give back, dismiss)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import cast
from urllib.parse import urlencode

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.adapters.mime.attachment import AttachmentBytes
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.store import audit
from mailagent.store.console import inbox, timeline
from mailagent.store.console.timeline import Mark, Page
from mailagent.store.console.timeline_entries import EntryKind
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, inbound, suppressions
from mailagent.store.operations import model_calls
from mailagent.store.refunds import goodwill
from mailagent.web.approvals.attachments import is_listed, may_be_key, parse_number, saved, shown
from mailagent.web.console import assignment, timeline_view
from mailagent.web.console.assignment import Meanwhile, Seen, look, parse_seen
from mailagent.web.console.page import conceal, not_found, page, safe_path, typed
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_conversations", __name__)

_LONGEST_MARK = 400


@blueprint.get("/ops/conversations/<conversation_id>")
@needs(Permission.VIEW)
def show(conversation_id: str) -> Response:
    """Show what has happened in a conversation, a page at a time, the newest first."""
    before = _parse_mark(request.args.get("before", ""))
    if not conversation_id.isprintable():
        return not_found("conversation")
    with services.current().database.snapshot() as connection:
        head = timeline.find_head(connection, conversation_id)
        conversation = conversations.find(connection, conversation_id)
        if head is None or conversation is None:
            return not_found("conversation")
        found = timeline.read_page(connection, conversation_id, before)
        events = timeline.list_events(connection, _ids(found, EntryKind.MAIL_OUT, "outbound_id"))
        use = model_calls.sum_of(connection, conversation_id)
        seen = look(connection, conversation)
        codes = goodwill.list_codes_for(connection, conversation_id, head.customer_email)
    calls = _tool_calls(found, before)
    entries = sorted(
        (*found.entries, *calls.entries), key=lambda entry: (entry.at, entry.key), reverse=True
    )
    return page(
        "ops/conversation.html",
        head=head,
        subject=conceal(head.subject, codes),
        conversation=conversation,
        entries=timeline_view.of_entries(entries, events, codes),
        use=timeline_view.of_use(use),
        calls=calls,
        is_newest=before is None,
        older=_address(conversation_id, found.older) if found.older else None,
        erased=head.customer_email.endswith(f"@{suppressions.ERASED_DOMAIN}"),
        once=new_id("act"),
        seen=seen,
        now=services.current().now(),
    )


def _ids(found: Page, kind: EntryKind, name: str) -> list[str]:
    return [entry.facts[name] for entry in found.entries if entry.kind is kind]


def _tool_calls(found: Page, before: Mark | None) -> timeline_view.ToolCalls:
    """Return what the agent did in the span of a page, from the runs of its mails and model calls."""
    runs = [
        entry.facts["run_id"]
        for entry in found.entries
        if entry.kind in (EntryKind.MODEL_CALL, EntryKind.MAIL_IN) and entry.facts["run_id"]
    ]
    since = found.entries[-1].at if found.older else None
    return timeline_view.read(list(dict.fromkeys(runs)), since, before.at if before else None)


def _address(conversation_id: str, mark: Mark) -> str:
    query = urlencode({"before": f"{mark.at.isoformat()}~{mark.key}"})
    return f"/ops/conversations/{conversation_id}?{query}"


def _parse_mark(text: str) -> Mark | None:
    """Return where a page begins, as `_address` wrote it; None for what is no mark: the newest page."""
    moment, tilde, key = text.partition("~")
    if not tilde or len(text) > _LONGEST_MARK or not text.isprintable():
        return None
    try:
        at = datetime.fromisoformat(moment)
        # Near the first and the last year, a time has none in UTC.
        return Mark(at.astimezone(UTC), key) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


@blueprint.get("/ops/conversations/<conversation_id>/attachments/<mail_id>/<number>")
@needs(Permission.VIEW)
def download(conversation_id: str, mail_id: str, number: str) -> Response:
    """Hand out one file of a customer's mail, to be saved and never shown: a stranger made it."""
    file = _find_file(conversation_id, mail_id, number)
    if file is None:
        return not_found("file")
    return page("ops/file_kept_back.html", 403, name=file.name) if may_be_key(file) else saved(file)


@blueprint.get("/ops/conversations/<conversation_id>/photos/<mail_id>/<number>")
@needs(Permission.VIEW)
def preview(conversation_id: str, mail_id: str, number: str) -> Response:
    """Show what a photo among a customer's files shows, in a picture made by us."""
    position = _find_position(conversation_id, mail_id, number)
    return not_found("file") if position is None else shown(mail_id, position)


def _find_position(conversation_id: str, mail_id: str, number: str) -> int | None:
    position = parse_number(number)
    with services.current().database.snapshot() as connection:
        if position is None or not is_listed(connection, conversation_id, mail_id, position):
            return None
    return position


def _find_file(conversation_id: str, mail_id: str, number: str) -> AttachmentBytes | None:
    position = _find_position(conversation_id, mail_id, number)
    if position is None:
        return None
    live = services.current()
    with live.database.snapshot() as connection:
        raw = inbound.find_raw(connection, mail_id)
    if raw is None:
        return None
    return live.mail_provider.find_attachment(raw.content_type, raw.body, position)


# --- acts -----------------------------------------------------------------------------------------


_READ_FIRST = (
    "Something has happened in this conversation since you opened the page. Read it first: perhaps"
    " your answer is to be another now."
)


@blueprint.post("/ops/conversations/<conversation_id>/take-over")
@needs(Permission.ANSWER)
def take_over(conversation_id: str) -> Response:
    """Make the conversation this person's own, unless it changed hands since they saw the page. What
    they had typed by then is shown again, and not sent."""
    person, typed = current_person().email, request.form.get("text", "")
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        saw = request.form.get("owner", "")
        if conversation.owner_email != person and (conversation.owner_email or "") == saw:
            assignment.take_over(connection, conversation, person)
            conversation = conversations.load(connection, conversation_id)
        if typed.strip():
            return _keep_typed(connection, conversation, typed)
    return _back_to(conversation_id)


def _keep_typed(connection: sa.Connection, conversation: Conversation, typed: str) -> Response:
    form, owner = request.form, conversation.owner_email
    seen, once = parse_seen(form.get("seen", "")), form.get("once", "")
    if owner == current_person().email:
        why, problem = Unsent.TAKEN_OVER, ""
        # The draft that they saw is gone because they took over.
        seen = replace(seen, draft_id="")
    else:
        why, problem = (
            Unsent.OVERTAKEN,
            "It changed hands after you opened the page: it is not yours.",
        )
    return answer_page(connection, conversation, why, typed, once, problem, seen)


@blueprint.post("/ops/conversations/<conversation_id>/answer")
@needs(Permission.ANSWER)
def answer(conversation_id: str) -> Response:
    """Send the customer what this person wrote, once however often the button is pressed; unless
    something has happened in the conversation that they did not see."""
    person, typed = current_person().email, request.form.get("text", "")
    once, seen = request.form.get("once", ""), parse_seen(request.form.get("seen", ""))
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        if assignment.was_sent(connection, conversation_id, once):
            return _back_to(conversation_id)
        try:
            text = assignment.parse_answer(typed)
            if not is_once(once):
                raise assignment.AnswerProblem("The form was incomplete. Please send it again.")
        except assignment.AnswerProblem as problem:
            return answer_page(
                connection, conversation, Unsent.WRONG, typed, once, str(problem), seen
            )
        if seen.differs_from(look(connection, conversation), person):
            return answer_page(
                connection, conversation, Unsent.OVERTAKEN, typed, once, _READ_FIRST, seen
            )
        assignment.answer(connection, conversation, person, text, once, seen.mail_id)
    return _back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/give-back")
@needs(Permission.ANSWER)
def give_back(conversation_id: str) -> Response:
    """Give the conversation to the agent, who answers what is left unanswered in it."""
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        assignment.give_back(connection, conversation, current_person().email)
    return _back_to(conversation_id)


def _lock(connection: sa.Connection, conversation_id: str) -> Conversation | None:
    # PostgreSQL refuses the characters that are not printable, such as NUL.
    if not conversation_id.isprintable() or not conversations.find(connection, conversation_id):
        return None
    return conversations.lock(connection, conversation_id)


def _back_to(conversation_id: str) -> Response:
    return cast(Response, redirect(f"/ops/conversations/{conversation_id}", 303))


# --- answer page ----------------------------------------------------------------------------------


_ONCE = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")


class Unsent(StrEnum):
    """Why an answer was not sent; the value is the page's status."""

    WRONG = "422"  # it cannot be sent as it is
    OVERTAKEN = "409"  # something has happened that its author did not see
    TAKEN_OVER = "200"  # its author took the conversation over, and has not pressed "send" yet


def is_once(text: str) -> bool:
    """Say whether this is the id of a form of ours."""
    return _ONCE.fullmatch(text) is not None


def answer_page(
    connection: sa.Connection,
    conversation: Conversation,
    why: Unsent,
    typed: str,
    once: str = "",
    problem: str = "",
    seen: Seen | None = None,
) -> Response:
    """Return the page with what was typed. `seen` is what its author saw: what has happened since is on
    the page, and seen from now on. `once` stays the form's id, so that nothing is sent twice."""
    now = assignment.look(connection, conversation)
    meanwhile = Meanwhile("", ())
    if seen is not None and seen.differs_from(now, current_person().email):
        meanwhile = assignment.since(connection, conversation, seen, now)
    return page(
        "ops/answer.html",
        int(why.value),
        conversation=conversation,
        why=why.name,
        typed=typed,
        problem=problem,
        meanwhile=meanwhile,
        seen=now,
        once=once if is_once(once) else new_id("once"),
    )


# --- dismiss -------------------------------------------------------------------------------------


@blueprint.post("/ops/dismiss")
@needs(Permission.ANSWER)
def act() -> Response:
    """Take a lost mail, a failed refund or a failed run out of the inbox; `act=back` brings it back."""
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
    return cast(Response, redirect(safe_path(request.form.get("back")), 303))
