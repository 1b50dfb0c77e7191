"""`flask backtest`: what another model, prompt or policy would have answered to mail that was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.backtest.asking import Answer, Configuration, ask
from mailagent.backtest.past import Decided, Past, list_past
from mailagent.workflows.steps.conversation.model_call import standing_instructions

if TYPE_CHECKING:
    from mailagent.settings import Settings


@click.command("backtest")
@with_appcontext
@click.option("--last", default=500, show_default=True, help="How many mails, the newest first.")
@click.option("--model", help="Another model than OPENAI_MODEL, on the same server.")
@click.option("--prompt", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A file with other instructions.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Write every decision, as JSON lines.")
def backtest(last: int, model: str | None, prompt: Path | None, out: Path | None) -> None:
    """Ask about the last answered mails again, and tell where the decision differs. Writes and sends nothing.

    REFUND_POLICY decides on refunds, so another policy can be tried the same way.
    """
    configuration = _configuration(model, prompt)
    asked: list[tuple[Past, Answer]] = []
    with services.current().database.snapshot() as connection:
        found = list(list_past(connection, last))
    for past in found:
        answer = ask(past, configuration)
        asked.append((past, answer))
        if answer.decided != past.decided:
            click.echo("\n".join(_tell(past, answer)))
    if out:
        out.write_text("".join(f"{json.dumps(_plain(*each))}\n" for each in asked), "utf-8")
    click.echo("\n".join(_sum_up(asked)))


def _configuration(model: str | None, prompt: Path | None) -> Configuration:
    settings: Settings = current_app.config["MAILAGENT"]
    asked = services.current().model
    if model:
        from mailagent.adapters.openai.client import ChatModel

        if not settings.openai_api_key:
            raise click.ClickException("OPENAI_API_KEY is not set")
        asked = ChatModel(settings.openai_api_key, settings.openai_base_url, model)
    return Configuration(asked, prompt.read_text("utf-8") if prompt else standing_instructions())


def _tell(past: Past, answer: Answer) -> Iterator[str]:
    yield f"{past.batch['conversation_id']}  {past.at:%Y-%m-%d %H:%M}"
    yield f"  then  {_words(past.decided)}"
    yield f"  now   {_words(answer.decided) if answer.decided else answer.error}"


def _words(decided: Decided) -> str:
    return "; ".join([*decided.acts, *decided.facts]) or "only phrases"


def _sum_up(asked: list[tuple[Past, Answer]]) -> Iterator[str]:
    answers = [answer for _, answer in asked]
    pairs = [(past.decided, answer.decided) for past, answer in asked if answer.decided]
    acts = sum(then.acts != now.acts for then, now in pairs)
    facts = sum(then != now for then, now in pairs) - acts
    yield f"{len(asked)} answers: {acts} decide otherwise, {facts} more name other facts."
    failed, beyond = sum(bool(each.error) for each in answers), sum(each.beyond for each in answers)
    yield f"{failed} without an answer; {beyond} look-ups were not on record."
    cost = sum(each.cost_micro_usd for each in answers) / 1e6
    seconds = sum(each.seconds for each in answers)
    yield f"{sum(each.tokens for each in answers):,} tokens, ${cost:.2f}, {seconds:.0f} s."


def _plain(past: Past, answer: Answer) -> dict[str, object]:
    return {
        "conversation_id": past.batch["conversation_id"],
        "mail_ids": past.batch["mail_ids"],
        "then": [*past.decided.acts, *past.decided.facts],
        "now": answer.decided and [*answer.decided.acts, *answer.decided.facts],
        "error": answer.error,
    }
