"""The buttons below a conversation: each is one act of somebody's, and leads back to the conversation."""

from __future__ import annotations

import re
from typing import cast

import sqlalchemy as sa
from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.access import Permission
from mailagent.domain.conversation import Conversation
from mailagent.store import conversations
from mailagent.store.ids import new_id
from mailagent.web.guard import current_person, needs
from mailagent.web.ops import taking_over
from mailagent.web.ops.pages import not_found, page

blueprint = Blueprint("ops_acts", __name__)

_ONCE = re.compile(r"[a-z]{2,8}_[0-9a-z]{26}")


@blueprint.post("/ops/conversations/<conversation_id>/take-over")
@needs(Permission.ANSWER)
def take_over(conversation_id: str) -> Response:
    """Make the conversation this person's own, unless it changed hands since they saw the page."""
    person = current_person().email
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        seen = request.form.get("owner", "")
        if conversation.owner_email != person and (conversation.owner_email or "") == seen:
            taking_over.take_over(connection, conversation, person)
    return _back_to(conversation_id)


@blueprint.post("/ops/conversations/<conversation_id>/answer")
@needs(Permission.ANSWER)
def answer(conversation_id: str) -> Response:
    """Send the customer what this person wrote, once however often the button is pressed."""
    person, once = current_person().email, request.form.get("once", "")
    typed = request.form.get("text", "")
    with services.current().database.transaction() as connection:
        conversation = _lock(connection, conversation_id)
        if conversation is None:
            return not_found("conversation")
        try:
            text = taking_over.parse_answer(typed)
            if not _ONCE.fullmatch(once):
                raise taking_over.AnswerProblem("The form was incomplete. Please send it again.")
        except taking_over.AnswerProblem as problem:
            return page(
                "ops/answer.html",
                422,
                conversation=conversation,
                typed=typed,
                problem=str(problem),
                once=new_id("once"),
            )
        taking_over.answer(connection, conversation, person, text, once)
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
