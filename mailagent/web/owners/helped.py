"""The page on which a customer says whether an answer helped. GET changes nothing: mail scanners open links.
It stands apart from the owners' pages, because customers open it."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Blueprint, Response, abort, make_response, render_template, request

from mailagent import services
from mailagent.store.mail import votes
from mailagent.web.guard import signed_link

blueprint = Blueprint("helped", __name__)


@blueprint.get("/helped/<vote>")
@signed_link
def show(vote: str) -> Response:
    """Ask whether the answer helped; if the customer has voted, thank them."""
    mail_id, helped = _verify(vote)
    with services.current().database.snapshot() as connection:
        return _page(connection, mail_id, helped, votes.is_recorded(connection, mail_id))


@blueprint.post("/helped/<vote>")
@signed_link
def record(vote: str) -> Response:
    """Record the customer's vote. Only the first vote on an answer counts."""
    mail_id, helped = _verify(vote)
    live = services.current()
    with live.database.transaction() as connection:
        votes.record(connection, mail_id, request.form.get("helped") == "yes", live.now())
        return _page(connection, mail_id, helped, done=True)


def _verify(vote: str) -> tuple[str, bool]:
    return services.current().links.verify_vote(vote) or abort(_answer(None, 404))


def _page(connection: sa.Connection, mail_id: str, helped: bool, done: bool) -> Response:
    return _answer(votes.find_language(connection, mail_id), helped=helped, done=done)


def _answer(language: str | None, status: int = 200, **facts: bool) -> Response:
    live = services.current()
    locale = live.shop.locale_for(language)
    words = live.templates.fragment("_helped_page.txt", {}, locale).splitlines()
    names = ("question", "yes", "no", "thanks", "more", "not_valid")
    texts = dict(zip(names, words, strict=True))
    page = render_template(
        "helped.html", texts=texts, language=locale.replace("_", "-"), valid=status == 200, **facts
    )
    response = make_response(page, status)
    response.headers["Cache-Control"] = "no-store"
    return response
