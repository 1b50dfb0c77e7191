"""The shop's API: `PUT /api/orders/<id>` and the redemption of discount codes, by bearer token.

Sending the same order again changes nothing. `If-Match` with the version of an earlier response prevents an
older state from overwriting a newer one.
"""

from __future__ import annotations

import json
import re

from flask import Blueprint, Response, jsonify, make_response, request
from werkzeug.exceptions import RequestEntityTooLarge

from mailagent import services
from mailagent.adapters.order_files.files import decode_order
from mailagent.domain.refunds.goodwill import Redeemed
from mailagent.domain.refunds.order import OrderProblem
from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.store.refunds import goodwill, order_import
from mailagent.store.refunds.order_import import Saved, VersionProblem
from mailagent.web.guard import bearer_token

LARGEST_ORDER_BYTES = 1024 * 1024

# RFC 9110 section 8.8.3: an entity tag is a quoted string. Ours is the version, a whole number.
_TAG = re.compile(r'"(0|[1-9][0-9]{0,8})"')

blueprint = Blueprint("orders", __name__)


@blueprint.put("/api/orders/<path:order_id>")
@bearer_token(lambda: services.current().orders_api_tokens)
def put(order_id: str) -> Response:
    """Create or replace one order.

    201 created, 200 changed or unchanged, each with the version as ETag. 400 not JSON, 401 no token or a wrong
    one, 409 our refunds forbid the change, 412 another version is stored (`If-Match`), 413 too large, 422 not
    an order.
    """
    request.max_content_length = LARGEST_ORDER_BYTES
    try:
        body = request.get_data(cache=False)
    except RequestEntityTooLarge:
        return _problem(413, f"an order has at most {LARGEST_ORDER_BYTES} bytes")
    try:
        expected = _expected_version()
        order = decode_order(body, order_id)
    except OrderProblem as problem:
        return _problem(422, str(problem))
    except ValueError as problem:
        return _problem(400, str(problem))
    live = services.current()
    try:
        with live.database.transaction() as connection:
            saved = order_import.save(connection, order, live.now(), expected)
            version = order_import.version(connection, order.order_id)
    except VersionProblem as problem:
        return _problem(412, str(problem))
    except OrderProblem as problem:
        return _problem(409, str(problem))
    answer = jsonify(order_id=order.order_id, version=version, saved=saved.value)
    return make_response(answer, 201 if saved is Saved.CREATED else 200, {"ETag": f'"{version}"'})


def _expected_version() -> int | None:
    """Return the version that must be stored now, from the request's headers: 0 for no order, None for any
    version."""
    if request.headers.get("If-None-Match", "").strip() == "*":
        return 0
    tag = request.headers.get("If-Match", "").strip()
    if not tag:
        return None
    match = _TAG.fullmatch(tag)
    if match is None:
        raise ValueError('If-Match is not the ETag of an earlier response, such as "3"')
    return int(match[1])


def _problem(status: int, text: str) -> Response:
    return make_response(jsonify(error=text), status)


@blueprint.post("/api/returns/<path:return_id>/received")
@bearer_token(lambda: services.current().orders_api_tokens)
def receive_goods(return_id: str) -> Response:
    """Record that the goods of a return are back, by its id, or that of its refund or order; then the refund is
    paid. If the order has several returns, or exchanges too, 409 names their ids.

    201 recorded now, 200 recorded before, 401 no token or a wrong one, 404 no such return, 409 the order has
    several (ended ones count, but not a return whose goods the customer was never asked for): the team is told,
    once; or the return ended in another way: if it lapsed or was withdrawn, the team gets the case, once.
    """
    from mailagent.remedies import receive  # loads pydantic

    row_id = return_id if return_id.isprintable() else ""
    try:
        with services.current().database.transaction() as connection:
            try:
                is_news = receive(connection, row_id, "shop")
            except TaskProblem as problem:
                return _problem(409, str(problem))  # this commits what `receive` wrote for the team
    except LookupError:
        return _problem(404, "there is no such return")
    return make_response(jsonify(received=row_id), 201 if is_news else 200)


# --- discount codes -------------------------------------------------------------------------------


LARGEST_BODY_BYTES = 10_000
LONGEST_ORDER_ID = 200

_STATUS = {
    Redeemed.NOW: 201,
    Redeemed.BEFORE_ON_SAME: 200,
    Redeemed.BEFORE_ON_OTHER: 409,
    Redeemed.TOO_LATE: 409,
    Redeemed.UNKNOWN: 404,
}


@blueprint.post("/api/goodwill-codes/<code>/redemptions")
@bearer_token(lambda: services.current().orders_api_tokens)
def redeem(code: str) -> Response:
    """Use a discount on the order that the JSON body names as `order_id`.

    201 used now, 200 used on this order before, 400 not JSON, 401 no token or a wrong one, 404 no such code,
    409 used on another order or expired, 422 no order named.
    """
    try:
        order_id = _order_id()
    except LookupError as problem:
        return _problem(422, str(problem.args[0]))
    except ValueError:
        return _problem(400, "the body is not JSON")
    live = services.current()
    with live.database.transaction() as connection:
        redemption = goodwill.redeem(connection, code, order_id, live.now())
    status, found = _STATUS[redemption.outcome], redemption.code
    if found is None or status >= 400:
        return _problem(status, redemption.words)
    answer = jsonify(code=found.code, percent=found.percent, used_on=found.used_on)
    return make_response(answer, status)


def _order_id() -> str:
    """Return the order id in the body. Raises ValueError for invalid JSON, LookupError for no order id."""
    request.max_content_length = LARGEST_BODY_BYTES
    try:
        body = json.loads(request.get_data(cache=False))
    except (RequestEntityTooLarge, RecursionError):
        raise ValueError("too large") from None
    order_id = body.get("order_id") if isinstance(body, dict) else None
    if not isinstance(order_id, str) or not 1 <= len(order_id.strip()) <= LONGEST_ORDER_ID:
        raise LookupError(f"order_id: a text of 1 to {LONGEST_ORDER_ID} characters is needed")
    if not order_id.isprintable():
        raise LookupError("order_id: has a control character in it")
    return order_id.strip()
