"""Models that play customers and attackers, where Inspect AI does not ask them."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from mailagent.evals.customer import Ask, Message

LONGEST_MAIL_TOKENS = 1_000


def named_roles(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the models that Inspect AI asks, named as it names them: EVALS_CUSTOMER plays customers, and
    attackers unless EVALS_ATTACKER names another."""
    customer = environ.get("EVALS_CUSTOMER")
    named = {"customer": customer, "attacker": environ.get("EVALS_ATTACKER") or customer}
    return {role: model for role, model in named.items() if model}


def find_player(model: str) -> Ask:
    """Return who asks this model: the server of EVALS_BASE_URL and EVALS_API_KEY, else OpenAI's settings."""
    key = os.environ.get("EVALS_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if not key:
        raise click.ClickException("--customer needs EVALS_API_KEY or OPENAI_API_KEY")
    import openai

    url = os.environ.get("EVALS_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
    client = openai.OpenAI(api_key=key, base_url=url)

    def ask(_role: str, messages: list[Message]) -> str:
        answer = client.responses.create(
            model=model,
            input=messages,  # type: ignore[arg-type]  # plain data of the same shape
            store=False,
            max_output_tokens=LONGEST_MAIL_TOKENS,
        )
        return str(answer.output_text)

    return ask
