"""What each recorded step of a workflow does when it runs again, in plain words, and what it reaches
outside: mail, money, the model. Pure; a test compares the names with those of the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reach(StrEnum):
    """What a step may touch beyond our own rows."""

    MAIL = "mail"
    MONEY = "money"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class StepEffect:
    """What a step does, said so that it ends a sentence that begins with its name."""

    does: str
    reaches: frozenset[Reach] = frozenset()


def _does(words: str, *reaches: Reach) -> StepEffect:
    return StepEffect(words, frozenset(reaches))


_UNKNOWN = StepEffect(
    "is a step of another version of the program; look at its code before you replay"
)

EFFECTS: Mapping[str, StepEffect] = {
    # a conversation
    "take_batch": _does("looks which mails of the thread are unanswered"),
    "ask_model": _does(
        "asks the model again, which costs tokens, and looks up what it wants to know", Reach.MODEL
    ),
    "propose_refund": _does(
        "asks the policy; the same wish is the same refund, and a refund is paid by its own run only"
    ),
    "withdraw_refund": _does("takes back a refund that still waits; once is for ever"),
    "offer_goodwill": _does("gives a discount code, unless the order has had one"),
    "write_reply": _does("writes the answer to the customer, unless one was written"),
    "put_off": _does("notes that the mail waits until the model may be asked again"),
    "hand_over": _does("gives the conversation to the team, unless nothing waits any more"),
    "forward_team_replies": _does("writes the team's words to the customer, unless that was done"),
    "pass_on_to_people": _does("writes the mail to the team, unless that was done"),
    "stop_loop": _does("leaves the mail to people, unless that was done"),
    "send_mail": _does("hands the mail to SendGrid, unless that has happened", Reach.MAIL),
    # a refund
    "claim_refund": _does(
        "makes this run the one that looks after the refund, and writes to the manager, unless that was"
        " done; older links still work"
    ),
    "look_at_decision": _does("looks whether somebody has decided"),
    "pay_refund": _does(
        "asks the payment gateway under the refund's own key, after looking up what was paid",
        Reach.MONEY,
    ),
    "tell_customer": _does("writes to the customer how the refund ended, unless that was done"),
    # mail of ours
    "look_at_delivery": _does("looks how far the mail is"),
    # the sweep
    "report_failed_runs": _does("tells operators what failed, once for each matter"),
    "take_over_runs": _does("queues the runs again whose worker is gone"),
    "ring_for_mail": _does("rings for mail that waits"),
    "ring_for_refunds": _does("rings for refunds that wait"),
    "ring_for_outbox": _does("rings for mail of ours that waits"),
    "release_parked_mail": _does("lets parked mail in, as far as it is due"),
    "purge_raw_mail": _does("deletes raw mail that is old enough"),
    # housekeeping
    "purge_histories": _does("deletes histories of runs that are old enough"),
    "purge_words": _does("takes out what was said long enough ago"),
    "purge_short_lived": _does("deletes old logins and the like"),
    # previews
    "make_previews": _does("makes pictures of photos that have none"),
    # what DBOS itself records
    "DBOS.recv": _does("waits for a bell, or until its time is up"),
    "DBOS.sleep": _does("waits"),
    "DBOS.patch": _does("notes which version of the program it began with"),
}


def effect_of(step: str) -> StepEffect:
    """Return what a step does when it runs again, by the name under which it is recorded."""
    return EFFECTS.get(step) or (
        EFFECTS["DBOS.patch"] if step.startswith("DBOS.patch") else _UNKNOWN
    )
