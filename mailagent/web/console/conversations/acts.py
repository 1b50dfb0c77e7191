"""Views: take a conversation over, answer it, give it back."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.store.mail import conversations
from mailagent.web.console.conversations import assignment
from mailagent.web.console.conversations.assignment import find_seen, parse_seen
from mailagent.web.console.conversations.chosen_files import parse_files
from mailagent.web.console.conversations.pages import ONCE, answer_page
from mailagent.web.console.page import found, go_to
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs, takes_files
from mailagent.web.language import _

blueprint = Blueprint("ops_conversation_acts", __name__)

SENT = "#sent"  # tells console.js that it need not keep the text any longer


@blueprint.post("/ops/conversations/<conversation_id>/take-over")
@takes_files
@needs(Permission.ANSWER)
def take_over(conversation_id: str) -> Response:
    """Assign the conversation to this person, unless its owner changed after they opened the page. If they had
    typed a text, show it again; do not send it."""
    person, form = current_person().email, request.form
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        owner = conversation.owner_email
        if owner != person and (owner or "") == form.get("owner", ""):
            assignment.take_over(connection, conversation, person)
            conversation = conversations.load(connection, conversation_id)
        if form.get("text", "").strip():
            seen = parse_seen(form.get("seen", ""))
            if conversation.owner_email == person:
                seen = replace(seen, draft_id="")  # the take-over itself discarded the draft
                return answer_page(connection, conversation, 200, form["text"], seen=seen)
            problem = _("Its owner changed after you opened the page: it is not assigned to you.")
            return answer_page(connection, conversation, 409, form["text"], problem, seen)
    return back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/answer")
@takes_files
@needs(Permission.ANSWER)
def answer(conversation_id: str) -> Response:
    """Send this person's answer to the customer, only once even if they press the button again. If something
    has happened in the conversation that they did not see, send nothing and show the page again."""
    person, typed = current_person().email, request.form.get("text", "")
    once, seen = request.form.get("once", ""), parse_seen(request.form.get("seen", ""))
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        if assignment.was_sent(connection, conversation_id, once):
            return back_to(conversation_id, SENT)
        try:
            text, files = assignment.parse_answer(typed), parse_files(connection)
            if not ONCE.fullmatch(once):
                raise FormProblem("once", _("The form was incomplete. Please send it again."))
        except FormProblem as problem:
            return answer_page(connection, conversation, 422, typed, problem, seen)
        if seen.differs_from(find_seen(connection, conversation), person):
            read_first = _(
                "Something has happened in this conversation since you opened the page. Read it first:"
                " you may want to change your answer."
            )
            return answer_page(connection, conversation, 409, typed, read_first, seen)
        assignment.answer(connection, conversation, person, text, once, files)
    return back_to(conversation_id, SENT)


@blueprint.post("/ops/conversations/<conversation_id>/give-back")
@needs(Permission.ANSWER)
def give_back(conversation_id: str) -> Response:
    """Give the conversation to the agent, who answers its unanswered mail."""
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        assignment.give_back(connection, conversation, current_person().email)
    return back_to(conversation_id)


def lock_found(connection: sa.Connection, conversation_id: str) -> Conversation:
    """Lock a conversation and return it. Abort with 404 if there is none."""
    found(conversations.find(connection, conversation_id), "conversation")
    return conversations.lock(connection, conversation_id)


def back_to(conversation_id: str, fragment: str = "") -> Response:
    return go_to(f"/ops/conversations/{conversation_id}{fragment}")
