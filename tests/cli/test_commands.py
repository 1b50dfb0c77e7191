"""The commands, run as a person runs them; trouble is told in a sentence, never as a traceback."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa
from click.testing import Result
from flask import Flask

from mailagent import cli
from mailagent.adapters.order_files.record import render_order
from mailagent.cli.actor import actor
from mailagent.cli.printing import explain
from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.store.console import dismissals
from mailagent.store.mail import outbound, suppressions
from mailagent.store.orders import versions
from tests.cast import (
    ADA,
    DESK_WISH,
    GRACE,
    KETTLE_WISH,
    MAX,
    MONA,
    NOW,
    SUPPORT,
    TESS,
    big_order,
    order,
    order_record,
)
from tests.cli.commands import flask, process
from tests.harness import Harness, pass_time, running
from tests.round_trips.replays import wait_for_quiet
from tests.workflows.proposals import propose, write


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


# --- orders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_imports_that_name_the_same_orders_in_another_order_do_not_stand_in_each_others_way(
    shop: Harness,
) -> None:
    numbers = range(300)
    shop.stock(*(order(f"W{number}") for number in numbers))
    started = Barrier(2)

    def run(name: str) -> Result:
        customer = {"email": ADA, "name": name}
        records = [order_record(f"W{number}", customer=customer) for number in numbers]
        given = lines(*(records if name == "Ada" else reversed(records)))
        started.wait()
        return flask(shop, "orders", "import", "-", given=given)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, ["Ada", "Ada E."]))
    assert [result.exit_code for result in results] == [0, 0], [each.output for each in results]


def test_of_several_orders_that_cannot_be_taken_the_first_line_is_told(shop: Harness) -> None:
    for order_id in ("W2", "W1"):
        shop.stock(order(order_id))
        assert propose(write(shop, subject=order_id), order_id)["outcome"] == "approved"
    teapot = {"item_id": "T1", "name": "Teapot", "quantity": 1, "unit_price": "49.99"}
    given = lines(*(order_record(each, items=[teapot]) for each in ("W3", "W2", "W1")))
    result = flask(shop, "orders", "import", "-", given=given)
    assert "line 2: items: cannot change, the order has refunds. Nothing was" in result.output
    assert shop.rows("SELECT 1 FROM orders WHERE order_id = 'W3'") == []


@pytest.mark.parametrize(
    ("state", "words"),
    [("40P01", "another process changed the same rows (deadlock). Nothing was done; run it again"),
     ("53300", "the database cannot be used: deadlock. Check DATABASE_URL"),
     ("42P01", "the database is not ready (deadlock): run `alembic upgrade head`")],
)  # fmt: skip
def test_whoever_stood_in_somebodys_way_is_told_to_run_it_again(state: str, words: str) -> None:
    class Told(Exception):
        sqlstate = state

    assert words in explain(sa.exc.OperationalError("UPDATE orders", None, Told("deadlock")))


@pytest.mark.parametrize("missing", ['database "shop"', 'role "shop"'])
def test_no_migration_is_advised_for_a_database_or_a_role_that_is_missing(missing: str) -> None:
    told = explain(sa.exc.OperationalError("", None, Exception(f"FATAL: {missing} does not exist")))
    assert "alembic" not in told
    assert "Check DATABASE_URL" in told


def test_importing_twice_changes_nothing(shop: Harness) -> None:
    given = lines(*(order_record(f"W{number}") for number in range(25)))
    first = flask(shop, "orders", "import", "-", given=given)
    assert "25 orders: 25 created, 0 changed, 0 unchanged." in first.output
    before = shop.rows("SELECT * FROM orders")
    second = flask(shop, "orders", "import", "-", given=given)
    assert "25 orders: 0 created, 0 changed, 25 unchanged." in second.output
    assert shop.rows("SELECT * FROM orders") == before


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (b"{}", "line 2: the order: "),
        (b"not json", "line 2: is not JSON"),
        (b"\xff\xfe", "line 2: "),
        (b"[1]", "line 2: the order: is not an object"),
        (lines(order_record("W2", gift=1)), "line 2: the order: unknown key 'gift'"),
        (lines(order_record("W1")), "line 2: order W1 stands on line 1 already"),
        (b'{"order_id": "W2", "order_id": "W3"}', "the key 'order_id' stands twice"),
        (lines(order_record("W2", status="lost")), "line 2: status: 'lost'"),
        (b"[" * 100_000, "line 2: is not JSON"),
        (b"1" * 5_000, "line 2: is not JSON"),
        (lines(order_record("W2", placed_at="0001-01-01T00:00:00+14:00")), "line 2: placed_at: "),
        (
            lines(order_record("W2", customer={"email": ADA, "name": "\ud800"})),
            "line 2: customer.name",
        ),
        (lines(order_record("\udcff")), "line 2: order_id: "),
        (lines(order_record("W2", **{"\ud800": 1})), "line 2: the order: '\\ud800' is refused"),
    ],
)
def test_a_broken_file_is_refused_by_line_with_nothing_imported(
    shop: Harness, bad: bytes, complaint: str
) -> None:
    result = flask(shop, "orders", "import", "-", given=lines(order_record("W1")) + bad)
    assert result.exit_code == 1
    assert complaint in result.output
    assert "Nothing was imported" in result.output
    assert "Traceback" not in result.output
    assert shop.rows("SELECT * FROM orders") == []


def test_an_order_is_shown_as_it_was_given(shop: Harness) -> None:
    shop.stock(order())
    shown = json.loads(flask(shop, "orders", "show", "W1001").output)
    assert shown.items() >= {"order_id": "W1001", "status": "delivered", "paid": "49.99"}.items()
    missing = flask(shop, "orders", "show", "W9")
    assert (missing.exit_code, missing.output) == (1, "Error: there is no order W9\n")


def test_a_dispute_sees_what_the_order_source_had_said_and_when(shop: Harness) -> None:
    for hours, status in enumerate(("pending", "shipped")):
        said = order(status=status, delivered_at=None)
        with shop.live.database.transaction() as connection:
            versions.keep(
                connection,
                [versions.Told(said, render_order(said))],
                "http",
                NOW + timedelta(hours=hours),
                lambda _request: True,
                versions.find_marks(connection, order_id="W1001"),
            )
    shown = json.loads(flask(shop, "orders", "show", "W1001", "--versions").output)
    assert [each["record"]["status"] for each in shown] == ["pending", "shipped"]
    assert [each["source"] for each in shown] == ["http", "http"]
    assert shown[1]["fetched_at"] == f"{NOW + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    assert json.loads(flask(shop, "orders", "show", "W1001").output)["status"] == "shipped"


def test_what_is_shown_of_an_order_can_be_imported(shop: Harness) -> None:
    shop.stock(
        order(
            items=[
                {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}
                | {"discount": "5.00", "category": "kitchen", "final_sale": True}
            ],
            payments=[
                {"payment_id": "p", "method": "card", "amount": "60.00", "refunded": "10.00"}
            ],
            shipping="5.00",
        )
    )
    shown = json.loads(flask(shop, "orders", "show", "W1001").output)
    assert (shown["shipping"], shown["refunded_or_under_way"]) == ("5.00", "10.00")
    imported = flask(shop, "orders", "import", "-", given=lines(shown))
    assert "1 orders: 0 created, 0 changed, 1 unchanged." in imported.output
    # As it is printed, over many lines.
    printed = flask(shop, "orders", "show", "W1001").output.encode()
    imported = flask(shop, "orders", "import", "-", given=printed)
    assert "1 orders: 0 created, 0 changed, 1 unchanged." in imported.output


SHOPIFY = (
    b"Name,Email,Financial Status,Fulfillment Status,Fulfilled at,Currency,Subtotal,Shipping,Taxes,"
    b"Total,Discount Amount,Created at,Cancelled at,Lineitem quantity,Lineitem name,Lineitem price,"
    b"Lineitem sku,Payment Method,Refunded Amount\n"
    b"#1,ada@example.com,partially_refunded,fulfilled,2024-11-03 08:00:00 +0000,USD,49.99,5.00,0.00,"
    b"54.99,0.00,2024-11-01 09:00:00 +0000,,1,Kettle,49.99,K1,Shopify Payments,20.00\n"
    b"#2,,paid,fulfilled,,USD,1.00,0,0,1.00,0,2024-11-01 09:00:00 +0000,,1,Bag,1.00,B,cash,0\n"
)


def test_an_export_is_imported_with_what_was_given_back(shop: Harness) -> None:
    result = flask(shop, "orders", "import", "-", "--delivered-after", "3", given=SHOPIFY)
    assert "1 orders: 1 created, 0 changed, 0 unchanged." in result.output
    assert "1 without a mail address left out: line 3." in result.output
    assert "stay shipped" not in result.output
    shown = json.loads(flask(shop, "orders", "show", "#1").output)
    assert (shown["status"], shown["delivered_at"]) == ("delivered", "2024-11-06T08:00:00Z")
    assert (shown["paid"], shown["refunded_or_under_way"]) == ("54.99", "20.00")


def test_orders_whose_sending_has_no_date_are_counted(shop: Harness) -> None:
    undated = SHOPIFY.replace(b"2024-11-03 08:00:00 +0000", b"")
    result = flask(shop, "orders", "import", "-", "--delivered-after", "3", given=undated)
    assert "1 stay shipped: FILE does not say when they were sent" in result.output
    assert "stay shipped" not in flask(shop, "orders", "import", "-", given=undated).output
    assert json.loads(flask(shop, "orders", "show", "#1").output)["status"] == "shipped"


def test_of_an_export_that_goes_wrong_nothing_is_imported(shop: Harness) -> None:
    wrong = SHOPIFY + SHOPIFY.splitlines(keepends=True)[1].replace(b"#1", b"#3").replace(
        b"54", b"5"
    )
    result = flask(shop, "orders", "import", "-", given=wrong)
    assert result.exit_code == 1
    assert "line 4: Total: 5.99 USD, but subtotal and shipping come to 54.99 USD" in result.output
    assert "Nothing was imported" in result.output
    assert shop.rows("SELECT * FROM orders") == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--timezone", "Mars"), "'Mars' is not a time zone such as Europe/Berlin"),
        (("--timezone", "../etc"), "is not a time zone"),
        (("--delivered-after", "-1"), "-1 is not in the range"),
    ],
    ids=["timezone", "path", "days"],
)
def test_an_option_that_makes_no_sense_is_told(
    shop: Harness, options: tuple[str, str], complaint: str
) -> None:
    result = flask(shop, "orders", "import", "-", *options, given=SHOPIFY)
    assert result.exit_code == 2
    assert complaint in result.output


# --- refunds, conversations, runs ---------------------------------------------------------------


def test_what_happened_can_be_looked_at(shop: Harness) -> None:
    shop.stock(order())
    with running(shop):
        shop.write(KETTLE_WISH)
        shop.wait_for_refund("paid")
        shop.wait_for_mails(ADA, 2)
        wait_for_quiet(shop)
    (refund,) = json.loads(flask(shop, "refunds", "list", "--json").output)
    assert list(refund) == [
        "refund_id", "order_id", "conversation_id", "amount", "currency", "item_ids", "reason",
        "status", "requested_at", "decided_by", "decided_at", "note", "gateway",
        "gateway_reference", "paid_at", "four_eyes", "first_decided_by", "countersigned_by",
        "store_credit",
    ]  # fmt: skip
    assert (refund["amount"], refund["status"], refund["gateway"]) == ("49.99", "paid", "ledger")
    assert json.loads(flask(shop, "refunds", "list", "--order", "W9", "--json").output) == []
    (conversation,) = json.loads(flask(shop, "conversations", "list", "--json").output)
    shown = flask(shop, "conversations", "show", conversation["conversation_id"], "--json").output
    assert [mail["direction"] for mail in json.loads(shown)["mails"]] == ["in", "out", "out"]
    runs = json.loads(flask(shop, "runs", "list", "--json").output)
    assert {run["workflow"] for run in runs} == {"conversation", "refund"}
    assert {run["status"] for run in runs} == {"SUCCESS"}
    run = next(run for run in runs if run["workflow"] == "refund")
    steps = json.loads(flask(shop, "runs", "show", run["run_id"], "--json").output)["steps"]
    # A receipt that waits for the answer before it asks again, after steps of DBOS's own.
    names = dict.fromkeys(step["name"] for step in steps if not step["name"].startswith("DBOS."))
    assert list(names) == ["claim_refund", "pay_refund", "tell_customer", "send_mail"]
    shown = flask(shop, "runs", "show", run["run_id"]).output
    assert "A replay from step 1 keeps: nothing" in shown
    for told in (
        "the payment gateway is asked",
        "mail is handed to the mail provider",
        "not paid again",
    ):
        assert told in shown
    about = flask(shop, "runs", "list", "--about", "W1001", "--json").output
    assert [each["run_id"] for each in json.loads(about)] == [run["run_id"]]
    assert json.loads(about)[0]["attributes"]["refund"] == refund["refund_id"]


def test_lists_for_people_say_when_there_is_nothing(shop: Harness) -> None:
    assert "no refunds" in flask(shop, "refunds", "list").output
    assert "no runs" in flask(shop, "runs", "list").output
    assert flask(shop, "conversations", "list").exit_code == 0
    assert "no such mails" in flask(shop, "mails", "list").output


def test_mail_of_machines_is_found_with_the_reason(shop: Harness) -> None:
    shop.write("The kettle leaks.")
    shop.write("I am away.", subject="Automatic reply: \x1b[31m" + "kettle " * 20)
    (away,) = json.loads(flask(shop, "mails", "list", "--kind", "auto_reply", "--json").output)
    assert (away["from"], away["status"], away["conversation_id"]) == (ADA, "no_answer", None)
    assert away["reason"] == "subject of an automatic answer"
    shown = flask(shop, "mails", "list", "--status", "no_answer").output
    assert away["mail_id"] in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2
    assert away["subject"] not in shown
    newest = json.loads(flask(shop, "mails", "list", "--limit", "1", "--json").output)
    assert [each["mail_id"] for each in newest] == [away["mail_id"]]
    assert len(json.loads(flask(shop, "mails", "list", "--json").output)) == 2


@pytest.mark.parametrize("option", ["--status", "--kind"])
def test_a_state_that_no_mail_has_is_told(shop: Harness, option: str) -> None:
    result = flask(shop, "mails", "list", option, "lost")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': 'lost' is not one of " in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "show", "x"),
        ("runs", "replay", "x"),
        ("runs", "fork", "x"),
        ("runs", "cancel", "x"),
        ("conversations", "show", "x"),
    ],
)
def test_an_unknown_id_is_told(shop: Harness, arguments: tuple[str, ...]) -> None:
    result = flask(shop, *arguments)
    assert result.exit_code == 1
    assert "there is no" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("orders", "show"),
        ("conversations", "show"),
        ("runs", "show"),
        ("runs", "replay"),
        ("runs", "fork"),
        ("runs", "cancel"),
        ("refunds", "list", "--order"),
        ("orders", "import"),
    ],
)
def test_an_argument_that_is_no_text_is_told(shop: Harness, arguments: tuple[str, ...]) -> None:
    result = flask(shop, *arguments, "W1\udcff")
    assert result.exit_code == 2
    assert "'W1\\udcff' is not readable text" in result.output


@pytest.mark.parametrize("limit", ["0", "-1", "100001", "9" * 30, "ten"])
@pytest.mark.parametrize("group", ["conversations", "mails", "runs"])
def test_a_limit_that_makes_no_sense_is_told(shop: Harness, group: str, limit: str) -> None:
    result = flask(shop, group, "list", "--limit", limit)
    assert result.exit_code == 2
    assert "Invalid value for '--limit': " in result.output


def test_a_waiting_run_is_cancelled_and_then_replayed(shop: Harness) -> None:
    shop.stock(big_order())
    with running(shop):
        shop.write(DESK_WISH)
        shop.wait_for_mails(MONA)
        run_id = str(shop.refunds()[0].run_id)
        assert "cancel" in flask(shop, "runs", "replay", run_id).output
        assert "ends before its next step" in flask(shop, "runs", "cancel", run_id).output
        assert "ended already" in flask(shop, "runs", "cancel", run_id).output
        forked = flask(shop, "runs", "fork", run_id, "--from-step", "1")
        assert f"Run {run_id}-fork-1 is queued, a fork of {run_id}" in forked.output
        replayed = flask(shop, "runs", "replay", run_id)
        assert "is queued again" in replayed.output
    assert len(shop.mails_to(MONA)) == 1
    acts = shop.rows(f"SELECT actor, action FROM audit WHERE subject = '{run_id}'")
    assert [act.action for act in acts] == ["run stopped", "run forked", "run rewound"]
    assert {act.actor for act in acts} == {actor()}


@pytest.mark.parametrize(
    ("name", "told"),
    [("tess", "command line (tess)"), (" \n", "command line"), ("a\nb", "command line")],
)
def test_the_audit_trail_names_the_login_at_the_command_line(
    monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setenv("LOGNAME", name)
    assert actor() == told


# --- the process --------------------------------------------------------------------------------


def test_wrong_settings_are_told_all_at_once_without_a_traceback() -> None:
    result = process({"MAILAGENT_ENV": "production"}, "check")
    assert result.returncode == 1
    assert "SECRET_KEY" in result.stderr
    assert "OPENAI_API_KEY" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("check",), ("refunds", "list"), ("runs", "list")])
def test_an_unreachable_database_is_told(command: tuple[str, ...]) -> None:
    url = "postgresql+psycopg://nobody@127.0.0.1:9/none"
    result = process({"DATABASE_URL": url, "SECRET_KEY": "x"}, *command)
    assert result.returncode == 1
    assert "cannot be used" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("check",), ("refunds", "list"), ("runs", "list")])
def test_an_empty_database_is_told(tmp_path: Path, command: tuple[str, ...]) -> None:
    environ = {"DATABASE_URL": f"sqlite:///{tmp_path}/empty.db", "SECRET_KEY": "x"}
    result = process(environ, *command)
    assert result.returncode == 1
    assert "alembic upgrade head" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_a_table_that_is_missing_is_told_by_check(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE workers")
    result = flask(shop, "check")
    assert result.exit_code == 1
    assert "the database is not ready" in result.output


def record_mail(shop: Harness, address: str, status: OutboundStatus, number: int) -> None:
    mail = OutboundMail(
        outbound_id=f"outbound_{number}",
        purpose=Purpose.NOTICE,
        to_address=address,
        from_address=SUPPORT,
        subject="s",
        text="t",
        html=None,
        message_id=f"n{number}@shop.example",
    )
    written_at = shop.live.now() + timedelta(seconds=number)
    with shop.live.database.transaction() as connection:
        outbound.record(connection, mail, f"test:{number}", written_at)
        outbound.set_status(connection, mail.outbound_id, status, written_at)


SENT, LOST = OutboundStatus.SENT, OutboundStatus.UNDELIVERED


@pytest.mark.parametrize(
    ("address", "statuses", "complaint"),
    [
        (MONA, [LOST], f"the last mail to {MONA} (MANAGER_EMAILS) did not arrive"),
        (TESS, [SENT, LOST, LOST], f"the last 2 mails to {TESS} (TEAM_EMAILS) did not arrive"),
        (MONA, [LOST, SENT], None),
        (MONA, [SENT, OutboundStatus.QUEUED], None),
        (ADA, [LOST, LOST], None),
    ],
)
def test_check_names_people_of_the_shop_whom_mail_does_not_reach(
    shop: Harness, address: str, statuses: list[OutboundStatus], complaint: str | None
) -> None:
    for number, status in enumerate(statuses):
        record_mail(shop, address, status, number)
    with running(shop):
        done = flask(shop, "check")
    assert done.exit_code == (1 if complaint else 0)
    assert ("did not arrive" in done.output) == (complaint is not None)
    assert (complaint or "") in done.output


def test_check_counts_customers_to_whom_nothing_is_sent(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        for address in (ADA, GRACE, MAX):  # mail to Max, a manager, is sent all the same
            suppressions.suppress(connection, address, "bounce: 5.1.1", shop.live.now())
    with running(shop):
        done = flask(shop, "check")
    assert done.exit_code == 0
    assert "note: nothing is sent to customers' addresses" in done.output
    assert ": 2 of them" in done.output


@pytest.mark.parametrize(
    ("reminder", "escalation", "managers", "named"),
    [
        (3599, 3599, (MONA, MAX), []),
        (3600, 3599, (MONA, MAX), ["APPROVAL_REMINDER_SECONDS"]),
        (3599, 3600, (MONA, MAX), ["APPROVAL_ESCALATION_SECONDS"]),
        (3599, 3600, (MONA,), []),
    ],
    ids=["in time", "reminder", "escalation", "nobody else to ask"],
)
def test_check_names_what_would_be_due_after_a_refund_is_closed(
    shop: Harness, reminder: int, escalation: int, managers: tuple[str, ...], named: list[str]
) -> None:
    settings = shop.app.config["MAILAGENT"]
    waits = replace(
        settings.waits,
        approval_expiry_seconds=3600,
        approval_reminder_seconds=reminder,
        approval_escalation_seconds=escalation,
    )
    changed = replace(settings.shop, manager_emails=managers)
    shop.app.config["MAILAGENT"] = settings.model_copy(update={"waits": waits, "shop": changed})
    with running(shop):
        done = flask(shop, "check")
    assert done.exit_code == 0
    notes = [line for line in done.output.splitlines() if line.startswith("note: ")]
    assert [note.split()[1] for note in notes] == named
    assert all("raise APPROVAL_EXPIRY_SECONDS" in note for note in notes)


def test_check_says_that_old_requests_of_sendgrid_are_taken(shop: Harness) -> None:
    settings = shop.app.config["MAILAGENT"]
    assert "WEBHOOK_HOURS" not in flask(shop, "check").output
    shop.app.config["MAILAGENT"] = settings.model_copy(update={"webhook_hours": 96})
    assert "note: WEBHOOK_HOURS is 96" in flask(shop, "check").output


def test_check_prints_every_problem_and_then_none(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        schema = "" if connection.dialect.name == "sqlite" else "dbos."
        connection.exec_driver_sql(f"DELETE FROM {schema}queues")
    before = flask(shop, "check")
    assert before.exit_code == 1
    assert "no worker has ever run" in before.output
    with running(shop):
        after = flask(shop, "check")
    assert (after.exit_code, after.output) == (
        0,
        "Everything is in place (development, role all).\n",
    )
    stopped = flask(shop, "check")
    assert (stopped.exit_code, stopped.output) == (
        1,
        "problem: no worker is alive: start `flask worker`, or serve with MAILAGENT_ROLE=all\n",
    )


@pytest.mark.parametrize(("minutes", "named"), [(29, False), (31, True)])
def test_check_names_customers_who_wait_too_long(shop: Harness, minutes: int, named: bool) -> None:
    with running(shop):
        pass
    shop.write("Where is my order?")
    pass_time(shop, minutes=minutes)
    done = flask(shop, "check")
    assert ("problem: a customer's mail waits for an answer since 20" in done.output) is named


@pytest.mark.parametrize("status", ["ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
def test_check_names_failed_runs_until_a_person_has_dealt_with_them(
    shop: Harness, status: str
) -> None:
    with running(shop):
        shop.write("Where is my order?")
        shop.wait_for_mails(ADA)
        wait_for_quiet(shop)
        told = "problem: 1 conversation run has failed"
        assert told not in flask(shop, "check").output
        (run,) = shop.live.workflow_client.runs.list_runs()
        schema = "" if shop.live.database.engine.dialect.name == "sqlite" else "dbos."
        with shop.live.database.transaction() as connection:
            connection.exec_driver_sql(f"UPDATE {schema}workflow_status SET status = '{status}'")
        assert told in flask(shop, "check").output
        with shop.live.database.transaction() as connection:
            dismissals.record(connection, run.run_id, MONA, shop.live.now() + timedelta(seconds=1))
        assert told not in flask(shop, "check").output


# --- what a command loads ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*cli.load_all()])
def test_help_shows_the_first_sentence_of_each_command(name: str) -> None:
    app = Flask("test")
    cli.register(app)
    listed = app.cli.commands[name].get_short_help_str(200)
    assert listed == cli.load(name).get_short_help_str(200)


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("--help",), {"sqlalchemy", "pydantic", "mailagent.settings", "mailagent.services"}),
        (("refunds", "list"), {"dbos", "openai", "sendgrid", "babel", "mailagent.app"}),
        (("orders", "show", "W1001"), {"dbos", "openai", "sendgrid", "babel", "mailagent.app"}),
    ],
)
def test_small_commands_load_only_what_they_need(
    shop: Harness, arguments: tuple[str, ...], unwanted: set[str]
) -> None:
    done = process({**shop.environ, "PYTHONPROFILEIMPORTTIME": "1"}, *arguments)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "flask.cli" in loaded
    assert loaded.isdisjoint(unwanted)
