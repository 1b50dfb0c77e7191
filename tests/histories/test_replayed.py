"""Today's code replays what the workflows of every release recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from dbos import DBOS, StepOptions

from mailagent.engine import APPLICATION_VERSION, CONVERSATION, DELIVERY, REFUND, SWEEP
from mailagent.workflows.steps.delivery.send import send_mail_async
from mailagent.workflows.steps.refund.decision import claim_refund, tell_customer
from mailagent.workflows.steps.refund.payment import pay_refund
from tests.cast import ADA, MONA
from tests.databases import ONE_DATABASE, migrate
from tests.harness import Harness, open_shop, running, wait_until
from tests.histories.history import History, read_all
from tests.histories.old_shop import read_old_shop
from tests.histories.replay import replay
from tests.histories.stories import TEN_YEARS
from tests.histories.tables import Tables
from tests.round_trips.approvals import decide

# A run goes to workers of its own version only: what another version recorded needs no replay.
HISTORIES = [each for each in read_all() if each.application_version == APPLICATION_VERSION]
RELEASES = sorted({each.release for each in HISTORIES})


@ONE_DATABASE
def test_todays_code_replays_every_recorded_run(shop: Harness) -> None:
    assert replay(shop, HISTORIES) == []


@pytest.mark.parametrize("release", RELEASES)
def test_every_workflow_is_recorded_at_every_release(release: str) -> None:
    recorded = {each.workflow for each in HISTORIES if each.release == release}
    assert recorded >= {CONVERSATION, REFUND, DELIVERY, SWEEP}


# What somebody of the stories writes, is called or buys. No id of ours has an "l", an "o" or a blank in it.
WORDS = re.compile("@|kettle|broken|hello|told| ada |example", re.IGNORECASE)


def test_the_newest_records_hold_no_words_of_people() -> None:
    newest = [each for each in HISTORIES if each.release == RELEASES[-1]]
    told = {str(each): WORDS.findall(json.dumps(asdict(each))) for each in newest}
    assert {name: found for name, found in told.items() if found} == {}


def the(story: str, workflow: str) -> History:
    """Return the oldest history of a story."""
    return next(each for each in HISTORIES if (each.story, each.workflow) == (story, workflow))


# --- bodies that were changed without a thought for old runs --------------------------------------


@DBOS.workflow(name="refund that tells before it pays")
async def swapped(refund_id: str) -> str:
    await claim_refund(refund_id)
    for outbound_id in await tell_customer(refund_id):
        await send_mail_async(outbound_id)
    return (await pay_refund(refund_id))["status"]


@DBOS.workflow(name="refund that tells nobody")
async def forgetful(refund_id: str) -> str:
    await claim_refund(refund_id)
    return (await pay_refund(refund_id))["status"]


@DBOS.workflow(name="refund that looks twice")
async def doubtful(refund_id: str) -> str:
    await claim_refund(refund_id)
    state = await pay_refund(refund_id)
    for outbound_id in await tell_customer(refund_id):
        await send_mail_async(outbound_id)
    await claim_refund(refund_id)
    return state["status"]


@DBOS.workflow(name="refund with another word for it")
async def reworded(refund_id: str) -> str:
    await claim_refund(refund_id)
    await pay_refund(refund_id)
    for outbound_id in await tell_customer(refund_id):
        await send_mail_async(outbound_id)
    return "settled"


async def _leave_a_note() -> None:
    """A step that is none of ours: nobody stands around it."""


@DBOS.workflow(name="refund that leaves a note")
async def noting(refund_id: str) -> str:
    await claim_refund(refund_id)
    state = await pay_refund(refund_id)
    for outbound_id in await tell_customer(refund_id):
        await send_mail_async(outbound_id)
    await DBOS.run_step_async(StepOptions(name="leave_a_note"), _leave_a_note)
    return state["status"]


CHANGED = {
    "refund that tells before it pays": "step 2: recorded is pay_refund, today's code wants tell_customer",
    "refund that tells nobody": "step 3: recorded is tell_customer, today's code wants no more",
    "refund that looks twice": "step 5: nothing is recorded, today's code wants claim_refund",
    "refund that leaves a note": "step 5: recorded is no more, DBOS has leave_a_note now",
    "refund with another word for it": "it ended as SUCCESS, 'settled', None, not as SUCCESS, 'paid'",
}


@ONE_DATABASE
def test_a_changed_body_is_told_by_workflow_and_step(shop: Harness) -> None:
    recorded = the("small refund", REFUND)
    changed = [replace(recorded, workflow=name, run_id=name) for name in CHANGED]
    assert replay(shop, changed) == [
        f"{history}: {CHANGED[history.workflow]}" for history in changed
    ]


# --- waiting --------------------------------------------------------------------------------------


STORY = "waiting for a manager"
# However long ago it was recorded, nobody is to be reminded meanwhile.
PATIENT = {"APPROVAL_REMINDER_SECONDS": TEN_YEARS, "APPROVAL_ESCALATION_SECONDS": TEN_YEARS}
WAITING = {
    each.release: each
    for each in read_all()
    if each.is_cut and each.story == STORY and each.application_version == APPLICATION_VERSION
}


def ours(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("DBOS.")]


@pytest.mark.parametrize("release", sorted(WAITING))
def test_a_refund_that_waited_is_paid_once_by_the_link_of_the_old_release(
    release: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    old = read_old_shop(release, STORY)
    old.put_back(url)
    migrate(url)
    with open_shop(tmp_path, url, PATIENT) as shop:
        tables, history = Tables(shop.live.database), WAITING[release]
        tables.put(history)
        recorded = ours(step.name for step in history.steps)
        with running(shop):
            (link,) = old.links
            decide(shop, link, "approve")
            assert shop.wait_for_refund("paid").decided_by == MONA
            shop.wait_for_mails(ADA)
            wait_until(lambda: tables.outcome(history.run_id)[0] == "SUCCESS", 30, "the run's end")
        taken_up = ours(tables.step_names(history.run_id))
        assert (
            taken_up[: len(recorded)] == recorded
        )  # the old run went on; no new one took its place
        assert taken_up.count("pay_refund") == 1
        assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
        (receipt,) = shop.mails_to(ADA)  # the answer left before the upgrade
        assert "1,499.00" in receipt.text
        assert shop.mails_to(MONA) == []  # nor is she asked again
