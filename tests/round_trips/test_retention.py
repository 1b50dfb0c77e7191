"""What is old enough goes, and only that: afterwards links, pages, refunds and duplicates are as before."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.fakes.mailboxes import MailContent
from mailagent.demo.fakes.webhooks import build_body
from mailagent.workflows.steps.maintenance import housekeeping
from tests.cast import ADA, DESK_WISH, GRACE, KETTLE_WISH, MONA, OLGA, TESS, big_order, order
from tests.cli.commands import flask
from tests.harness import Harness, pass_time, post_form, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import facts, runs_of, wait_for_quiet
from tests.workflows.trouble import set_run, table_of_runs

ENDLESS = housekeeping.Deadline(None)
PATIENCE = 120.0  # seconds, for a busy machine


def kept_of_runs(shop: Harness) -> dict[str, set[str]]:
    """Return of which runs anything is kept, by each of the engine's tables that has something of runs."""
    engine = shop.live.database.engine
    schema = None if engine.dialect.name == "sqlite" else "dbos"
    found: dict[str, set[str]] = {}
    inspector = sa.inspect(engine)
    for name in inspector.get_table_names(schema):
        columns = {column["name"] for column in inspector.get_columns(name, schema)}
        for key in columns & {"workflow_uuid", "workflow_id", "destination_uuid"}:
            table = f"{schema}.{name}" if schema else name
            found[name] = {row[0] for row in shop.rows(f"SELECT {key} FROM {table}")}
    assert {"workflow_status", "operation_outputs", "notifications", "streams"} <= found.keys()
    return found


def play_everything(shop: Harness) -> MailContent:
    """Let money be paid with and without a manager, and one more manager be asked; return the first mail."""
    shop.stock(order(), big_order(), big_order("W2002", customer={"email": GRACE, "name": "Grace"}))
    with running(shop):
        first = shop.write(KETTLE_WISH)
        shop.wait_for_mails(ADA, 2, PATIENCE)
        shop.write(DESK_WISH)
        (asked,) = shop.wait_for_mails(MONA, 1, PATIENCE)
        decide(shop, link_in(asked.text), "approve", note="It is fine.", note_shared="yes")
        shop.wait_for_mails(ADA, 4, PATIENCE)
        wait_for_quiet(shop)
        shop.write(
            "The standing desk of order W2002 is damaged, please refund it.", from_address=GRACE
        )
        shop.wait_for_mails(MONA, 2, PATIENCE)
        wait_until(shop.at_rest, PATIENCE, "rest")
        wait_until(
            lambda: len(at_work(shop)) == 1, PATIENCE, "only the refund that waits to be left"
        )
    return first


def at_work(shop: Harness) -> list[str]:
    return [run.run_id for run in shop.live.workflow_client.runs.list_runs() if run.is_active]


@pytest.mark.both_databases
def test_after_a_purge_of_histories_everything_is_as_before_but_those(shop: Harness) -> None:
    first = play_everything(shop)
    (waiting,) = shop.rows("SELECT run_id FROM refunds WHERE status = 'awaiting_approval'")
    # Sweeps too, if a minute has come.
    purged = [row[0] for row in shop.rows(f"SELECT workflow_uuid FROM {table_of_runs(shop)}")]
    purged.remove(waiting.run_id)
    ended = runs_of(shop, "refund")[-1]
    before = facts_in_order(shop)

    assert housekeeping.delete_histories(ENDLESS) == 0
    pass_time(shop, days=31)
    assert f"{len(purged)}  histories of runs" in flask(shop, "purge", "--dry-run").output
    assert f"{len(purged)}  histories of runs" in flask(shop, "purge").output
    services.bind(shop.live)

    assert set().union(*kept_of_runs(shop).values()) == {waiting.run_id}
    assert "its record has been deleted" in shop.log_in(OLGA).get(f"/ops/runs/{ended}").text
    for verb in ("show", "replay"):
        told = flask(shop, "runs", verb, ended)
        assert (told.exit_code, "its history was deleted" in told.output) == (1, True)
    check_pages(shop)
    assert shop.post_inbound(build_body(first)).status_code == 200
    with running(shop):
        wake_for_all_again(shop)
        wait_until(
            lambda: len(runs_of(shop, "refund")) == 3, PATIENCE, "the runs that were enqueued for"
        )
        wait_until(shop.at_rest, PATIENCE, "rest")
        wait_until(lambda: runs_done(shop) >= 2, PATIENCE, "the end of them")
    assert facts_in_order(shop) == before


def facts_in_order(shop: Harness) -> list[list[str]]:
    return [sorted(map(str, rows)) for rows in facts(shop)]


def check_pages(shop: Harness) -> None:
    """Look at every page that led to a run, and at the link that a manager was mailed."""
    client = shop.log_in(OLGA)
    assert "Approved" in shop.client.get(link_in(shop.mails_to(MONA)[0].text)).text
    rows = shop.rows("SELECT refund_id, conversation_id FROM refunds")
    for path in (
        "/ops",
        "/ops/runs",
        *(f"/ops/refunds/{row.refund_id}" for row in rows),
        *(f"/ops/conversations/{row.conversation_id}" for row in rows),
    ):
        assert client.get(path).status_code == 200, path


def wake_for_all_again(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        for row in shop.rows("SELECT refund_id, run_id FROM refunds WHERE status = 'paid'"):
            shop.live.workflow_client.queue.enqueue_refund(connection, row.refund_id, row.run_id)


def runs_done(shop: Harness) -> int:
    return len(shop.live.workflow_client.runs.list_runs(status="SUCCESS"))


@pytest.mark.both_databases
def test_a_run_whose_row_is_open_stays_however_old_it_is(shop: Harness) -> None:
    shop.stock(order())
    shop.write(KETTLE_WISH)
    (mail,) = shop.rows("SELECT run_id FROM inbound_mails")
    set_run(shop, mail.run_id, "CANCELLED")
    pass_time(shop, days=400)
    assert housekeeping.delete_histories(ENDLESS) == 0
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'a test'"
        )
    assert housekeeping.delete_histories(ENDLESS) == 1
    assert housekeeping.delete_histories(ENDLESS) == 0


# Of each: its workflow, its state, how old it is, and whether it goes.
AGES = (
    ("sweep", "SUCCESS", 3, True),
    ("sweep", "PENDING", 3, True),  # its worker never came back
    ("sweep", "SUCCESS", 1, False),
    ("housekeeping", "SUCCESS", 3, True),
    ("sweep", "ERROR", 3, False),
    ("sweep", "ERROR", 31, True),
    ("delivery", "SUCCESS", 29, False),
    ("delivery", "SUCCESS", 31, True),
    ("delivery", "ERROR", 31, True),
    ("delivery", "PENDING", 400, False),
)


@pytest.mark.both_databases
def test_what_the_schedule_began_goes_sooner_and_what_is_at_work_stays(shop: Harness) -> None:
    now, table = shop.live.now(), table_of_runs(shop)
    stays = set()
    with shop.live.database.transaction() as connection:
        for number, (name, status, days, gone) in enumerate(AGES):
            run_id = f"run-{number}"
            at = round((now - timedelta(days=days)).timestamp() * 1000)
            values = {"id": run_id, "name": name, "status": status, "at": at}
            columns = "workflow_uuid, name, status, created_at, updated_at, inputs, priority"
            connection.execute(
                sa.text(
                    f"INSERT INTO {table} ({columns}) VALUES (:id, :name, :status, :at, :at, '', 0)"
                ),
                values,
            )
            stays |= set() if gone else {run_id}
    assert housekeeping.delete_histories(ENDLESS) == len(AGES) - len(stays)
    assert {row[0] for row in shop.rows(f"SELECT workflow_uuid FROM {table}")} == stays


def record_runs(shop: Harness, name: str, ended: datetime, count: int = 1) -> None:
    """Record runs that began and ended at a time."""
    at = round(ended.timestamp() * 1000)
    columns = "workflow_uuid, name, status, created_at, updated_at, inputs, priority"
    with shop.live.database.transaction() as connection:
        for number in range(count):
            connection.execute(
                sa.text(
                    f"INSERT INTO {table_of_runs(shop)} ({columns})"
                    " VALUES (:id, :name, 'SUCCESS', :at, :at, '', 0)"
                ),
                {"id": f"{name}-{at}-{number}", "name": name, "at": at},
            )


def ids_of_runs(shop: Harness) -> set[str]:
    return {row[0] for row in shop.rows(f"SELECT workflow_uuid FROM {table_of_runs(shop)}")}


def test_one_step_takes_many_batches_until_its_time_is_used(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "RUNS_AT_ONCE", 2)
    record_runs(shop, "delivery", shop.live.now() - timedelta(days=31), 9)
    asked = itertools.count(1)
    # Asked once for what the schedule began, then before each batch.
    used = SimpleNamespace(has_passed=lambda: next(asked) > 4)
    with monkeypatch.context() as patched:
        patched.setattr(housekeeping, "Deadline", lambda _seconds: used)
        assert housekeeping.purge_histories() == 6
    assert len(ids_of_runs(shop)) == 3
    assert housekeeping.purge_histories() == 3


@pytest.mark.both_databases
def test_what_the_schedule_left_long_ago_goes_once_a_day(shop: Harness) -> None:
    noon = shop.live.now().replace(hour=12)
    services.bind(replace(shop.live, now=lambda: noon))
    record_runs(shop, "sweep", noon - timedelta(days=2, hours=5))
    record_runs(shop, "sweep", noon - timedelta(days=5))
    assert [housekeeping.purge_histories(), housekeeping.purge_histories()] == [1, 0]
    at_night = noon.replace(hour=housekeeping.LOOKS_AT_ALL_IN_HOUR)
    services.bind(replace(shop.live, now=lambda: at_night))
    assert housekeeping.purge_histories() == 1
    assert ids_of_runs(shop) == set()


@pytest.mark.both_databases
def test_a_run_that_is_replayed_just_then_stays(shop: Harness) -> None:
    shop.write("Hello")
    (mail,) = shop.rows("SELECT run_id FROM inbound_mails")
    set_run(shop, mail.run_id, "ERROR")
    before = shop.live.now() + timedelta(days=1)
    with shop.live.database.transaction() as connection:
        found = shop.live.workflow_client.tables.list_old(connection, before, 10, scheduled=False)
    assert [run.run_id for run in found] == [mail.run_id]
    set_run(shop, mail.run_id, "ENQUEUED")
    with shop.live.database.transaction() as connection:
        assert shop.live.workflow_client.tables.delete_old(connection, [mail.run_id], before) == []


def test_two_purges_at_once_take_different_runs(shop: Harness) -> None:
    # On PostgreSQL only: SQLite has one writer at a time.
    client, before = shop.live.workflow_client, shop.live.now() + timedelta(days=1)
    shop.write("Hello")
    shop.write("Hello again")
    runs = [row.run_id for row in shop.rows("SELECT run_id FROM inbound_mails")]
    for run_id in runs:
        set_run(shop, run_id, "SUCCESS")
    with shop.live.database.transaction() as connection:
        assert client.tables.delete_old(connection, runs[:1], before) == runs[:1]
        with shop.live.database.transaction() as other:
            assert client.tables.delete_old(other, runs, before) == runs[1:]
    assert set().union(*kept_of_runs(shop).values()) == set()


OURS = "SELECT subject, text, html FROM outbound_mails"
MONEY = (
    "SELECT refund_id, amount_minor, status, decided_by, gateway_reference FROM refunds ORDER BY 1",
    "SELECT * FROM ledger_entries ORDER BY 1",
    "SELECT * FROM decisions",
    "SELECT * FROM audit ORDER BY audit_id",
)


def test_old_words_go_only_where_nothing_is_open_and_only_if_the_shop_wants_it(
    shop: Harness,
) -> None:
    play_everything(shop)
    with running(shop):
        shop.write("I want to talk to a human being!", from_address=TESS, subject="Hello")
        wait_until(shop.at_rest, PATIENCE, "rest")
    money = [shop.rows(each) for each in MONEY]
    pass_time(shop, days=91)
    assert housekeeping.take_out_text(ENDLESS) == 0
    kept = replace(services.current().retention, mail_days=90)
    services.bind(replace(services.current(), retention=kept))
    assert "without mail for 90 days" in flask(shop, "purge", "--dry-run").output
    assert housekeeping.take_out_text(ENDLESS) > 0
    assert housekeeping.take_out_text(ENDLESS) == 0

    said = {
        (row.from_address, bool(row.new_text)) for row in shop.rows("SELECT * FROM inbound_mails")
    }
    assert (ADA, False) in said
    assert (ADA, True) not in said
    assert (GRACE, True) in said  # her refund waits
    theirs = (
        f"{OURS} WHERE to_address = '{ADA}' OR refund_id IN (SELECT refund_id FROM refunds"
        " WHERE status = 'paid')"
    )
    assert {tuple(row) for row in shop.rows(theirs)} == {("", "", None)}
    assert [shop.rows(each) for each in MONEY] == money
    services.bind(shop.live)
    check_pages(shop)
    with running(shop):  # and the conversation goes on
        shop.write("And my kettle?", in_reply_to=shop.mails_to(ADA)[0].message_id)
        shop.wait_for_mails(ADA, 5, PATIENCE)


@pytest.mark.both_databases
def test_logins_go_a_week_after_they_have_expired(shop: Harness) -> None:
    post_form(shop.client, "/ops/login", email=OLGA)
    shop.log_in(OLGA)
    pass_time(shop, days=6)
    assert housekeeping.delete_short_lived(ENDLESS) == 0
    pass_time(shop, days=9)
    assert housekeeping.delete_short_lived(ENDLESS) == 3
    assert shop.rows("SELECT 1 FROM sessions UNION ALL SELECT 1 FROM login_links") == []


def test_housekeeping_runs_by_the_clock_and_leaves_no_trace_of_itself(shop: Harness) -> None:
    with running(shop):
        from dbos import DBOS

        names = {schedule["schedule_name"] for schedule in DBOS.list_schedules()}
    assert names == {"sweep", "housekeeping", "previews"}
