"""`python -m tests.programs.first_try`: how many replies of a model can be sent at the first try.

Writes fifty mails to a shop of its own and counts the corrections that the model needed. Without options the
scripted model answers; `--url`, `--model` and OPENAI_API_KEY name any server that speaks the Responses API. It
is called about 150 times.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click

from mailagent import services
from mailagent.adapters.knowledge import read_knowledge
from mailagent.demo import shop as demo_shop
from mailagent.domain.mail.conversation import Limits
from tests.cast import ADA, big_order, order
from tests.databases import fresh_databases
from tests.harness import Harness, open_shop, running, wait_until

_ASKED = (
    "Where is my order {0}?",
    "The kettle of {0} arrived broken, I want my money back.",
    "Never mind {0}, I keep it.",
    "Hello, what can I do with you?",
    "Do you ship to Switzerland?",
    "Wo ist meine Bestellung {0}? Vielen Dank und freundliche Grüße",
    "Der Wasserkocher aus Bestellung {0} ist kaputt, bitte erstatten Sie mir das Geld.",
    "Bonjour, la bouilloire de ma commande {0} est cassée, je voudrais un remboursement.",
    "Hola, ¿dónde está mi pedido {0}? Gracias",
    "Thank you very much for {0}!",
)
_MANY = 10**6
_NO_LIMITS = Limits(
    answers_per_hour=_MANY,
    answers_to_sender_per_hour=_MANY,
    mails_of_sender_per_hour=_MANY,
    mails_per_hour=_MANY,
)
CASES = tuple(text.format(f"W{1001 + number}") for number in range(5) for text in _ASKED)


@click.command()
@click.option("--url", help="A server with the Responses API; it ends in /v1.")
@click.option("--model", default="gpt-5.4-mini", show_default=True)
@click.option("--seconds", default=120, show_default=True, help="How long one answer may take.")
def main(url: str | None, model: str, seconds: int) -> None:
    """Print how many of fifty replies were composed so that they could be sent at the first try."""
    settings = {"SHOP_KNOWLEDGE": str(Path(demo_shop.__file__).with_name("knowledge"))}
    if url:
        key = os.environ.get("OPENAI_API_KEY", "")
        settings |= {"OPENAI_BASE_URL": url, "OPENAI_MODEL": model, "OPENAI_API_KEY": key}
    with (
        tempfile.TemporaryDirectory() as folder,
        fresh_databases("sqlite") as new_database,
        open_shop(Path(folder), new_database(), settings) as harness,
    ):
        harness.stock(*(order(f"W{1001 + number}") for number in range(5)), big_order())
        assert read_knowledge(Path(settings["SHOP_KNOWLEDGE"])).passages
        services.bind(replace(harness.live, limits=_NO_LIMITS))
        with running(harness):
            for case in CASES:
                harness.write(case, subject=case[:40])
                wait_until(harness.at_rest, seconds, "the mail to be answered")
        report(harness)


def report(harness: Harness) -> None:
    corrected = Counter(_corrections(harness).values())
    first = len(CASES) - sum(corrected.values())
    click.echo(f"{len(CASES)} cases, {first} at the first try, {sum(corrected.values())} corrected")
    (people,) = harness.rows(
        "SELECT count(*) AS n FROM conversations WHERE handed_over_at IS NOT NULL"
    )
    click.echo(f"{people.n} went to a person; {len(harness.mails_to(ADA))} mails to the customer")


def _corrections(harness: Harness) -> dict[str, int]:
    """Return how many corrections each conversation took, of those that took any."""
    rows = harness.rows("SELECT conversation_id, words FROM step_texts")
    found: Counter[str] = Counter()
    for row in rows:
        found[row.conversation_id] += "reply_check" in str(row.words)
    return {name: count for name, count in found.items() if count}


if __name__ == "__main__":
    main()
