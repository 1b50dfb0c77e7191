"""Erasing a customer: after it no column of any table holds their words, name or address, the money still
adds up, and nobody else is touched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import Any

import pytest
from werkzeug.test import TestResponse

from mailagent import mailers
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.mail.outgoing_file import OutgoingFile
from mailagent.domain.mail.redaction import Mention
from mailagent.domain.operations.run_about import hash_customer
from mailagent.engine import ACTIVE
from mailagent.store import audit, schema
from mailagent.store.mail import outgoing_files, suppressions
from mailagent.store.privacy import erasure
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, DESK_WISH, GRACE, MONA, OLGA, SUPPORT, TESS, big_order, order
from tests.harness import Harness, post_form, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.cells import cells
from tests.round_trips.mail_with_file import NAME, write_with_file
from tests.round_trips.replays import wait_for_quiet

pytestmark = pytest.mark.both_databases

# What must be found nowhere; in small letters, as it is searched for.
_WORDS = ("name", "subject", "body", "file", "note", "draft", "parcel")
CANARIES = (ADA, hash_customer(ADA), *(f"canary{word}" for word in _WORDS))
ERASE = f"/ops/customers/{ADA}/erase"
SETTLEMENTS = "/ops/settlements"


def return_a_letter(shop: Harness) -> None:
    """Let a mail server send back a letter of ours, with the customer's address in it."""
    message = EmailMessage()
    message["From"], message["To"] = "MAILER-DAEMON@mx.example", SUPPORT
    message["Subject"] = "Undelivered Mail Returned to Sender"
    message.set_content(f"<{ADA}>: mailbox full. Dear {NAME}, …")
    body = raw_request(message.as_bytes(), dkim="none", envelope_from="")
    assert shop.post_inbound(body).status_code == 200


def tables_with_canaries(shop: Harness) -> dict[str, set[str]]:
    """Return in which columns, by table, anything of Ada's stands."""
    found: dict[str, set[str]] = {}
    for table, column, text in cells(shop):
        if any(canary in text.lower() for canary in CANARIES):
            found.setdefault(table, set()).add(column)
    return found


MONEY = (
    "SELECT order_id, currency, placed_at, status, paid_minor, held_minor FROM orders ORDER BY 1",
    "SELECT refund_id, order_id, amount_minor, status, decided_by, decided_at, gateway_reference, paid_at"
    " FROM refunds ORDER BY 1",
    "SELECT idempotency_key, amount_minor, state, reference FROM refund_payments ORDER BY 1",
    "SELECT * FROM ledger_entries ORDER BY 1",
    "SELECT approval_id, decision, decided_by, decided_at, amount_minor FROM decisions",
    "SELECT count(*) FROM model_calls",
)
OF_OTHERS = (
    f"SELECT * FROM conversations WHERE customer_email = '{GRACE}'",
    f"SELECT * FROM inbound_mails WHERE from_address = '{GRACE}'",
    f"SELECT * FROM outbound_mails WHERE to_address = '{GRACE}' ORDER BY 1",
    f"SELECT * FROM orders WHERE customer_email = '{GRACE}'",
)

DA = "da@example.com"
OF_ADA = (
    "SELECT mail_id, subject, new_text, body, in_reply_to, (SELECT count(*) FROM raw_mails"
    f" WHERE raw_mails.mail_id = inbound_mails.mail_id) FROM inbound_mails WHERE from_address = '{TESS}'",
    "SELECT outbound_id, to_address, subject, text, html FROM outbound_mails"
    f" WHERE to_address NOT IN ('{DA}', '{OLGA}') AND to_address NOT LIKE 'erased-%' ORDER BY 1",
    f"SELECT * FROM conversations WHERE customer_email = '{ADA}' ORDER BY 1",
)


def look(shop: Harness, statements: tuple[str, ...]) -> list[list[Any]]:
    return [shop.rows(statement) for statement in statements]


@pytest.fixture
def shop_with_history(busy_shop: Harness) -> Harness:
    """A shop that has something of Ada's wherever something of a customer's can be."""
    customer = {"email": ADA, "name": NAME}
    link = "https://carrier.example/canaryparcel"
    parcel = {"shipment_id": "CanaryParcel", "status": "label_created", "tracking_url": link}
    busy_shop.stock(
        order(customer=customer, shipments=[parcel | {"tracking_number": "CanaryParcel"}]),
        big_order(customer=customer),
        order("W3001", customer={"email": GRACE, "name": "Grace"}),
    )
    write_with_file(busy_shop, "The kettle of order W1001 is broken. Please refund it. Canarybody")
    busy_shop.write(
        "My kettle of order W3001 arrived broken. I want my money back.",
        from_address=GRACE,
        from_name="Grace",
    )
    write_with_file(busy_shop, DESK_WISH)
    write_with_file(busy_shop, "I am away. Canarybody", Auto_Submitted="auto-replied")
    return_a_letter(busy_shop)
    (request,) = busy_shop.wait_for_mails(MONA)
    busy_shop.write(
        "I am away. > Canarybody",
        from_address=MONA,
        to=str(request.reply_to),
        subject="Out of office: Canarysubject",
    )
    decide(busy_shop, link_in(request.text), "approve", note="Canarynote", note_shared="yes")
    for subject in (
        "Out of office: Canarysubject",
        "Re: Canarysubject",
    ):  # a machine's, and her own
        busy_shop.write(
            "approve > Canarybody",
            from_address=MONA,
            subject=subject,
            in_reply_to=request.message_id,
        )
    wait_until(lambda: [each.status for each in busy_shop.refunds()] == ["paid"] * 3, 30, "money")
    wait_for_quiet(busy_shop)
    _let_money_come_back(busy_shop)
    _add_what_others_write(busy_shop)
    return busy_shop


def _let_money_come_back(shop: Harness) -> None:
    (row,) = shop.rows("SELECT refund_id FROM refunds WHERE order_id = 'W1001'")
    why = {"fail": "yes", "came_back": "yes", "reason": f"Canarynote: {NAME}, account closed"}
    client = shop.log_in(MONA)
    told = post_form(client, f"{SETTLEMENTS}/{row.refund_id}", SETTLEMENTS, **why)
    assert told.status_code == 303
    wait_until(lambda: "failed" in [each.status for each in shop.refunds()], 30, "the failure")
    shop.wait_for_mails(TESS)
    wait_for_quiet(shop)


def _add_what_others_write(shop: Harness) -> None:
    (thread,) = shop.rows("SELECT conversation_id, order_id FROM refunds WHERE order_id = 'W2001'")
    (approval,) = shop.rows("SELECT approval_id FROM approvals")
    answer = shop.rows(f"SELECT outbound_id FROM outbound_mails WHERE to_address = '{ADA}'")[0]
    mail = shop.rows("SELECT mail_id FROM inbound_mails WHERE from_address = :email", email=ADA)[0]
    now = shop.live.now()
    with shop.live.database.transaction() as connection:
        why = {"reason": "Canarynote"}
        audit.record(connection, now, TESS, "draft discarded", "draft_1", why)
        file = OutgoingFile("Canaryfile.pdf", b"Canarybody")
        outgoing_files.record(connection, answer.outbound_id, [file])
        suppressions.suppress(connection, ADA, f"bounce: 550 <{ADA}> unknown", now)
        connection.execute(
            schema.drafts.insert().values(
                draft_id="draft_1",
                conversation_id=thread.conversation_id,
                mail_ids=[],
                topics=[],
                text="Dear Ada, Canarydraft",
                state="discarded",
                created_at=now,
            )
        )
        connection.execute(
            schema.approval_notes.insert().values(
                mail_id=mail.mail_id,
                approval_id=approval.approval_id,
                manager_email=MONA,
                text="Canarynote",
                written_at=now,
            )
        )


def test_nothing_of_an_erased_customer_is_left_and_nothing_of_others_is_lost(
    shop_with_history: Harness,
) -> None:
    shop = shop_with_history
    before = tables_with_canaries(shop)
    assert {
        "orders", "order_shipments", "conversations", "inbound_mails", "raw_mails", "outbound_mails",
        "decisions", "drafts", "approval_notes", "outgoing_files", "audit", "refunds",
        "suppressed_addresses", "workflow_status", "ledger_settlements", "refund_payments",
    } <= before.keys()  # fmt: skip
    money, others = look(shop, MONEY), look(shop, OF_OTHERS)
    client = shop.log_in(OLGA)
    shown = client.get(ERASE)
    assert (shown.status_code, "Not now" in shown.text) == (200, False)
    mistyped = post_form(client, ERASE, address=GRACE)
    assert (mistyped.status_code, tables_with_canaries(shop)) == (422, before)

    erased = post_form(client, ERASE, address=f" {ADA.upper()} ")
    assert erased.status_code == 303
    assert tables_with_canaries(shop) == {}
    assert look(shop, MONEY) == money
    assert look(shop, OF_OTHERS) == others
    (act,) = shop.rows("SELECT actor, subject, details FROM audit WHERE action = 'customer erased'")
    assert (act.actor, erased.location) == (OLGA, f"/ops/customers/{act.subject}")
    stays = client.get(erased.location).text
    assert "Erased by olga@shop.example" in stays
    assert "$1,499.00" in stays
    for path in _pages_of(shop, act.subject):
        assert client.get(path).status_code == 200
    assert client.get(ERASE).status_code == 404
    _check_that_she_is_a_new_customer(shop)


def _pages_of(shop: Harness, alias: str) -> list[str]:
    refunds = shop.rows(
        "SELECT refund_id, conversation_id FROM refunds WHERE order_id IN"
        " (SELECT order_id FROM orders WHERE customer_email = :alias)",
        alias=alias,
    )
    assert len(refunds) == 2
    return [
        path
        for row in refunds
        for path in (f"/ops/refunds/{row.refund_id}", f"/ops/conversations/{row.conversation_id}")
    ]


def _check_that_she_is_a_new_customer(shop: Harness) -> None:
    (old,) = shop.rows(
        "SELECT message_id FROM outbound_mails WHERE dedup_key LIKE 'outcome:%'"
        " AND refund_id IN (SELECT refund_id FROM refunds WHERE order_id = 'W2001')"
    )
    shop.write("What about my desk?", in_reply_to=old.message_id)
    (thread,) = shop.rows(
        "SELECT opened_at FROM conversations WHERE customer_email = :email", email=ADA
    )
    assert thread is not None
    wait_for_quiet(shop)


def test_whoever_has_a_longer_address_keeps_everything(busy_shop: Harness) -> None:
    shop = busy_shop
    shop.stock(big_order(), order("W7001", customer={"email": DA, "name": "Da"}))
    shop.write(f"The desk of order W2001 is damaged, please refund it.\n\nApprove\n\nAsk {DA}.")
    (request,) = shop.wait_for_mails(MONA)
    shop.write("I want to talk to a human being, now!", subject="Other")
    (case,) = shop.wait_for_mails(TESS)
    shop.write(f"{ADA} is on file.", from_address=TESS, to=str(case.reply_to), subject="Re: Other")
    shop.write("Hello", from_address=DA)
    shop.wait_for_mails(DA)
    wait_until(shop.at_rest, 30, "rest")
    wait_until(lambda: not _runs_about(shop, DA), 30, "the runs of Da to end")
    before = [[list(row) for row in rows] for rows in look(shop, OF_ADA)]

    erased = shop.app.test_cli_runner().invoke(args=["erase", DA, "--yes"])
    assert erased.exit_code == 0, erased.output
    (act,) = shop.rows("SELECT actor, subject FROM audit WHERE action = 'customer erased'")
    assert act.actor.startswith("command line (")
    assert Mention(DA).is_in(str(before))
    after = [[list(row) for row in rows] for rows in look(shop, OF_ADA)]
    assert after == Mention(DA).replaced_within(before, act.subject)
    # The request still says what it said: a line of the customer's in it must not decide.
    shop.write("Approve\n\nWhat is this?", from_address=MONA, to=str(request.reply_to))
    assert [refund.status for refund in shop.refunds()] == ["awaiting_approval"]


def _runs_about(shop: Harness, email: str) -> list[str]:
    (thread,) = shop.rows(
        "SELECT conversation_id FROM conversations WHERE customer_email = :email", email=email
    )
    histories = shop.live.workflow_client.runs.list_histories([thread.conversation_id])
    return [run_id for run_id, status in histories.items() if status in ACTIVE]


def wait_for_writer(shop: Harness) -> None:
    """Wait until somebody waits for a lock. SQLite lets nobody begin to write."""
    if shop.live.database.engine.dialect.name == "postgresql":
        locks = "SELECT 1 FROM pg_locks WHERE NOT granted"
        wait_until(lambda: bool(shop.rows(locks)), 30, "a lock")


def test_mail_in_the_moment_of_erasure_opens_a_conversation_of_its_own(shop: Harness) -> None:
    first = shop.write("Hello")
    database = shop.live.database
    with database.transaction() as connection:
        connection.execute(
            schema.inbound_mails.update().values(status="no_answer", no_answer_reason="thanks")
        )
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as connection:
            alias, _ = erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
            late = pool.submit(shop.write, "And my parcel?", in_reply_to=first.message_id)
            wait_for_writer(shop)
        late.result(30)
    theirs = shop.rows(
        "SELECT c.customer_email, m.new_text FROM inbound_mails m JOIN conversations c"
        " ON c.conversation_id = m.conversation_id ORDER BY m.received_at"
    )
    assert [tuple(row) for row in theirs] == [(alias, ""), (ADA, "And my parcel?")]


def answered(shop: Harness) -> SentMail:
    shop.write("Which orders do I have?")
    (answer,) = shop.wait_for_mails(ADA)
    wait_for_quiet(shop)
    return answer


def report_late(shop: Harness, answer: SentMail) -> TestResponse:
    return shop.report(answer, "bounce", reason=f"550 <{ADA}>: user unknown")


def what_a_bounce_left(shop: Harness) -> list[object]:
    """Return what stands in the rows that a bounce may write."""
    return [
        shop.rows("SELECT event, reason FROM delivery_events WHERE event = 'bounce'"),
        shop.rows("SELECT address, reason FROM suppressed_addresses"),
        shop.rows("SELECT subject FROM outbound_mails WHERE to_address = :tess", tess=TESS),
    ]


def test_a_bounce_after_the_erasure_brings_nothing_back(busy_shop: Harness) -> None:
    answer = answered(busy_shop)
    erased = busy_shop.app.test_cli_runner().invoke(args=["erase", ADA, "--yes"])
    assert erased.exit_code == 0, erased.output
    assert report_late(busy_shop, answer).status_code == 200
    wait_for_quiet(busy_shop)
    assert what_a_bounce_left(busy_shop) == [[("bounce", None)], [], []]
    assert tables_with_canaries(busy_shop) == {}


def test_a_bounce_in_the_moment_of_erasure_brings_nothing_back(busy_shop: Harness) -> None:
    answer = answered(busy_shop)
    database = busy_shop.live.database
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as connection:
            erasure.erase(connection, ADA, OLGA, 0, busy_shop.live.now())
            late = pool.submit(report_late, busy_shop, answer)
            wait_for_writer(busy_shop)
        assert late.result(30).status_code == 200
    wait_for_quiet(busy_shop)
    assert what_a_bounce_left(busy_shop) == [[("bounce", None)], [], []]


def test_a_bounce_that_is_acted_on_after_the_erasure_suppresses_no_alias(shop: Harness) -> None:
    with running(shop):
        answer = answered(shop)
    report_late(shop, answer)
    with shop.live.database.transaction() as connection:
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    with running(shop):
        wait_for_quiet(shop)
    assert what_a_bounce_left(shop)[:2] == [[("bounce", None)], []]


def test_nobody_is_erased_while_something_of_theirs_is_under_way(shop: Harness) -> None:
    shop.stock(order())
    shop.write("My kettle of order W1001 arrived broken.")
    client = shop.log_in(OLGA)
    page = client.get(ERASE)
    assert "Not now" in page.text
    assert "is unanswered" in page.text
    assert 'name="address"' not in page.text
    refused = post_form(client, ERASE, "/ops", address=ADA)
    assert refused.status_code == 409
    assert shop.rows("SELECT 1 FROM inbound_mails WHERE body = ''") == []
    outcome = shop.app.test_cli_runner().invoke(args=["erase", ADA, "--yes"])
    assert outcome.exit_code == 1
    assert "is unanswered" in outcome.output


def test_a_mail_about_them_that_is_not_sent_yet_is_named_after_the_refusal(shop: Harness) -> None:
    shop.stock(order())
    notice = mailers.Notice("undelivered:1", f"A mail to {ADA} did not arrive", ["Please look."])
    with shop.live.database.transaction() as connection:
        mailers.write_notice(connection, notice, [TESS])
    client = shop.log_in(OLGA)
    assert "Not now" not in client.get(ERASE).text  # which does not search the texts of all mail
    refused = post_form(client, ERASE, address=ADA)
    assert refused.status_code == 409
    assert "A mail of ours is being sent" in refused.text
    assert 'name="address"' not in refused.text


def test_a_complaint_outlives_its_address(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        suppressions.suppress(connection, ADA, "spamreport: abuse", shop.live.now())
    runner = shop.app.test_cli_runner()
    assert "Nothing was changed" in runner.invoke(args=["erase", ADA, "--dry-run"]).output
    assert "Erased" in runner.invoke(args=["erase", ADA], input=f"{ADA}\n").output
    assert shop.rows("SELECT 1 FROM suppressed_addresses WHERE address = :email", email=ADA) == []
    with shop.live.database.snapshot() as connection:
        assert "spamreport" in (suppressions.why_suppressed(connection, ADA) or "")
    assert "There is nothing on record" in runner.invoke(args=["erase", ADA, "--yes"]).output


def test_nothing_is_sent_to_an_erased_address_that_complained(busy_shop: Harness) -> None:
    with busy_shop.live.database.transaction() as connection:
        suppressions.suppress(
            connection, suppressions.digest(ADA), "spamreport: abuse", busy_shop.live.now()
        )
    busy_shop.write("Where is my order W1001?")
    failed = "SELECT error FROM outbound_mails WHERE to_address = :ada AND status = 'failed'"
    wait_until(lambda: bool(busy_shop.rows(failed, ada=ADA)), 30, "the answer to be held back")
    [row] = busy_shop.rows(failed, ada=ADA)
    assert "(spamreport: abuse)" in row.error
    assert busy_shop.mails_to(ADA) == []


@pytest.mark.parametrize("person", [TESS, MONA])
def test_only_operators_erase(shop: Harness, person: str) -> None:
    shop.stock(order())
    client = shop.log_in(person)
    assert client.get(ERASE).status_code == 403
    assert post_form(client, ERASE, "/ops", address=ADA).status_code == 403


def test_the_shops_own_people_are_not_erased(shop: Harness) -> None:
    shop.stock(order(customer={"email": TESS, "name": "Tess"}))
    page = shop.log_in(OLGA).get(f"/ops/customers/{TESS}/erase")
    assert "one of the shop&#39;s own people" in page.text
    assert (
        "Take it out of OPS_EMAILS, TEAM_EMAILS, MANAGER_EMAILS and REPORT_EMAILS first."
        in page.text
    )
