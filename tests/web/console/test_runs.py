"""Runs in the console: found, looked at, replayed in place or as a fork, stopped. One click does it once."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent.engine import REFUND
from mailagent.engine.run import Run
from mailagent.store.refunds import stops
from tests.cast import ADA, GRACE, KETTLE_WISH, MALLORY, OLGA, order
from tests.cli.commands import flask
from tests.harness import Harness, post_form, running
from tests.round_trips.replays import wait_for_quiet
from tests.workflows.trouble import (
    enqueue_by_hand,
    failing,
    set_run,
    table_of_runs,
    wait_for_run,
    watched,
)


@pytest.fixture
def olga(shop: Harness) -> FlaskClient:
    """The operator, logged in."""
    return shop.log_in(OLGA)


def fail_to_pay(shop: Harness) -> str:
    """Let the run of a refund fail where it pays; return the run."""
    shop.stock(order())
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        run_id = wait_for_run(shop, REFUND, "ERROR")
        shop.wait_for_mails(ADA)
        wait_for_quiet(shop)
    return run_id


def load(shop: Harness, run_id: str) -> Run:
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    return run


def path(run_id: str) -> str:
    return f"/ops/runs/{run_id}"


def press(client: FlaskClient, run_id: str, how: str, opened: str | None = None) -> TestResponse:
    """Press a button of the replay page, as it was when it was `opened` (now, by default)."""
    page = opened or client.get(f"{path(run_id)}/replay").text
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
    fields["how"] = how
    return client.post(f"{path(run_id)}/replay", data=fields)


def listed(client: FlaskClient, query: str) -> set[str]:
    page = client.get(f"/ops/runs?{query}")
    assert page.status_code == 200
    return set(re.findall(r'<a href="/ops/runs/([\w.%-]+)">', page.text))


def test_the_plan_of_a_refund_that_is_not_paid_any_more_says_so(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = fail_to_pay(shop)
    shop.stock(order(status="cancelled"))
    told = (
        f"a replay does not pay it: {stops.CANCELLED}. It ends as failed, and the customer is told."
    )
    for shown in (path(run_id), f"{path(run_id)}/replay"):
        assert told in olga.get(shown).text
    assert told in flask(shop, "runs", "show", run_id).stdout
    german = olga.get(path(run_id), headers={"Accept-Language": "de"}).text
    assert "die Bestellung wurde storniert, nachdem die Erstattung genehmigt" in german
    with running(shop):
        press(olga, run_id, "rewind")
        shop.wait_for_refund("failed")
        shop.wait_for_mails(ADA, 2)


@pytest.mark.parametrize(
    ("path", "filtered"),
    [
        ("/ops/runs", "status=failed"),
        ("/ops/audit", "actor=x"),
        ("/ops/report", "from=2020-01-01&to=2020-01-09"),
        ("/ops/conversations", "owner=mine"),
        ("/ops?waiting=people", "owner=mine"),
        ("/ops/search", "q=kettle&from=2026-01-01"),
    ],
)
def test_filters_are_folded_until_one_is_set(olga: FlaskClient, path: str, filtered: str) -> None:
    assert '<details class="roomy"><summary>Filters' in olga.get(path).text
    query = f"{path}{'&' if '?' in path else '?'}{filtered}"
    assert '<details class="roomy" open><summary>Filters' in olga.get(query).text


# --- a run that failed, from the list to its end -----------------------------------------------------


def test_a_failed_run_is_found_looked_at_and_run_again_once(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = fail_to_pay(shop)
    assert listed(olga, "status=failed") == {run_id}
    page = olga.get(path(run_id)).text
    refund = shop.refunds()[0]
    assert f"/ops/refunds/{refund.refund_id}" in page
    assert "is approved by policy and not paid: it will be paid, once" in page
    assert "a word of hers" not in page  # the error quoted it
    assert "pay_refund: Mistake in mailagent.workflows.steps.recording" in page
    row = olga.get("/ops/runs?status=failed").text
    for told in (ADA, "order W1001", "$49.99", "pay_refund: Mistake"):
        assert told in row
        assert told in page
    assert "Taken over" not in row
    german = olga.get("/ops/runs?status=failed", headers={"Accept-Language": "de"}).text
    assert ", pay_refund: Mistake" in german
    assert "Replayed here before" not in page
    opened = olga.get(f"{path(run_id)}/replay").text
    for told in (page, opened):
        assert "<h1>Completes a refund: <bdi>order W1001</bdi></h1>" in told
        assert f"Run <bdi>{run_id}</bdi></p>" in told
    assert "asks the payment gateway under the refund&#39;s own key" in opened
    assert load(shop, run_id).status == "ERROR"  # to look starts nothing
    with running(shop):
        answer = press(olga, run_id, "rewind", opened)
        assert (answer.status_code, answer.location) == (303, f"{path(run_id)}?done=rewound")
        shop.wait_for_refund("paid")
        shop.wait_for_mails(ADA, 2)
        wait_for_quiet(shop)
    again = press(olga, run_id, "rewind", opened)  # the second click comes late
    assert again.status_code == 409
    assert "not replayed again" in again.text
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert len(shop.mails_to(ADA)) == 2
    acts = shop.rows("SELECT actor, action FROM audit WHERE subject = :run_id", run_id=run_id)
    assert (OLGA, "run rewound") in [tuple(act) for act in acts]
    plan = olga.get(f"{path(run_id)}/replay?from_step=1").text
    assert re.search("paid on <time datetime=.*</time> .*it is not paid again", plan)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["outbound_\0"], {}), ([], {}), ([], {"outbound_id": "outbound_none"})],
    ids=["no text for a database", "none", "named"],
)
def test_a_run_that_was_enqueued_by_hand_is_shown(
    shop: Harness, olga: FlaskClient, arguments: list[str], named: dict[str, str]
) -> None:
    enqueue_by_hand(shop, "delivery-by-hand", *arguments, **named)
    set_run(shop, "delivery-by-hand", "ERROR")
    pages = ("/ops", "/ops/runs", "/ops/replays", "/ops?waiting=failed", path("delivery-by-hand"))
    assert [olga.get(page).status_code for page in pages] == [200] * len(pages)
    assert load(shop, "delivery-by-hand").subject == named.get("outbound_id", "")
    assert shop.app.test_cli_runner().invoke(args=["runs", "list"]).exit_code == 0


def test_a_fork_is_made_once_and_pays_once(shop: Harness, olga: FlaskClient) -> None:
    run_id = fail_to_pay(shop)
    opened = olga.get(f"{path(run_id)}/replay").text
    assert press(olga, run_id, "fork", opened).location == f"{path(run_id)}?done=forked"
    assert press(olga, run_id, "fork", opened).status_code == 409
    fork = load(shop, f"{run_id}-fork-1")
    assert (fork.status, fork.forked_from) == ("ENQUEUED", run_id)
    assert fork.attributes == load(shop, run_id).attributes
    assert path(fork.run_id) in olga.get(path(run_id)).text
    assert path(run_id) in olga.get(path(fork.run_id)).text
    with running(shop):
        shop.wait_for_refund("paid")
        shop.wait_for_mails(ADA, 2)
        wait_for_quiet(shop)
    assert load(shop, run_id).status == "ERROR"  # it stays as it was
    assert load(shop, fork.run_id).status == "SUCCESS"
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert len(shop.mails_to(ADA)) == 2


def test_a_replay_that_fails_again_says_what_else_there_is(
    shop: Harness, olga: FlaskClient
) -> None:
    with failing("take_batch"), running(shop):
        shop.write("Hello?")
        run_id = wait_for_run(shop, "conversation", "ERROR")
    queued = "The run is queued again"
    done = press(olga, run_id, "rewind").location
    assert queued in olga.get(done).text
    with failing("take_batch"), running(shop):
        wait_for_run(shop, "conversation", "ERROR")
    page = olga.get(done).text
    assert queued not in page
    thread = f"/ops/conversations/{load(shop, run_id).subject}"
    assert f'<a href="{thread}">take the conversation over</a>' in page
    assert f'formaction="{thread}/take-over"' in olga.get(thread).text


def test_a_fork_of_a_conversation_waits_for_its_turn(shop: Harness, olga: FlaskClient) -> None:
    with failing("take_batch"), running(shop):
        shop.write("Hello?")
        run_id = wait_for_run(shop, "conversation", "ERROR")
    press(olga, run_id, "fork")
    assert load(shop, f"{run_id}-fork-1").partition_key == load(shop, run_id).partition_key
    with running(shop):
        assert len(shop.wait_for_mails(ADA)) == 1


def test_a_run_is_forked_again_after_one_of_its_forks_was_deleted(
    shop: Harness, olga: FlaskClient
) -> None:
    with failing("take_batch"), running(shop):
        shop.write("Hello?")
        run_id = wait_for_run(shop, "conversation", "ERROR")
    for _ in range(2):
        press(olga, run_id, "fork")
    shop.live.workflow_client.replays.delete_histories([f"{run_id}-fork-1"])
    assert press(olga, run_id, "fork").status_code == 303
    assert load(shop, f"{run_id}-fork-3").forked_from == run_id


def test_a_run_that_failed_again_says_how_often_it_was_replayed(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = fail_to_pay(shop)
    for number in (1, 2):
        with failing("pay_refund"), running(shop):
            press(olga, run_id, "rewind")
            wait_for_run(shop, REFUND, "ERROR")
            wait_for_quiet(shop)
        assert (
            f"Replayed here before: {number}. It has failed again." in olga.get(path(run_id)).text
        )
        for page in (path(run_id), "/ops/runs?status=failed", "/ops"):
            assert f"pay_refund: attempt {number + 1}: " in olga.get(page).text, page
    with failing("pay_refund"), running(shop):
        press(olga, run_id, "fork")
        wait_for_run(shop, REFUND, "ERROR")
        wait_for_quiet(shop)
    assert "pay_refund: attempt 2: " in olga.get(path(f"{run_id}-fork-1")).text


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("amount_minor", "'amount_minor'"),
        ("the order has no payment left", "the order has no payment left"),
    ],
)
def test_a_key_that_was_missing_is_named_everywhere(
    shop: Harness, olga: FlaskClient, missing: str, told: str
) -> None:
    def fail() -> None:
        raise KeyError(missing)

    with watched("take_batch before", fail), running(shop):
        shop.write("Hello?")
        run_id = wait_for_run(shop, "conversation", "ERROR")
    why = rf"step 1, take_batch: KeyError in mailagent\.[\w.]+:\d+: {told}"
    shown = shop.app.test_cli_runner().invoke(args=["runs", "show", run_id]).output
    assert re.search(f"failed: {why}", shown)
    assert "about: a…@example.com" in shown
    for page in ("/ops", "/ops/runs", path(run_id)):
        assert re.search(why, html.unescape(olga.get(page).text)), page


def test_an_error_of_a_workflow_s_body_is_told_with_its_type(
    shop: Harness, olga: FlaskClient
) -> None:
    run_id = woken(shop)
    change = {"message": "'amount_minor'", "name": "KeyError"}
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(f"UPDATE {table_of_runs(shop)} SET status = 'ERROR', error = :error"),
            {"error": json.dumps(change)},
        )
    assert load(shop, run_id).error == "KeyError: 'amount_minor'"
    assert "KeyError: &#39;amount_minor&#39;" in olga.get(path(run_id)).text


def test_a_run_that_was_taken_over_says_so(shop: Harness, olga: FlaskClient) -> None:
    run_id = woken(shop)
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(f"UPDATE {table_of_runs(shop)} SET status = 'PENDING', recovery_attempts = 2")
        )
    for page in ("/ops/runs", path(run_id)):
        assert "Taken over: 2 workers have begun it; the one before" in olga.get(page).text, page


# --- without workflows: what is on record -------------------------------------------------------------


def woken(shop: Harness, text: str = "Hello?", **changes: str) -> str:
    """Write a mail that nobody works on; return the run that was queued for it."""
    before = {run.run_id for run in shop.live.workflow_client.runs.list_runs()}
    shop.write(text, **changes)
    (run_id,) = {run.run_id for run in shop.live.workflow_client.runs.list_runs()} - before
    return run_id


def test_a_run_at_work_is_not_replayed_but_stopped(shop: Harness, olga: FlaskClient) -> None:
    run_id = woken(shop)
    opened = olga.get(f"{path(run_id)}/replay").text
    assert "It is still active" in opened
    for how in ("rewind", "fork"):
        answer = post_form(
            olga, f"{path(run_id)}/replay", page=path(run_id), how=how, from_step="1"
        )
        assert answer.status_code == 409
        assert "still active" in answer.text
    assert load(shop, run_id).status == "ENQUEUED"
    answer = post_form(olga, f"{path(run_id)}/cancel", page=path(run_id))
    assert answer.location == f"{path(run_id)}?done=stopped"
    assert load(shop, run_id).status == "CANCELLED"
    page = olga.get(answer.location).text
    assert "ends before its next step" in page
    again = olga.post(f"{path(run_id)}/cancel", data={"csrf_token": _token(page)})
    assert again.status_code == 409
    assert "has ended already" in again.text


def _token(page: str) -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_a_step_that_a_run_does_not_have_starts_nothing(shop: Harness, olga: FlaskClient) -> None:
    run_id = woken(shop)
    shop.live.workflow_client.replays.cancel_run(run_id)
    replay = f"{path(run_id)}/replay"
    for step in ("0", "-1", "2", "9" * 20, "x", ""):
        assert olga.get(replay, query_string={"from_step": step}).status_code == 200
        answer = post_form(olga, replay, how="rewind", from_step=step)
        assert answer.status_code == 409
    assert load(shop, run_id).status == "CANCELLED"


def test_runs_are_found_by_what_they_are_about(shop: Harness, olga: FlaskClient) -> None:
    ada, grace = woken(shop), woken(shop, from_address=GRACE)
    conversation = load(shop, ada).subject
    hashed = load(shop, ada).attributes["customer_hash"]
    for about in (conversation, ADA, ADA.upper(), hashed, f" {ADA} "):
        assert listed(olga, f"about={about}") == {ada}, about
    assert listed(olga, f"about={GRACE}") == {grace}
    assert listed(olga, "about=W9999") == set()
    assert ADA not in str(load(shop, ada).attributes)


def test_a_refund_s_run_is_found_by_its_order_and_its_mail_s_run_too(shop: Harness) -> None:
    run_id = fail_to_pay(shop)
    refund = shop.refunds()[0]
    assert load(shop, run_id).attributes.keys() == {
        "subject", "conversation", "order", "refund", "customer_hash",
    }  # fmt: skip
    workflow_client = shop.live.workflow_client
    for about in ("W1001", refund.refund_id):
        assert [run.run_id for run in workflow_client.runs.list_runs(subject=about)] == [run_id]
    (mail,) = shop.rows("SELECT outbound_id FROM outbound_mails WHERE purpose = 'reply'")
    with shop.live.database.transaction() as connection:
        delivery = workflow_client.queue.enqueue_delivery(connection, mail.outbound_id)
    assert load(shop, delivery).attributes["conversation"] == refund.conversation_id
    assert {run.workflow for run in workflow_client.runs.list_runs(subject=refund.conversation_id)} == {
        "conversation", "refund", "delivery",
    }  # fmt: skip


def test_runs_are_filtered_by_state_workflow_and_day(shop: Harness, olga: FlaskClient) -> None:
    failed, waits = woken(shop), woken(shop, from_address=GRACE)
    set_run(shop, failed, "ERROR")
    today = shop.live.now()
    tomorrow = f"{today + timedelta(days=1):%Y-%m-%d}"
    assert listed(olga, "status=ERROR") == listed(olga, "status=failed") == {failed}
    assert listed(olga, "status=ENQUEUED&workflow=conversation") == {waits}
    assert listed(olga, "workflow=refund") == set()
    assert listed(olga, f"from={today:%Y-%m-%d}&to={tomorrow}") == {failed, waits}
    assert listed(olga, f"from={tomorrow}") == set()
    assert listed(olga, "status=nonsense&workflow=x&from=x&after=x.y") == {failed, waits}


def test_a_long_list_has_pages(shop: Harness, olga: FlaskClient) -> None:
    run_id = woken(shop)
    with shop.live.database.transaction() as connection:
        for number in range(60):
            copy = f"INSERT INTO {table_of_runs(shop)} (workflow_uuid, status, name, created_at,"
            copy += " updated_at, priority, inputs) SELECT :copy, 'SUCCESS', name, created_at,"
            copy += f" updated_at, 0, inputs FROM {table_of_runs(shop)} WHERE workflow_uuid = :run"
            connection.execute(sa.text(copy), {"copy": f"conversation-{number:02}", "run": run_id})
    first = olga.get("/ops/runs?workflow=conversation").text
    found = re.search(r'rel="next" href="/ops/runs\?([^"]+)"', first)
    assert found is not None
    on_first = listed(olga, "workflow=conversation")
    on_second = listed(olga, found[1].replace("&amp;", "&"))
    assert (len(on_first), len(on_second), len(on_first | on_second)) == (50, 11, 61)


def test_a_run_that_is_not_there_is_told(olga: FlaskClient) -> None:
    for run_id in ("refund-x", "%00", "%ED%A0%80", "a" * 400, "..", "%3Cscript%3E"):
        for page in ("", "/replay"):
            assert olga.get(f"/ops/runs/{run_id}{page}").status_code == 404


def test_what_steps_returned_is_shown_as_inert_text(shop: Harness, olga: FlaskClient) -> None:
    hostile = "<script>alert(1)</script> https://shop.example/approvals/secret"
    with running(shop):
        shop.write(hostile, from_address=MALLORY, subject=hostile)
        shop.wait_for_mails(MALLORY)
        wait_for_quiet(shop)
    (run_id,) = (run.run_id for run in shop.live.workflow_client.runs.list_runs(subject=MALLORY))
    page = olga.get(path(run_id))
    assert "take_batch" in page.text
    assert "<script>" not in page.text
    assert "approvals/secret" not in page.text


def test_a_run_whose_history_is_odd_is_shown(shop: Harness, olga: FlaskClient) -> None:
    run_id = woken(shop)
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(f"UPDATE {table_of_runs(shop)} SET attributes = NULL, status = 'STRANGE'")
        )
    assert olga.get(path(run_id)).status_code == 200
    assert "STRANGE" in olga.get("/ops/runs").text
