"""Drafts of the agent: read, sent as they are or changed, discarded, or taken over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request

from mailagent import mailers, services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import LONGEST_ANSWER, Draft, DraftState
from mailagent.domain.mail.message import InboundMail
from mailagent.domain.operations.access import Permission
from mailagent.domain.text import without_controls
from mailagent.domain.wording import DRAFT_TOPICS
from mailagent.store import audit
from mailagent.store.mail import conversations, drafts, inbound
from mailagent.store.refunds import goodwill
from mailagent.web.console import assignment
from mailagent.web.console.conversations import Unsent, answer_page
from mailagent.web.console.page import conceal, not_found, page
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_drafts", __name__)

DRAFTS_SHOWN = 50


@blueprint.get("/ops/drafts")
@needs(Permission.ANSWER)
def list_all() -> Response:
    """Show the drafts that wait, the oldest first."""
    live, after = services.current(), request.args.get("after", "")
    after = after if after.isprintable() else ""
    with live.database.snapshot() as connection:
        rows = drafts.list_waiting(connection, DRAFTS_SHOWN + 1, after)
        return page(
            "ops/drafts.html",
            drafts=rows[:DRAFTS_SHOWN],
            count=drafts.count_waiting(connection),
            older=_older(rows),
            newer="/ops/drafts" if after else None,
            topic_labels=DRAFT_TOPICS,
            draft_replies=live.draft_replies,
            now=live.now(),
        )


def _older(rows: Any) -> str | None:
    if len(rows) <= DRAFTS_SHOWN:
        return None
    return f"/ops/drafts?after={rows[DRAFTS_SHOWN - 1].draft_id}"


@blueprint.get("/ops/drafts/<draft_id>")
@needs(Permission.ANSWER)
def show(draft_id: str) -> Response:
    """Show one draft with the mail that it answers, or what became of it."""
    with services.current().database.snapshot() as connection:
        draft = _find(connection, draft_id)
        return _page(connection, draft) if draft else not_found("draft")


@blueprint.post("/ops/drafts/<draft_id>")
@needs(Permission.ANSWER)
def decide(draft_id: str) -> Response:
    """Do with a draft what the pressed button says. Of two people the first one's click stands."""
    with services.current().database.transaction() as connection:
        found = _find(connection, draft_id)
        if found is None:
            return not_found("draft")
        conversation = conversations.lock(connection, found.conversation_id)
        draft = drafts.find(connection, draft_id) or found
        try:
            wanted = parse_act(draft)
        except DraftProblem as problem:
            return (
                _page(connection, draft, problem) if draft.waits else _too_late(connection, draft)
            )
        if draft.waits:
            act(connection, conversation, draft, wanted, current_person().email)
        elif wanted.action != "take_over" or conversation.owner_email != current_person().email:
            return _too_late(connection, draft)
        if wanted.action == "take_over":
            return _taken_over(connection, draft, wanted.text)
    return cast(Response, redirect(f"/ops/drafts/{draft_id}", 303))


def _taken_over(connection: sa.Connection, draft: Draft, typed: str) -> Response:
    """Lead to the conversation, which is this person's now, with what they had begun to write."""
    if not typed.strip():
        return cast(Response, redirect(f"/ops/conversations/{draft.conversation_id}", 303))
    conversation = conversations.load(connection, draft.conversation_id)
    return answer_page(connection, conversation, Unsent.TAKEN_OVER, typed)


def _find(connection: sa.Connection, draft_id: str) -> Draft | None:
    # PostgreSQL refuses the characters that are not printable, such as NUL.
    return drafts.find(connection, draft_id) if draft_id.isprintable() else None


def _too_late(connection: sa.Connection, draft: Draft) -> Response:
    """Say who was faster; whoever pressed twice just sees what they did."""
    if draft.decided_by == current_person().email:
        return cast(Response, redirect(f"/ops/drafts/{draft.draft_id}", 303))
    return _page(connection, draft, late=True)


def _page(
    connection: sa.Connection,
    draft: Draft,
    problem: DraftProblem | None = None,
    late: bool = False,
) -> Response:
    conversation = conversations.load(connection, draft.conversation_id)
    mails = inbound.list_by_id(connection, draft.mail_ids)
    verified = bool(mails) and all(mail.identity.proven for mail in mails)
    others = drafts.list_waiting_of(connection, draft.conversation_id)
    typed = request.form.get("text") if problem or late else None
    codes = goodwill.list_codes_for(connection, draft.conversation_id, conversation.customer_email)
    return page(
        "ops/draft.html",
        409 if late else 422 if problem else 200,
        draft=draft,
        conversation=conversation,
        subject=conceal(conversation.subject, codes),
        mails=[_shown(mail, codes) for mail in mails],
        verified=verified,
        untrue=_untrue(connection, conversation, draft, verified),
        wrote_again=_wrote_again(connection, draft),
        following=next((each for each in others if each.draft_id != draft.draft_id), None),
        next_id=None if draft.waits else drafts.find_next_waiting(connection, draft.draft_id),
        topic_labels=DRAFT_TOPICS,
        longest=LONGEST_ANSWER,
        problem=problem,
        late=late,
        typed=typed if typed is not None else draft.text,
        reason=request.form.get("reason", "") if problem else "",
    )


def _shown(mail: InboundMail, codes: Sequence[str]) -> InboundMail:
    """Return a mail with what of it may be shown."""
    subject, new_text = (conceal(each, codes) for each in (mail.subject, mail.new_text))
    return replace(mail, subject=subject, new_text=new_text)


def _untrue(
    connection: sa.Connection, conversation: Conversation, draft: Draft, verified: bool
) -> tuple[str, ...]:
    """Return what the rows do not bear out of a draft that waits: it was true when it was written."""
    if not draft.waits:
        return ()
    mails = inbound.list_by_id(connection, draft.mail_ids)
    return mailers.find_untrue(connection, conversation, mails, verified, draft.text)


def _wrote_again(connection: sa.Connection, draft: Draft) -> bool:
    """Say whether mail has come that no draft answers yet."""
    waiting = inbound.list_unanswered(connection, draft.conversation_id)
    return draft.waits and any(mail.awaits_agent for mail in waiting)


# --- draft acts -----------------------------------------------------------------------------------


LONGEST_REASON = 500


class DraftProblem(ValueError):
    """What was sent cannot be taken; the text says what to do, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Act:
    """`action` is send, edit, discard or take_over; `text` is what to send, or
    what is to be kept for later; `reason` is why nothing is sent."""

    action: str
    text: str = ""
    reason: str = ""


def parse_act(draft: Draft) -> Act:
    """Return what the form of a draft asks for. Raises DraftProblem."""
    action = request.form.get("action", "")
    match action:
        case "send":
            return _parse_send(draft)
        case "edit":
            return _parse_edit(draft)
        case "discard":
            return Act("discard", reason=_parse_reason())
        case "take_over":
            return Act("take_over", _parse_changed(draft))
    raise DraftProblem("action", "Please press one of the buttons: the form did not say which.")


def _parse_send(draft: Draft) -> Act:
    typed = request.form.get("text")
    if typed is not None and _bare(typed) != _bare(draft.text):
        raise DraftProblem(
            "text",
            "You changed the words, but pressed “Send as it is”. Press “Send my version” to send what"
            " stands here.",
        )
    return Act("send", draft.text)


def _parse_edit(draft: Draft) -> Act:
    typed = request.form.get("text", "")
    if _bare(typed) == _bare(draft.text):
        return Act("send", draft.text)
    try:
        return Act("edit", assignment.parse_answer(typed))
    except assignment.AnswerProblem as problem:
        raise DraftProblem("text", str(problem)) from None


def _parse_changed(draft: Draft) -> str:
    """Return what somebody wrote into the field, or nothing if it still says what the agent wrote."""
    typed = request.form.get("text", "")
    return "" if _bare(typed) == _bare(draft.text) else typed


def _bare(text: str) -> str:
    """Return a text as it is compared: browsers end lines in their own way."""
    return "\n".join(line.rstrip() for line in without_controls(text).strip().splitlines())


def _parse_reason() -> str:
    reason = " ".join(without_controls(request.form.get("reason", "")).split())
    if not reason:
        raise DraftProblem("reason", "Please say why the customer gets no answer.")
    if len(reason) > LONGEST_REASON:
        raise DraftProblem("reason", f"Please say it in at most {LONGEST_REASON} characters.")
    return reason


# --- what is recorded -----------------------------------------------------------------------------


def act(
    connection: sa.Connection, conversation: Conversation, draft: Draft, wanted: Act, person: str
) -> None:
    """Do with a draft that waits what somebody wants."""
    match wanted.action:
        case "take_over":
            assignment.take_over(connection, conversation, person)
        case "discard":
            _discard(connection, draft, wanted.reason, person)
        case "edit":
            _send(connection, conversation, draft, wanted.text, DraftState.EDITED, person)
        case _:
            _send(connection, conversation, draft, wanted.text, DraftState.SENT, person)


def _send(
    connection: sa.Connection,
    conversation: Conversation,
    draft: Draft,
    text: str,
    state: DraftState,
    person: str,
) -> None:
    live, now = services.current(), services.current().now()
    mails = inbound.list_by_id(connection, draft.mail_ids)
    outbound_id = mailers.write_reply(connection, conversation, mails, text, by_person=True)
    inbound.answer(connection, draft.mail_ids, outbound_id)
    drafts.settle(connection, draft.draft_id, state, person, now, outbound_id)
    live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    action = "draft sent" if state is DraftState.SENT else "draft sent with changes"
    details = {"outbound_id": outbound_id}
    audit.record(connection, now, person, action, draft.draft_id, details)


def _discard(connection: sa.Connection, draft: Draft, reason: str, person: str) -> None:
    now = services.current().now()
    drafts.settle(connection, draft.draft_id, DraftState.DISCARDED, person, now)
    why = f"{person} decided that it needs no answer: {reason}"
    inbound.leave_unanswered(connection, draft.mail_ids, why)
    audit.record(connection, now, person, "draft discarded", draft.draft_id, {"reason": reason})
