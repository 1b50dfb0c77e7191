"""The page of a customer: their conversations, orders and refunds; suppression and erasure."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote, urlencode

from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store import audit
from mailagent.store.console import customers
from mailagent.store.console.customers import Part
from mailagent.store.mail import suppressions as suppression
from mailagent.store.privacy import erasure
from mailagent.store.privacy.erasure import ErasureRefusedError
from mailagent.store.refunds import orders
from mailagent.web import erasing
from mailagent.web.console.labels import money, state_label
from mailagent.web.console.page import mask_code, not_found, page
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_customers", __name__)

MOST_PAGES = 9_999


def path_of(email: str) -> str:
    """Return the path of a customer's page."""
    return f"/ops/customers/{quote(email, safe='@+')}"


@blueprint.get("/ops/customers/<path:email>")
@needs(Permission.VIEW)
def show(email: str) -> Response:
    """Show everything on record about a customer."""
    address = erasing.read_address(email)
    if address is None:
        return not_found("customer")
    with services.current().database.snapshot() as connection:
        erased = erasure.find_record(connection, address)
        if erased is None and not customers.is_known(connection, address):
            return not_found("customer")
        parts = {
            name: customers.read_list(connection, name, address, _number(name))
            for name in customers.LISTS
        }
        since = orders.customer_since(connection, address)
        suppression = customers.find_suppression(connection, address)
    return page(
        "ops/customer.html",
        email=address,
        erased=erased,
        parts=parts,
        pagers={name: _pages(address, name, part) for name, part in parts.items()},
        money=money,
        mask_code=mask_code,
        state_label=state_label,
        since=since,
        suppression=suppression,
    )


def _number(name: str) -> int:
    text = request.args.get(name, "1")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 1
    return min(max(number, 1), MOST_PAGES)


def _pages(email: str, name: str, part: Part) -> tuple[str | None, str | None]:
    """Return the addresses of the newer and the older page of one list; the other lists keep their pages."""
    others = {
        other: _number(other) for other in customers.LISTS if other != name and _number(other) > 1
    }

    def address(number: int) -> str:
        return f"{path_of(email)}?{urlencode({**others, name: number})}#{name}"

    newer = address(part.number - 1) if part.number > 1 else None
    return newer, address(part.number + 1) if part.more else None


@blueprint.post("/ops/customers/<path:email>/mail-again")
@needs(Permission.ANSWER)
def allow_mail(email: str) -> Response:
    """Lift the suppression of an address, so that mail goes there again."""
    address = erasing.read_address(email)
    if address is None:
        return not_found("customer")
    live = services.current()
    with live.database.transaction() as connection:
        if suppression.allow_again(connection, address):
            # Not the address: the audit log stays when the customer is erased.
            subject = customers.latest_conversation(connection, address) or "customer"
            actor = current_person().email
            audit.record(connection, live.now(), actor, "mail allowed again", subject)
    return _to(path_of(address))


@blueprint.get("/ops/customers/<path:email>/erase")
@needs(Permission.ERASE)
def confirm_erasure(email: str) -> Response:
    """Show what would be deleted and what would stay, and ask for the address."""
    address = erasing.read_address(email)
    if address is None:
        return not_found("customer")
    return _confirm(address, 200)


@blueprint.post("/ops/customers/<path:email>/erase")
@needs(Permission.ERASE)
def erase(email: str) -> Response:
    """Erase a customer if their address was typed; else say what is wrong, and change nothing."""
    address = erasing.read_address(email)
    if address is None:
        return not_found("customer")
    if erasing.read_address(request.form.get("address", "")) != address:
        return _confirm(address, 422, mistyped=True)
    try:
        alias = erasing.erase(address, current_person().email)
    except ErasureRefusedError:
        return _confirm(address, 409)
    return _to(path_of(alias))


def _confirm(address: str, status: int, mistyped: bool = False) -> Response:
    plan = erasing.plan(address)
    if not plan.is_known:
        return not_found("customer")
    return page("ops/erase.html", status, plan=plan, email=address, mistyped=mistyped)


def _to(path: str) -> Response:
    return cast(Response, redirect(path, 303))
