"""Models that play customers and attackers, where Inspect AI does not ask them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from mailagent.domain.operations.model_cost import TokenPrices, micro_usd, parse_prices
from mailagent.evals.customer import Message

if TYPE_CHECKING:
    import openai

LONGEST_MAIL_TOKENS = 1_000


def named_roles(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the models that Inspect AI asks, named as it names them: EVALS_CUSTOMER plays customers, and
    attackers unless EVALS_ATTACKER names another."""
    customer = environ.get("EVALS_CUSTOMER")
    named = {"customer": customer, "attacker": environ.get("EVALS_ATTACKER") or customer}
    return {role: model for role, model in named.items() if model}


class Player:
    """Asks a model, and counts what it costs. Threads may share it."""

    def __init__(self, client: openai.OpenAI, model: str, prices: TokenPrices | None) -> None:
        self._client, self._model, self._prices = client, model, prices
        self._lock = threading.Lock()
        self.spent_usd = 0.0

    def __call__(self, _role: str, messages: list[Message]) -> str:
        answer = self._client.responses.create(
            model=self._model,
            input=messages,  # type: ignore[arg-type]  # plain data of the same shape
            store=False,
            max_output_tokens=LONGEST_MAIL_TOKENS,
        )
        if self._prices and answer.usage:
            usage = {"input": answer.usage.input_tokens, "output": answer.usage.output_tokens}
            with self._lock:
                self.spent_usd += micro_usd(self._prices, usage) / 1e6
        return str(answer.output_text)


def find_player(model: str) -> Player:
    """Return a player for this model, at the server of EVALS_BASE_URL and EVALS_API_KEY, else of OpenAI's
    settings. Its prices come from EVALS_PRICES, else OPENAI_PRICES."""
    key = os.environ.get("EVALS_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if not key:
        raise click.ClickException("--customer needs EVALS_API_KEY or OPENAI_API_KEY")
    import openai

    prices = os.environ.get("EVALS_PRICES") or os.environ.get("OPENAI_PRICES")
    try:
        known = parse_prices(prices) if prices else None
    except ValueError as problem:
        raise click.ClickException(str(problem)) from None
    url = os.environ.get("EVALS_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
    return Player(openai.OpenAI(api_key=key, base_url=url), model, known)
