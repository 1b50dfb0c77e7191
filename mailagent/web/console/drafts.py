"""Views of drafts: people read them, send them with or without changes, discard them, or take over."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import mailers, services
from mailagent.agent.reply.composition import parse
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import DRAFT_TOPICS, LONGEST_ANSWER, Draft, DraftState
from mailagent.domain.mail.message import are_proven
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.operations.access import Permission
from mailagent.domain.text import without_controls
from mailagent.store import audit
from mailagent.store.mail import conversations, drafts, inbound
from mailagent.store.refunds import goodwill
from mailagent.web.console.conversations import assignment
from mailagent.web.console.conversations.chosen_files import are_lost, parse_files
from mailagent.web.console.conversations.pages import answer_page
from mailagent.web.console.page import found, go_to, page, redact
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs, takes_files
from mailagent.web.language import _

blueprint = Blueprint("ops_drafts", __name__)

LONGEST_REASON = 500
_RECORDS = "records"  # no field: the facts have changed


@blueprint.get("/ops/drafts")
@needs(Permission.ANSWER)
def list_all() -> Response:
    """Redirect to the inbox's list of waiting drafts."""
    return go_to("/ops?waiting=drafts")


@blueprint.get("/ops/drafts/<draft_id>")
@needs(Permission.ANSWER)
def show(draft_id: str) -> Response:
    """Show one draft with the mail that it answers, or its outcome."""
    with services.current().database.snapshot() as connection:
        return _page(connection, found(drafts.find(connection, draft_id), "draft"))


@blueprint.post("/ops/drafts/<draft_id>")
@takes_files
@needs(Permission.ANSWER)
def decide(draft_id: str) -> Response:
    """Send or discard a draft, or take its conversation over, as the pressed button says. The first click
    counts."""
    person = current_person().email
    with services.current().database.transaction() as connection:
        stored = found(drafts.find(connection, draft_id), "draft")
        conversation = conversations.lock(connection, stored.conversation_id)
        stored = drafts.find(connection, draft_id) or stored
        letter = _letter_of_now(connection, conversation, stored)
        draft = _with_facts_of(stored, letter)
        try:
            action = replace(parse_action(draft, stored, letter), files=parse_files(connection))
            if action.name == "send" and letter is not None and letter.problems:
                raise _not_borne()
        except FormProblem as problem:
            if draft.waits:
                return _page(connection, stored, problem)
            return _too_late(connection, draft)
        if draft.waits:
            _act(connection, conversation, draft, action, letter)
        elif action.name != "take_over" or conversation.owner_email != person:
            return _too_late(connection, draft)
        if action.name == "take_over":
            if not action.text.strip():
                return go_to(f"/ops/conversations/{draft.conversation_id}")
            conversation = conversations.load(connection, draft.conversation_id)
            return answer_page(connection, conversation, 200, action.text)
    return go_to(f"/ops/drafts/{draft_id}")


def _with_facts_of(draft: Draft, letter: mailers.Letter | None) -> Draft:
    """Return a draft with the text of its letter of now, if that can be sent."""
    return draft if letter is None or letter.problems else replace(draft, text=letter.text)


def _letter_of_now(
    connection: sa.Connection, conversation: Conversation, draft: Draft
) -> mailers.Letter | None:
    """Return a waiting draft as a letter written anew from the rows; None if it was not composed of facts."""
    if not draft.waits or draft.composition is None:
        return None
    mails = inbound.list_by_id(connection, draft.mail_ids)
    reader = mailers.reader_of(connection, conversation, mails)
    return mailers.write_letter(reader, parse(draft.composition))


def _too_late(connection: sa.Connection, draft: Draft) -> Response:
    """Return the page that says who was faster. After a second click of the same person, it just shows the
    draft."""
    if draft.decided_by == current_person().email:
        return go_to(f"/ops/drafts/{draft.draft_id}")
    return _page(connection, draft, late=True)


def _page(
    connection: sa.Connection, stored: Draft, problem: FormProblem | None = None, late: bool = False
) -> Response:
    conversation = conversations.load(connection, stored.conversation_id)
    mails = inbound.list_by_id(connection, stored.mail_ids)
    letter = _letter_of_now(connection, conversation, stored)
    draft = _with_facts_of(stored, letter)
    others = drafts.list_waiting_of(connection, draft.conversation_id)
    unanswered = inbound.list_unanswered(connection, draft.conversation_id)
    typed = request.form.get("text", draft.text)
    codes = goodwill.list_codes_for(connection, draft.conversation_id, conversation.customer_email)
    return page(
        "ops/draft.html",
        409 if late else 422 if problem else 200,
        draft=draft,
        conversation=conversation,
        subject=redact(conversation.subject, codes),
        mails=[
            replace(
                mail, subject=redact(mail.subject, codes), new_text=redact(mail.new_text, codes)
            )
            for mail in mails
        ],
        verified=are_proven(mails),
        shown_text=_digest(letter.text if letter else draft.text),
        has_changed=draft.text != stored.text
        or (problem is not None and problem.field == _RECORDS),
        wrote_again=draft.waits and any(mail.awaits_agent for mail in unanswered),
        following=next((each for each in others if each.draft_id != draft.draft_id), None),
        next_id=None if draft.waits else drafts.find_next_waiting(connection, draft.draft_id),
        topic_labels=DRAFT_TOPICS,
        longest=LONGEST_ANSWER,
        problem=problem,
        late=late,
        typed=draft.text if _digest(typed) == _shown(stored) else typed,
        reason=request.form.get("reason", "") if problem else "",
        files_lost=are_lost(),
    )


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Action:
    """What a person does with a draft. `name`: send, edit, discard or take_over. `text` and `files`: what to
    send; for take_over, what to keep in the answer field. `reason`: why the customer gets no answer, for
    discard."""

    name: str
    text: str = ""
    reason: str = ""
    files: tuple[OutgoingFile, ...] = ()


def parse_action(draft: Draft, stored: Draft, letter: mailers.Letter | None) -> Action:
    """Return the action that the form of a draft asks for. Raises FormProblem, also if the page showed other
    facts than are on record now.

    `stored`: the draft as the agent wrote it; `draft`, with its facts written anew, from `letter`.
    """
    name = request.form.get("action", "")
    typed = request.form.get("text", "" if name == "edit" else draft.text)
    is_changed = _comparable(typed) != _comparable(draft.text)
    match name:
        case "send" | "edit" if is_changed and letter and _digest(letter.text) != _shown(stored):
            if letter.problems:
                raise _not_borne()
            raise FormProblem(
                _RECORDS,
                _("Our records have changed. Please read the text again before you send it."),
            )
        case "send" if is_changed:
            raise FormProblem(
                "text",
                _(
                    "You changed the text, but pressed “Send as it is”. Press “Send my version” to send"
                    " your text."
                ),
            )
        case "edit" if is_changed:
            return Action("edit", assignment.parse_answer(typed))
        case "send" | "edit":
            return Action("send", draft.text)
        case "take_over":
            is_typed = is_changed and _digest(typed) != _shown(stored)
            return Action("take_over", typed if is_typed else "")
        case "discard":
            reason = " ".join(without_controls(request.form.get("reason", "")).split())
            if not reason:
                raise FormProblem("reason", _("Please say why the customer gets no answer."))
            if len(reason) > LONGEST_REASON:
                raise FormProblem(
                    "reason",
                    _("Please say it in at most %(most)s characters.", most=LONGEST_REASON),
                )
            return Action("discard", reason=reason)
    raise FormProblem("action", _("Please press one of the buttons: the form did not say which."))


def _not_borne() -> FormProblem:
    problem = _("Our records do not bear all of this any more. Please correct the text.")
    return FormProblem("text", problem)


def _shown(stored: Draft) -> str:
    """Return the digest of the text that the page showed when it was opened."""
    return request.form.get("shown") or _digest(stored.text)


def _digest(text: str) -> str:
    return hashlib.sha256(_comparable(text).encode("utf-8", "replace")).hexdigest()


def _comparable(text: str) -> str:
    """Return a text without differences that browsers make, such as line ends."""
    return "\n".join(line.rstrip() for line in without_controls(text).strip().splitlines())


def _act(
    connection: sa.Connection,
    conversation: Conversation,
    draft: Draft,
    action: Action,
    composed: mailers.Letter | None,
) -> None:
    person, live = current_person().email, services.current()
    now, draft_id = live.now(), draft.draft_id
    if action.name == "take_over":
        assignment.take_over(connection, conversation, person)
    elif action.name == "discard":
        drafts.record_decision(connection, draft_id, DraftState.DISCARDED, person, now)
        why = f"{person} decided that it needs no answer: {action.reason}"
        inbound.leave_unanswered(connection, draft.mail_ids, why)
        details = {"reason": action.reason}
        audit.record(connection, now, person, "draft discarded", draft_id, details)
    else:
        is_edited = action.name == "edit"
        state = DraftState.EDITED if is_edited else DraftState.SENT
        mails = inbound.list_by_id(connection, draft.mail_ids)
        reader = mailers.reader_of(connection, conversation, mails)
        letter = mailers.letter_by_person(reader, action.text)
        if composed is not None:  # it has the records of the orders that it names
            order_ids, offers = composed.order_ids, composed.credit_offers
            edited = replace(letter, order_ids=order_ids, credit_offers=offers)
            letter = edited if is_edited else composed
        outbound_id = mailers.write_reply(reader, mails, letter, by_person=True, files=action.files)
        inbound.answer(connection, draft.mail_ids, outbound_id)
        drafts.record_decision(connection, draft_id, state, person, now, outbound_id)
        live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
        done: audit.Action = "draft sent with changes" if is_edited else "draft sent"
        audit.record(connection, now, person, done, draft_id, {"outbound_id": outbound_id})
