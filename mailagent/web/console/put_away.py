"""Putting away what somebody has seen to, and bringing it back."""

from __future__ import annotations

from typing import cast

from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store import audit
from mailagent.store.console import dismissed
from mailagent.web.console.pages import not_found, safe_path
from mailagent.web.console.paging import typed
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_put_away", __name__)


@blueprint.post("/ops/put-away")
@needs(Permission.ANSWER)
def act() -> Response:
    """Take a lost mail, a failed refund or a failed run out of the inbox; `act=back` brings it back."""
    live, email = services.current(), current_person().email
    subject = typed("subject", request.form)
    run = live.doorbell.find_run(subject)
    with live.database.transaction() as connection:
        if not (run is not None and run.has_failed) and not dismissed.may_be(connection, subject):
            return not_found("thing to put away")
        if request.form.get("act") == "back":
            if dismissed.forget(connection, subject):
                audit.record(connection, live.now(), email, "brought back", subject)
        else:
            dismissed.record(connection, subject, email, live.now())
            audit.record(connection, live.now(), email, "put away", subject)
    return cast(Response, redirect(safe_path(request.form.get("back")), 303))
