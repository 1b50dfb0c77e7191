"""`flask policy …`: the rules in force, and what they say about an order. Nothing is changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
from mailagent.proposals.facts import Asked, gather_facts, plain_facts, shipping_of
from mailagent.store.refunds import orders, policies, refunds

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
            record = _explain(connection, order, _wanted(order, items), reason, photos)
        except ItemsProblem as problem:
            look = f"flask orders show {shlex.quote(order_id)}"
            raise click.ClickException(f"{problem}. Look at it: {look}") from None
    if as_json:
        print_json(record)
    else:
        _print(record)


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


def _explain(
    connection: sa.Connection, order: Order, wanted: Sequence[WantedItem], reason: str, photos: int
) -> dict[str, Any]:
    live, now = services.current(), services.current().now()
    earlier = refunds.list_of_order(connection, order.order_id)
    lines = price_lines(order, wanted, earlier)
    shipping = shipping_of(order, lines, earlier)
    asked = Asked(order, lines, shipping, RefundReason(reason), earlier)
    facts = gather_facts(connection, asked, photos)
    decision = decide(facts, live.policy, now)
    of_order = {line.line_no: line for line in order.lines}
    return {
        "order_id": order.order_id,
        "decision": _DECISIONS[type(decision)],
        "reasons": [{"reason": each.value, "words": _words(each)} for each in _reasons(decision)],
        "four_eyes": isinstance(decision, NeedsManager) and decision.four_eyes,
        "amount": facts.amount.decimal(),
        "currency": facts.amount.currency,
        "lines": [
            {
                "line_no": each.line_no,
                "item_id": of_order[each.line_no].item_id,
                "name": of_order[each.line_no].name,
                "quantity": each.quantity,
                "unit_price": of_order[each.line_no].unit_price.decimal(),
                "amount": each.amount.decimal(),
            }
            for each in lines
        ],
        "shipping": shipping.decimal(),
        "worth": asked.worth.decimal(),
        "how": _how(order, facts),
        "rules": [
            {"rule": each.outcome.value, "fact": each.fact, "outcome": _effect(each)}
            for each in weigh(facts, live.policy, now)
        ],
        "facts": plain_facts(facts),
        "policy_version": policies.version_of(connection, live.policy),
    }


_DECISIONS = {Approved: "approved", NeedsManager: "needs_manager", Declined: "declined"}


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


def _how(order: Order, facts: RefundFacts) -> list[str]:
    parts = (
        ("lines", sum(line.net_minor for line in order.lines)),
        ("discount", order.discount_minor),
        ("carriage", order.shipping_minor),
        ("tax on top", order.tax_minor),
    )
    told = ", ".join(f"{what} {Money(minor, order.currency)}" for what, minor in parts if minor)
    return [
        f"The order: {told}; paid {order.paid}.",
        "Each unit is worth its share of what was paid for the goods, less what went back before.",
        f"Left of what was paid: {facts.remaining}.",
    ]


# --- printing -----------------------------------------------------------------------------------


_HEADLINES = {
    "approved": "{} would be refunded without asking.",
    "needs_manager": "a manager would decide on {}.",
    "declined": "{} would be declined.",
}
_TWO_MANAGERS = "two managers would decide on {}, one after the other."


def _print(record: dict[str, Any]) -> None:
    headline = _TWO_MANAGERS if record["four_eyes"] else _HEADLINES[record["decision"]]
    amount = f"{record['amount']} {record['currency']}"
    click.echo(f"Order {record['order_id']}: {headline.format(amount)}")
    for each in record["reasons"]:
        click.echo(f"  {each['words']}")
    click.echo(f"\nThe amount in {record['currency']}")
    names = ("item_id", "name", "quantity", "unit_price", "amount")
    rows = [[line[name] for name in names] for line in record["lines"]]
    rows.append(["", "carriage", "", "", record["shipping"]])
    rows.append(["", "in all", "", "", record["worth"]])
    if record["worth"] != record["amount"]:
        rows.append(["", "that much is left", "", "", record["amount"]])
    print_table(("item", "name", "units", "unit price", "comes to"), rows, "nothing")
    for sentence in record["how"]:
        click.echo(sentence)
    click.echo("\nThe rules")
    rules = [list(each.values()) for each in record["rules"]]
    print_table(("rule", "here", "outcome"), rules, "none")
    click.echo(f"\nPolicy version: {one_line(record['policy_version'])}")
