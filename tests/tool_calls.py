"""The agent's tools as tests use them: their schemas, and calls of the model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.fakes.openai import answer_to
from mailagent.demo.scripted_model import Call, Part, Phrase, Say, Turn
from mailagent.domain.refunds.policy import Goodwill, KeepOffers, Policy, StoreCredit
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.tool import Arguments, Misfit, parse_call

WITHOUT_GOODWILL = Policy()
WITH_GOODWILL = Policy(goodwill=Goodwill(most_percent=15), keep_offers=KeepOffers({}))
WITH_CREDIT = replace(WITH_GOODWILL, store_credit=StoreCredit(10))

SCHEMAS: list[dict[str, Any]] = registry.schemas(WITHOUT_GOODWILL)
ALL_SCHEMAS: list[dict[str, Any]] = registry.schemas(WITH_GOODWILL)
CREDIT_SCHEMAS: list[dict[str, Any]] = registry.schemas(WITH_CREDIT)


def parse(name: str, arguments: str, policy: Policy = WITH_GOODWILL) -> Arguments | Misfit:
    """Check a call of the model as the agent does."""
    return parse_call(registry.offered(policy), name, arguments)


_numbers = itertools.count(1)


def turn(taken: Turn) -> Callable[[], Answer]:
    raw = f"turn {next(_numbers)}".encode()
    return lambda: Answer(200, answer_to({"model": "hostile"}, taken, raw))


def calls(name: str, **arguments: Any) -> Callable[[], Answer]:
    return turn(Call(name, arguments))


def says(*parts: Part, language: str = "en") -> Callable[[], Answer]:
    """A reply. A text is words of the model's own, which no test shop sends unless a second reader is bound."""
    return turn(Say(parts, language))


# A reply that asks a question.
WHICH_ORDER = Phrase("ask_which_order")


def says_text(text: str) -> Callable[[], Answer]:
    """An answer that is no composition."""
    response = answer_to({"model": "hostile"}, Say(""), f"text {next(_numbers)}".encode())
    response["output"][0]["content"][0]["text"] = text
    return lambda: Answer(200, response)


def refund_of(order_id: str, *items: tuple[str, int | None]) -> Callable[[], Answer]:
    wanted = [{"item_id": item_id, "quantity": quantity} for item_id, quantity in items]
    return calls("propose_refund", order_id=order_id, items=wanted, reason="damaged")
