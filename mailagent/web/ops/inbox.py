"""What waits for people: the first page of the console."""

from __future__ import annotations

from flask import Blueprint, Response

from mailagent.domain.access import Permission
from mailagent.web.guard import needs
from mailagent.web.ops.pages import page

blueprint = Blueprint("ops_inbox", __name__)


@blueprint.get("/ops")
@needs(Permission.LOOK)
def show() -> Response:
    """Show what waits for people, the oldest first."""
    return page("ops/inbox.html")
