"""A shop that pays what its ledger records: nobody reads "refunded" before somebody says that it was paid."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.store.refunds import settlements
from mailagent.web.language import COOKIE
from mailagent.workflows.steps.maintenance.tasks import tell_overdue_settlements
from tests.cast import ADA, GRACE, KETTLE_WISH, MONA, OLGA, TESS, order
from tests.cli.commands import flask
from tests.harness import Harness, open_shop, pass_time, post_form, running, wait_until
from tests.round_trips.replays import wait_for_quiet

PATH = "/ops/settlements"
SAID = "We have refunded"


@pytest.fixture
def paying_shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that pays by itself what the ledger records."""
    with (
        open_shop(tmp_path, database_url, {"MAILAGENT_SETTLES": ""}) as shop,
        running(shop),
    ):
        yield shop


@pytest.fixture
def promising_shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """The same, and customers are told that it takes at most three days."""
    settings = {"MAILAGENT_SETTLES": "", "SETTLEMENT_DAYS": "3"}
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        yield shop


def wait_for_record(shop: Harness, count: int = 1) -> list[str]:
    """Wait until so many payments are to be made and their runs wait; return their ids."""
    waits = "SELECT idempotency_key FROM refund_payments WHERE problem LIKE '%not settled yet'"
    wait_until(lambda: len(shop.rows(waits)) >= count, 30, f"{count} recorded refunds")
    return [row.idempotency_key for row in shop.rows(f"{waits} ORDER BY idempotency_key")]


def wish(shop: Harness) -> str:
    """Let Ada have her kettle's refund approved; return its settlement."""
    (key,) = wish_all(shop)
    return key


def wish_all(shop: Harness, *payments: dict[str, str]) -> list[str]:
    """The same for a kettle that was paid by several payments; return its settlements."""
    shop.stock(order(payments=[*payments]) if payments else order())
    shop.write(KETTLE_WISH)
    return wait_for_record(shop, len(payments) or 1)


def texts(shop: Harness, address: str = ADA) -> str:
    return "\n".join(mail.text for mail in shop.mails_to(address))


def tick(shop: Harness, key: str, email: str = OLGA, **fields: str) -> TestResponse:
    return post_form(shop.log_in(email), f"{PATH}/{key}", PATH, **fields)


def refund_of(shop: Harness) -> Refund:
    (refund,) = shop.refunds()
    return refund


@pytest.mark.both_databases
def test_the_receipt_goes_out_when_it_is_ticked_off(paying_shop: Harness) -> None:
    shop = paying_shop
    key = wish(shop)
    (reply,) = shop.wait_for_mails(ADA)
    refund = refund_of(shop)
    assert (refund.status, refund.paid_at) == ("approved", None)
    assert "approved, not paid yet" in reply.text
    assert SAID not in texts(shop)
    page = shop.log_in(MONA).get(PATH).text
    assert "W1001" in page
    assert "$49.99</strong> in 1 payment." in page
    assert tick(shop, key, MONA, settle="yes", reference="SEPA 17").status_code == 303
    shop.wait_for_refund("paid")
    _, receipt = shop.wait_for_mails(ADA, 2)
    assert SAID in receipt.text
    assert "Reference: SEPA 17" in receipt.text
    (act,) = shop.rows("SELECT actor, subject FROM audit WHERE action = 'payment settled'")
    assert (act.actor, act.subject) == (MONA, refund.refund_id)
    assert tick(shop, key, MONA, settle="yes").status_code == 303  # a second click
    assert (
        tick(shop, key, settle="yes").status_code == 422
    )  # of another person, who may have paid, too
    wait_for_quiet(shop)
    assert len(shop.mails_to(ADA)) == 2
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert len(shop.rows("SELECT 1 FROM audit WHERE action = 'payment settled'")) == 1
    paid = shop.log_in(OLGA).get(f"{PATH}?state=settled").text
    assert "SEPA 17" in paid
    assert MONA in paid


def test_a_replay_of_a_run_that_waits_pays_nothing(paying_shop: Harness) -> None:
    shop = paying_shop
    key = wish(shop)
    run_id = str(refund_of(shop).run_id)
    for command in ("cancel", "replay"):
        result = flask(shop, "runs", command, run_id)
        assert result.exit_code == 0, result.output
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1
    assert SAID not in texts(shop)
    tick(shop, key, settle="yes")
    shop.wait_for_refund("paid")
    shop.wait_for_mails(ADA, 2)
    assert len(shop.rows("SELECT 1 FROM ledger_entries")) == 1


@pytest.mark.both_databases
def test_what_could_not_be_paid_is_for_the_team(paying_shop: Harness) -> None:
    shop = paying_shop
    key = wish(shop)
    shop.wait_for_mails(ADA)
    wrong = tick(shop, key, fail="yes")
    assert wrong.status_code == 422
    assert "a failed payment needs a reason" in wrong.text
    tick(shop, key, fail="yes", reason="the account is closed")
    shop.wait_for_refund("failed")
    (case,) = shop.wait_for_mails(TESS)
    assert "the account is closed" in case.text
    _, told = shop.wait_for_mails(ADA, 2)
    assert "could not be completed" in told.text
    assert SAID not in texts(shop)
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
    late = tick(shop, key, settle="yes")
    assert (late.status_code, "it has failed before" in late.text) == (422, True)


def test_money_that_came_back_later_is_for_the_team_too(paying_shop: Harness) -> None:
    shop = paying_shop
    key = wish(shop)
    assert flask(shop, "refunds", "settlements", "settle", key).exit_code == 0
    shop.wait_for_mails(ADA, 2)
    result = flask(shop, "refunds", "settlements", "fail", key, "--reason", "returned by the bank")
    assert "it is recorded as paid" in result.output
    result = flask(
        *(shop, "refunds", "settlements", "fail", key),
        *("--reason", "returned by the bank", "--came-back"),
    )
    assert result.output == f"{key} is failed.\n"
    refund = shop.wait_for_refund("failed")
    assert refund.returned == refund.amount
    (case,) = shop.wait_for_mails(TESS)
    assert "came back" in case.text
    assert "We have to correct that" in shop.wait_for_mails(ADA, 3)[-1].text


# --- a promise ------------------------------------------------------------------------------------


def test_a_shop_may_promise_a_time_and_keeps_the_receipt_for_the_payment(
    promising_shop: Harness,
) -> None:
    shop = promising_shop
    key = wish(shop)
    mails = shop.wait_for_mails(ADA, 2)
    (promise,) = [mail for mail in mails if "We will pay" in mail.text]
    assert "We will pay $49.99 within 3 days, by" in promise.text
    assert "Next: it is paid by" in promise.text
    assert SAID not in texts(shop)
    tick(shop, key, settle="yes")
    assert SAID in shop.wait_for_mails(ADA, 3)[-1].text
    wait_for_quiet(shop)
    assert len(shop.mails_to(ADA)) == 3


def test_all_parts_of_a_refund_are_listed_at_once_and_promised_together(
    promising_shop: Harness,
) -> None:
    shop = promising_shop
    gift = {"payment_id": "gift", "method": "gift_card", "amount": "20.00"}
    card = {"payment_id": "card", "method": "card", "amount": "29.99"}
    keys = wish_all(shop, gift, card)
    assert "gift card" in shop.log_in(OLGA).get("/ops/settlements").text
    (promise,) = [mail for mail in shop.wait_for_mails(ADA, 2) if "We will pay" in mail.text]
    assert "We will pay $49.99 within 3 days, by" in promise.text
    for key in keys:
        assert SAID not in texts(shop)
        tick(shop, key, settle="yes")
    assert SAID in shop.wait_for_mails(ADA, 3)[-1].text
    wait_for_quiet(shop)
    assert len(shop.mails_to(ADA)) == 3


def test_a_promise_that_was_not_kept_is_not_repeated(promising_shop: Harness) -> None:
    shop = promising_shop
    wish(shop)
    shop.wait_for_mails(ADA, 2)
    pass_time(shop, days=4)
    shop.write("Where is my refund for order W1001?")
    answer = shop.wait_for_mails(ADA, 3)[-1]
    assert "approved, not paid yet" in answer.text
    assert "at the latest" not in answer.text


@pytest.mark.both_databases
def test_what_is_late_alerts_the_operators_once(paying_shop: Harness) -> None:
    shop = paying_shop
    wish(shop)
    assert tell_overdue_settlements() == 0
    assert "late" not in shop.log_in(OLGA).get(PATH).text
    with shop.live.database.transaction() as connection:
        past = {"due_at": shop.live.now() - timedelta(minutes=1)}
        connection.execute(schema.ledger_settlements.update().values(past))
    assert tell_overdue_settlements() == 1
    assert tell_overdue_settlements() == 0
    (alert,) = shop.wait_for_mails(OLGA)
    assert "49.99 USD for order W1001" in alert.text
    assert f"{shop.live.shop.public_url}{PATH}" in alert.text
    assert "late" in shop.log_in(OLGA).get(PATH).text


# --- files ----------------------------------------------------------------------------------------


def two_wishes(shop: Harness) -> list[str]:
    shop.stock(order(), order("W3001", customer={"email": GRACE, "name": "Grace"}))
    shop.write(KETTLE_WISH)
    shop.write(KETTLE_WISH.replace("W1001", "W3001"), from_address=GRACE)
    return wait_for_record(shop, 2)


def fill_in(text: str, outcomes: dict[str, str]) -> bytes:
    head, *lines = text.splitlines()
    return "\n".join(
        [head, *(line.removesuffix(",,,") + outcomes[line.split(",")[0]] for line in lines)]
    ).encode()


@pytest.mark.both_databases
def test_a_file_goes_out_and_comes_back_all_or_nothing(
    paying_shop: Harness, tmp_path: Path
) -> None:
    shop, file = paying_shop, tmp_path / "to-pay.csv"
    two_wishes(shop)
    printed = flask(shop, "refunds", "settlements", "export").output
    assert printed.startswith("settlement,")
    assert flask(shop, "refunds", "settlements", "export", str(file)).exit_code == 0
    exported = file.read_text("utf-8")
    assert exported.splitlines() == f"\ufeff{printed}".splitlines()  # fill_in keeps the mark
    first, second = (line.split(",")[0] for line in exported.splitlines()[1:])
    half = fill_in(exported, {first: ",settled,B1,", second: ",failed,,"})
    refused = flask(shop, "refunds", "settlements", "import", "-", given=half)
    assert refused.exit_code == 1
    assert "line 3: a failed payment needs a reason; say why" in refused.output
    assert "Nothing was imported." in refused.output
    assert {each.status for each in shop.refunds()} == {"approved"}
    whole = fill_in(exported, {first: ",settled,B1,", second: ",failed,,closed account"})
    taken = flask(shop, "refunds", "settlements", "import", "-", given=whole)
    assert taken.output == "2 outcomes: 2 new, 0 known before.\n"
    again = flask(shop, "refunds", "settlements", "import", "-", given=whole)
    assert again.output == "2 outcomes: 0 new, 2 known before.\n"
    wait_until(
        lambda: sorted(each.status for each in shop.refunds()) == ["failed", "paid"], 30, "both"
    )
    assert flask(shop, "refunds", "settlements", "list").output == "Nothing waits to be paid.\n"


def test_the_page_takes_the_file_too(paying_shop: Harness) -> None:
    shop = paying_shop
    first, second = two_wishes(shop)
    client = shop.log_in(OLGA)
    file = client.get(f"{PATH}/export")
    assert file.data.startswith(codecs.BOM_UTF8)  # fill_in keeps it, as spreadsheet programs do
    assert {first, second} == {line.split(",")[0] for line in file.text.splitlines()[1:]}
    assert file.headers["Content-Disposition"].startswith('attachment; filename="settlements-')

    def post(data: bytes) -> TestResponse:
        return post_form(client, f"{PATH}/import", PATH, file=(io.BytesIO(data), "bank.csv"))

    nothing = post(file.data)
    assert (nothing.status_code, "no line has an outcome" in nothing.text) == (422, True)
    filled = fill_in(file.text, {first: ",settled,B1,", second: ",settled,B2,"})
    wrong = post(filled.replace(b"49.99", b"49.98"))
    assert (wrong.status_code, wrong.text.count("the amount is")) == (422, 2)
    assert "line 2: the amount is $49.99, not $49.98" in wrong.text
    client.set_cookie(COOKIE, "de")
    wrong = post(filled.replace(b"49.99", b"49.98"))
    assert "Zeile 2: der Betrag ist 49,99\u00a0$, nicht 49,98\u00a0$" in wrong.text
    failed = post_form(client, f"{PATH}/{first}", PATH, fail="yes", reason="")
    assert "eine fehlgeschlagene Zahlung braucht einen Grund" in failed.text
    client.set_cookie(COOKIE, "en")
    done = post(filled)
    assert client.get(done.headers["Location"]).text.count("2 new outcomes, 0 known before") == 1
    wait_until(lambda: {each.status for each in shop.refunds()} == {"paid"}, 30, "both receipts")


def test_only_operators_and_managers_settle(paying_shop: Harness) -> None:
    key = wish(paying_shop)
    assert paying_shop.log_in(TESS).get(PATH).status_code == 403
    client = paying_shop.log_in(TESS)
    assert post_form(client, f"{PATH}/{key}", "/ops/search").status_code == 403
    with services.current().database.snapshot() as connection:
        assert [each.idempotency_key for each in settlements.list_open(connection)] == [key]
