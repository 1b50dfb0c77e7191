"""What the replay sweep sees, how it counts, and when it fails. The sweep: `python -m
tests.programs.replay_sweep`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.store import schema
from tests.cast import MONA, NOW, SUPPORT, order
from tests.harness import Harness, open_shop
from tests.programs.replay_sweep.__main__ import exit_code
from tests.programs.replay_sweep.acts import Customer
from tests.programs.replay_sweep.facts import (
    PromiseBroken,
    check_mails,
    find_change,
    find_stray,
    read_facts,
)
from tests.programs.replay_sweep.stories import STORIES, End
from tests.programs.replay_sweep.table import table
from tests.workflows.paying import propose

# A customer who was written to by nobody.
STORY = replace(STORIES[0], end=End(None, 0))
CUSTOMER = Customer(1001 - 10_000)  # whose order is the cast's


@pytest.fixture
def small_shop(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Harness]:
    """A shop with one refund."""
    path = tmp_path / "test.db"
    shutil.copy(migrated_sqlite, path)
    with open_shop(tmp_path, f"sqlite:///{path}") as harness:
        harness.stock(order())
        propose(harness)
        yield harness


def ask_mona(shop: Harness, name: str, refund_id: str | None) -> None:
    """Write a request to the manager, as one that was sent."""
    with shop.live.database.transaction() as connection:
        connection.execute(
            schema.outbound_mails.insert().values(
                outbound_id=name, dedup_key=name, refund_id=refund_id, purpose="approval_request",
                to_address=MONA, from_address=SUPPORT, subject="", text="", message_id=name,
                mail_references=[], auto_submitted="auto-generated", status="sent", created_at=NOW,
            )
        )  # fmt: skip


def deliver(shop: Harness, name: str, mail_id: str) -> None:
    mail = SentMail(
        mail_id, MONA, SUPPORT, "", None, "", "", None, None, "", {"outbound_id": name}, ""
    )
    shop.mailboxes.record_sent(mail)


def test_a_request_written_or_sent_anew_to_the_manager_is_a_change(small_shop: Harness) -> None:
    (refund,) = small_shop.refunds()
    ask_mona(small_shop, "first", refund.refund_id)
    deliver(small_shop, "first", "1")
    before = read_facts(small_shop)
    check_mails(small_shop, STORY, CUSTOMER)

    ask_mona(small_shop, "second", refund.refund_id)
    deliver(small_shop, "second", "2")
    assert find_change(STORY, before, read_facts(small_shop), CUSTOMER) is not None
    with pytest.raises(PromiseBroken, match="told more than once"):
        check_mails(small_shop, STORY, CUSTOMER)

    between = read_facts(small_shop)
    deliver(small_shop, "first", "3")
    assert find_change(STORY, between, read_facts(small_shop), CUSTOMER) is not None
    with pytest.raises(PromiseBroken, match=f"to {MONA} was sent 2 times"):
        check_mails(small_shop, STORY, CUSTOMER)


def test_a_mail_about_no_customer_is_seen_with_or_without_its_row(small_shop: Harness) -> None:
    before = read_facts(small_shop)
    ask_mona(small_shop, "about nothing", None)
    between = read_facts(small_shop)
    assert find_stray(before, between) is not None
    deliver(small_shop, "of no row", "1")
    assert find_stray(between, read_facts(small_shop)) is not None


def row(outcome: str, **changes: Any) -> dict[str, str]:
    return {"database": "sqlite", "story": "a story", "way": "rewind", "outcome": outcome} | changes


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["held", "refused"], 0),
        ([], 1),
        (["refused"], 1),
        (["held", "not reached"], 1),
        (["held", "BROKEN"], 1),
    ],
    ids=["held and refused", "nothing", "all refused", "not reached", "broken"],
)
def test_it_fails_unless_something_was_replayed_and_all_was_reached(
    outcomes: list[str], code: int
) -> None:
    assert exit_code([row(outcome) for outcome in outcomes]) == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ([], 0),
        ([row("refused"), row("refused", way="fork"), row("held", way="fork")], 0),
        ([row("refused", way="fork"), row("refused", way="fork")], 1),
        ([row("refused", way="fork"), row("held", way="fork", database="postgresql")], 1),
    ],
    ids=["one way", "in part", "a way at every point", "a way at every point of one database"],
)
def test_a_way_that_was_refused_at_every_point_has_shown_nothing_unless_it_is_a_sample(
    more: list[dict[str, str]], code: int
) -> None:
    rows = [row("held"), *more]
    assert exit_code(rows, whole=True) == code
    assert exit_code(rows, whole=False) == 0


def test_what_was_refused_is_not_counted_as_held() -> None:
    rows = [row("held"), row("refused"), row("refused"), row("refused", way="fork")]
    assert "| a story | 1 held, 2 refused | 1 refused |" in table(rows)
