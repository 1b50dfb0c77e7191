"""The buttons below a conversation: each is one act of somebody's, and leads back to the conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.access import Permission
from mailagent.store.mail import conversations
from mailagent.web.console import taking_over
from mailagent.web.console.answer_page import Unsent, answer_page, is_once
from mailagent.web.console.pages import not_found
from mailagent.web.console.seen import look, parse_seen
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_acts", __name__)

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
            taking_over.take_over(connection, conversation, person)
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
        if taking_over.was_sent(connection, conversation_id, once):
            return _back_to(conversation_id)
        try:
            text = taking_over.parse_answer(typed)
            if not is_once(once):
                raise taking_over.AnswerProblem("The form was incomplete. Please send it again.")
        except taking_over.AnswerProblem as problem:
            return answer_page(
                connection, conversation, Unsent.WRONG, typed, once, str(problem), seen
            )
        if seen.differs_from(look(connection, conversation), person):
            return answer_page(
                connection, conversation, Unsent.OVERTAKEN, typed, once, _READ_FIRST, seen
            )
        taking_over.answer(connection, conversation, person, text, once, seen.mail_id)
    return _back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/give-back")
@needs(Permission.ANSWER)
def give_back(conversation_id: str) -> Response:
    """Give the conversation to the agent, who answers what is left unanswered in it."""
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        taking_over.give_back(connection, conversation, current_person().email)
    return _back_to(conversation_id)


def _lock(connection: sa.Connection, conversation_id: str) -> Conversation | None:
    # PostgreSQL refuses the characters that are not printable, such as NUL.
    if not conversation_id.isprintable() or not conversations.find(connection, conversation_id):
        return None
    return conversations.lock(connection, conversation_id)


def _back_to(conversation_id: str) -> Response:
    return cast(Response, redirect(f"/ops/conversations/{conversation_id}", 303))
