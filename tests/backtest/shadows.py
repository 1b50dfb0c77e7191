"""A shop with a shadow, and models that play it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from mailagent import services
from mailagent.backtest.shadow import shadow
from mailagent.domain.operations.model_cost import parse_prices
from tests.harness import Harness

PRICES = parse_prices("1,0.1,10")


@dataclass
class Played:
    """Answers each call alike, or as the shop's own model does without an answer; counts the calls."""

    answer: dict[str, Any] | None = None
    problem: Exception | None = None
    calls: int = 0
    told: str = ""
    own: services.Model = field(default_factory=lambda: services.current().model)

    def ask(self, *arguments: Any) -> dict[str, Any]:
        self.calls += 1
        self.told = str(arguments[0])
        if self.problem is not None:
            raise self.problem
        return self.answer or self.own.ask(*arguments)


def follow(
    model: services.Model,
    percent: int = 100,
    budget_usd: str = "5",
    has_own_key: bool = False,
    prompt: str | None = None,
) -> None:
    """Let a model be the shadow of the shop that is open."""
    chosen = services.Shadow(
        model, "second", percent, Decimal(budget_usd), PRICES, prompt, has_own_key
    )
    services.bind(replace(services.current(), shadow=chosen))


def run() -> None:
    shadow(datetime.now(UTC), None)


def compared(shop: Harness) -> list[Any]:
    return shop.rows("SELECT * FROM comparisons WHERE source = 'shadow' ORDER BY at")
