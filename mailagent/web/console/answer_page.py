"""The page on which an answer stands that was not sent, to be read again, changed and sent."""

from __future__ import annotations

import re
from enum import StrEnum

import sqlalchemy as sa
from flask import Response

from mailagent.domain.mail.conversation import Conversation
from mailagent.store.ids import new_id
from mailagent.web.console import seen as sight
from mailagent.web.console.pages import page
from mailagent.web.console.seen import Meanwhile, Seen
from mailagent.web.guard import current_person

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
    now = sight.look(connection, conversation)
    meanwhile = Meanwhile("", ())
    if seen is not None and seen.differs_from(now, current_person().email):
        meanwhile = sight.since(connection, conversation, seen, now)
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
