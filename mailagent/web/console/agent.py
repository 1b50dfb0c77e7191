"""Pages about the agent: how knowledge is used, what the model costs, and what another one would do."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.model_cost import format_usd
from mailagent.store.console import knowledge
from mailagent.store.operations import comparisons, model_calls
from mailagent.store.operations.comparisons import Comparison, Differs, Side, Source
from mailagent.web.console.labels import DRAFT_STATES
from mailagent.web.console.page import page, redact_line
from mailagent.web.console.timeline_view import of_use
from mailagent.web.guard import needs

blueprint = Blueprint("ops_agent", __name__)

KNOWLEDGE_DAYS = 90
QUESTIONS_SHOWN = 100
MODEL_DAYS = 14
DIFFERENCES_SHOWN = 100


@blueprint.get("/ops/knowledge")
@needs(Permission.VIEW)
def show_knowledge() -> Response:
    """Show how often replies quoted each passage, and the questions that no passage answered."""
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
        mails_counted=knowledge.MAILS_COUNTED,
    )


@blueprint.get("/ops/model")
@needs(Permission.RUNS)
def show_model() -> Response:
    """Show the model's calls, tokens and costs of the last days, newest day first."""
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


@blueprint.get("/ops/comparisons")
@needs(Permission.RUNS)
def show_comparisons() -> Response:
    """Show what another configuration would have done about answered mail, the largest differences first."""
    live = services.current()
    source = Source.SHADOW if request.args.get("source") == Source.SHADOW else Source.BACKTEST
    since = live.now() - timedelta(days=MODEL_DAYS)
    with live.database.snapshot() as connection:
        sums = comparisons.sum_up(connection, source, since)
        different = comparisons.list_different(connection, source, since, DIFFERENCES_SHOWN)
        mail_ids = [each.mail_id for each in different if each.draft]
        sent = comparisons.list_sent_instead(connection, mail_ids)
    count = sums.counts.total()
    return page(
        "ops/comparisons.html",
        source=source.value,
        count=count,
        counts=sums.counts,
        by_people=sums.by_people,
        cost=_tell_cost(sums.cost_micro_usd),
        models=", ".join(sums.models),
        differences=[_describe(each, sent.get(each.mail_id)) for each in different],
        more=count - sums.counts[Differs.NOTHING.value] - len(different),
        days=MODEL_DAYS,
    )


def _describe(found: Comparison, sent: str | None) -> dict[str, object]:
    """Return a row of the page. `sent`: what a person sent instead of the draft."""
    return {
        "conversation_id": found.conversation_id,
        "at": found.at,
        "draft": DRAFT_STATES.get(found.draft) if found.draft else None,
        "sides": [_describe_side(found.past), _describe_side(found.now)],
        "sent": redact_line(sent) if sent else None,
        "error": found.error,
        "cost": _tell_cost(found.cost_micro_usd),
        "seconds": f"{found.milliseconds / 1000:.1f}",
    }


def _describe_side(side: Side) -> dict[str, object]:
    """Return the acts of one side, and its reply with each phrase in the English words that customers read."""
    phrases = services.current().templates.phrases()
    return {"acts": side.acts, "reply": [phrases.get(part, part) for part in side.parts]}


def _tell_cost(micro_usd: int) -> str:
    return format_usd(Decimal(micro_usd) / 1_000_000)
