"""The page of a customer: their conversations, orders and refunds; suppression and erasure."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store.console import customers
from mailagent.store.mail import suppressions
from mailagent.store.privacy import erasure
from mailagent.store.privacy.erasure import ErasureRefusedError
from mailagent.store.refunds import orders
from mailagent.web import erasing
from mailagent.web.console.labels import LINE_STATES, money, state_label
from mailagent.web.console.page import found, go_to, mask_code, not_found, page, record_act
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
    address = found(erasing.read_address(email), "customer")
    number = min(max(request.args.get("page", 1, type=int), 1), MOST_PAGES)
    with services.current().database.snapshot() as connection:
        erased = erasure.find_record(connection, address)
        if erased is None and not customers.is_known(connection, address):
            return not_found("customer")
        lists = customers.read_lists(connection, address, number)
        since = orders.customer_since(connection, address)
        suppression = customers.find_suppression(connection, address)
    return page(
        "ops/customer.html",
        email=address,
        erased=erased,
        lists=lists.rows,
        newer=f"{path_of(address)}?page={number - 1}" if number > 1 else None,
        older=f"{path_of(address)}?page={number + 1}" if lists.has_older else None,
        money=money,
        mask_code=mask_code,
        state_label=state_label,
        conversation_states=LINE_STATES,
        since=since,
        suppression=suppression,
    )


@blueprint.post("/ops/customers/<path:email>/mail-again")
@needs(Permission.ANSWER)
def allow_mail(email: str) -> Response:
    """Remove the suppression of an address, so that we write to it again."""
    address = found(erasing.read_address(email), "customer")
    with services.current().database.transaction() as connection:
        if suppressions.allow_again(connection, address):
            # Never the address, because the audit log stays when the customer is erased.
            subject = customers.latest_conversation(connection, address) or "customer"
            record_act(connection, "mail allowed again", subject)
    return go_to(path_of(address))


@blueprint.get("/ops/customers/<path:email>/erase")
@needs(Permission.ERASE)
def confirm_erasure(email: str) -> Response:
    """Show what an erasure deletes and what stays, and ask the person to type the address."""
    address = found(erasing.read_address(email), "customer")
    return _confirm(address, 200)


@blueprint.post("/ops/customers/<path:email>/erase")
@needs(Permission.ERASE)
def erase(email: str) -> Response:
    """Erase a customer if the person typed the address; else say what is wrong, and change nothing."""
    address = found(erasing.read_address(email), "customer")
    if erasing.read_address(request.form.get("address", "")) != address:
        return _confirm(address, 422, mistyped=True)
    try:
        alias = erasing.erase(address, current_person().email)
    except ErasureRefusedError as refusal:
        return _confirm(address, 409, refusal=refusal)
    return go_to(path_of(alias))


def _confirm(
    address: str, status: int, mistyped: bool = False, refusal: ErasureRefusedError | None = None
) -> Response:
    plan = erasing.plan(address, mentions=False)
    if not plan.is_known:
        return not_found("customer")
    if refusal is not None:  # the erasure has also looked for mail about others
        plan = replace(plan, obstacles=refusal.obstacles)
    return page("ops/erase.html", status, plan=plan, email=address, mistyped=mistyped)
