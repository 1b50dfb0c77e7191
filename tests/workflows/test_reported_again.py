"""Two people report the same payment or task: the second one reads who was first, and the report is kept."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from mailagent.store.refunds import credits
from mailagent.workflows.tools.request_change import request_change
from tests.cast import MONA, OLGA, TESS, order
from tests.cli.commands import flask
from tests.harness import Harness, open_shop, post_form
from tests.tool_use import use
from tests.workflows.erasing import erase
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

PAYMENTS, TASKS = "/ops/settlements", "/ops/tasks"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that has Ada's refund in its ledger, to be paid."""
    with open_shop(tmp_path, database_url, {"MAILAGENT_SETTLES": ""}) as shop:
        shop.stock(order(payments=[{"payment_id": "p", "method": "card", "amount": "69.99"}]))
        propose(write(shop), "W1001")
        yield shop


def record(shop: Harness) -> str:
    """Have the ledger record the refund; return its settlement."""
    key = shop.refunds()[0].refund_id
    assert pay(key)["status"] == "approved"
    return key


def say(shop: Harness, person: str, key: str, **fields: str) -> TestResponse:
    return post_form(shop.log_in(person), f"{PAYMENTS}/{key}", PAYMENTS, **fields)


def paid(shop: Harness, person: str, key: str, reference: str = "") -> TestResponse:
    return say(shop, person, key, settle="yes", reference=reference)


def acts(shop: Harness, action: str) -> list[tuple[str, str, str]]:
    query = "SELECT actor, subject, details FROM audit WHERE action = :a ORDER BY audit_id"
    return [(row.actor, row.subject, str(row.details)) for row in shop.rows(query, a=action)]


AGAIN = "payment reported again"


@pytest.mark.parametrize("reference", ["SEPA 2", "SEPA 1", ""])
def test_two_people_who_paid_the_same_entry_learn_of_it(shop: Harness, reference: str) -> None:
    key = record(shop)
    assert paid(shop, OLGA, key, "SEPA 1").status_code == 303
    page = paid(shop, MONA, key, reference)
    assert page.status_code == 422
    assert f"{OLGA} recorded it as paid, " in page.text
    assert "reference: SEPA 1;" in page.text
    assert "If it was paid twice, have one of the two payments taken back" in page.text
    if reference:
        assert f"readonly>{reference}</textarea>" in page.text
    ((actor, subject, details),) = acts(shop, AGAIN)
    assert (actor, subject) == (MONA, key)
    assert "49.99" in details
    assert reference in details
    (row,) = shop.rows("SELECT decided_by, bank_reference FROM ledger_settlements")
    assert (row.decided_by, row.bank_reference) == (OLGA, "SEPA 1")


def test_a_double_click_is_no_second_payment(shop: Harness) -> None:
    key = record(shop)
    for reference in ("SEPA 1", "SEPA 1", ""):
        assert paid(shop, OLGA, key, reference).status_code == 303
    assert acts(shop, AGAIN) == []
    assert paid(shop, OLGA, key, "SEPA 2").status_code == 422
    assert len(acts(shop, AGAIN)) == 1


def test_a_second_code_of_store_credit_is_kept(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        credits.choose(connection, shop.refunds()[0], 10)
    key = record(shop)
    assert paid(shop, OLGA, key, "CODE-1").status_code == 303
    page = paid(shop, MONA, key, "CODE-2")
    assert "code: CODE-1;" in page.text
    assert "If you gave another code, cancel one of the two" in page.text
    assert "CODE-2" in acts(shop, AGAIN)[0][2]


def test_a_second_reason_why_it_could_not_be_paid_is_kept(shop: Harness) -> None:
    key = record(shop)
    for person in (OLGA, OLGA, MONA):
        assert say(shop, person, key, fail="yes", reason="closed").status_code == 303
    assert acts(shop, AGAIN) == []
    page = say(shop, MONA, key, fail="yes", reason="another name")
    assert page.status_code == 422
    assert f"{OLGA} recorded that it failed, " in page.text
    assert ": closed;" in page.text
    assert "readonly>another name</textarea>" in page.text
    assert "another name" in acts(shop, AGAIN)[0][2]


def test_the_command_says_so_too(shop: Harness) -> None:
    key = record(shop)
    assert paid(shop, OLGA, key, "SEPA 1").status_code == 303
    told = flask(shop, "refunds", "settlements", "settle", key, "--reference", "SEPA 2")
    assert told.exit_code == 1
    assert f"{OLGA} recorded it as paid, " in told.output
    assert len(acts(shop, AGAIN)) == 1


def import_file(shop: Harness, person: str, text: str) -> TestResponse:
    file = (io.BytesIO(text.encode()), "paid.csv")
    return post_form(shop.log_in(person), f"{PAYMENTS}/import", PAYMENTS, file=file)


@pytest.mark.parametrize(
    "cells", ["settled,SEPA 1,", "settled,,", "paid_before,SEPA 1,", "failed,,closed"]
)
def test_a_file_may_be_imported_again_by_all(shop: Harness, cells: str) -> None:
    text = f"settlement,outcome,reference,reason\n{record(shop)},{cells}\n"
    for person, known in ((OLGA, 0), (OLGA, 1), (MONA, 1)):
        done = import_file(shop, person, text)
        assert done.headers["Location"].endswith(f"imported={1 - known}-{known}")
    assert acts(shop, AGAIN) == []


def test_a_line_with_another_reference_is_a_problem(shop: Harness) -> None:
    key = record(shop)
    head = "settlement,outcome,reference\n"
    assert paid(shop, OLGA, key, "SEPA 1").status_code == 303
    for line in (f"{key},settled,SEPA 2", f"{key},settled,"):
        page = import_file(shop, MONA, f"{head}{line}\n")
        assert page.status_code == 422
        assert f"line 2: {OLGA} recorded it as paid, " in page.text
        assert "Nothing was imported." in page.text
    assert [act[0] for act in acts(shop, AGAIN)] == [MONA, MONA]
    assert import_file(shop, OLGA, f"{head}{key},settled,\n").status_code == 303


WORDS = "Ada Example moved to Bonn"


@pytest.mark.parametrize("outcome", ["failed", "came_back"])
def test_a_report_again_brings_no_erased_words_back(shop: Harness, outcome: str) -> None:
    key = record(shop)
    if outcome == "came_back":
        assert paid(shop, OLGA, key).status_code == 303
        assert pay(key)["status"] == "paid"
    text = f"settlement,outcome,reason\n{key},{outcome},{WORDS}\n"
    assert import_file(shop, OLGA, text).status_code == 303
    pay(key)
    erase(shop)
    before = shop.rows("SELECT * FROM ledger_settlements")
    for person in (OLGA, MONA):
        done = import_file(shop, person, text)
        assert done.headers["Location"].endswith("imported=0-1")
        assert say(shop, person, key, fail="yes", reason=WORDS).status_code == 303
    told = flask(shop, "refunds", "settlements", "fail", key, "--reason", WORDS)
    assert (told.exit_code, "already" in told.output) == (0, True)
    assert shop.rows("SELECT * FROM ledger_settlements") == before
    assert [row.action for row in shop.rows("SELECT * FROM audit") if "Bonn" in str(row)] == []


@pytest.mark.parametrize("cells", [f"settled,SEPA 2,{WORDS}", f"came_back,,{WORDS}"])
def test_no_words_about_an_erased_customer_come_into_the_audit_log(
    shop: Harness, cells: str
) -> None:
    key = record(shop)
    assert paid(shop, OLGA, key, "SEPA 1").status_code == 303
    assert pay(key)["status"] == "paid"
    erase(shop)
    import_file(shop, MONA, f"settlement,outcome,reference,reason\n{key},{cells}\n")
    ((actor, subject, details),) = acts(shop, AGAIN) + acts(shop, "payment failed")
    assert (actor, subject, "Bonn" in details) == (MONA, key, False)
    assert "'erased'" in details.replace('"', "'")


# --- tasks ----------------------------------------------------------------------------------------

TASK_AGAIN = "request reported again"


@pytest.fixture
def task(shop: Harness) -> str:
    """Return the id of Ada's wish for another kettle."""
    shop.stock(order("W3"))
    kettle = {"items": [{"item_id": "K1", "quantity": None}], "reason": "damaged", "wish": None}
    asked = {"order_id": "W3", "kind": "replacement"} | kettle
    assert use(request_change, write(shop, subject="W3"), asked)["outcome"] == "task"
    return str(shop.rows("SELECT remedy_id FROM remedies")[0].remedy_id)


def press(shop: Harness, person: str, task: str, **fields: str) -> TestResponse:
    return post_form(shop.log_in(person), f"{TASKS}/{task}", "/ops", **fields)


def note(shop: Harness) -> str | None:
    text: str | None = shop.rows("SELECT note FROM remedies")[0].note
    return text


@pytest.mark.parametrize("words", ["By DHL.", ""])
def test_two_people_who_did_the_same_task_learn_of_it(shop: Harness, task: str, words: str) -> None:
    assert press(shop, TESS, task, done="yes", note="By UPS.").status_code == 303
    page = press(shop, MONA, task, done="yes", note=words)
    assert page.status_code == 422
    assert f"{TESS} said that it is done, " in page.text
    assert "If it was done twice, take one of the two back" in page.text
    if words:
        assert f"readonly>{words}</textarea>" in page.text
    ((actor, subject, details),) = acts(shop, TASK_AGAIN)
    assert (actor, subject) == (MONA, task)
    assert "done" in details
    assert note(shop) == "By UPS."


def test_a_double_click_on_a_task_is_nothing_done_twice(shop: Harness, task: str) -> None:
    for words in ("By UPS.", "By UPS.", ""):
        assert press(shop, TESS, task, done="yes", note=words).status_code == 303
    assert acts(shop, TASK_AGAIN) == []
    page = press(shop, TESS, task, done="yes", note="By DHL.")
    assert (page.status_code, "readonly>By DHL.</textarea>" in page.text) == (422, True)


def test_other_words_why_a_task_is_not_possible_are_not_lost(shop: Harness, task: str) -> None:
    for person in (TESS, TESS, MONA):
        assert press(shop, person, task, fail="yes", note="Sold out.").status_code == 303
    assert acts(shop, TASK_AGAIN) == []
    page = press(shop, MONA, task, fail="yes", note="It is too late.")
    assert page.status_code == 422
    assert f"{TESS} said that it is not possible, " in page.text
    assert "readonly>It is too late.</textarea>" in page.text
    assert (note(shop), len(acts(shop, TASK_AGAIN))) == ("Sold out.", 1)
