"""All stories, and the steps and POSTs that none of them needs to come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mailagent.workflows import launch  # loading it is what makes the steps known
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.programs.crash_sweep import (
    console_stories,
    mail_stories,
    refund_stories,
    remedy_stories,
    sweep_stories,
)
from tests.programs.crash_sweep.story import Story

assert launch.WORKFLOWS

STORIES: tuple[Story, ...] = (
    *refund_stories.STORIES,
    *remedy_stories.STORIES,
    *mail_stories.STORIES,
    *console_stories.STORIES,
    *sweep_stories.STORIES,
)

# Steps that no story comes to, each with the reason why that is right.
LEFT_OUT: Mapping[str, str] = {
    "make_previews": "no mail and no money; a row for each photo stands before it is tried",
    "choose_mails": "it only reads",
    "look_up_order": "no mail and no money; the page shows the stored order",
    "compare_mail": "no mail and no money; at worst a mail is asked about a second time",
    "report_on_yesterday": "one transaction, and the second time changes nothing",
}

_AGAIN = "one transaction, and the second time changes nothing"

# POSTs that no story makes, each with the reason why its death may be left untried.
POSTS_LEFT_OUT: Mapping[str, str] = {
    "POST /ops/login": "a request that got no answer is made again; a link more is no harm",
    "POST /ops/login/<secret>": "a link used up without an answer is asked for again; no mail of a"
    " customer and no money hangs on a session",
    "POST /ops/login/second-factor": "a code used up without an answer is followed by the next one; no mail"
    " of a customer and no money hangs on a session",
    "POST /ops/logout": _AGAIN,
    "POST /ops/dismiss": "one transaction that hides a line of the inbox, and can be taken back",
    "POST /ops/audit/export": "one transaction with one act in it; whoever got no file asks again",
    "POST /ops/customers/<path:email>/mail-again": _AGAIN,
    "POST /ops/customers/<path:email>/erase": "no mail and no money; pressed again it ends what it began",
    "POST /ops/runs/<run_id>/cancel": "no mail and no money; one step may end, what it did is on record,"
    " and a replay goes on from there",
    "POST /ops/settlements/import": _AGAIN,
    "POST /ops/conversations/<conversation_id>/close": _AGAIN,
    "POST /ops/conversations/<conversation_id>/reopen": _AGAIN,
    "POST /ops/conversations/<conversation_id>/snooze": _AGAIN,
    "POST /ops/conversations/<conversation_id>/assign": _AGAIN,
    "POST /ops/conversations/<conversation_id>/tags": _AGAIN,
    "POST /ops/conversations/<conversation_id>/notes": "one transaction; never mailed, and a note written"
    " twice is no harm",
    "POST /ops/conversations/<conversation_id>/saved-reply": "changes nothing: it fills a field",
    "POST /ops/conversations/<conversation_id>/refund/<path:order_id>": "one transaction with the order"
    " locked, under a key of the form; the refund's run is that of the agent's refunds",
    "POST /ops/refunds/<refund_id>/refuse": "one transaction with the order locked, and the second time changes"
    " nothing; the run that it enqueues is that of a rejection",
    "POST /ops/saved-replies": "one transaction; no mail and no money",
    "POST /ops/saved-replies/<saved_reply_id>": _AGAIN,
    "POST /language": "one cookie; no mail and no money",
    "POST /helped/<vote>": "one transaction; a customer who got no answer presses again, once counts",
    "POST /ops/replays": "rewinds each run as the replay of one run does; those that are left stay failed, and"
    " the same page replays them",
    "POST /api/goodwill-codes/<code>/redemptions": "made by the shop's checkout, not by people; one"
    " transaction, and the same order again changes nothing",
}


def find_unmade(posts: Iterable[str]) -> set[str]:
    """Return the POSTs, such as `POST /approvals/<token>`, that no story makes and that are not left out."""
    return set(posts) - POSTS_LEFT_OUT.keys() - {post for s in STORIES for post in s.posts}


def find_unswept(stories: Iterable[Story] = STORIES) -> set[str]:
    """Return the steps that no story declares to come to and that are not left out for a reason."""
    return CRASH_POINTS.keys() - LEFT_OUT.keys() - {step for s in stories for step in s.reaches}
