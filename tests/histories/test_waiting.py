"""Refunds that waited for a manager when the shop was upgraded: the link mailed before still decides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from mailagent.engine import APPLICATION_VERSION
from tests.cast import ADA, MONA
from tests.databases import migrate
from tests.harness import open_shop, running, wait_until
from tests.histories.history import read_all
from tests.histories.old_shop import read_old_shop
from tests.histories.stories import TEN_YEARS
from tests.histories.tables import Tables
from tests.round_trips.approvals import decide

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
