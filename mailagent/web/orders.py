"""`PUT /api/orders/<id>`: the shop's own systems hand over one order; the bearer token says it is they.

The body is a line of the orders file. The same order again changes nothing, so a call may be repeated.
`If-Match` with the version of an earlier answer keeps an older state from overwriting a newer one.
"""

from __future__ import annotations

import re

from flask import Blueprint, Response, jsonify, make_response, request
from werkzeug.exceptions import RequestEntityTooLarge

from mailagent import services
from mailagent.adapters.order_files.json_lines import decode_order
from mailagent.domain.refunds.order import OrderProblem
from mailagent.store.refunds import orders
from mailagent.store.refunds.orders import Saved, VersionProblem
from mailagent.web.bearer import is_authorised, unauthorised
from mailagent.web.guard import bearer_token

LARGEST_ORDER_BYTES = 1024 * 1024

# RFC 9110 section 8.8.3: an entity tag is a quoted string. Ours is the version, a whole number.
_TAG = re.compile(r'"(0|[1-9][0-9]{0,8})"')

blueprint = Blueprint("orders", __name__)


@blueprint.put("/api/orders/<path:order_id>")
@bearer_token
def put(order_id: str) -> Response:
    """Create or replace one order.

    201 created, 200 changed or unchanged, each with the version as ETag. 400 not JSON, 401 no or
    another token, 409 refunds stand against it, 412 changed meanwhile, 413 too large, 422 not an order.
    """
    if not is_authorised():
        return unauthorised()
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
            saved = orders.save(connection, order, live.now(), expected)
            version = orders.version(connection, order.order_id)
    except VersionProblem as problem:
        return _problem(412, str(problem))
    except OrderProblem as problem:
        return _problem(409, str(problem))
    answer = jsonify(order_id=order.order_id, version=version, saved=saved.value)
    return make_response(answer, 201 if saved is Saved.CREATED else 200, {"ETag": f'"{version}"'})


def _expected_version() -> int | None:
    """Return the version that must be stored now, 0 for none, None when the caller does not care."""
    if request.headers.get("If-None-Match", "").strip() == "*":
        return 0
    tag = request.headers.get("If-Match", "").strip()
    if not tag:
        return None
    match = _TAG.fullmatch(tag)
    if match is None:
        raise ValueError('If-Match is not the ETag of an earlier answer, such as "3"')
    return int(match[1])


def _problem(status: int, words: str) -> Response:
    return make_response(jsonify(error=words), status)
