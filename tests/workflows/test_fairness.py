"""Customers beside each other: one who writes a thousand mails is one customer, and delays no other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mailagent.domain.operations.run_about import RunAbout, hash_customer
from mailagent.engine.enqueue import partition_of
from mailagent.workflows.steps.conversation import batch
from tests.cast import ADA, GRACE, TESS
from tests.databases import postgres_copy
from tests.harness import Harness, open_shop, running, wait_until
from tests.processes import Worker, base_environment
from tests.workflows.counting_openai import CrowdedOpenAI
from tests.workflows.trouble import table_of_runs

FLOOD = 40
OTHERS = [f"other{number}@example.org" for number in range(6)]
THREADS = 4


@pytest.fixture
def openai() -> Iterator[CrowdedOpenAI]:
    server = CrowdedOpenAI(latency_seconds=0.6)
    server.start()
    yield server
    server.stop()


@contextmanager
def open_small_shop(
    folder: Path, url: str, openai: CrowdedOpenAI, at_once: int
) -> Iterator[Harness]:
    """Open a shop whose workers answer so many conversations at a time; none runs yet."""
    settings = {"CONVERSATION_CONCURRENCY": str(at_once), "OPENAI_BASE_URL": f"{openai.url}/v1"}
    with open_shop(folder, url, settings) as harness:
        yield harness


@pytest.fixture
def small_worker(tmp_path: Path, database_url: str, openai: CrowdedOpenAI) -> Iterator[Harness]:
    with open_small_shop(tmp_path, database_url, openai, at_once=2) as harness:
        yield harness


def test_a_flood_in_many_threads_does_not_delay_other_customers(small_worker: Harness) -> None:
    for number in range(FLOOD):
        small_worker.write("Where is my order?", subject=f"thread {number}")
    for address in OTHERS:
        small_worker.write("Where is mine?", from_address=address, from_name="O")
    with running(small_worker):
        wait_until(lambda: all(map(small_worker.mails_to, OTHERS)), 60, "the others' answers")
        before = len(small_worker.mails_to(ADA))
    # The flood has one place of two, so it gets about as many answers as the others together. In an order
    # by chance among threads it would have 34 of its 40, and as few as this once in some two thousand times.
    assert before <= len(OTHERS) + 3


def write_in_threads(shop: Harness) -> None:
    """Let two customers write in several threads each."""
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(THREADS):
            pool.submit(shop.write, "Hello?", subject=f"thread {number}")
            pool.submit(shop.write, "Hello?", subject=f"case {number}", from_address=GRACE)


def wait_for_answers(shop: Harness) -> None:
    shop.wait_for_mails(ADA, THREADS)
    shop.wait_for_mails(GRACE, THREADS)


def test_the_threads_of_one_customer_are_answered_one_after_the_other(
    small_worker: Harness, openai: CrowdedOpenAI
) -> None:
    write_in_threads(small_worker)
    with running(small_worker):
        wait_for_answers(small_worker)
    assert openai.most_of == {hash_customer(ADA): 1, hash_customer(GRACE): 1}
    assert openai.most == 2


def test_two_workers_answer_the_threads_of_one_customer_one_after_the_other(
    tmp_path: Path, postgres_url: str, migrated_postgres: str, openai: CrowdedOpenAI
) -> None:
    with (
        postgres_copy(postgres_url, migrated_postgres) as url,
        open_small_shop(tmp_path, url, openai, at_once=1) as shop,
    ):
        other = Worker("other", {**base_environment(), **shop.environ}, tmp_path)
        with running(shop):
            other.start_and_wait()
            try:
                write_in_threads(shop)
                wait_for_answers(shop)
            finally:
                other.kill()
        ran = f"SELECT DISTINCT executor_id FROM {table_of_runs(shop)} WHERE name = 'conversation'"
        assert {row.executor_id for row in shop.rows(ran)} == {"test", "other"}
    assert openai.most_of == {hash_customer(ADA): 1, hash_customer(GRACE): 1}
    assert openai.most == 2


def runs_at_work(shop: Harness) -> bool:
    runs = shop.live.workflow_client.runs.list_runs(limit=50)
    return any(run.is_active for run in runs if run.workflow == "conversation")


def test_two_runs_of_one_thread_beside_each_other_answer_a_mail_each(
    small_worker: Harness, openai: CrowdedOpenAI
) -> None:
    first = small_worker.write("Hello?")
    # Of one thread, but in her name only, so it queues apart.
    small_worker.write("Hello again?", in_reply_to=first.message_id, aligned=False)
    with running(small_worker):
        small_worker.wait_for_mails(ADA)
        wait_until(lambda: not runs_at_work(small_worker), 30, "both runs to end")
        assert openai.most_of == {hash_customer(ADA): 2}  # they were beside each other
        wait_until(small_worker.at_rest, 30, "both mails to be answered")
    assert len(small_worker.rows("SELECT 1 FROM conversations")) == 1
    mails = small_worker.rows("SELECT status, answered_by FROM inbound_mails")
    assert [mail.status for mail in mails] == ["answered", "answered"]
    assert len({mail.answered_by for mail in mails}) == 2
    assert len(small_worker.mails_to(ADA)) == 2
    assert not small_worker.mails_to(TESS)


def take_as(run_id: str, shop: Harness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take a batch in a run of this id; return the texts of its mails."""
    monkeypatch.setattr(batch, "DBOS", SimpleNamespace(workflow_id=run_id))
    (thread,) = shop.rows("SELECT conversation_id FROM conversations")
    taken = batch.take_batch(thread.conversation_id)
    texts = {row.mail_id: row.new_text for row in shop.rows("SELECT * FROM inbound_mails")}
    return [] if taken is None else [texts[mail_id] for mail_id in taken["mail_ids"]]


def run_for(text: str, shop: Harness) -> str:
    rows = shop.rows("SELECT run_id FROM inbound_mails WHERE new_text = :text", text=text)
    return str(rows[0].run_id)


@pytest.mark.parametrize("suffix", ["", "-2", "-fork-1"], ids=["first", "again", "fork"])
def test_a_run_takes_mail_like_the_one_it_was_enqueued_for(
    shop: Harness, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    first = shop.write("Hello?")
    shop.write("In her name.", in_reply_to=first.message_id, aligned=False)
    shop.write("Hello again?", in_reply_to=first.message_id)
    for_ada, for_other = (run_for(text, shop) + suffix for text in ("Hello?", "In her name."))
    assert take_as(for_ada, shop, monkeypatch) == ["Hello?", "Hello again?"]
    assert take_as(for_other, shop, monkeypatch) == ["In her name."]
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'a test' "
            "WHERE new_text <> 'In her name.'"
        )
    assert take_as(for_ada, shop, monkeypatch) == []  # the other mail's run may be at work
    assert take_as(for_other, shop, monkeypatch) == ["In her name."]


def test_the_teams_words_are_taken_although_an_older_mail_waits(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write("Hello?")
    (thread,) = shop.rows("SELECT team_token FROM conversations")
    door = f"team+{thread.team_token}@shop.example"
    shop.write("Dear Ada, I will call you.", from_address=TESS, to=door, subject="Re: My order")
    for text in ("Hello?", "Dear Ada, I will call you."):
        assert take_as(run_for(text, shop), shop, monkeypatch) == [text]


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


def test_mail_in_a_customers_name_queues_apart(small_worker: Harness) -> None:
    small_worker.write("Where is my order?")
    small_worker.write("Where is my order?", aligned=False)
    keys = {run.partition_key for run in small_worker.live.workflow_client.runs.list_runs(limit=10)}
    assert keys == {hash_customer(ADA), f"{hash_customer(ADA)}-unproven"}
