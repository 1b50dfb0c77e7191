"""Connections that were cut while nobody used them: those that have rested are replaced unseen, and one that
was in use a moment ago costs one failure that passes."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from mailagent.demo.inbound_parse import build_body
from mailagent.store import pool
from mailagent.store.database import Database
from mailagent.store.outage import is_outage
from tests.stage import Stage, letter
from tests.workflows.trouble import cut_connections

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

POOLED = 3
AT_ONCE, NEVER = 0.0, 3600.0


def fill_and_cut(shop: Stage, monkeypatch: pytest.MonkeyPatch, rested_after: float) -> None:
    """Cut connections that lie in the pool, and count as rested after so many seconds."""
    monkeypatch.setattr(pool, "RESTED_SECONDS", rested_after)
    with ExitStack() as stack:
        for _ in range(POOLED):
            stack.enter_context(shop.live.database.snapshot()).execute(sa.select(1))
    assert cut_connections(shop) == POOLED


def use(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(sa.select(1))


def test_what_was_cut_while_it_rested_nobody_notices(
    shop: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_and_cut(shop, monkeypatch, AT_ONCE)
    for _ in range(POOLED):
        use(shop.live.database)


def test_what_was_cut_within_a_second_of_its_use_fails_once_and_takes_all_others_with_it(
    shop: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_and_cut(shop, monkeypatch, NEVER)
    with pytest.raises(sa.exc.OperationalError) as caught:
        use(shop.live.database)
    assert is_outage(caught.value)
    for _ in range(POOLED):
        use(shop.live.database)


@pytest.mark.parametrize(("rested_after", "answers"), [(AT_ONCE, [200]), (NEVER, [503, 200])])
def test_a_mail_is_taken_at_once_or_when_it_comes_again(
    shop: Stage, monkeypatch: pytest.MonkeyPatch, rested_after: float, answers: list[int]
) -> None:
    body = build_body(letter("Where is my kettle?"))
    shop.live.now()  # asked once, the clock goes on without the database
    fill_and_cut(shop, monkeypatch, rested_after)
    assert [shop.post_inbound(body).status_code for _ in answers] == answers
    assert len(shop.rows("SELECT 1 FROM inbound_mails")) == 1
