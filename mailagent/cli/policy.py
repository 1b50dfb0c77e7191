"""`flask policy …`: the rules in force, and what they say about an order. Nothing is changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import sqlalchemy as sa

from mailagent import services
from mailagent.cli.printing import AS_JSON, Commands, one_line, print_json, print_table
from mailagent.domain.money import Money
from mailagent.domain.refunds.labels import DECLINE_REASONS, MANAGER_REASONS, describe_policy
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import (
    Approved,
    Decision,
    Declined,
    DeclineReason,
    ManagerReason,
    NeedsManager,
)
from mailagent.domain.refunds.policy_rules import RefundFacts, Weighed, decide, weigh
from mailagent.domain.refunds.refund import ItemsProblem, RefundReason, WantedItem, price_lines
from mailagent.store.refunds import orders, policies, refunds
from mailagent.workflows.steps.refund.facts import Asked, gather_facts, plain_facts, shipping_of

policy = Commands("policy", help="What is refunded, and who decides.")


@policy.command("show")
def show_policy() -> None:
    """Print the rules in force, in words."""
    for sentence in describe_policy(services.current().policy):
        click.echo(sentence)


@policy.command("explain")
@click.argument("order_id")
@click.option("--items", help="ITEM or ITEM:QUANTITY, with commas between; without it all of them.")
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in RefundReason]),
    default=RefundReason.OTHER.value,
    show_default=True,
    help="Why the customer wants the money back.",
)
@click.option("--photos", type=click.IntRange(0), default=0, help="How many photos came along.")
@AS_JSON
def explain_policy(
    order_id: str, items: str | None, reason: str, photos: int, as_json: bool
) -> None:
    """Say what would be decided on a refund of ORDER_ID now, and why. Nothing is refunded."""
    with services.current().database.snapshot() as connection:
        order = orders.find(connection, order_id)
        if order is None:
            raise click.ClickException(f"there is no order {order_id}")
        try:
            verdict = _judge(connection, order, _wanted(order, items), reason, photos)
        except ItemsProblem as problem:
            look = f"flask orders show {shlex.quote(order_id)}"
            raise click.ClickException(f"{problem}. Look at it: {look}") from None
    if as_json:
        print_json(_record(verdict))
    else:
        _print(verdict)


@dataclass(frozen=True, slots=True)
class _Verdict:
    asked: Asked
    facts: RefundFacts
    rules: tuple[Weighed, ...]
    decision: Decision
    version: str


def _judge(
    connection: sa.Connection, order: Order, wanted: Sequence[WantedItem], reason: str, photos: int
) -> _Verdict:
    live, now = services.current(), services.current().now()
    earlier = refunds.list_of_order(connection, order.order_id)
    lines = price_lines(order, wanted, earlier)
    shipping = shipping_of(order, lines, earlier)
    asked = Asked(order, lines, shipping, RefundReason(reason), earlier)
    facts = gather_facts(connection, asked, photos)
    return _Verdict(
        asked,
        facts,
        weigh(facts, live.policy, now),
        decide(facts, live.policy, now),
        policies.version_of(connection, live.policy),
    )


def _wanted(order: Order, items: str | None) -> list[WantedItem]:
    on_order = list(dict.fromkeys(line.item_id for line in order.lines))
    if items is None:
        return [WantedItem(item_id) for item_id in on_order]
    wanted = [_item(part.strip(), on_order) for part in items.split(",") if part.strip()]
    if not wanted:
        raise ItemsProblem(f"{items!r} names no item")
    return wanted


def _item(text: str, on_order: Sequence[str]) -> WantedItem:
    """Read ITEM:QUANTITY; an item's own id may have a colon in it."""
    item_id, colon, quantity = text.rpartition(":")
    if text in on_order or not colon or not (quantity.isascii() and quantity.isdigit()):
        return WantedItem(text)
    return WantedItem(item_id, int(quantity))


# --- printing -----------------------------------------------------------------------------------


def _print(verdict: _Verdict) -> None:
    click.echo(f"Order {verdict.asked.order.order_id}: {_sentence(verdict)}")
    for reason in _reasons(verdict.decision):
        click.echo(f"  {_words(reason)}")
    click.echo("\nThe amount")
    print_table(("item", "name", "units", "unit price", "comes to"), _amounts(verdict), "nothing")
    for sentence in _how(verdict):
        click.echo(sentence)
    click.echo("\nThe rules")
    rows = [(each.outcome, each.fact, _effect(each)) for each in verdict.rules]
    print_table(("rule", "here", "outcome"), rows, "none")
    click.echo(f"\nPolicy version: {one_line(verdict.version)}")


def _sentence(verdict: _Verdict) -> str:
    match verdict.decision:
        case Approved():
            return f"{verdict.facts.amount} would be refunded without asking."
        case NeedsManager(four_eyes=True):
            return f"two managers would decide on {verdict.facts.amount}, one after the other."
        case NeedsManager():
            return f"a manager would decide on {verdict.facts.amount}."
        case Declined():
            return f"{verdict.facts.amount} would be declined."


def _reasons(decision: Decision) -> tuple[DeclineReason | ManagerReason, ...]:
    match decision:
        case Approved():
            return ()
        case NeedsManager(reasons):
            return reasons
        case Declined(reason):
            return (reason,)


def _effect(rule: Weighed) -> str:
    if not rule.applies:
        return "passes"
    return "declines" if isinstance(rule.outcome, DeclineReason) else "asks a manager"


def _words(reason: DeclineReason | ManagerReason) -> str:
    return DECLINE_REASONS[reason] if isinstance(reason, DeclineReason) else MANAGER_REASONS[reason]


def _amounts(verdict: _Verdict) -> list[tuple[object, ...]]:
    by_number = {line.line_no: line for line in verdict.asked.order.lines}
    rows: list[tuple[object, ...]] = [
        (
            by_number[each.line_no].item_id,
            by_number[each.line_no].name,
            each.quantity,
            by_number[each.line_no].unit_price,
            each.amount,
        )
        for each in verdict.asked.lines
    ]
    rows.append(("", "carriage", "", "", verdict.asked.shipping))
    rows.append(("", "in all", "", "", verdict.asked.worth))
    short = verdict.asked.worth - verdict.facts.amount
    left = [("", "of which is left", "", "", verdict.facts.amount)] if short.minor else []
    return [*rows, *left]


def _how(verdict: _Verdict) -> list[str]:
    """Say how the amount was computed: each unit is worth its share of what was paid."""
    order = verdict.asked.order
    listed = Money(sum(line.net_minor for line in order.lines), order.currency)
    named = (
        ("discount", order.discount_minor),
        ("carriage", order.shipping_minor),
        ("tax on top", order.tax_minor),
    )
    rest = [f"{what} {Money(minor, order.currency)}" for what, minor in named if minor]
    return [
        f"The order: lines {', '.join([str(listed), *rest])}; paid {order.paid}.",
        "Each unit is worth its share of what was paid for the goods, less what went back before.",
        f"Left of what was paid: {verdict.facts.remaining}.",
    ]


def _record(verdict: _Verdict) -> dict[str, Any]:
    decision = {Approved: "approved", NeedsManager: "needs_manager", Declined: "declined"}
    reasons = _reasons(verdict.decision)
    return {
        "order_id": verdict.asked.order.order_id,
        "decision": decision[type(verdict.decision)],
        "reasons": [{"reason": each.value, "words": _words(each)} for each in reasons],
        "four_eyes": isinstance(verdict.decision, NeedsManager) and verdict.decision.four_eyes,
        "amount": verdict.facts.amount.decimal(),
        "currency": verdict.facts.amount.currency,
        "lines": [
            {
                "line_no": each.line_no,
                "item_id": fact.item_id,
                "quantity": each.quantity,
                "amount": each.amount.decimal(),
            }
            for each, fact in zip(verdict.asked.lines, verdict.facts.lines, strict=True)
        ],
        "shipping": verdict.asked.shipping.decimal(),
        "rules": [
            {"rule": each.outcome.value, "fact": each.fact, "outcome": _effect(each)}
            for each in verdict.rules
        ],
        "facts": plain_facts(verdict.facts),
        "policy_version": verdict.version,
    }
