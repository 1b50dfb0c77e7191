"""The lists of conversations: open, waiting for the customer, snoozed, closed; by owner and by tag."""

from __future__ import annotations

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.store.console import conversation_lists
from mailagent.store.console.conversation_lists import View, Wanted
from mailagent.store.mail import conversations
from mailagent.web.console.labels import LINE_STATES
from mailagent.web.console.page import address, page, pages_beside, read_window, typed
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_conversation_lists", __name__)

PATH = "/ops/conversations"
TITLES = {
    View.OPEN: "Open",
    View.PENDING: "Waiting for the customer",
    View.SNOOZED: "Snoozed",
    View.CLOSED: "Closed",
}


@blueprint.get(PATH)
@needs(Permission.VIEW)
def show() -> Response:
    """Show one page of a list."""
    wanted, facts = _read_filters()
    window, now = read_window(newest_first=True), services.current().now()
    facts["order"] = "" if window.newest_first else "oldest"
    with services.current().database.snapshot() as connection:
        part = conversation_lists.read(connection, wanted, window, now)
        tags = conversations.list_tags(connection, [row.conversation_id for row in part.rows])
        owed = conversation_lists.list_owed(connection, [row.conversation_id for row in part.rows])
        known_tags = conversation_lists.list_tags(connection)
    return page(
        "ops/conversations.html",
        view=wanted.view.value,
        title=TITLES[wanted.view],
        tabs=[
            (title, each.value, address(PATH, {**facts, "view": each.value}))
            for each, title in TITLES.items()
        ],
        rows=part.rows,
        owed={row_id: LINE_STATES[state] for row_id, state in owed.items()},
        tags=tags,
        known_tags=known_tags,
        facts=facts,
        begun=window.cursor is not None,
        now=now,
        **pages_beside(part, PATH, facts),
    )


def _read_filters() -> tuple[Wanted, dict[str, str]]:
    """Return the filters of the request, and the same as parameters of a URL."""
    view = View.OPEN
    if request.args.get("view") in tuple(View):
        view = View(request.args["view"])
    facts = {"view": view.value, "owner": request.args.get("owner", ""), "tag": typed("tag")}
    owners = {"mine": current_person().email, "nobody": ""}
    if facts["owner"] not in owners:
        facts["owner"] = ""
    return Wanted(view, owners.get(facts["owner"]), facts["tag"] or None), facts
