"""A customer who waits for an exchange asks for the money instead: one of the two comes, never both."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.remedies import finish
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MAX, MONA, TESS, big_order, order
from tests.harness import Harness, post_form, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet

pytestmark = pytest.mark.both_databases

PATH = "/ops/tasks"
UNDO_SECONDS = 5
SWAP = "Can I exchange the kettle of W1001 for another colour?"


def task_of(shop: Harness) -> tuple[str, str]:
    (row,) = shop.rows("SELECT remedy_id, status FROM remedies")
    return row.remedy_id, row.status


def tick(shop: Harness) -> int:
    """Have Tess say that the exchange is done; return how the page answers."""
    path = f"{PATH}/{task_of(shop)[0]}"
    return post_form(shop.log_in(TESS), path, "/ops", done="yes").status_code


def books(shop: Harness) -> list[int]:
    return [row.amount_minor for row in shop.rows("SELECT amount_minor FROM ledger_entries")]


def swap(shop: Harness) -> None:
    shop.stock(order())
    shop.write(SWAP)
    shop.wait_for_mails(ADA)


def want_money(shop: Harness, mails: int = 2) -> str:
    """Ada wants her money instead; return the link that a manager gets."""
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, mails)
    return link_in(shop.wait_for_mails(MONA)[-1].text)


def test_a_rejected_refund_leaves_the_exchange(busy_shop: Harness) -> None:
    swap(busy_shop)
    link = want_money(busy_shop)
    assert "withdrawn" not in busy_shop.mails_to(ADA)[-1].text
    assert task_of(busy_shop)[1] == "task"
    decide(busy_shop, link, "reject")
    busy_shop.wait_for_mails(ADA, 3)
    assert task_of(busy_shop)[1] == "task"
    assert tick(busy_shop) == 303
    assert "The exchange for order W1001 is arranged." in busy_shop.wait_for_mails(ADA, 4)[-1].text
    assert books(busy_shop) == []


def test_a_manager_reads_beforehand_that_an_approval_withdraws_the_exchange(
    busy_shop: Harness,
) -> None:
    swap(busy_shop)
    link, says = want_money(busy_shop), "the exchange or replacement that waits for its items"
    mail = busy_shop.wait_for_mails(MONA)[-1]
    assert says in mail.text
    assert says in (mail.html or "")
    page = link.replace(busy_shop.live.shop.public_url, "")
    assert says in busy_shop.client.get(page).text
    decide(busy_shop, link, "approve")
    wait_for_quiet(busy_shop)
    assert says not in busy_shop.client.get(page).text
    busy_shop.stock(big_order())
    busy_shop.write("Refund the desk W2001, I do not want it.")
    wait_until(lambda: len(busy_shop.mails_to(MONA)) == 2, 30, "the next request")
    mail = busy_shop.mails_to(MONA)[-1]
    assert says not in f"{mail.text} {mail.html}"
    page = link_in(mail.text).replace(busy_shop.live.shop.public_url, "")
    assert says not in busy_shop.client.get(page).text


def test_an_approved_refund_withdraws_the_exchange_once(busy_shop: Harness) -> None:
    swap(busy_shop)
    link = want_money(busy_shop)
    for _ in range(2):
        decide(busy_shop, link, "approve")
        busy_shop.wait_for_mails(ADA, 4)
        wait_for_quiet(busy_shop)
    texts = [mail.text for mail in busy_shop.mails_to(ADA)]
    assert len(texts) == 4
    assert sum("your request is withdrawn" in text for text in texts) == 1
    assert task_of(busy_shop)[1] == "withdrawn"
    assert len(busy_shop.rows("SELECT 1 FROM audit WHERE action = 'request withdrawn'")) == 1
    assert books(busy_shop) == [49_99]
    assert tick(busy_shop) == 422


def test_only_the_second_of_two_approvals_withdraws_the_replacement(busy_shop: Harness) -> None:
    policy = Policy(four_eyes_above={"USD": 1_000_00})
    services.bind(replace(busy_shop.live, policy=policy))
    busy_shop.stock(big_order())
    busy_shop.write("Please send a replacement for the desk of W2001, it is damaged.")
    busy_shop.wait_for_mails(ADA)
    path = f"{PATH}/{task_of(busy_shop)[0]}"
    busy_shop.write(DESK_WISH)
    busy_shop.wait_for_mails(ADA, 2)

    def asked(manager: str) -> SentMail:
        """Return the newest request to a manager. Managers get the team's notices, too."""
        wait_until(lambda: bool(requests(manager)), 30, "a request")
        return requests(manager)[-1]

    def requests(manager: str) -> list[SentMail]:
        return [each for each in busy_shop.mails_to(manager) if "/approvals/" in each.text]

    says = "the exchange or replacement that waits for its items is withdrawn"
    decide(busy_shop, link_in(asked(MONA).text), "approve")
    second = asked(MAX)
    assert says in second.text
    assert (task_of(busy_shop)[1], books(busy_shop)) == ("task", [])
    # A manager may do it, but not while the second approval is awaited.
    assert post_form(busy_shop.log_in(MONA), path, "/ops", done="yes").status_code == 422
    decide(busy_shop, link_in(second.text), "approve")
    busy_shop.wait_for_refund("paid")
    wait_for_quiet(busy_shop)
    assert (task_of(busy_shop)[1], books(busy_shop)) == ("withdrawn", [1_499_00])
    assert post_form(busy_shop.log_in(MONA), path, "/ops", done="yes").status_code == 422
    texts = [mail.text for mail in busy_shop.mails_to(ADA)]
    assert sum("your request is withdrawn" in text for text in texts) == 1


def test_nothing_is_sent_while_a_refund_waits(busy_shop: Harness) -> None:
    swap(busy_shop)
    link = want_money(busy_shop)
    (refund,) = busy_shop.refunds()
    page = busy_shop.log_in(TESS).get(PATH).text
    assert "Send nothing yet" in page
    assert f'href="/ops/refunds/{refund.refund_id}"' in page
    assert 'name="done"' not in page
    assert tick(busy_shop) == 422
    with (
        busy_shop.live.database.transaction() as connection,
        pytest.raises(TaskProblem, match="waits for a manager"),
    ):
        finish(connection, task_of(busy_shop)[0], TESS, True, None)
    assert task_of(busy_shop)[1] == "task"
    decide(busy_shop, link, "reject")
    busy_shop.wait_for_mails(ADA, 3)
    page = busy_shop.log_in(TESS).get(PATH).text
    assert "Send nothing yet" not in page
    assert 'name="done"' in page


def test_who_was_sent_the_goods_gets_the_money_only_by_a_manager_who_is_told(
    busy_shop: Harness,
) -> None:
    swap(busy_shop)
    assert tick(busy_shop) == 303
    busy_shop.wait_for_mails(ADA, 2)
    link = want_money(busy_shop, mails=3)
    page = busy_shop.client.get(link.replace(busy_shop.live.shop.public_url, "")).text
    assert "were refunded or sent again before" in re.sub(r"\s+", " ", page)
    assert books(busy_shop) == []
    decide(busy_shop, link, "approve")
    busy_shop.wait_for_mails(ADA, 4)
    assert (task_of(busy_shop)[1], books(busy_shop)) == ("done", [49_99])


def test_goods_that_were_sent_after_all_keep_the_money_back(busy_shop: Harness) -> None:
    """As by a person on an older release, which ticked the task while the refund waited."""
    swap(busy_shop)
    link = want_money(busy_shop)
    _send_after_all(busy_shop)
    refused = decide(busy_shop, link, "approve")
    assert "Its items were sent again after this refund was asked for." in refused
    assert [each.status for each in busy_shop.refunds()] == ["awaiting_approval"]
    decide(busy_shop, link, "reject")
    busy_shop.wait_for_mails(ADA, 3)
    assert books(busy_shop) == []


def _allow_undo(shop: Harness) -> None:
    live = services.current()
    services.bind(replace(live, waits=replace(live.waits, approval_undo_seconds=UNDO_SECONDS)))


def test_an_approval_withdraws_the_exchange_only_when_it_takes_effect(busy_shop: Harness) -> None:
    swap(busy_shop)
    link = want_money(busy_shop)
    _allow_undo(busy_shop)
    decide(busy_shop, link, "approve")
    assert task_of(busy_shop)[1] == "task"
    assert tick(busy_shop) == 422
    busy_shop.wait_for_mails(ADA, 4)
    assert (task_of(busy_shop)[1], books(busy_shop)) == ("withdrawn", [49_99])


def test_goods_that_were_sent_before_an_approval_takes_effect_stop_the_payment(
    busy_shop: Harness,
) -> None:
    swap(busy_shop)
    link = want_money(busy_shop)
    _allow_undo(busy_shop)
    decide(busy_shop, link, "approve")
    _send_after_all(busy_shop)
    wait_until(lambda: busy_shop.refunds()[0].status == "failed", 30, "the payment to be stopped")
    assert busy_shop.refunds()[0].failure == "its items were sent again after it was asked for"
    assert (task_of(busy_shop)[1], books(busy_shop)) == ("done", [])


def _send_after_all(shop: Harness) -> None:
    remedies = "UPDATE remedies SET status = 'done', decided_by = :who, decided_at = :now"
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(remedies), {"who": TESS, "now": shop.live.now()})
