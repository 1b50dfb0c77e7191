"""The manager's page: GET is inert, the first decision stands, every link says kindly what is so."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.adapters.links import Links
from mailagent.domain.money import Money
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.mailers.approval_routing import load_routing
from mailagent.store import schema
from mailagent.store.refunds import approvals, orders, refunds, reviews
from mailagent.web.approvals import decision
from mailagent.web.approvals.decision import Form
from mailagent.web.form import FormProblem
from tests.cast import ADA, GRACE, MAX, MONA, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.web.questions import Question, ask, everything, paid, record_refund
from tests.workflows.proposals import propose, write


def test_the_page_and_the_mail_show_shipping_and_what_is_not_left(question: Question) -> None:
    page = question.shop.client.get(question.link()).text
    assert "Shipping" not in page
    carriage = sa.text("UPDATE refunds SET shipping_minor = 900, short_minor = 100")
    with question.shop.live.database.transaction() as connection:
        connection.execute(carriage)
    mail = ask(question)
    page = question.shop.client.get(question.link()).text
    assert '<span>Shipping</span> <span class="amount">$9.00</span>' in page
    assert "- Shipping: $9.00" in mail.text
    assert "<li>Shipping: $9.00</li>" in mail.html
    assert "- Less what is not left of what was paid: -$1.00" in mail.text
    assert "Less what is not left of what was paid: −$1.00" in mail.html


def test_the_page_shows_the_case(question: Question) -> None:
    page = question.shop.client.get(question.link())
    assert page.status_code == 200
    for shown in (
        "$1,499.00",
        "Standing desk",
        ADA,
        "W2001",
        MONA,
        "arrived damaged",
        "above what is",
    ):
        assert shown in page.text
    assert "<script>alert" not in page.text
    assert 'href="https://evil.example' not in page.text
    assert page.headers["Cache-Control"] == "no-store"


def test_the_page_shows_where_the_parcels_are(question: Question) -> None:
    assert "Parcels" not in question.shop.client.get(question.link()).text
    sent = {"shipment_id": "S1", "status": "in_transit", "carrier": "<b>DHL"}
    moved = {"tracking_url": "https://dhl.example/1", "last_event_at": "2999-01-03T10:30:00Z"}
    question.shop.stock(big_order(shipments=[sent | moved]))
    page = question.shop.client.get(question.link()).text
    assert (
        '<a href="https://dhl.example/1" rel="noopener noreferrer"><bdi>&lt;b&gt;DHL</bdi></a>'
        in page
    )
    assert "in transit, last moved <time" in page


def test_the_page_and_the_mail_show_earlier_refunds_the_delivery_and_the_limit(
    question: Question,
) -> None:
    shop = question.shop
    (mail,) = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    for number, days in (("W7001", 90), ("W7002", 40)):
        shop.stock(big_order(number))
        record_refund(shop, mail, number, f"refund_{number}")
        asked = shop.live.now() - timedelta(days=days)
        with shop.live.database.transaction() as connection:
            connection.execute(
                schema.refunds.update()
                .where(schema.refunds.c.order_id == number)
                .values(status="rejected", requested_at=asked, decided_at=asked)
            )
    shop.stock(big_order("W9001", customer={"email": GRACE, "name": "Grace"}))
    record_refund(shop, mail, "W9001", "refund_of_grace")
    limits = {"exceeded": {"above_limit": {"total": 149900, "limit": 100000}}}
    with shop.live.database.transaction() as connection:
        connection.execute(schema.refunds.update().values(policy_facts=limits))
    page, asked_by_mail = shop.client.get(question.link()).text, ask(question)
    excess = "$1,499.00 is $499.00 above the limit of $1,000.00."
    for shown in (page, asked_by_mail.text, asked_by_mail.html):
        assert excess in shown
        assert "Delivered" in shown
        earlier = shown[shown.index("Earlier refunds of this order and customer") :]
        assert "W7002" in earlier
        assert earlier.index("W7002, asked for on") < earlier.index("W7001, asked for on")
        assert earlier.count(": rejected, ") == 2
        assert "W9001" not in shown


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_opening_the_link_changes_nothing_however_often(question: Question, method: str) -> None:
    before = everything(question.shop)
    for _ in range(3):
        assert question.shop.client.open(question.link(), method=method).status_code == 200
    assert everything(question.shop) == before


def test_approving_is_recorded_with_the_managers_name(question: Question) -> None:
    page = question.decide(form={"note": "Known problem with this desk"})
    assert page.status_code == 200
    assert "approved" in page.text
    refund = question.refund()
    assert (refund.status, refund.decided_by) == (RefundStatus.APPROVED, MONA)
    assert refund.note == "Known problem with this desk"
    (audited,) = question.shop.rows("SELECT * FROM audit")
    assert (audited.actor, audited.action, audited.subject) == (MONA, "refund approved", "refund_1")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_note_for_us_stays_with_us(question: Question, decision: str) -> None:
    page = question.decide(decision, form={"note": "Third time this year"})
    for shown in (page.text, question.shop.client.get(question.link(MAX)).text):
        assert "Third time this year" in shown
        assert "the customer does not get this note" in shown
    (made,) = question.shop.rows("SELECT note, note_shared FROM decisions")
    assert (made.note, bool(made.note_shared)) == ("Third time this year", False)
    outcome = {"approve": "receipt", "reject": "refund_rejected"}[decision]
    with question.shop.live.database.transaction() as connection:
        mailers.write_refund_outcome(connection, paid(question.refund()), outcome)
    (told,) = question.shop.rows("SELECT text FROM outbound_mails WHERE to_address = :to", to=ADA)
    assert "Third time" not in told.text


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_note_for_the_customer_reaches_the_customer(question: Question, decision: str) -> None:
    page = question.decide(decision, form={"note": "We are sorry, Ada.", "note_shared": "yes"})
    assert "The customer gets this note with the decision." in page.text
    outcome = {"approve": "receipt", "reject": "refund_rejected"}[decision]
    with question.shop.live.database.transaction() as connection:
        mailers.write_refund_outcome(connection, paid(question.refund()), outcome)
    (told,) = question.shop.rows("SELECT text FROM outbound_mails WHERE to_address = :to", to=ADA)
    assert "We are sorry, Ada." in told.text


def test_the_page_says_who_else_was_asked_and_who_is_next(question: Question) -> None:
    with question.shop.live.database.transaction() as connection:
        mailers.ask_managers(connection, question.refund())
    page = question.shop.client.get(question.link(MAX)).text
    assert f"<bdi>{MONA}</bdi> on" in page
    assert f"<bdi>{MAX}</bdi> is asked too" in page


def test_rejecting_is_recorded_and_frees_the_amount(question: Question) -> None:
    assert "rejected" in question.decide("reject").text
    assert question.refund().status is RefundStatus.REJECTED
    assert question.shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0


def test_the_first_decision_stands_and_later_ones_see_it(question: Question) -> None:
    question.decide("approve")
    for manager, second in ((MONA, "reject"), (MAX, "reject"), (MAX, "approve")):
        page = question.decide(second, manager=manager)
        assert page.status_code in (200, 400)  # without a form there is no CSRF token to send
        shown = question.shop.client.get(question.link(manager)).text
        assert "Refund of $1,499.00 approved" in shown
        assert MONA in shown
    assert question.refund().decided_by == MONA
    assert len(question.shop.rows("SELECT * FROM decisions")) == 1


def test_two_managers_at_once_make_one_decision(question: Question) -> None:
    managers = [(MONA, "approve"), (MAX, "reject")] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: question.decide(each[1], manager=each[0]), managers))
    (decision,) = question.shop.rows("SELECT * FROM decisions")
    refund = question.refund()
    assert refund.decided_by == decision.decided_by
    expected = RefundStatus.APPROVED if decision.decision == "approve" else RefundStatus.REJECTED
    assert refund.status is expected
    assert len(question.shop.rows("SELECT * FROM audit")) == 1


def test_a_lower_amount_is_taken(question: Question) -> None:
    question.decide(form={"amount": "1000.00"})
    assert question.refund().amount == Money(1_000_00, "USD")
    assert question.shop.rows("SELECT held_minor FROM orders")[0].held_minor == 1_000_00


@pytest.mark.parametrize("typed", ["100,50", "$100.50", "100,50 USD"])
def test_an_amount_is_read_as_people_type_it(question: Question, typed: str) -> None:
    question.decide(form={"amount": typed})
    assert question.refund().amount == Money(100_50, "USD")


@pytest.mark.parametrize("typed", ["\x00", " ", "\u200b\x07"])
def test_an_amount_that_nobody_can_see_does_not_approve_all(question: Question, typed: str) -> None:
    page = question.decide(form={"amount": typed})
    assert page.status_code == 422
    assert "cannot be read" in page.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"amount": "1499.01"}, "at most $1,499.00"),
        ({"amount": "0"}, "above 0"),
        ({"amount": "-5"}, "cannot be read"),
        ({"amount": "€5"}, "this refund is in USD"),
        ({"amount": "ten"}, "cannot be read"),
        ({"note": "n" * 2001}, "longer than 2,000"),
        ({"decision": ""}, "did not say which"),
        ({"decision": "maybe"}, "did not say which"),
    ],
)
def test_a_form_that_cannot_be_taken_says_what_to_change(
    question: Question, form: dict[str, str], complaint: str
) -> None:
    page = question.decide(form=form)
    assert page.status_code == 422
    assert complaint in page.text
    (typed,) = form.values()
    assert typed in page.text or "decision" in form  # what was typed is still there
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL


@ONE_DATABASE
@pytest.mark.parametrize("method", ["card", "bank_transfer"])
@pytest.mark.parametrize("used_up", [False, True])
def test_an_amount_that_no_card_can_give_back_is_refused(
    shop: Harness, method: str, used_up: bool
) -> None:
    services.bind(replace(shop.live, policy=Policy({"KWD": 1})))
    price = "9.670" if used_up else "6.670"
    tea = {"item_id": "K1", "name": "Tea", "quantity": 1, "unit_price": price}
    paid = [{"payment_id": "p", "method": method, "amount": "6.670"}]
    if used_up:
        gift = {"payment_id": "g", "method": "gift_card", "amount": "3.000"}
        paid.insert(0, gift | {"refunded": "3.000"})
    shop.stock(order(currency="KWD", items=[tea], payments=paid))
    assert propose(write(shop), "W1001")["outcome"] == "needs_manager"
    (asked,) = shop.rows("SELECT refund_id, approval_id FROM approvals")
    question = Question(shop, asked.refund_id, asked.approval_id)
    page = question.decide(form={"amount": "3.335"})
    if method == "card":
        assert page.status_code == 422
        assert "only multiples of KWD\u00a00.010." in page.text
        page = question.decide(form={"amount": "3.330"})
    assert page.status_code == 200
    assert question.refund().amount == Money(3_330 if method == "card" else 3_335, "KWD")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("ok\x00ok", "okok"),
        ("\x1b[2Jfine\x07\x7f\x85", "[2Jfine"),
        ("two\r\nlines\r\n", "two\nlines"),
        ("\x00", None),
    ],
)
def test_a_note_is_kept_without_control_characters(
    question: Question, typed: str, kept: str | None
) -> None:
    assert question.decide(form={"note": typed, "amount": "1000\x00.00"}).status_code == 200
    assert question.refund().note == kept
    (decision,) = question.shop.rows("SELECT note, amount_minor FROM decisions")
    assert tuple(decision) == (kept, 1_000_00)


def test_what_was_typed_is_shown_again_without_control_characters(question: Question) -> None:
    page = question.decide(form={"note": "a\x00b", "amount": "te\x08n", "note_shared": "yes"})
    assert page.status_code == 422
    assert 'value="yes" checked' in page.text
    assert ">\nab</textarea>" in page.text
    assert 'value="ten"' in page.text


def test_without_the_pages_csrf_token_nothing_is_recorded(question: Question) -> None:
    response = question.shop.client.post(question.link(), data={"decision": "approve"})
    assert response.status_code == 400
    assert "Nothing was recorded" in response.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL


def test_a_tampered_or_foreign_link_shows_nothing(question: Question) -> None:
    link = question.link()
    foreign = Links(["another key"], "http://localhost:8000").sign_approval(
        question.approval_id, MONA
    )
    for bad in (
        link[:-1],
        link + "A",
        link.replace("/approvals/", "/approvals/x"),
        foreign.replace("http://localhost:8000", ""),
        "/approvals/nonsense",
        "/approvals/%ff",
    ):
        page = question.shop.client.get(bad)
        assert page.status_code == 404, bad
        assert "does not work" in page.text
        assert ADA not in page.text


def test_an_address_that_was_taken_off_the_list_neither_decides_nor_sees_the_case(
    question: Question,
) -> None:
    client = question.shop.client
    before = everything(question.shop)
    page = client.get(question.link()).text  # opened while Mona still decided
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    changed = replace(question.shop.live.shop, manager_emails=(MAX,))
    services.bind(replace(question.shop.live, shop=changed))
    mail_id = question.refund().mail_id
    for answer in (
        client.get(question.link()),
        client.post(question.link(), data={"decision": "approve", "csrf_token": token[1]}),
        client.get(f"{question.link()}/attachments/{mail_id}/0"),
    ):
        assert answer.status_code == 403
        assert "no longer decides" in answer.text
        assert MONA in answer.text
        for hidden in (ADA, "W2001", "1,499", "Standing desk", "wobbles"):
            assert hidden not in answer.text
    assert everything(question.shop) == before
    assert client.get(question.link(MAX)).status_code == 200


def test_after_the_date_nobody_can_decide(question: Question) -> None:
    client = question.shop.client
    page = client.get(question.link()).text  # opened in time, sent too late
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    late = question.shop.live.now() + timedelta(days=7, seconds=1)
    services.bind(replace(question.shop.live, now=lambda: late))
    answer = client.post(question.link(), data={"decision": "approve", "csrf_token": token[1]})
    assert "too late" in answer.text
    assert "too late" in client.get(question.link()).text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL  # the run will expire it
    assert question.shop.rows("SELECT * FROM decisions") == []


@pytest.mark.parametrize("closed_by", ["approve", "reject", "withdrawal", "date"])
def test_a_link_shows_the_case_for_a_week_after_it_was_closed_and_then_who_decided_what(
    question: Question, closed_by: str
) -> None:
    shop, now = question.shop, question.shop.live.now()
    if closed_by in ("approve", "reject"):
        question.decide(closed_by, form={"note": "A fault that we know"})
    elif closed_by == "withdrawal":
        with shop.live.database.transaction() as connection:
            refund = refunds.lock(connection, question.refund_id)
            refunds.move(connection, refund, RefundStatus.WITHDRAWN, decided_at=now)
    case = (ADA, "Standing desk", "wobbles", "arrived damaged")
    last = 14 if closed_by == "date" else 7
    for days, shown in ((0, True), (last - 0.1, True), (last + 0.1, False)):
        at = now + timedelta(days=days)
        services.bind(replace(shop.live, now=lambda at=at: at))  # type: ignore[misc]  # bound early
        page = shop.client.get(question.link())
        assert page.status_code == 200
        assert [words in page.text for words in case] == [shown] * len(case), days
    assert "W2001" in page.text
    assert "A fault that we know" not in page.text
    assert ("by <strong>mona@shop.example</strong> on" in page.text) == (
        closed_by in ("approve", "reject")
    )
    assert question.press((shop.client, ""), "approve").status_code != 500


OWNED = ("orders", "conversations")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("table", OWNED)
@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
def test_nobody_decides_on_an_order_of_their_own(
    question: Question, table: str, second: bool
) -> None:
    opened = question.token()
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET four_eyes = :both"), {"both": second})
    if second:
        question.decide(manager=MAX)
    with question.shop.live.database.transaction() as connection:
        owner = {"owner": "Mona+home@shop.example"}
        connection.execute(sa.text(f"UPDATE {table} SET customer_email = :owner"), owner)
    before = question.shop.rows("SELECT decided_by FROM decisions")
    for page in (question.shop.client.get(question.link()), question.press(opened, "approve")):
        assert page.status_code == 403
        assert "This is your own order; somebody else decides" in page.text
        assert "wobbles" not in page.text
    led = question.shop.log_in(MONA).get(
        f"/ops/refunds/{question.refund_id}/decide", follow_redirects=True
    )
    assert "This is your own order" in led.text
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.shop.rows("SELECT decided_by FROM decisions") == before
    assert question.shop.rows("SELECT 1 FROM countersignatures") == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_who_asked_for_a_refund_in_the_console_does_not_decide_on_it(question: Question) -> None:
    opened, form = question.token(), Form(approves=True, amount=None, note=None)
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"UPDATE refunds SET proposed_by = '{MONA}'"))
        order = orders.lock_of_refund(connection, question.refund_id)
        refund = refunds.lock(connection, question.refund_id)
        standing = approvals.find_standing_of_refund(connection, question.refund_id)
        assert standing is not None
        review = reviews.load(connection, refund, order)
        with pytest.raises(FormProblem, match="You asked for this refund"):
            decision.take(connection, MONA, standing, review, form)
        assert load_routing(connection, refund).candidates == (MAX,)
    for page in (question.shop.client.get(question.link()), question.press(opened, "approve")):
        assert page.status_code == 403
        assert "You asked for this refund; somebody else decides" in page.text
        assert "your order" not in page.text
    shown = question.shop.log_in(MONA).get(f"/ops/refunds/{question.refund_id}").text
    assert f"/ops/refunds/{question.refund_id}/decide" not in shown
    assert question.shop.rows("SELECT 1 FROM decisions") == []
    question.decide(manager=MAX)
    assert question.refund().status is RefundStatus.APPROVED


def test_a_decision_on_an_own_order_is_refused_whatever_way_it_comes(question: Question) -> None:
    form = Form(approves=True, amount=None, note=None, knows_customer=MAX)
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE orders SET customer_email = :owner"), {"owner": MAX})
        order = orders.lock_of_refund(connection, question.refund_id)
        refund = refunds.lock(connection, question.refund_id)
        standing = approvals.find_standing_of_refund(connection, question.refund_id)
        assert standing is not None
        review = reviews.load(connection, refund, order)
        with pytest.raises(FormProblem, match="your own order"):
            decision.take(connection, MAX, standing, review, form)
        decision.take(connection, MONA, standing, review, form)
