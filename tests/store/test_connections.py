"""Connections that were cut while they were in the pool are replaced before anybody uses them."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import build_body
from mailagent.store.database import PING_AFTER_SECONDS
from tests.harness import Harness, letter
from tests.workflows.trouble import cut_connections

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

POOLED = 3


def fill_and_cut(shop: Harness) -> None:
    """Put connections into the pool and cut them."""
    with ExitStack() as stack:
        for _ in range(POOLED):
            stack.enter_context(shop.live.database.snapshot()).execute(sa.select(1))
    assert cut_connections(shop) == POOLED
    time.sleep(PING_AFTER_SECONDS)  # a connection that was just used is not asked


def test_a_connection_that_was_cut_in_the_pool_is_replaced_unseen(shop: Harness) -> None:
    fill_and_cut(shop)
    for _ in range(POOLED):
        with shop.live.database.transaction() as connection:
            connection.execute(sa.select(1))


def test_a_mail_is_taken_at_once_after_the_connections_were_cut(shop: Harness) -> None:
    body = build_body(letter("Where is my kettle?"))
    fill_and_cut(shop)
    assert shop.post_inbound(body).status_code == 200
    assert len(shop.rows("SELECT 1 FROM inbound_mails")) == 1
