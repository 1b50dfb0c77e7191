"""Runs that failed for one reason are replayed together: the plan first, then one click, then the progress."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent.engine import REFUND
from mailagent.engine.reasons import reason_key, sort_by_reason
from mailagent.engine.run import FailedStep, Run
from mailagent.store import schema
from mailagent.store.console import run_subjects
from mailagent.web.console import replays
from mailagent.web.console.replays import RUNS_AT_ONCE
from tests.cast import ADA, GRACE, KETTLE_WISH, NOW, OLGA, TESS, order
from tests.harness import Harness, running, wait_until
from tests.round_trips.provider_faults import model_says
from tests.round_trips.replays import wait_for_quiet
from tests.web.console.failed_runs import change_run, fail_run, lose
from tests.workflows.proposals import propose, write
from tests.workflows.trouble import failing, set_run, table_of_runs, wait_for_run


@pytest.fixture
def olga(shop: Harness) -> FlaskClient:
    """The operator, logged in."""
    return shop.log_in(OLGA)


def fail_to_pay_two(shop: Harness) -> list[str]:
    """Let the refunds of two customers fail where they are paid; return the runs."""
    shop.stock(order())
    shop.stock(order("W3001", customer={"email": GRACE, "name": "Grace"}))
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        shop.write(KETTLE_WISH.replace("W1001", "W3001"), from_address=GRACE)
        runs = shop.live.workflow_client.runs
        wait_until(lambda: len(runs.list_runs("ERROR")) == 2, 60, "both to fail")
        wait_for_quiet(shop)
    return [run.run_id for run in runs.list_runs("ERROR")]


def reasons_on(client: FlaskClient) -> list[str]:
    return re.findall(r'href="(/ops/replays\?reason=\w+)"', client.get("/ops/replays").text)


def press(client: FlaskClient, opened: str) -> TestResponse:
    """Press the button of a plan, as the page was when it was opened."""
    form = opened.partition('<form method="post" action="/ops/replays">')[2].partition("</form>")[0]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form):
        fields.setdefault(name, []).append(value)
    return client.post("/ops/replays", data=fields)


def failed_run(error: str, step: str = "pay_refund", number: int = 1) -> Run:
    return Run(
        f"refund-{number}", REFUND, "", "ERROR", NOW, NOW + timedelta(minutes=number), None, None,
        error=error, failed_step=FailedStep(3, step),
    )  # fmt: skip


AWAY = "refund refund_01m87gdvbphctenq5w4skzac{} could not be paid in {} attempts (503)"


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (failed_run(AWAY.format("aa", 7)), failed_run(AWAY.format("bb", 40)), True),
        (failed_run("KeyError: 'amount'"), failed_run("KeyError: 'amount'"), True),
        (failed_run("KeyError: 'amount'"), failed_run("KeyError: 'currency'"), False),
        (failed_run("KeyError: 'amount'"), failed_run("KeyError: 'amount'", "claim_refund"), False),
    ],
)
def test_ids_and_numbers_make_no_other_reason(first: Run, second: Run, alike: bool) -> None:
    assert (reason_key(first) == reason_key(second)) is alike


def test_the_reason_of_most_runs_comes_first_and_its_oldest_run_too() -> None:
    runs = [failed_run("b", number=3), failed_run("a", number=2), failed_run("b", number=1)]
    reasons = sort_by_reason(runs)
    assert [(each.error, len(each.runs)) for each in reasons] == [("b", 2), ("a", 1)]
    assert (reasons[0].first_at, reasons[0].last_at) == (runs[2].updated_at, runs[0].updated_at)


def test_what_failed_for_one_reason_is_replayed_by_one_click_once(
    shop: Harness, olga: FlaskClient
) -> None:
    run_ids = fail_to_pay_two(shop)
    (reason,) = reasons_on(olga)
    opened = olga.get(reason).text
    for told in (*run_ids, ADA, GRACE, "order W1001", "$99.98", "paid, once", "asks the payment"):
        assert told in html.unescape(opened), told
    assert len(shop.live.workflow_client.runs.list_runs("ERROR")) == 2  # to look starts nothing
    with running(shop):
        answer = press(olga, opened)
        assert answer.status_code == 303
        wait_until(lambda: [row.status for row in shop.refunds()] == ["paid"] * 2, 60, "paid")
        wait_for_quiet(shop)
    again = press(olga, opened)
    assert again.status_code == 409
    assert "Nothing was changed" in again.text
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 2
    acts = shop.rows("SELECT actor, subject FROM audit WHERE action = 'run rewound'")
    assert {tuple(act) for act in acts} == {(OLGA, run_id) for run_id in run_ids}
    progress = olga.get(answer.location).text
    assert "2 done, 0 under way, 0 failed" in progress
    assert "data-going-on" not in progress
    assert answer.location in olga.get("/ops/replays").text
    assert reasons_on(olga) == []


def test_the_sum_is_of_the_runs_that_are_listed(
    shop: Harness, olga: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_pay_two(shop)
    (reason,) = reasons_on(olga)
    assert "2 failed. Those listed are about $99.98 in all." in olga.get(reason).text
    monkeypatch.setattr(replays, "RUNS_AT_ONCE", 1)
    opened = olga.get(reason).text
    assert "the 1 oldest are replayed first. Those listed are about $49.99 in all." in opened


def test_a_refund_counts_once_in_the_sum_however_many_mails_are_about_it(
    shop: Harness, olga: FlaskClient
) -> None:
    shop.stock(order())
    propose(write(shop), "W1001")
    (refund,) = shop.refunds()
    for name in ("1", "2"):
        change_run(shop, fail_run(shop), f"""attributes = '{{"subject": "{lose(shop, name)}"}}'""")
    with shop.live.database.transaction() as connection:
        mails = schema.outbound_mails.update().where(
            schema.outbound_mails.c.status == "undelivered"
        )
        connection.execute(mails.values(refund_id=refund.refund_id))
    (reason,) = reasons_on(olga)
    assert "2 failed. Those listed are about $49.99 in all." in olga.get(reason).text


def test_a_reason_with_one_run_leads_to_the_plan_of_that_run(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = fail_run(shop)
    (reason,) = reasons_on(olga)
    answer = olga.get(reason)
    assert (answer.status_code, answer.location) == (303, f"/ops/runs/{run_id}/replay")
    fail_run(shop)
    assert olga.get(reason).status_code == 200


def test_what_is_put_off_is_not_done(shop: Harness, olga: FlaskClient) -> None:
    shop.faults.openai += [model_says(401, "invalid_api_key")] * 100
    with running(shop):
        shop.write("Where is my order?")
        run_id = wait_for_run(shop, "conversation", "ERROR")
        (reason,) = reasons_on(olga)
        answer = press(olga, olga.get(f"{reason}&from=2000-01-01T00:00").text)
        assert wait_for_run(shop, "conversation", "SUCCESS") == run_id
    progress = olga.get(answer.location).text
    assert "0 done, 0 under way, 0 failed" in progress
    assert "Put off until a provider can be asked: 1." in progress
    badge = '<span class="badge waiting">put off until a provider can be asked</span>'
    for path in (answer.location, f"/ops/runs/{run_id}", "/ops/runs"):
        assert badge in olga.get(path).text


def test_a_run_that_has_changed_since_is_left_alone(shop: Harness, olga: FlaskClient) -> None:
    run_ids = fail_to_pay_two(shop)
    opened = olga.get(reasons_on(olga)[0]).text
    set_run(shop, run_ids[0], "CANCELLED")
    answer = press(olga, opened)
    states = {run_id: state(shop, run_id) for run_id in run_ids}
    assert states == {run_ids[0]: "CANCELLED", run_ids[1]: "ENQUEUED"}
    progress = olga.get(answer.location).text
    assert "0 done, 1 under way, 0 failed" in progress
    assert "data-going-on" in progress


def state(shop: Harness, run_id: str) -> str:
    run = shop.live.workflow_client.runs.find_run(run_id)
    assert run is not None
    return run.status


def test_runs_are_chosen_by_the_time_of_their_failure(shop: Harness, olga: FlaskClient) -> None:
    early, late = fail_run(shop, minutes_ago=120), fail_run(shop, minutes_ago=10)
    (reason,) = reasons_on(olga)
    at = shop.live.now() - timedelta(minutes=60)
    before, after = (
        olga.get(f"{reason}&{name}={at:%Y-%m-%dT%H:%M}").text for name in ("to", "from")
    )
    assert (early in before, late in before) == (True, False)
    assert (early in after, late in after) == (False, True)
    assert "1 failed." in before
    assert "Older failures" not in before
    for nonsense in ("x", "2026-13-45T99:99", "%00"):
        assert early in olga.get(f"{reason}&from={nonsense}").text
    for far in ("from=0001-01-01T00:00", "to=9999-12-31T23:59"):
        assert early in olga.get(f"{reason}&{far}").text


def test_the_plan_of_many_runs_takes_no_more_queries(shop: Harness) -> None:
    ids = [f"{kind}_{number}" for kind in ("conversation", "refund", "outbound") for number in "12"]
    asked: list[str] = []
    sa.event.listen(
        shop.live.database.engine, "before_cursor_execute", lambda *call: asked.append(call[2])
    )
    with shop.live.database.snapshot() as connection:
        run_subjects.look(connection, ids[::2], source_name="the shop")
        few = len(asked)
        run_subjects.look(connection, ids, source_name="the shop")
    assert len(asked) == 2 * few


def copy_run(shop: Harness, run_id: str, number: int) -> None:
    """Have so many more runs that failed as this one did."""
    copy = (
        f"INSERT INTO {table_of_runs(shop)} (workflow_uuid, status, name, created_at, updated_at,"
    )
    copy += " completed_at, priority) SELECT :copy, status, name, created_at, updated_at,"
    copy += f" completed_at, 0 FROM {table_of_runs(shop)} WHERE workflow_uuid = :run"
    with shop.live.database.transaction() as connection:
        for each in range(number):
            connection.execute(sa.text(copy), {"copy": f"delivery-{each}", "run": run_id})


def test_one_click_replays_a_bounded_number(shop: Harness, olga: FlaskClient) -> None:
    copy_run(shop, fail_run(shop), RUNS_AT_ONCE)
    opened = olga.get(reasons_on(olga)[0]).text
    assert opened.count('name="run"') == RUNS_AT_ONCE
    assert f"the {RUNS_AT_ONCE} oldest are replayed first" in opened
    press(olga, opened)
    assert len(shop.live.workflow_client.runs.list_runs("ERROR")) == 1


def test_older_failures_are_found_by_their_time_however_many_failed_since(
    shop: Harness, olga: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fail_run(shop, minutes_ago=60 * 24 * 40), fail_run(shop)
    copy_run(shop, new, RUNS_AT_ONCE)
    (reason,) = reasons_on(olga)
    assert "There are older ones" not in olga.get("/ops/replays").text
    monkeypatch.setattr(replays, "FAILED_MAX", RUNS_AT_ONCE)
    assert "There are older ones" in olga.get("/ops/replays").text
    until = f"{shop.live.now() - timedelta(days=1):%Y-%m-%dT%H:%M}"
    opened = olga.get(f"{reason}&to={until}").text
    assert opened.count('name="run"') == 1
    assert old in opened
    assert "Older failures were not read" not in opened
    press(olga, opened)
    refused = press(olga, opened).text  # it tells of the time that the reader chose
    assert f'type="datetime-local" value="{until}"' in refused
    assert new not in refused


def test_a_plan_reads_until_it_has_enough_and_says_what_it_did_not_read(
    shop: Harness, olga: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, run_id = fail_run(shop, minutes_ago=9), fail_run(shop)
    change_run(shop, other, "status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'")
    copy_run(shop, run_id, RUNS_AT_ONCE)
    by_other = next(each for each in reasons_on(olga) if olga.get(each).status_code == 303)
    (by_reason,) = {*reasons_on(olga)} - {by_other}
    monkeypatch.setattr(replays, "FAILED_MAX", RUNS_AT_ONCE // 2)
    assert olga.get(by_other).status_code == 303  # on the third page
    assert "Older failures were not read" not in olga.get(by_reason).text
    monkeypatch.setattr(replays, "PAGES_MAX", 2)
    assert f"{RUNS_AT_ONCE} failed." in olga.get(by_reason).text
    for reason in (by_reason, by_other):
        opened = olga.get(reason).text
        assert "Older failures were not read" in opened
        assert "No run failed" not in opened


def test_a_plan_without_a_time_says_how_far_back_it_looked(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = fail_run(shop)
    (reason,) = reasons_on(olga)
    change_run(shop, run_id, "completed_at = completed_at - 86400000 * CAST(40 AS BIGINT)")
    opened = olga.get(reason)
    assert opened.status_code == 200
    assert "Without a time above, the last 30 days were read." in opened.text
    assert run_id in olga.get(f"{reason}&to=2100-01-01T00:00").text
    later = olga.get(f"{reason}&from=2100-01-01T00:00").text
    assert "replayed or dismissed" in later
    assert "Without a time above" not in later


def test_a_replay_that_is_not_there_is_told(olga: FlaskClient) -> None:
    assert olga.get("/ops/replays/replay_none").status_code == 404
    assert "No run failed for this reason" in olga.get("/ops/replays?reason=none").text


def test_the_team_replays_nothing(shop: Harness) -> None:
    assert shop.log_in(TESS).get("/ops/replays").status_code == 403
