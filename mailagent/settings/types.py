"""What the values of settings may be. A parser raises ValueError; with several arguments, each is a problem."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import PlainValidator

from mailagent.adapters import gateways, mail_providers, order_sources
from mailagent.adapters import setting_values as values
from mailagent.domain.knowledge import Knowledge
from mailagent.domain.operations.model_cost import parse_amount
from mailagent.domain.refunds.policy import Policy

T = TypeVar("T")


def among(*names: T) -> PlainValidator:
    def parse(text: str) -> T:
        if text not in names:
            raise ValueError(f"{text!r} is not known; use one of {', '.join(map(str, names))}")
        return names[[str(name) for name in names].index(text)]

    return PlainValidator(parse)


def list_of(*parsers: Callable[[str], str]) -> PlainValidator:
    def parse(text: str) -> tuple[str, ...]:
        found, problems = [], []
        for part in filter(None, map(str.strip, text.split(","))):
            try:
                found.append(reduce(lambda value, parser: parser(value), parsers, part))
            except ValueError as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError(*problems)
        return tuple(found)

    return PlainValidator(parse)


def whole(most: int) -> PlainValidator:
    return PlainValidator(lambda text: values.parse_whole(text, most))


def check_public_key(text: str) -> str:
    from mailagent.adapters.sendgrid.signature import parse_public_key

    parse_public_key(text)
    return text


def parse_beat_file(text: str) -> Path:
    path = Path(text).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}; create it")
    return path


def parse_mail_templates(text: str) -> Path:
    """Return the shop's template folder. Renders every mail once to find errors."""
    from mailagent.adapters.templates import template_check

    folder = Path(text).absolute()
    problems = template_check.find_problems(folder)
    if problems:
        raise ValueError(*problems)
    return folder


def parse_policy(text: str) -> Policy:
    from mailagent.adapters.policy_file import PolicyFileProblem, load_policy

    try:
        return load_policy(Path(text))
    except PolicyFileProblem as problem:
        raise ValueError(*problem.problems) from None


def parse_knowledge(text: str) -> Knowledge:
    from mailagent.adapters.knowledge import read_knowledge

    return read_knowledge(Path(text))


def parse_budget(text: str) -> Decimal | Literal["none"]:
    return "none" if text == "none" else parse_amount(text)


def parse_prompt(text: str) -> str:
    """Return the instructions in a file. Raises ValueError."""
    try:
        prompt = Path(text).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"{text} cannot be read: {problem}") from None
    if not prompt.strip():
        raise ValueError(
            f"{text} is empty; write the instructions into it, or leave the setting out"
        )
    return prompt


def parse_gateway(text: str) -> str:
    gateways.find(text)
    return text


def parse_order_source(text: str) -> str:
    order_sources.find(text)
    return text


def parse_mail_provider(text: str) -> str:
    mail_providers.find(text)
    return text


Line = Annotated[str, PlainValidator(values.parse_line)]
Key = Annotated[str, PlainValidator(values.parse_key)]
Keys = Annotated[tuple[str, ...], list_of(values.parse_key)]
WebhookSecrets = Annotated[tuple[str, ...], list_of(values.parse_webhook_secret)]
Url = Annotated[str, PlainValidator(values.parse_url)]
Seconds = Annotated[int, PlainValidator(values.parse_seconds)]
Pause = Annotated[int, PlainValidator(values.parse_pause)]
Days = Annotated[int, PlainValidator(values.parse_days)]
Limit = Annotated[int, PlainValidator(values.parse_limit)]
Texts = Annotated[tuple[str, ...], list_of()]
Addresses = Annotated[tuple[str, ...], list_of(values.parse_address)]
PublicKeys = Annotated[tuple[str, ...], list_of(check_public_key)]
# Always checked for strength: with the orders token, anyone can create orders and have them refunded.
BearerTokens = Annotated[tuple[str, ...], list_of(values.check_secret, values.parse_key)]
