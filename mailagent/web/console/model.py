"""What the model costs, day by day, beside the budget for a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask import Blueprint, Response

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.model_cost import format_usd
from mailagent.store.operations.model_calls import Use
from mailagent.web.console.page import page
from mailagent.web.console.timeline_view import ShownUse, of_use
from mailagent.web.guard import needs

blueprint = Blueprint("ops_model", __name__)

DAYS = 14


@dataclass(frozen=True, slots=True)
class ShownDay:
    """A day (UTC), the models that were asked, and what they took together."""

    begins_at: datetime
    models: str
    use: ShownUse


@blueprint.get("/ops/model")
@needs(Permission.RUNS)
def show() -> Response:
    """Show what the calls of the last days took and cost, the newest day first."""
    live = services.current()
    budget = live.daily_budget
    days = live.spending.of_days(live.database, live.now(), DAYS)
    return page(
        "ops/model.html",
        days=[_shown(begins_at, use) for begins_at, use in days],
        budget=budget and format_usd(budget.usd),
        alarm_percent=budget and budget.alarm_percent,
        pace=live.pace,
        has_prices=live.token_prices is not None,
    )


def _shown(begins_at: datetime, use: Use) -> ShownDay:
    return ShownDay(begins_at, ", ".join(sorted(name for name in use if name)), of_use(use))
