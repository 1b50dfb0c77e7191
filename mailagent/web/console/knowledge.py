"""The shop's knowledge: what replies quoted, and which questions it does not answer."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint, Response

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store.console import knowledge
from mailagent.web.console.page import page
from mailagent.web.guard import needs

blueprint = Blueprint("ops_knowledge", __name__)

DAYS = 90
QUESTIONS_SHOWN = 100


@blueprint.get("/ops/knowledge")
@needs(Permission.VIEW)
def show() -> Response:
    """Show the passages with how often they were quoted, and the questions that none answered."""
    live = services.current()
    since = live.now() - timedelta(days=DAYS)
    with live.database.snapshot() as connection:
        quoted = knowledge.count_quoted(connection, since)
        questions = knowledge.list_unanswered(connection, since, QUESTIONS_SHOWN)
    passages = sorted(live.knowledge.passages, key=lambda each: -quoted[each.passage_id])
    return page(
        "ops/knowledge.html",
        passages=[(passage, quoted[passage.passage_id]) for passage in passages],
        questions=questions,
        days=DAYS,
    )
