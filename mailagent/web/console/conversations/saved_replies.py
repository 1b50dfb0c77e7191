"""Saved replies: their list, their form, and filling one into an answer."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import mailers, services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import LONGEST_ANSWER
from mailagent.domain.mail.message import Identity
from mailagent.domain.mail.saved_reply import (
    NAME_LENGTH_MAX,
    PLACEHOLDERS,
    REPLIES_MAX,
    SavedReply,
    fill,
    find_unknown,
)
from mailagent.domain.operations.access import Permission
from mailagent.domain.text import name_in_address, name_to_greet, without_controls
from mailagent.store.console import timeline
from mailagent.store.ids import new_id
from mailagent.store.mail import saved_replies
from mailagent.store.refunds import orders
from mailagent.web.console.conversations.acts import lock_found
from mailagent.web.console.conversations.assignment import parse_seen
from mailagent.web.console.conversations.beside import ORDERS_SHOWN
from mailagent.web.console.conversations.pages import answer_page
from mailagent.web.console.page import found, go_to, page, record_act, typed
from mailagent.web.form import FormProblem
from mailagent.web.guard import current_person, needs, takes_files
from mailagent.web.language import _

blueprint = Blueprint("ops_saved_replies", __name__)

PATH = "/ops/saved-replies"
_CHANGED = "updated_at"  # the form's field: a colleague may have changed the reply since


@blueprint.get(PATH)
@needs(Permission.ANSWER)
def list_all() -> Response:
    """Show the saved replies, and the form of a new one."""
    return _page(None)


@blueprint.get(f"{PATH}/<saved_reply_id>")
@needs(Permission.ANSWER)
def show(saved_reply_id: str) -> Response:
    """Show the form of one saved reply."""
    with services.current().database.snapshot() as connection:
        reply = found(saved_replies.find(connection, saved_reply_id), "saved reply")
    return _page(reply, reply)


def _page(
    reply: SavedReply | None, saved: SavedReply | None = None, problem: FormProblem | None = None
) -> Response:
    """Return the page. `reply`: what stands in the form; `saved`: the row that it changes, if there is one."""
    with services.current().database.snapshot() as connection:
        known = saved_replies.list_all(connection)
    return page(
        "ops/saved_replies.html",
        (409 if problem.field == _CHANGED else 422) if problem else 200,
        reply=reply,
        saved=saved,
        known=known,
        problem=problem,
        placeholders=PLACEHOLDERS,
    )


@blueprint.post(PATH)
@needs(Permission.ANSWER)
def add() -> Response:
    """Save a new reply."""
    return _save(new_id("reply"))


@blueprint.post(f"{PATH}/<saved_reply_id>")
@needs(Permission.ANSWER)
def change(saved_reply_id: str) -> Response:
    """Change or delete a reply."""
    with services.current().database.transaction() as connection:
        found(saved_replies.find(connection, saved_reply_id), "saved reply")
        if request.form.get("change") == "delete":
            if saved_replies.delete(connection, saved_reply_id):
                record_act(connection, "saved reply deleted", saved_reply_id)
            return go_to(PATH)
    return _save(saved_reply_id)


def _save(saved_reply_id: str) -> Response:
    name, text = typed("name", request.form), without_controls(request.form.get("text", ""))
    now, email = services.current().now(), current_person().email
    reply, saved = SavedReply(saved_reply_id, name, text.strip(), email, now), None
    try:
        with services.current().database.transaction() as connection:
            known = saved_replies.list_all(connection)
            if any((each.name, each.text) == (reply.name, reply.text) for each in known):
                return go_to(PATH)
            saved = next((x for x in known if x.saved_reply_id == saved_reply_id), None)
            _check(connection, reply, saved, len(known))
            saved_replies.save(connection, reply)
            record_act(connection, "saved reply written", saved_reply_id)
    except FormProblem as problem:
        return _page(replace(reply, text=text), saved, problem)
    return go_to(PATH)


def _check(
    connection: sa.Connection, reply: SavedReply, saved: SavedReply | None, known: int
) -> None:
    """Raise FormProblem if a reply cannot be saved, in place of `saved` or beside the `known` ones."""
    if saved and request.form.get(_CHANGED) != saved.updated_at.isoformat():
        raise FormProblem(
            _CHANGED,
            _(
                "%(updated_by)s changed it while this page was open. Save again to replace what is saved"
                " now:",
                updated_by=saved.updated_by,
            ),
        )
    if not 0 < len(reply.name) <= NAME_LENGTH_MAX:
        raise FormProblem(
            "name", _("Give it a name of at most %(most)s characters.", most=NAME_LENGTH_MAX)
        )
    if saved_replies.is_name_taken(connection, reply.name, reply.saved_reply_id):
        raise FormProblem("name", _("Another saved reply has this name."))
    if not 0 < len(reply.text) <= LONGEST_ANSWER:
        raise FormProblem(
            "text", _("Write a text of at most %(most)s characters.", most=LONGEST_ANSWER)
        )
    if unknown := find_unknown(reply.text):
        names = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
        raise FormProblem(
            "text",
            _("There is no {{%(name)s}}. There are %(names)s.", name=unknown[0], names=names),
        )
    if saved is None and known >= REPLIES_MAX:
        raise FormProblem(
            "name", _("There are %(most)s saved replies. Delete one first.", most=REPLIES_MAX)
        )


# --- in an answer ---------------------------------------------------------------------------------


@blueprint.post("/ops/conversations/<conversation_id>/saved-reply")
@takes_files
@needs(Permission.ANSWER)
def insert(conversation_id: str) -> Response:
    """Show the page again, with a saved reply added to the unfinished answer. Record nothing."""
    seen, text = parse_seen(request.form.get("seen", "")), request.form.get("text", "")
    with services.current().database.transaction() as connection:
        conversation = lock_found(connection, conversation_id)
        reply = saved_replies.find(connection, typed("saved_reply", request.form))
        if reply is not None:
            filled = fill(reply.text, _facts(connection, conversation))
            text = f"{text.rstrip()}\n\n{filled}" if text.strip() else filled
        return answer_page(connection, conversation, 200, text, seen=seen, heading="Your answer")


def _facts(connection: sa.Connection, conversation: Conversation) -> dict[str, str | None]:
    """Return the values of the placeholders; None for one without a clear value. Facts of orders have a value
    only if the sender of the last mail is proven."""
    latest = timeline.find_latest_mail(connection, conversation.conversation_id)
    proven = latest is not None and Identity(latest.facts["identity"]).proven
    reader = mailers.Reader(connection, conversation, (), proven=proven)
    written = f"{latest.facts['subject']} {latest.facts['new_text']}" if latest else ""
    return {
        "customer_name": reader.customer_name() or name_to_greet(conversation.customer_name),
        "order_number": _find_order(connection, conversation, written) if proven else None,
        "my_name": name_in_address(current_person().email),
        "shop_name": services.current().shop.name,
    }


def _find_order(connection: sa.Connection, conversation: Conversation, written: str) -> str | None:
    email = conversation.customer_email
    known, total = orders.list_of_customer(connection, email, ORDERS_SHOWN)
    named = [order.order_id for order in known if order.order_id.casefold() in written.casefold()]
    if len(named) == 1:
        return named[0]
    return known[0].order_id if total == 1 else None
