"""The day's budget for the model as steps meet it: near its end operators are told, at its end no further
mail is begun until the next day."""

from __future__ import annotations

from decimal import Decimal

from mailagent import services
from mailagent.domain.operations.cost import cost_of, format_usd


def cost_of_today() -> Decimal | None:
    """Return what the model has cost today, a few seconds old at most; None without a budget."""
    live = services.current()
    if live.daily_budget is None:
        return None
    return cost_of(live.spending.of_today(live.database, live.now()), live.prices_of)


def why_stopped() -> str | None:
    """Return why no mail is begun, for people; None if it is."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_spent(cost):
        return None
    return f"today's budget for the model is spent: {format_usd(cost)} of {format_usd(budget.usd)}"


def why_alarmed() -> str | None:
    """Return that the budget will be spent before long; None if it is far from it."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_near(cost):
        return None
    return f"{format_usd(cost)} of today's {format_usd(budget.usd)} (UTC) are spent"
