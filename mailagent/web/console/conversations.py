"""A conversation as one timeline, the newest first, and the files that came with it."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.attachment_bytes import AttachmentBytes, find_attachment
from mailagent.domain.operations.access import Permission
from mailagent.store.console import timeline
from mailagent.store.console.timeline import Mark, Page
from mailagent.store.console.timeline_entries import EntryKind
from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, inbound, suppressions
from mailagent.store.operations import model_calls
from mailagent.store.refunds import goodwill
from mailagent.web.approvals.attachments import is_listed, may_be_key, parse_number, saved, shown
from mailagent.web.console import timeline_view, tool_calls
from mailagent.web.console.concealed import conceal
from mailagent.web.console.pages import not_found, page
from mailagent.web.console.seen import look
from mailagent.web.guard import needs

blueprint = Blueprint("ops_conversations", __name__)

_LONGEST_MARK = 400


@blueprint.get("/ops/conversations/<conversation_id>")
@needs(Permission.LOOK)
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


def _tool_calls(found: Page, before: Mark | None) -> tool_calls.ToolCalls:
    """Return what the agent did in the span of a page, from the runs of its mails and model calls."""
    runs = [
        entry.facts["run_id"]
        for entry in found.entries
        if entry.kind in (EntryKind.MODEL_CALL, EntryKind.MAIL_IN) and entry.facts["run_id"]
    ]
    since = found.entries[-1].at if found.older else None
    return tool_calls.read(list(dict.fromkeys(runs)), since, before.at if before else None)


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
@needs(Permission.LOOK)
def download(conversation_id: str, mail_id: str, number: str) -> Response:
    """Hand out one file of a customer's mail, to be saved and never shown: a stranger made it."""
    file = _find_file(conversation_id, mail_id, number)
    if file is None:
        return not_found("file")
    return page("ops/file_kept_back.html", 403, name=file.name) if may_be_key(file) else saved(file)


@blueprint.get("/ops/conversations/<conversation_id>/photos/<mail_id>/<number>")
@needs(Permission.LOOK)
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
    with services.current().database.snapshot() as connection:
        raw = inbound.find_raw(connection, mail_id)
    return find_attachment(raw.content_type, raw.body, position) if raw else None
