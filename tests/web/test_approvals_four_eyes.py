"""Four eyes on the manager's page: two people approve, one can reject, and nobody is both of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.domain.operations.report import Figure
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.operations import daily_figures
from mailagent.store.refunds import approvals
from tests.cast import MAX, MONA
from tests.databases import ONE_DATABASE
from tests.harness import Harness, pass_time
from tests.web.questions import Question, everything


def expires_at(question: Question) -> datetime:
    with question.shop.live.database.snapshot() as connection:
        standing = approvals.find_standing(connection, question.approval_id)
    assert standing is not None
    return standing.approval.expires_at


def countersignatures(question: Question) -> list[tuple[str, str]]:
    rows = question.shop.rows("SELECT decided_by, decision FROM countersignatures")
    return [(row.decided_by, row.decision) for row in rows]


def test_one_approval_is_not_enough_and_two_are(dear: Question) -> None:
    page = dear.decide(form={"note": "Known fault"})
    assert "A second manager must approve it too" in page.text
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    asked = dear.shop.client.get(dear.link(MAX)).text
    for shown in ("Yours is the second approval", MONA, "Known fault", "$1,499.00"):
        assert shown in asked
    page = dear.decide(manager=MAX, form={"note": "Agreed"})
    assert "Refund of $1,499.00 approved" in page.text
    for shown in (MONA, "Known fault", MAX, "Agreed"):
        assert shown in page.text
    refund = dear.refund()
    assert (refund.status, refund.decided_by, refund.note) == (RefundStatus.APPROVED, MAX, "Agreed")
    first, second = dear.shop.rows("SELECT actor, action, details FROM audit ORDER BY audit_id")
    assert (first.actor, first.action) == (MONA, "refund approved, second approval awaited")
    assert (second.actor, second.action) == (MAX, "refund approved")
    assert MONA in str(second.details)


@ONE_DATABASE
@pytest.mark.parametrize("again", ["approve", "reject"])
def test_whoever_approved_first_cannot_decide_again(dear: Question, again: str) -> None:
    token = dear.token()
    dear.press(token, "approve")
    before = everything(dear.shop)
    page = dear.press(token, again)  # a double click, or a page that was left open
    assert page.status_code == 200
    assert "Waiting for a second approval" in page.text
    assert everything(dear.shop) == before
    assert countersignatures(dear) == []


@pytest.mark.parametrize("by", [MONA, MAX])
def test_one_rejection_is_enough(dear: Question, by: str) -> None:
    if by == MAX:
        dear.decide()
    page = dear.decide("reject", manager=by)
    assert "Refund of $1,499.00 rejected" in page.text
    assert (dear.refund().status, dear.refund().decided_by) == (RefundStatus.REJECTED, by)
    assert dear.shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
    assert countersignatures(dear) == ([(MAX, "reject")] if by == MAX else [])


@pytest.mark.parametrize(
    ("first", "second", "outcome", "hours"),
    [
        (None, None, "awaiting_approval", []),
        ("reject", None, "reject", [1]),
        ("approve", None, "awaiting_approval", []),
        ("approve", "approve", "approve", [2]),
        ("approve", "reject", "reject", [2]),
    ],
)
def test_the_report_counts_an_approval_when_the_second_manager_has_approved(
    dear: Question, first: str | None, second: str | None, outcome: str, hours: list[int]
) -> None:
    for decision, manager, hour in ((first, MONA, 1), (second, MAX, 2)):
        pass_time(dear.shop, hours=hour)
        if decision is not None:
            dear.decide(decision, manager=manager)
    day = day_begins_at(dear.refund().requested_at)
    with dear.shop.live.database.snapshot() as connection:
        found = daily_figures.figures_of(connection, day, None)
    outcomes = [label for each, label in found if each is Figure.APPROVALS]
    assert outcomes == [outcome]
    times = [int(label) for each, label in found if each is Figure.DECISION_SECONDS]
    assert [round(seconds / 3600) for seconds in times] == hours


@ONE_DATABASE
@pytest.mark.parametrize(
    ("first", "second", "paid_minor"),
    [
        ("", "", 1_499_00),
        ("1000", "", 1_000_00),
        ("", "900", 900_00),
        ("1000", "900", 900_00),
        ("1000", "1000", 1_000_00),
    ],
)
def test_the_second_may_lower_further_and_not_raise(
    dear: Question, first: str, second: str, paid_minor: int
) -> None:
    dear.decide(form={"amount": first})
    raised = dear.decide(manager=MAX, form={"amount": str(1 + paid_minor) if first else "1500"})
    assert raised.status_code == 422
    assert countersignatures(dear) == []
    dear.decide(manager=MAX, form={"amount": second})
    assert dear.refund().amount == Money(paid_minor, "USD")
    assert dear.refund().status is RefundStatus.APPROVED
    assert dear.shop.rows("SELECT held_minor FROM orders")[0].held_minor == paid_minor


@ONE_DATABASE
def test_whoever_opened_the_page_too_early_is_shown_the_first_approval_before_it_counts(
    dear: Question,
) -> None:
    early = dear.token(MAX)
    dear.decide(form={"amount": "1000"})
    page = dear.press(early, "approve", MAX, {"first_decision": "awaited"})
    assert page.status_code == 422
    assert "approved $1,000.00 while this page was open" in page.text
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    assert dear.press(early, "approve", MAX, {"first_decision": "made"}).status_code == 200
    assert dear.refund().status is RefundStatus.APPROVED


@ONE_DATABASE
@pytest.mark.parametrize("days_later", [0, 6])
def test_the_second_has_as_long_as_the_first_had(dear: Question, days_later: int) -> None:
    then = dear.shop.live.now() + timedelta(days=days_later)
    services.bind(replace(dear.shop.live, now=lambda: then))
    old = expires_at(dear)
    dear.decide()
    assert expires_at(dear) == max(old, then + timedelta(days=7))
    late = then + timedelta(days=7, seconds=1)
    services.bind(replace(dear.shop.live, now=lambda: late))
    page = dear.shop.client.get(dear.link(MAX)).text
    assert "too late" in page
    assert "A second approval did not come" in page


def test_of_many_clicks_at_once_one_of_each_manager_counts(dear: Question) -> None:
    tokens = {manager: dear.token(manager) for manager in (MONA, MAX)}
    clicks = [(MONA, "approve"), (MAX, "approve")] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: dear.press(tokens[each[0]], each[1], each[0]), clicks))
    (first,) = dear.shop.rows("SELECT decided_by FROM decisions")
    ((second, _),) = countersignatures(dear)
    assert {first.decided_by, second} == {MONA, MAX}
    assert dear.refund().decided_by == second


@pytest.mark.parametrize(("decision", "manager"), [("reject", MAX), ("approve", MONA), (None, MAX)])
def test_the_database_takes_a_second_signature_only_of_another_person_after_an_approval(
    dear: Question, decision: str | None, manager: str
) -> None:
    made = approvals.RecordedDecision(dear.approval_id, "approve", manager, dear.shop.live.now())
    with dear.shop.live.database.transaction() as connection:
        if decision:
            first = replace(made, decision=decision, decided_by=MONA)
            approvals.record_decision(connection, first)
    with (
        pytest.raises(sa.exc.IntegrityError),
        dear.shop.live.database.transaction() as connection,
    ):
        approvals.record_countersignature(connection, made)


def with_managers(question: Question, *addresses: str) -> None:
    """Have other people decide from now on."""
    live = services.current()
    services.bind(replace(live, shop=replace(live.shop, manager_emails=addresses)))


@ONE_DATABASE
@pytest.mark.parametrize(
    ("decision", "status"),
    [("approve", RefundStatus.APPROVED), ("reject", RefundStatus.REJECTED)],
)
def test_the_first_approval_of_somebody_who_decides_no_more_does_not_count(
    dear: Question, decision: str, status: RefundStatus
) -> None:
    dear.decide()
    with_managers(dear, MAX, "tom@shop.example")
    for page in (dear.shop.client.get(dear.link(MAX)), dear.decide(manager=MAX)):
        assert f"{MONA} approved this, but does not decide on refunds any more" in page.text
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    assert countersignatures(dear) == []
    if decision == "approve":
        with_managers(dear, MONA, MAX)
    assert dear.decide(decision, manager=MAX).status_code == 200
    assert dear.refund().status is status


@ONE_DATABASE
@pytest.mark.parametrize(
    ("first", "again"),
    [
        (MONA, "mona+second@shop.example"),
        ("mona.berg@gmail.com", "monaberg@gmail.com"),
        ("mona.berg@gmail.com", "Mona.Berg@googlemail.com"),
        ("mona@xn--bcher-kva.example", "mona@b\u00fccher.example"),
    ],
)
def test_another_spelling_of_the_same_mailbox_is_not_a_second_person(
    dear: Question, first: str, again: str
) -> None:
    with_managers(dear, first, again)
    token = dear.token(first)
    dear.press(token, "approve", first)
    page = dear.press(token, "approve", again)
    assert "Waiting for a second approval" in page.text
    assert dear.refund().status is RefundStatus.AWAITING_APPROVAL
    assert countersignatures(dear) == []


@ONE_DATABASE
def test_the_second_page_is_headed_with_what_is_decided_on(dear: Question) -> None:
    dear.decide(form={"amount": "100.00"})
    page = dear.shop.client.get(dear.link(MAX)).text
    assert "<h1>Refund $100.00?</h1>" in page
    assert "<title>Refund $100.00? Order W2001" in page
    assert "asks for $1,499.00 on order W2001" in page


def test_a_withdrawn_refund_cannot_be_decided_on(question: Question) -> None:
    token = question.token()
    with question.shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE refunds SET status = 'withdrawn'"))
    for page in (question.shop.client.get(question.link()), question.press(token, "approve")):
        assert page.status_code == 200
        assert "Withdrawn by the customer" in page.text
    assert question.shop.rows("SELECT * FROM decisions") == []


# --- approval locks -------------------------------------------------------------------------------


@contextmanager
def statements(shop: Harness) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if not statement.startswith("BEGIN"):
            said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


def locks(said: list[str]) -> list[str]:
    return [each for each in said if "FOR UPDATE" in each]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_order_is_locked_before_its_refund_and_all_else_is_read_after(
    question: Question,
) -> None:
    opened = question.token()
    with statements(question.shop) as said:
        question.press(opened, "approve")
    order, refund = locks(said)
    assert "FOR UPDATE OF orders" in order
    assert "FOR UPDATE OF refunds" in refund
    assert said[0] == order
