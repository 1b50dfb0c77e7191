"""`python -m tests.programs.backtest`: does a backtest of 500 mails tell what has changed, and nothing else?

A shop answers 500 mails of fifty customers by the scripted model. Then it is asked again: with nothing changed,
with a lower limit in the policy, and with a model that hands over who asks where an order is. Exits with 1 if
another number of decisions differs than was planted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from mailagent import services
from mailagent.backtest.asking import Configuration, ask
from mailagent.backtest.past import Past, list_past
from mailagent.backtest.report import compare, sum_up
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.refunds.policy import Policy
from mailagent.store.operations.comparisons import Differs, Source
from mailagent.workflows.steps.conversation.model_call import standing_instructions
from tests.cast import big_order, order
from tests.databases import fresh_databases
from tests.harness import Harness, open_shop, running, wait_until

CUSTOMERS, SECONDS = 50, 900.0
WHERE = "Where is my order"
WISHES = (
    WHERE + " {0}?",
    "The kettle of {0} arrived broken, I want my money back.",
    "Wo ist meine Bestellung {0}? Vielen Dank und freundliche Grüße",
    "I changed my mind about {0}, please refund it.",
    "Bonjour, la bouilloire de ma commande {0} est cassée, je voudrais un remboursement.",
    "Thank you very much for {0}!",
    "I want to speak to a person about {0}.",
    "Der Wasserkocher aus Bestellung {0} ist kaputt, bitte erstatten Sie mir das Geld.",
    "The desk of {1} is damaged, I want my money back.",
    "Hola, ¿dónde está mi pedido {0}? Gracias",
)
_MANY = 10**6
_NO_LIMITS = Limits(*[_MANY] * 4)


@dataclass
class Shy:
    """Hands over whoever asks where an order is; else it is the shop's own model."""

    own: services.Model

    def ask(self, *arguments: Any) -> dict[str, Any]:
        if WHERE not in arguments[1][0]["content"]:
            return self.own.ask(*arguments)
        words = json.dumps({"reason": "cannot_help", "summary": "Asks where it is."})
        call = {"name": "hand_over", "arguments": words, "call_id": "1"}
        return {"kind": "done", "items": [], "text": None, "calls": [call], "usage": {}}


@click.command()
@click.option("--mails", default=500, show_default=True, help="A multiple of fifty.")
def main(mails: int) -> None:
    """Print what each backtest tells."""
    with (
        tempfile.TemporaryDirectory() as folder,
        fresh_databases("sqlite") as new_database,
        open_shop(Path(folder), new_database()) as shop,
    ):
        services.bind(replace(shop.live, limits=_NO_LIMITS))
        with running(shop):
            write(shop, mails)
            sys.exit(not backtest(shop, mails))


def write(shop: Harness, mails: int) -> None:
    """Let each customer write about orders of their own, and wait until all is answered."""
    for customer in range(CUSTOMERS):
        who = {"email": f"c{customer}@example.com", "name": f"Customer {customer}"}
        for number in range(mails // CUSTOMERS):
            small, big = f"W{customer:02}{number:02}1", f"W{customer:02}{number:02}2"
            shop.stock(order(small, customer=who), big_order(big, customer=who))
            wish = WISHES[(customer + number) % len(WISHES)].format(small, big)
            shop.write(wish, from_address=who["email"], from_name=who["name"], subject=small)
    wait_until(shop.at_rest, SECONDS, "all mail to be answered")


def backtest(shop: Harness, mails: int) -> bool:
    """Ask again in three ways; return whether each differs as often as it was planted."""
    with shop.live.database.snapshot() as connection:
        pasts = list(list_past(connection, mails))
    live, told = services.current(), standing_instructions()
    own = Configuration(live.model, told, "the same", live.token_prices)
    approved = sum("approved" in act for past in pasts for act in past.decided.acts)
    asked = sum(_asks_where(past) for past in pasts)
    right = [_tell("nothing has changed", pasts, own, 0)]
    services.bind(replace(live, policy=Policy(limits={"USD": 10_00})))
    right.append(_tell("a limit of 10.00 USD", pasts, own, approved))
    services.bind(live)
    shy = Configuration(Shy(live.model), told, "shy", live.token_prices)
    right.append(_tell("a model that hands over who asks where an order is", pasts, shy, asked))
    return len(pasts) == mails and approved > 0 and asked > 0 and all(right)


def _asks_where(past: Past) -> bool:
    return WHERE in past.case["content"] and "hand_over" not in past.decided.acts


def _tell(name: str, pasts: Sequence[Past], configuration: Configuration, planted: int) -> bool:
    found = [
        compare(past, ask(past, configuration), Source.BACKTEST, configuration) for past in pasts
    ]
    *lines, _spent = sum_up(found)
    click.echo("\n".join([f"{name}: {planted} planted", *(f"  {line}" for line in lines)]))
    acts = sum(each.differs is Differs.ACTS for each in found)
    others = sum(each.differs in (Differs.FACTS, Differs.UNKNOWN) for each in found)
    return acts == planted and others == 0


if __name__ == "__main__":
    main()
