"""A sample waits for the app's work to end, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.evals.task import Task
from mailagent.evals.world import QUIET_SECONDS, NotQuiet, World
from mailagent.store import schema
from mailagent.store.database import Database
from tests.cast import ADA, DESK_WISH
from tests.harness import Harness, open_shop

LOOKS = 4


class BusyDatabase(Database):
    """Each look takes as long as all of them should, and by the third the mail is dealt with."""

    looks = 0

    @contextmanager
    def snapshot(self, statement_seconds: float | None = None) -> Iterator[sa.Connection]:
        self.looks += 1
        time.sleep(LOOKS * QUIET_SECONDS)
        if self.looks == 3:
            with self.transaction() as connection:
                connection.execute(
                    schema.inbound_mails.update().values(
                        status="no_answer", no_answer_reason="spam"
                    )
                )
        with super().snapshot(statement_seconds) as connection:
            yield connection


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that has a mail and runs no workflows, so the mail stays."""
    with open_shop(tmp_path, database_url) as opened:
        opened.write(DESK_WISH)
        yield opened


def rest(shop: Harness) -> None:
    task = Task(id="", suite="", sender=ADA, turns=())
    with httpx2.Client() as http:
        world = World(task, "http://127.0.0.1", shop.mailboxes, shop.inbound_key, http, [], [])
        world.run_until_quiet(LOOKS * QUIET_SECONDS)


def test_a_busy_machine_takes_longer_and_breaks_no_sample(shop: Harness) -> None:
    services.bind(replace(shop.live, database=BusyDatabase(shop.live.database.engine)))
    rest(shop)


def test_work_that_does_not_end_breaks_the_sample(shop: Harness) -> None:
    with pytest.raises(NotQuiet):
        rest(shop)
