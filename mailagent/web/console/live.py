"""What has changed since a page was made, for the script that asks every few seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Lock

from flask import Blueprint, Response, current_app, jsonify, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store.console import inbox
from mailagent.store.console.inbox import Figures
from mailagent.store.pagination import parse_moment
from mailagent.web.guard import needs

blueprint = Blueprint("ops_live", __name__)

KEPT = "ops_live"  # where an app keeps its figures
KEPT_SECONDS = 5


class KeptFigures:
    """The figures of the last few seconds, so that fifty open inboxes cost what one does."""

    def __init__(self) -> None:
        self.seconds = float(KEPT_SECONDS)
        self._lock = Lock()
        self._figures: Figures | None = None

    def figures(self, since: datetime) -> Figures:
        """Return figures that are at most `seconds` old, and not older than `since`, if that has passed: a
        page never gets to see less than it shows. One thread counts; the others wait for it."""
        with self._lock:
            now, kept = services.current().now(), self._figures
            if kept is None or not self._is_fresh(kept, now) or kept.at < since <= now:
                kept = self._figures = _count(now)
            return kept

    def _is_fresh(self, kept: Figures, now: datetime) -> bool:
        return timedelta(0) <= now - kept.at < timedelta(seconds=self.seconds)


def _count(now: datetime) -> Figures:
    live = services.current()
    with live.database.snapshot() as connection:
        return inbox.read(connection, live.workflow_client.runs.failed_runs(), now)


@blueprint.get("/ops/live")
@needs(Permission.VIEW)
def tell() -> Response:
    """Tell how long each list is, how many lines came `since` a time in microseconds since 1970, and which
    providers are out.

    Whoever has the same answer already gets 304 (RFC 9110 section 13.1.2).
    """
    kept: KeptFigures = current_app.extensions.setdefault(KEPT, KeptFigures())
    since = parse_moment(request.args.get("since")) or datetime.max.replace(tzinfo=UTC)
    figures = kept.figures(since)
    response = jsonify(counts=figures.counts, newer=figures.newer(since), outages=figures.outages)
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response
