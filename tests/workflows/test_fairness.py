"""Customers beside each other: one who writes a thousand mails is one customer, and delays no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailagent.domain.run_about import RunAbout, hash_customer
from mailagent.doorbell.ring import partition_of
from tests.cast import ADA, GRACE
from tests.stage import Stage, open_shop, running

FLOOD = 24


@pytest.fixture
def small_worker(tmp_path: Path, database_url: str) -> Iterator[Stage]:
    """A shop whose worker answers two conversations at a time; it does not run yet."""
    with open_shop(tmp_path, database_url, {"CONVERSATION_CONCURRENCY": "2"}) as stage:
        yield stage


def test_a_flood_in_many_threads_does_not_delay_another_customer(small_worker: Stage) -> None:
    for number in range(FLOOD):
        small_worker.write("Where is my order?", subject=f"thread {number}")
    small_worker.write("Where is mine?", from_address=GRACE, from_name="Grace")
    with running(small_worker):
        small_worker.wait_for_mails(GRACE)
        before = len(small_worker.mails_to(ADA))
    # By chance alone it would be twelve of the flood, half of them.
    assert before <= FLOOD // 4


def test_the_threads_of_one_customer_are_answered_one_after_the_other(
    small_worker: Stage,
) -> None:
    for number in range(4):
        small_worker.write("Hello?", subject=f"thread {number}")
    with running(small_worker):
        small_worker.wait_for_mails(ADA, 4)
    runs = small_worker.live.doorbell.list_runs(limit=10)
    assert {run.partition_key for run in runs if run.workflow == "conversation"} == {
        hash_customer(ADA)
    }


@pytest.mark.parametrize(
    ("about", "proven", "behind"),
    [
        (RunAbout(customer_email=ADA), True, hash_customer(ADA)),
        # Whoever writes in a customer's name does not stand in the customer's way.
        (RunAbout(customer_email=ADA), False, f"{hash_customer(ADA)}-unproven"),
        (RunAbout(), True, "conversation_1"),
    ],
    ids=["proven", "unproven", "unknown"],
)
def test_a_run_queues_behind_its_customers_others(
    about: RunAbout, proven: bool, behind: str
) -> None:
    assert partition_of("conversation_1", about, proven) == behind


def test_mail_in_a_customers_name_queues_apart(small_worker: Stage) -> None:
    small_worker.write("Where is my order?")
    small_worker.write("Where is my order?", aligned=False)
    keys = {run.partition_key for run in small_worker.live.doorbell.list_runs(limit=10)}
    assert keys == {hash_customer(ADA), f"{hash_customer(ADA)}-unproven"}
