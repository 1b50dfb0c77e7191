"""`flask orders check-source`: check a shop's order source against its contract. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import click
from flask import current_app
from flask.cli import with_appcontext

from mailagent.adapters import order_sources
from mailagent.cli.installation.check import NO_ORDER
from mailagent.domain.orders.source import MOST_ORDERS_A_PAGE, OrderPage, OrderSource, SourceProblem
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.settings import Settings
from mailagent.store.refunds.orders import spellings

T = TypeVar("T")

NO_CUSTOMER = "nobody@mailagent-checks.invalid"
MOST_PAGES = 20
SLOW_SECONDS = 2.0


@dataclass(slots=True)
class _Report:
    """What was checked. A failure says what is wrong, at which request, and what to do."""

    passed: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def expect(self, what: str, holds: bool, failure: str) -> None:
        if holds:
            self.passed.append(what)
        else:
            self.failures.append(failure)

    def ask(self, where: str, call: Callable[[], T]) -> T | None:
        """Return the answer; None after a failure, which is reported."""
        began = time.monotonic()
        try:
            answer = call()
        except (SourceProblem, OrderProblem) as problem:
            self.failures.append(f"{where}: {problem}")
            return None
        seconds = time.monotonic() - began
        slow = f"{where}: took {seconds:.1f} s; answer within {SLOW_SECONDS:g} s, customers wait for it"
        self.expect(f"{where} answers in time", seconds < SLOW_SECONDS, slow)
        return answer


@click.command("check-source")
@click.option("--email", help="A customer's address: also check the list of their orders.")
@click.option("--order", "order_id", help="An order's number: also check that order.")
@with_appcontext
def check_source(email: str | None, order_id: str | None) -> None:
    """Check the order source against its contract, without changing anything in it.

    Prints each failure with the request and what to do. Exits with 1 if there is any.
    """
    settings: Settings = current_app.config["MAILAGENT"]
    provider = order_sources.find(settings.order_source)
    if provider is None:
        raise click.ClickException("ORDER_SOURCE is imported: there is no source to check")
    source, report = provider.make(settings), _Report()
    forged = settings.model_copy(update={"order_source_token": "a-token-that-is-wrong"})
    _check_token(provider.make(forged), report)
    _check_unknown(source, report)
    listed = list(_check_list(source, email, report)) if email else []
    if order_id:
        _check_order(source, order_id, email, listed, report)
    for each in report.passed:
        click.echo(f"ok: {each}")
    for each in report.failures:
        click.echo(f"FAILED: {each}")
    for option, given in (("--email ADDRESS", email), ("--order ID", order_id)):
        if not given:
            click.echo(f"not checked: give {option} to check more")
    click.echo("not checked: POST /orders/ID/cancel, because it would cancel an order")
    if report.failures:
        raise SystemExit(1)


def _check_token(source: OrderSource, report: _Report) -> None:
    where = "a request with a wrong token"
    try:
        source.load_order(NO_ORDER)
    except SourceProblem as problem:
        told = f"{where}: {problem}; answer 401"
        report.expect(f"{where} is refused", problem.operator, told)
        return
    except OrderProblem:
        pass
    report.failures.append(
        f"{where}: was answered; answer 401 to every request without your token, or anybody can read your "
        "customers' orders"
    )


def _check_unknown(source: OrderSource, report: _Report) -> None:
    where = f"GET /orders/{NO_ORDER}"
    try:
        found = source.load_order(NO_ORDER)
        told = f"{where}: gave order {found and found.order_id}; answer 404 for an unknown number"
        report.expect(f"{where} is no order", found is None, told)
    except (SourceProblem, OrderProblem) as problem:
        report.failures.append(f"{where}: {problem}; answer 404 for an unknown number")
    where = f"GET /orders?email={NO_CUSTOMER}"
    page = report.ask(where, lambda: source.find_orders(NO_CUSTOMER))
    if page is not None:
        told = f'{where}: gave more; answer {{"orders": [], "next": null}} for an unknown customer'
        report.expect(f"{where} has no orders", page == OrderPage(()), told)


def _check_list(source: OrderSource, email: str, report: _Report) -> Iterator[Order]:
    found, cursor, cursors = list[Order](), None, set[str]()
    where = f"GET /orders?email={email}"
    for number in range(1, MOST_PAGES + 1):
        at = f"{where}, page {number}"
        page = report.ask(at, lambda cursor=cursor: source.find_orders(email, cursor))  # type: ignore[misc]
        if page is None:
            break
        cursor = page.next_cursor
        report.failures += [f"{at}: {problem}" for problem in page.problems]
        many = len(page.orders) + len(page.problems)
        told = f"{at}: has {many} orders; at most {MOST_ORDERS_A_PAGE} are taken"
        report.expect(f"{at} is not too long", many <= MOST_ORDERS_A_PAGE, told)
        found += page.orders
        if cursor is None:
            report.passed.append(f"{where} ends")
            break
        # A platform's search also finds similar addresses: its page may have none of this customer's.
        if cursor in cursors or (source.name == "http" and not many):
            told = f'{at}: "next" was given before, or stands on a page without orders'
            report.failures.append(f"{told}; give null on the last page")
            break
        cursors.add(cursor)
    else:
        told = "give null on the last page, or check a customer with fewer orders"
        report.failures.append(f'{where}: "next" is given on {MOST_PAGES} pages; {told}')
    strangers = sorted({each.order_id for each in found if each.customer_email != email.lower()})
    told = f"{where}: gave orders of other customers ({', '.join(strangers[:5])}); only give this customer's"
    report.expect(f"{where} gives only their orders", not strangers, told)
    newest = [each.placed_at for each in found]
    told = f"{where}: is not sorted; give the newest order (placed_at) first"
    report.expect(f"{where} is sorted", newest == sorted(newest, reverse=True), told)
    ids = [each.order_id for each in found]
    told = f"{where}: gives an order twice; give each on one page only"
    report.expect(f"{where} has each order once", len(set(ids)) == len(ids), told)
    yield from found


def _check_order(
    source: OrderSource, order_id: str, email: str | None, listed: list[Order], report: _Report
) -> None:
    where, names = f"GET /orders/{order_id}", spellings(order_id)
    order = report.ask(where, lambda: next(filter(None, map(source.load_order, names)), None))
    own = order.order_id if order else order_id
    if own in names[1:]:
        where = f"GET /orders/{own}"  # asked for again before a refund is paid
        order = report.ask(where, lambda: source.load_order(own))
    if order is None:
        if not any(each.startswith(where) for each in report.failures):
            report.failures.append(f"{where}: gave no order; answer 200 with it")
        return
    told = f"{where}: gave order {order.order_id}; give the order of this number"
    report.expect(f"{where} is that order", order.order_id == own in names, told)
    of_list = [each for each in listed if each.order_id == order.order_id]
    if email and order.customer_email == email.lower():
        told = f"{where}: is not in GET /orders?email={email.lower()}; compare addresses without capitals"
        report.expect(f"{where} is in the list", bool(of_list), told)
    if of_list:
        told = f"{where}: differs from the same order in GET /orders?email={email}; give the same record"
        report.expect(f"{where} is as in the list", of_list[0] == order, told)
