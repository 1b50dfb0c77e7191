"""`POST /api/goodwill-codes/<code>/redemptions`: the shop's checkout uses a discount on an order.

The bearer token is that of the orders. The same order again changes nothing, so a call may be repeated.
"""

from __future__ import annotations

import json

from flask import Blueprint, Response, jsonify, make_response, request
from werkzeug.exceptions import RequestEntityTooLarge

from mailagent import services
from mailagent.domain.refunds.redemption import Redeemed, Redemption
from mailagent.store.refunds import goodwill
from mailagent.web.bearer import is_authorised, unauthorised
from mailagent.web.guard import bearer_token

LARGEST_BODY_BYTES = 10_000
LONGEST_ORDER_ID = 200

blueprint = Blueprint("goodwill", __name__)

_STATUS = {
    Redeemed.NOW: 201,
    Redeemed.BEFORE_ON_SAME: 200,
    Redeemed.BEFORE_ON_OTHER: 409,
    Redeemed.TOO_LATE: 409,
    Redeemed.UNKNOWN: 404,
}


@blueprint.post("/api/goodwill-codes/<code>/redemptions")
@bearer_token
def redeem(code: str) -> Response:
    """Use a discount on the order that the JSON body names as `order_id`.

    201 used now, 200 used on this order before, 400 not JSON, 401 no or another token, 404 no such
    code, 409 used on another order or expired, 422 no order named.
    """
    if not is_authorised():
        return unauthorised()
    try:
        order_id = _order_id()
    except LookupError as problem:
        return make_response(jsonify(error=str(problem.args[0])), 422)
    except ValueError:
        return make_response(jsonify(error="the body is not JSON"), 400)
    live = services.current()
    with live.database.transaction() as connection:
        redemption = goodwill.redeem(connection, code, order_id, live.now())
    return _answer(redemption)


def _order_id() -> str:
    """Return the order that the body names. Raises ValueError for no JSON, LookupError for no order."""
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


def _answer(redemption: Redemption) -> Response:
    status, code = _STATUS[redemption.outcome], redemption.code
    if code is None or status >= 400:
        return make_response(jsonify(error=redemption.words), status)
    return make_response(
        jsonify(code=code.code, percent=code.percent, used_on=code.used_on), status
    )
