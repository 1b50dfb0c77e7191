"""The `conversation` workflow: answers the unanswered mail of one conversation with one mail, then ends.

All mail of a run is of one kind (`MailKind`), and its senders are all proven or all unproven. Other runs take
the rest.

Its queue runs one workflow per customer at a time, and one more for mail in the customer's name that is not
proven to be theirs.
"""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.conversation.batch import Batch, put_off, take_batch
from mailagent.workflows.steps.conversation.model_call import ask_model
from mailagent.workflows.steps.conversation.orders import look_up_orders
from mailagent.workflows.steps.conversation.people import (
    forward_team_replies,
    hand_over,
    pass_on_to_people,
    stop_loop,
)
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.conversation.texts import StoredText
from mailagent.workflows.steps.conversation.tool_call import call_tool
from mailagent.workflows.steps.delivery.send import send_mail


@DBOS.workflow(name=engine.CONVERSATION)
def conversation(conversation_id: str) -> str:
    """Answer the unanswered mail of a conversation. Returns what was done, in a few words."""
    batch = take_batch(conversation_id)
    if batch is None:
        return "nothing to answer"
    match batch["task"]:
        case "forward":
            outbound_ids, done = forward_team_replies(batch), "forwarded the team's words"
        case "pass_on":
            outbound_ids, done = pass_on_to_people(batch), "passed on to people"
        case "stop":
            outbound_ids, done = stop_loop(batch), "stopped a loop"
        case _:
            outbound_ids, done = _answer(batch)
    for outbound_id in outbound_ids:
        send_mail(outbound_id)
    return done


def _answer(batch: Batch) -> tuple[list[str], str]:
    """Ask the model and run its tools until its reply can be sent, a person takes over, or the mail has to
    wait. Returns the ids of the mails to send, and what was done."""
    if batch.get("looks_up") and look_up_orders(batch)["outcome"] == "later":
        put_off(batch)
        return [], engine.PUT_OFF
    items: list[StoredText] = []
    spent: dict[str, int] = {}
    while True:
        move = ask_model(batch, items, spent)
        items, spent = items + move["items"], move["spent"]
        match move["kind"]:
            case "again":
                continue
            case "call":
                told = call_tool(batch, move)
                if told is None:
                    put_off(batch)
                    return [], engine.PUT_OFF
                items += told
            case "reply":
                written = write_reply(batch, move, spent)
                if written["kind"] == "written":
                    return written["outbound_ids"], written.get("done", "answered")
                items, spent = items + written["items"], written["spent"]
            case "later":
                put_off(batch)
                return [], engine.PUT_OFF
            case "wait":
                DBOS.sleep(move["after_seconds"])
            case "person":
                return hand_over(batch, move), "handed over"
