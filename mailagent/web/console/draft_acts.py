"""What somebody does with a draft: the form as they sent it, and what is recorded for it.

The conversation is locked by the caller, and the draft waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from flask import request

from mailagent import mailers, services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.draft import Draft, DraftState
from mailagent.domain.typed_text import without_controls
from mailagent.store import audit
from mailagent.store.mail import drafts, inbound
from mailagent.web.console import taking_over

LONGEST_REASON = 500


class DraftProblem(ValueError):
    """What was sent cannot be taken; the text says what to do, `field` where."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Act:
    """`action` is send, edit, discard or take_over; `text` is what to send, or
    what is to be kept for later; `reason` is why nothing is sent."""

    action: str
    text: str = ""
    reason: str = ""


def parse_act(draft: Draft) -> Act:
    """Return what the form of a draft asks for. Raises DraftProblem."""
    action = request.form.get("action", "")
    match action:
        case "send":
            return _parse_send(draft)
        case "edit":
            return _parse_edit(draft)
        case "discard":
            return Act("discard", reason=_parse_reason())
        case "take_over":
            return Act("take_over", _parse_changed(draft))
    raise DraftProblem("action", "Please press one of the buttons: the form did not say which.")


def _parse_send(draft: Draft) -> Act:
    typed = request.form.get("text")
    if typed is not None and _bare(typed) != _bare(draft.text):
        raise DraftProblem(
            "text",
            "You changed the words, but pressed “Send as it is”. Press “Send my version” to send what"
            " stands here.",
        )
    return Act("send", draft.text)


def _parse_edit(draft: Draft) -> Act:
    typed = request.form.get("text", "")
    if _bare(typed) == _bare(draft.text):
        return Act("send", draft.text)
    try:
        return Act("edit", taking_over.parse_answer(typed))
    except taking_over.AnswerProblem as problem:
        raise DraftProblem("text", str(problem)) from None


def _parse_changed(draft: Draft) -> str:
    """Return what somebody wrote into the field, or nothing if it still says what the agent wrote."""
    typed = request.form.get("text", "")
    return "" if _bare(typed) == _bare(draft.text) else typed


def _bare(text: str) -> str:
    """Return a text as it is compared: browsers end lines in their own way."""
    return "\n".join(line.rstrip() for line in without_controls(text).strip().splitlines())


def _parse_reason() -> str:
    reason = " ".join(without_controls(request.form.get("reason", "")).split())
    if not reason:
        raise DraftProblem("reason", "Please say why the customer gets no answer.")
    if len(reason) > LONGEST_REASON:
        raise DraftProblem("reason", f"Please say it in at most {LONGEST_REASON} characters.")
    return reason


# --- what is recorded -----------------------------------------------------------------------------


def act(
    connection: sa.Connection, conversation: Conversation, draft: Draft, wanted: Act, person: str
) -> None:
    """Do with a draft that waits what somebody wants."""
    match wanted.action:
        case "take_over":
            taking_over.take_over(connection, conversation, person)
        case "discard":
            _discard(connection, draft, wanted.reason, person)
        case "edit":
            _send(connection, conversation, draft, wanted.text, DraftState.EDITED, person)
        case _:
            _send(connection, conversation, draft, wanted.text, DraftState.SENT, person)


def _send(
    connection: sa.Connection,
    conversation: Conversation,
    draft: Draft,
    text: str,
    state: DraftState,
    person: str,
) -> None:
    live, now = services.current(), services.current().now()
    mails = inbound.list_by_id(connection, draft.mail_ids)
    outbound_id = mailers.write_reply(connection, conversation, mails, text, by_person=True)
    inbound.answer(connection, draft.mail_ids, outbound_id)
    drafts.settle(connection, draft.draft_id, state, person, now, outbound_id)
    live.doorbell.ring_delivery(connection, outbound_id)
    action = "draft sent" if state is DraftState.SENT else "draft sent with changes"
    details = {"outbound_id": outbound_id}
    audit.record(connection, now, person, action, draft.draft_id, details)


def _discard(connection: sa.Connection, draft: Draft, reason: str, person: str) -> None:
    now = services.current().now()
    drafts.settle(connection, draft.draft_id, DraftState.DISCARDED, person, now)
    why = f"{person} decided that it needs no answer: {reason}"
    inbound.leave_unanswered(connection, draft.mail_ids, why)
    audit.record(connection, now, person, "draft discarded", draft.draft_id, {"reason": reason})
