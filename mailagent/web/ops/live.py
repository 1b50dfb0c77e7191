"""What has changed since a page was made, for the script that asks every few seconds."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from mailagent import services
from mailagent.domain.access import Permission
from mailagent.store.inbox import Asked, Lists, Waiting
from mailagent.store.keyset import count_newer, parse_moment
from mailagent.web.guard import needs

blueprint = Blueprint("ops_live", __name__)


@blueprint.get("/ops/live")
@needs(Permission.LOOK)
def tell() -> Response:
    """Tell how long each list is, and how many lines came `since` a time in microseconds since 1970.

    Whoever has the same answer already gets 304 (RFC 9110 section 13.1.2).
    """
    live = services.current()
    since = parse_moment(request.args.get("since")) or live.now()
    with live.database.snapshot() as connection:
        lists = Lists(connection, live.doorbell.failed_runs())
        counts = {each.value: lists.count(Asked(each)).words for each in Waiting}
        newer = {
            each.value: count_newer(connection, lists.sources(Asked(each)), since)
            for each in Waiting
            if each is not Waiting.UNANSWERED  # the agent's, not a person's
        }
    response = jsonify(counts=counts, newer=newer)
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response
