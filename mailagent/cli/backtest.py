"""`flask backtest`: what another model, prompt or policy would have answered to mail that was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from flask import current_app
from flask.cli import with_appcontext

from mailagent import services
from mailagent.backtest.asking import Answer, Configuration, ask
from mailagent.backtest.past import Decided, Past, list_past
from mailagent.backtest.report import compare, sum_up
from mailagent.store.operations import comparisons
from mailagent.store.operations.comparisons import Differs, Source
from mailagent.workflows.steps.conversation.model_call import standing_instructions

if TYPE_CHECKING:
    from mailagent.settings import Settings


@click.command("backtest")
@with_appcontext
@click.option(
    "--last",
    type=click.IntRange(1),
    default=500,
    show_default=True,
    help="How many mails, the newest first.",
)
@click.option("--model", help="Another model than OPENAI_MODEL, on the same server.")
@click.option("--prompt", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A file to use instead of what `flask prompt show` prints.")  # fmt: skip
@click.option("--out", type=click.File("w", "utf-8", lazy=False),
              help="Write every decision, as JSON lines.")  # fmt: skip
def backtest(last: int, model: str | None, prompt: Path | None, out: TextIO | None) -> None:
    """Ask about the last answered mails again, and tell where the decision differs. Sends nothing, and writes
    its report only, for /ops/comparisons.

    REFUND_POLICY decides on refunds, so another policy can be tried the same way.
    """
    configuration, live = _configuration(model, prompt), services.current()
    with live.database.snapshot() as connection:
        pasts = list(list_past(connection, last))
    with live.database.transaction() as connection:
        comparisons.delete_of_source(connection, Source.BACKTEST)
    found, beyond = [], 0
    for past in pasts:
        answer = ask(past, configuration)
        beyond += answer.beyond
        found.append(compare(past, answer, Source.BACKTEST, configuration))
        with live.database.transaction() as connection:
            comparisons.record(connection, found[-1])
        if out:
            out.write(f"{json.dumps({**asdict(found[-1]), 'at': found[-1].at.isoformat()})}\n")
        if found[-1].differs is not Differs.NOTHING:
            click.echo("\n".join(_tell(past, answer)))
    click.echo("\n".join(sum_up(found)))
    click.echo(f"{beyond} look-ups were not on record.")


def _configuration(model: str | None, prompt: Path | None) -> Configuration:
    settings: Settings = current_app.config["MAILAGENT"]
    asked = services.current().model
    if model:
        from mailagent.adapters.openai.client import ChatModel

        if not settings.openai_api_key:
            raise click.ClickException("OPENAI_API_KEY is not set")
        seconds = settings.openai_timeout_seconds
        asked = ChatModel(settings.openai_api_key, settings.openai_base_url, model, seconds)
    try:
        told = standing_instructions(lead=prompt.read_text("utf-8") if prompt else None)
    except UnicodeDecodeError:
        raise click.ClickException(f"{prompt} is not UTF-8: save it as UTF-8") from None
    return Configuration(
        asked, told, model or settings.openai_model, services.current().token_prices
    )


def _tell(past: Past, answer: Answer) -> Iterator[str]:
    yield f"{past.batch['conversation_id']}  {past.at:%Y-%m-%d %H:%M}"
    yield f"  then  {_words(past.decided)}"
    yield f"  now   {_words(answer.decided) if answer.decided else answer.error}"


def _words(decided: Decided) -> str:
    return "; ".join([*decided.acts, *decided.facts]) or "only phrases"
