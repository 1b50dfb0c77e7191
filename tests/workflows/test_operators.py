"""What operators are mailed: once for each incident, many together, without what anybody wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.provider import Provider, ProviderKind
from mailagent.domain.text import tell_moment
from mailagent.engine import DELIVERY, HOUSEKEEPING, SWEEP
from mailagent.engine.run import Run, subject_of
from mailagent.store import schema
from mailagent.store.database import UtcDateTime
from mailagent.store.ids import new_id
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.web.metrics import CACHE
from mailagent.workflows.steps import operators
from mailagent.workflows.steps.maintenance import sweep as steps
from mailagent.workflows.steps.maintenance import unfinished
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import explain_failure
from tests.cast import ADA, GRACE, JUERGEN, KETTLE_WISH, NOW, TESS, order
from tests.harness import Harness, open_shop, pass_time, running, wait_until
from tests.tool_calls import calls
from tests.web.console.drafts import press
from tests.web.console.failed_runs import change_run
from tests.web.doors import METRICS_TOKEN
from tests.workflows.trouble import (
    Mistake,
    enqueue_by_hand,
    failing,
    later,
    set_run,
    table_of_runs,
    wait_for_run,
)

OPS = "olga@shop.example"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop with an operator, whose workflows do not run yet."""
    settings = {"OPS_EMAILS": OPS, "METRICS_TOKEN": METRICS_TOKEN}
    with open_shop(tmp_path, database_url, settings) as harness:
        yield harness


def fail_for(shop: Harness, *customers: str) -> list[str]:
    """Let the run of a mail of each customer fail; return the runs."""
    with failing("take_batch"), running(shop):
        for customer in customers:
            shop.write("Hello", from_address=customer)
        wait_until(lambda: len(failed(shop)) == len(customers), 30, "the runs to fail")
    return failed(shop)


def failed(shop: Harness) -> list[str]:
    return [run.run_id for run in shop.live.workflow_client.runs.list_runs(status="ERROR")]


def test_a_failed_run_is_told_with_what_to_type(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    assert operators.report_failed_runs() == 1
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    assert notice.subject == f"Run {run_id} has failed"
    conversation_id = shop.rows("SELECT conversation_id FROM conversations")[0].conversation_id
    page = f"{shop.live.shop.public_url}/ops/runs/{run_id}/replay"
    for told in (page, f"flask runs replay {run_id}", conversation_id, "a…@example.com"):
        assert told in notice.text
    assert page in (notice.html or "")
    failure = "step 1, take_batch: Mistake in mailagent.workflows.steps.recording:"
    assert failure in notice.text
    assert "[address]: '[4 words]' in take_batch" in notice.text
    assert "mistake in the program" in notice.text
    thread = f"{shop.live.shop.public_url}/ops/conversations/{conversation_id}"
    assert f"take the conversation over: {thread}. " in notice.text
    assert "goes to the team after 4 hours" in notice.text
    assert ADA not in notice.text
    assert "a word of hers" not in notice.text
    assert shop.mails_to(TESS) == []


def test_a_failed_refund_is_told_with_its_order_and_amount(shop: Harness) -> None:
    shop.stock(order())
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        wait_for_run(shop, "refund", "ERROR")
        assert operators.report_failed_runs() == 1
        (notice,) = shop.wait_for_mails(OPS)
    told = f"order W1001, {shop.refunds()[0].amount.tell()}"
    assert f"{told}, a…@example.com" in notice.text
    assert notice.subject == f"Run for {told} has failed"
    assert "pay_refund: Mistake" in notice.text
    assert "take the conversation over" not in notice.text
    assert f"Since {tell_moment(shop.live.now())[:-10]}" in notice.text


def test_a_run_that_failed_after_it_had_proposed_a_refund_names_it(shop: Harness) -> None:
    shop.stock(order())
    with failing("write_reply"), running(shop):
        shop.write(KETTLE_WISH)
        wait_for_run(shop, "conversation", "ERROR")
        assert operators.report_failed_runs() == 1
        (notice,) = shop.wait_for_mails(OPS)
    assert notice.subject == f"Run for order W1001, {shop.refunds()[0].amount.tell()} has failed"
    page = shop.log_in(OPS).get("/ops/runs?status=failed&workflow=conversation").text
    assert ", order W1001" in page
    assert "$49.99" in page


def test_it_is_told_once_whatever_happens_to_the_run_later(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    assert [operators.report_failed_runs() for _ in range(3)] == [1, 0, 0]
    shop.live.workflow_client.replays.replay_run(run_id)
    with failing("take_batch"), running(shop):
        wait_for_run(shop, "conversation", "ERROR")
    assert operators.report_failed_runs() == 0


def test_a_run_whose_process_died_too_often_is_told_too(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    set_run(shop, run_id, "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
    change_run(shop, run_id, "recovery_attempts = 3")
    assert operators.report_failed_runs() == 1
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    why = "after step 1, take_batch: its worker crashed or was stopped 3 times"
    assert why in " ".join(notice.text.split())


def test_a_run_that_was_taken_over_is_told_with_the_number_of_workers(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    change_run(shop, run_id, "recovery_attempts = 3")
    operators.report_failed_runs()
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    assert "(3 workers have begun it)" in notice.text
    assert "take_batch: attempt 3: " in notice.text


def test_a_cancelled_run_is_nothing_to_tell(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    set_run(shop, run_id, "CANCELLED")
    assert operators.report_failed_runs() == 0


def test_many_failures_are_one_mail_with_their_number(shop: Harness) -> None:
    run_ids = fail_for(shop, ADA, GRACE, JUERGEN)
    assert operators.report_failed_runs() == 3
    assert operators.report_failed_runs() == 0
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    assert notice.subject == "3 runs have failed"
    assert all(run_id in notice.text for run_id in run_ids)
    _, to_do, below = notice.text.partition("replay together all that failed for one reason")
    assert to_do
    assert "/ops/replays" in below


def test_repeats_for_one_row_are_one_incident(shop: Harness) -> None:
    shop.stock(order())
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        wait_for_run(shop, "refund", "ERROR")
        assert operators.report_failed_runs() == 1
        later(shop, minutes=6)
        assert unfinished.enqueue_refunds() == 1
        wait_until(lambda: len(failed(shop)) == 2, 30, "the second run to fail")
        assert operators.report_failed_runs() == 0


def fail_beside(shop: Harness, step: str, **mail: Any) -> str:
    """Let the run of a mail fail, then let Ada write again, in the same thread; return the failed run."""
    with failing(step):
        shop.write("I will call you today.", **mail)
        run_id = wait_for_run(shop, "conversation", "ERROR")
    (first,) = shop.mails_to(ADA)
    shop.write("And what did I pay?", to=first.reply_to)
    runs = shop.live.workflow_client.runs
    wait_until(lambda: len(runs.list_runs("SUCCESS", mail_thread(shop))) == 2, 30, "the next run")
    return run_id


def mail_thread(shop: Harness) -> str:
    return str(shop.rows("SELECT conversation_id FROM conversations")[0].conversation_id)


def test_a_reply_of_the_team_that_failed_is_told_although_the_customer_wrote_again(
    shop: Harness,
) -> None:
    with running(shop):
        shop.faults.openai.append(calls("hand_over", reason="cannot_help", summary="Too hard."))
        shop.write("Where is my order W1001?")
        (case,) = shop.wait_for_mails(TESS)
        team = {"from_address": TESS, "to": case.reply_to, "subject": "Re: Please take over"}
        run_id = fail_beside(shop, "forward_team_replies", **team)
        assert failed(shop) == [run_id]
        assert operators.report_failed_runs() == 1
        assert count_failed(shop) == 1
        shop.live.workflow_client.replays.replay_run(run_id)
        assert "I will call you today." in shop.wait_for_mails(ADA, 2)[-1].text
        assert failed(shop) == []


def test_an_unproven_mail_that_failed_is_told_although_a_proven_one_was_answered(
    shop: Harness,
) -> None:
    with running(shop):
        shop.write("Where is my order W1001?")
        (first,) = shop.wait_for_mails(ADA)
        run_id = fail_beside(shop, "take_batch", aligned=False, to=first.reply_to)
        assert failed(shop) == [run_id]
        _, fork_id = shop.live.workflow_client.replays.fork_run(run_id)
        wait_until(lambda: failed(shop) == [], 30, f"{fork_id} to answer it")


def test_a_failed_run_is_replaced_by_one_that_answered_its_mail_or_wrote_a_draft(
    shop: Harness,
) -> None:
    fail_for(shop, ADA)
    (mail,) = shop.rows("SELECT mail_id, run_id, message_id FROM inbound_mails")
    with running(shop):
        shop.write("Hello again", in_reply_to=mail.message_id)
        shop.wait_for_mails(ADA)
        wait_until(lambda: failed(shop) == [], 30, "the next run to end")
    waits = {"status": "unanswered", "answered_by": None}
    of_its_fork = f"{mail.run_id}-fork-1-fork-1"
    for changes, left in ((waits, [mail.run_id]), ({"draft_id": "draft_1"}, [])):
        with shop.live.database.transaction() as connection:
            mails = schema.inbound_mails
            this = mails.c.mail_id == mail.mail_id
            connection.execute(mails.update().where(this).values(**changes))
        assert failed(shop) == left
    with shop.live.database.transaction() as connection:
        connection.execute(mails.update().where(this).values(draft_id=None))
        connection.exec_driver_sql(
            f"UPDATE {table_of_runs(shop)} SET workflow_uuid = '{of_its_fork}'"
            f" WHERE workflow_uuid = '{mail.run_id}'"
        )
    assert failed(shop) == [of_its_fork]


def test_without_operators_the_team_is_told(tmp_path: Path, database_url: str) -> None:
    with open_shop(tmp_path, database_url, {"OPS_EMAILS": ""}) as shop:
        fail_for(shop, ADA)
        operators.report_failed_runs()
        with running(shop):
            (notice,) = shop.wait_for_mails(TESS)
    assert "flask runs replay" in notice.text


def test_a_notice_that_cannot_be_delivered_makes_no_further_notice(shop: Harness) -> None:
    fail_for(shop, ADA)
    operators.report_failed_runs()
    with failing("look_at_delivery"), running(shop):
        wait_for_run(shop, "delivery", "ERROR")
    assert operators.report_failed_runs() == 0
    assert len(shop.rows("SELECT 1 FROM outbound_mails WHERE purpose = 'notice'")) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["outbound_none"], {}),
        (["outbound_\0"], {}),
        ([], {}),
        ([], {"outbound_id": "outbound_none"}),
    ],
    ids=["missing", "no text for a database", "none", "named"],
)
def test_a_run_that_was_enqueued_by_hand_is_told(
    shop: Harness, arguments: list[str], named: dict[str, str]
) -> None:
    enqueue_by_hand(shop, "delivery-by-hand", *arguments, **named)
    set_run(shop, "delivery-by-hand", "ERROR")
    assert operators.report_failed_runs() == 1
    assert subjects(shop) == ["Run delivery-by-hand has failed"]


def test_a_bounce_whose_run_fails_is_told_although_the_mails_own_run_failed_before(
    shop: Harness,
) -> None:
    told = []
    for end in ("", "-1", "-undelivered", "-returned"):
        enqueue_by_hand(shop, f"delivery-01x{end}", "outbound_01x")
        set_run(shop, f"delivery-01x{end}", "ERROR")
        told.append(operators.report_failed_runs())
    assert told == [1, 0, 1, 1]


def test_a_run_that_cannot_be_reported_hides_no_other(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = fail_for(shop, ADA, GRACE)

    def explain(run: Run) -> str:
        if run.run_id == bad:
            raise Mistake("a reason that cannot be read")
        return explain_failure(run)

    monkeypatch.setattr(operators, "explain_failure", explain)
    assert [operators.report_failed_runs() for _ in range(2)] == [1, 0]
    assert set(subjects(shop)) == {f"The sweep failed on {bad}", f"Run {good} has failed"}


def test_a_sweep_that_fails_is_told_once_a_day(shop: Harness) -> None:
    runs = [
        Run(f"sched-{SWEEP}-{minute}", SWEEP, "", "ERROR", NOW, NOW, None, None)
        for minute in (1, 2)
    ]
    assert {subject_of(run) for run in runs} == {"sweep-2026-11-20"}


@pytest.mark.parametrize("others", [(), ("delivery-by-hand",)], ids=["alone", "with another"])
def test_scheduled_runs_are_not_told_to_be_replayed(shop: Harness, others: tuple[str, ...]) -> None:
    scheduled = {
        "sched-sweep-1": SWEEP,
        "sched-housekeeping-1": HOUSEKEEPING,
        "sched-sweep-2": SWEEP,
    }
    for run_id in (*scheduled, *others):
        enqueue_by_hand(shop, run_id)
        set_run(shop, run_id, "ERROR")
    for run_id, workflow in scheduled.items():
        day_ms = 86_400_000 if run_id.endswith("2") else 0
        times = ", ".join(
            f"{name} = {name} - {day_ms}" for name in ("created_at", "updated_at", "completed_at")
        )
        change_run(shop, run_id, f"name = '{workflow}', {times}")
    assert operators.report_failed_runs() == len(scheduled) + len(others)
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    assert notice.text.count("Rows that wait may not be enqueued until this is put right") == 1
    assert notice.text.count("Old data is not deleted until this is put right") == 1
    assert ("replay together" in notice.text) is bool(others)
    assert ("/ops/replays" in notice.text) is bool(others)
    assert ("/ops/runs?status=failed" in notice.text) is (not others)


@pytest.mark.parametrize(
    ("run_id", "subject"),
    [
        ("delivery-01x", "delivery-01x"),
        ("delivery-01x-3", "delivery-01x"),
        ("delivery-01x-fork-1", "delivery-01x"),
        ("delivery-01x-undelivered", "delivery-01x-undelivered"),
        ("delivery-01x-returned-fork-2", "delivery-01x-returned"),
        ("3f1c-a-fork", "3f1c-a-fork"),
    ],
)
def test_the_subject_of_a_run_is_what_it_was_queued_for(run_id: str, subject: str) -> None:
    assert (
        subject_of(Run(run_id, DELIVERY, "outbound_01x", "ERROR", NOW, NOW, None, None)) == subject
    )


# --- rows that make trouble -------------------------------------------------------------------------


def test_a_row_that_makes_trouble_stops_no_other(shop: Harness) -> None:
    shop.write("Hello", from_address=GRACE)
    shop.write("Hello, is anybody there?")
    with shop.live.database.transaction() as connection:
        # The first of them belongs to no thread any more: it can be given to nobody.
        connection.execute(
            sa.text("UPDATE inbound_mails SET conversation_id = NULL WHERE from_address = :grace"),
            {"grace": GRACE},
        )
    later(shop, hours=5)
    assert steps.enqueue_mail() == 1
    assert steps.enqueue_mail() == 0
    services.bind(shop.live)
    with running(shop):
        (case,) = shop.wait_for_mails(TESS)
        (notice,) = shop.wait_for_mails(OPS)
    assert "is anybody there" in case.text
    assert notice.subject.startswith("The sweep failed on mail_")


def test_the_alert_of_a_refund_that_makes_trouble_is_enough(shop: Harness) -> None:
    def fail(*_: object) -> int:
        raise KeyError("the order has no payment left")

    shop.stock(order())
    with running(shop):
        shop.write(KETTLE_WISH)
        shop.wait_for_mails(ADA)
    (refund,) = shop.refunds()
    process_each([refund.refund_id], str, fail)
    with running(shop):
        (notice,) = shop.wait_for_mails(OPS)
    for told in (
        f"order W1001, {refund.amount.tell()}, a…@example.com",
        "KeyError: the order has no payment left",
        f"Since {tell_moment(shop.live.now())[:-10]}",
        f"{shop.live.shop.public_url}/ops/refunds/{refund.refund_id}",
    ):
        assert told in notice.text


# --- matters that hold up many ------------------------------------------------------------------------


def opened(shop: Harness) -> dict[str, str]:
    with shop.live.database.snapshot() as connection:
        return {each.incident.value: each.why for each in incidents.list_open(connection)}


def note(
    shop: Harness, incident: IncidentKind, why: str = "answered 401 to ada@example.com"
) -> bool:
    with shop.live.database.transaction() as connection:
        return open_incident(connection, incident, why)


def refuse(shop: Harness, provider: Provider) -> None:
    failure = Failure("answered 401", needs_operator=True)
    with shop.live.database.transaction() as connection:
        circuit_breakers.record_failure(
            connection, provider, failure, shop.live.now(), probing=False
        )


def subjects(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT subject FROM outbound_mails WHERE purpose = 'notice'")
    return [row.subject for row in rows]


def test_an_incident_is_told_once_until_it_is_over(shop: Harness) -> None:
    assert [note(shop, IncidentKind.OPENAI) for _ in range(3)] == [True, False, False]
    assert opened(shop) == {"provider:openai": "answered 401 to [address]"}
    assert len(subjects(shop)) == 1
    (notice,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'notice'")
    assert f"{shop.live.shop.public_url}/ops/replays" in notice.text
    operators.report_failed_runs()
    assert opened(shop)  # nothing has been answered since
    with shop.live.database.transaction() as connection:
        assert incidents.close_incident(connection, shop.live.now(), IncidentKind.OPENAI)
        assert not incidents.close_incident(connection, shop.live.now(), IncidentKind.OPENAI)
    assert opened(shop) == {}
    assert note(shop, IncidentKind.OPENAI)
    assert len(subjects(shop)) == 2


def test_an_incident_names_what_met_it_and_has_one_button(shop: Harness) -> None:
    shop.stock(order())
    with failing("pay_refund"), running(shop):
        shop.write(KETTLE_WISH)
        wait_for_run(shop, "refund", "ERROR")
        refund_id = shop.refunds()[0].refund_id
    with shop.live.database.transaction() as connection:
        open_incident(connection, IncidentKind.GATEWAY, "401", refund_id)
        open_incident(connection, IncidentKind.THROTTLED, "mails: 7")
    refused, throttled = shop.rows(
        "SELECT text FROM outbound_mails WHERE purpose = 'notice' ORDER BY outbound_id"
    )
    inbox = f"{shop.live.shop.public_url}/ops"
    assert f"- {refund_id}, order W1001, $49.99, a…@example.com\n" in refused.text
    assert f"Its runs: {inbox}/runs?about={refund_id}" in refused.text
    assert "/ops/runs/refund-" in shop.log_in(OPS).get(f"/ops/runs?about={refund_id}").text
    assert refused.text.count(f"{inbox}/replays") == throttled.text.count(inbox) == 1
    assert f"Open the inbox:\n{inbox}\n" in throttled.text


def test_a_provider_that_works_again_ends_its_incident(shop: Harness) -> None:
    note(shop, IncidentKind.OPENAI)
    note(shop, IncidentKind.MAIL_PROVIDER)
    with running(shop):
        shop.write("Where is my kettle?")
        shop.wait_for_mails(ADA)
    operators.report_failed_runs()
    assert opened(shop) == {}


def test_a_gateway_that_is_not_used_any_more_refuses_nobody(shop: Harness) -> None:
    stripe = Provider(ProviderKind.GATEWAY, "stripe", "Stripe", "STRIPE_API_KEY")
    providers = replace(shop.live.providers, gateway=stripe)
    services.bind(replace(shop.live, providers=providers))
    refuse(shop, stripe)
    note(shop, IncidentKind.GATEWAY)
    operators.report_failed_runs()
    assert opened(shop).keys() == {"provider:gateway"}
    services.bind(shop.live)  # the ledger
    operators.report_failed_runs()
    assert opened(shop) == {}


@pytest.mark.parametrize(("minutes", "away"), [(59, True), (62, False)])
def test_a_provider_that_nobody_has_asked_for_an_hour_is_no_news(
    shop: Harness, minutes: int, away: bool
) -> None:
    with shop.live.database.transaction() as connection:
        for _ in range(5):
            failure = Failure("answered 503")
            circuit_breakers.record_failure(
                connection, shop.live.providers.model, failure, shop.live.now(), probing=False
            )
    pass_time(shop, minutes=minutes)
    operators.report_failed_runs()
    assert ("does not answer as it should" in shop.log_in(OPS).get("/ops").text) is away


def test_a_refusal_by_sendgrid_is_in_the_inbox_and_in_the_check(shop: Harness) -> None:
    with running(shop):
        pass  # a worker has registered the queues, without which the check says nothing else
    note(shop, IncidentKind.MAIL_PROVIDER)
    refuse(shop, services.current().providers.mail)
    assert "SendGrid refuses us: no mail goes out" in shop.log_in(OPS).get("/ops").text
    checked = shop.app.test_cli_runner().invoke(args=["check"])
    assert checked.exit_code == 1
    assert "SendGrid refuses us" in checked.output
    assert "note: SendGrid refuses us since" in checked.output


def test_throttled_mail_and_loop_guards_are_told_once_until_they_are_gone(shop: Harness) -> None:
    for _ in range(2):
        shop.write("Hello")
    states = (
        (
            "UPDATE inbound_mails SET status = 'throttled', no_answer_reason = 'a flood'",
            "throttled",
        ),
        (
            "UPDATE conversations SET status = 'handed_over', handed_over_reason = :loop_guard,"
            " handed_over_at = :now",
            "loop_detected",
        ),
    )
    for statement, _incident in states:
        run_sql(shop, statement)
    for _ in range(2):
        operators.report_failed_runs()
    assert opened(shop).keys() == {incident for _, incident in states}
    assert len(subjects(shop)) == 2
    run_sql(shop, "UPDATE inbound_mails SET status = 'unanswered', no_answer_reason = NULL")
    run_sql(shop, "UPDATE conversations SET status = 'open', handed_over_at = NULL")
    operators.report_failed_runs()
    assert opened(shop) == {}


def run_sql(shop: Harness, statement: str) -> None:
    values = {"loop_guard": HandOverReason.LOOP_DETECTED.value, "now": shop.live.now()}
    query = sa.text(statement)
    if ":now" in statement:
        query = query.bindparams(sa.bindparam("now", type_=UtcDateTime()))
    given = {name: value for name, value in values.items() if f":{name}" in statement}
    with shop.live.database.transaction() as connection:
        connection.execute(query, given)


def test_a_failure_is_dealt_with_when_a_person_has_answered_the_customer(shop: Harness) -> None:
    (run_id,) = fail_for(shop, ADA)
    list_of_failed, olga = "/ops?waiting=failed", shop.log_in(OPS)
    assert run_id in olga.get(list_of_failed).text
    assert run_id in olga.get("/ops/replays").text + olga.get("/ops/runs?status=failed").text
    assert count_failed(shop) == 1
    thread = shop.rows("SELECT conversation_id FROM conversations")[0].conversation_id
    press(shop.log_in(TESS), thread, "answer", text="It comes today.", once=new_id("once"))
    assert run_id not in olga.get(list_of_failed).text
    assert count_failed(shop) == 0
    assert operators.report_failed_runs() == 0
    assert "No run has failed." in olga.get("/ops/replays").text
    for kept in (f"{list_of_failed}&shown=all", "/ops/runs?status=failed", f"/ops/runs/{run_id}"):
        page = olga.get(kept).text
        assert "answered by a person" in page
        assert "Mistake in mailagent" in page  # the evidence stays
    assert "A person has answered the customer since" in page
    assert "Fix the cause first" not in page
    later_ms = int(shop.live.now().timestamp() * 1000) + 60_000  # it was replayed, and failed again
    change_run(shop, run_id, f"completed_at = {later_ms}, updated_at = {later_ms}")
    assert "answered by a person" not in olga.get(list_of_failed).text
    assert run_id in olga.get(list_of_failed).text
    assert count_failed(shop) == 1


def test_mail_that_waits_for_the_agent_keeps_the_failure_open(shop: Harness) -> None:
    fail_for(shop, ADA)
    thread = shop.rows("SELECT conversation_id FROM conversations")[0].conversation_id
    press(shop.log_in(TESS), thread, "answer", text="It comes today.", once=new_id("once"))
    assert count_failed(shop) == 0
    with shop.live.database.transaction() as connection:  # they had not seen all of it
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'unanswered', answered_by = NULL"
        )
    assert count_failed(shop) == 1


def count_failed(shop: Harness) -> float:
    """Return the metric of failed runs that answer mail."""
    shop.app.extensions.pop(CACHE, None)
    answer = shop.client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    found = re.search(r'^mailagent_failed_runs{workflow="conversation"} (.+)$', answer.text, re.M)
    assert found is not None
    return float(found[1])
