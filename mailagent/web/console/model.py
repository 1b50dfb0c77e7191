"""The cost of the model, day by day, and the daily budget."""

from __future__ import annotations

from flask import Blueprint, Response

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.model_cost import format_usd
from mailagent.web.console.page import page
from mailagent.web.console.timeline_view import of_use
from mailagent.web.guard import needs

blueprint = Blueprint("ops_model", __name__)

DAYS = 14


@blueprint.get("/ops/model")
@needs(Permission.RUNS)
def show() -> Response:
    """Show the use and the cost of the last days, the newest day first."""
    live = services.current()
    budget = live.daily_budget
    days = live.spending.of_days(live.database, live.now(), DAYS)
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
        budget=budget and format_usd(budget.usd),
        alarm_percent=budget and budget.alarm_percent,
        pace=live.pace,
        has_prices=live.token_prices is not None,
    )
