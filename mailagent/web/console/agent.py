"""Pages about the agent: how the shop's knowledge is used, and what the model costs."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint, Response

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.model_cost import format_usd
from mailagent.store.console import knowledge
from mailagent.store.operations import model_calls
from mailagent.web.console.page import page
from mailagent.web.console.timeline_view import of_use
from mailagent.web.guard import needs

blueprint = Blueprint("ops_agent", __name__)

KNOWLEDGE_DAYS = 90
QUESTIONS_SHOWN = 100
MODEL_DAYS = 14


@blueprint.get("/ops/knowledge")
@needs(Permission.VIEW)
def show_knowledge() -> Response:
    """Show the passages with how often they were quoted, and the questions that none answered."""
    live = services.current()
    since = live.now() - timedelta(days=KNOWLEDGE_DAYS)
    with live.database.snapshot() as connection:
        quoted = knowledge.count_quoted(connection, since)
        questions = knowledge.list_unanswered(connection, since, QUESTIONS_SHOWN)
    passages = sorted(live.knowledge.passages, key=lambda each: -quoted[each.passage_id])
    return page(
        "ops/knowledge.html",
        passages=[(passage, quoted[passage.passage_id]) for passage in passages],
        questions=questions,
        days=KNOWLEDGE_DAYS,
    )


@blueprint.get("/ops/model")
@needs(Permission.RUNS)
def show_model() -> Response:
    """Show the use and the cost of the last days, the newest day first."""
    live = services.current()
    budget = live.daily_budget
    with live.database.snapshot() as connection:
        days = model_calls.sum_by_day(connection, live.now(), MODEL_DAYS)
        since = live.now() - timedelta(days=MODEL_DAYS)
        outcomes = model_calls.outcomes_by_version(connection, since)
    return page(
        "ops/model.html",
        days=[
            {
                "begins_at": begins_at,
                "models": ", ".join(sorted(filter(None, use))),
                "use": of_use(use),
            }
            for begins_at, use in days
        ],
        outcomes=outcomes,
        days_of_outcomes=MODEL_DAYS,
        calls_counted=model_calls.CALLS_COUNTED,
        budget=budget and format_usd(budget.usd),
        alarm_percent=budget and budget.alarm_percent,
        rate_limit=live.rate_limit,
        has_prices=live.token_prices is not None,
    )
