"""The inbox: what waits comes first for whom it waits, leaves when it is dismissed, and says what is new."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from flask.testing import FlaskClient

from mailagent.domain.money import Money
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.incident import INCIDENTS, IncidentKind
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.refunds.escalation import Question as Asking
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.refunds.refund import RefundLine
from mailagent.store.mail import drafts
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import microseconds
from mailagent.store.refunds import approvals, refunds, remedies
from mailagent.store.refunds.ledger import LedgerGateway
from tests.cast import MAX, MONA, OLGA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, post_form
from tests.store.lost_mail import lose_mail
from tests.web.console.failed_runs import (
    change_run,
    fail_run,
    keep_figures,
    lose,
    told,
)
from tests.web.console.pages import read_pages
from tests.web.doors import task_of
from tests.web.questions import Question
from tests.workflows.proposals import write

pytestmark = pytest.mark.both_databases


def titles(client: FlaskClient) -> list[str]:
    """Return what the tiles of the inbox are called, in their order."""
    tiles = client.get("/ops").text.partition('<ul class="tiles">')[2].partition("</ul>")[0]
    return [
        " ".join(re.sub(r"<[^>]+>", "", tile).split()[1:3])
        for tile in tiles.split("<li>")[1:]
    ]  # fmt: skip


def acts(harness: Harness) -> list[tuple[str, str, str]]:
    rows = harness.rows("SELECT actor, action, subject FROM audit ORDER BY audit_id")
    return [(row.actor, row.action, row.subject) for row in rows]


def test_what_waits_for_a_role_comes_first(shop: Harness) -> None:
    assert titles(shop.log_in(MONA))[:1] == ["Waiting for"]
    assert titles(shop.log_in(TESS))[:2] == ["Drafts to", "With the"]
    assert titles(shop.log_in(OLGA))[:3] == ["Failed", "Mail that", "Throttled mail"]


def test_refunds_to_pay_are_a_tile_for_those_who_may_settle(question: Question) -> None:
    shop = question.shop
    keep_figures(shop, seconds=0)
    moments = [shop.live.now() - timedelta(days=days) for days in (8, 3)]
    for number, moment in enumerate(moments):
        request = RefundRequest(f"s{number}", "refund_1", "W2001", "pay_1", Money(100, "USD"))
        clock = partial(datetime.fromtimestamp, moment.timestamp(), UTC)
        LedgerGateway(shop.live.database, clock).refund(request)
    tile = '<a href="/ops/settlements"><strong data-count="settlements">2</strong>'
    for email, shown in ((MONA, True), (OLGA, True), (TESS, False)):
        client = shop.log_in(email)
        page, counts = client.get("/ops").text, client.get("/ops/live").get_json()["counts"]
        assert (tile in page, "1 late" in page, "settlements" in counts) == (shown,) * 3


def test_tasks_are_a_tile_for_those_who_do_them(shop: Harness) -> None:
    keep_figures(shop, seconds=0)
    shop.stock(order())
    write(shop)
    (mail,), now = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails"), shop.live.now()
    late = replace(task_of(mail, "W1001", now), due_at=now - timedelta(days=1))
    with shop.live.database.transaction() as connection:
        remedies.record(connection, late, "key")
    tile = '<a href="/ops/tasks"><strong data-count="tasks">1</strong> '
    tile += '<span data-one="Task" data-many="Tasks">Task</span>'
    for email in (MONA, TESS, OLGA):
        client = shop.log_in(email)
        page, counts = client.get("/ops").text, client.get("/ops/live").get_json()["counts"]
        assert tile in page
        assert "1 late" in page
        assert counts["tasks"] == "1"


@ONE_DATABASE
def test_an_outage_is_explained_to_those_who_can_end_it(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        why = "401 invalid_api_key sk-…abcd"
        incidents.open_incident(connection, shop.live.now(), IncidentKind.OPENAI, why)
    assert "OPENAI_API_KEY" in shop.log_in(OLGA).get("/ops").text
    for email in (MONA, TESS):
        page = shop.log_in(email).get("/ops").text
        assert (
            "Mail is not being answered at the moment. Mail waits and is answered by itself later."
            " The operators have been informed."
        ) in page
        assert "API_KEY" not in page
        assert "invalid_api_key" not in page


@ONE_DATABASE
@pytest.mark.parametrize("others", [(), (IncidentKind.OPENAI,)])
def test_people_are_asked_to_call_the_operators_when_no_mail_goes_out(
    shop: Harness, others: tuple[IncidentKind, ...]
) -> None:
    with shop.live.database.transaction() as connection:
        for kind in (IncidentKind.MAIL_PROVIDER, *others):
            incidents.open_incident(connection, shop.live.now(), kind, "401")
    page = shop.log_in(TESS).get("/ops").text
    asked = page.count("Please call the operators: mail cannot reach them.")
    assert asked == 1 + len(others)
    assert "have been informed" not in page


@ONE_DATABASE
@pytest.mark.parametrize("kind", [each for each in IncidentKind if INCIDENTS[each].means])
def test_every_outage_says_what_becomes_of_what_waits(shop: Harness, kind: IncidentKind) -> None:
    with shop.live.database.transaction() as connection:
        incidents.open_incident(connection, shop.live.now(), kind, "why")
    page = shop.log_in(TESS).get("/ops").text
    told = page.partition(f'data-outage="{kind.value}">')[2].partition("</p>")[0]
    assert "by themselves later." in told or "by itself later." in told


@ONE_DATABASE
def test_why_a_run_failed_is_for_operators(shop: Harness) -> None:
    change_run(shop, fail_run(shop), "error = 'check OPENAI_API_KEY'")
    shown = [
        "OPENAI_API_KEY" in shop.log_in(email).get("/ops?waiting=failed").text
        for email in (OLGA, TESS, MONA)
    ]
    assert shown == [True, False, False]


@ONE_DATABASE
def test_what_waits_for_whoever_reads_is_not_listed_again_below(question: Question) -> None:
    shop, refund = question.shop, question.refund()
    now = shop.live.now()
    less = RefundLine(1, 1, Money(4999, "USD"))
    other = replace(
        refund,
        refund_id="refund_2",
        order_id="W1001",
        amount=less.amount,
        lines=(less,),
        item_ids=("K1",),
    )
    shop.stock(order())
    with shop.live.database.transaction() as connection:
        approvals.record_request(connection, question.approval_id, Asking.APPROVE, MONA, now)
    page = shop.log_in(MONA).get("/ops").text
    assert page.count('"/ops/refunds/refund_1"') == 1
    assert "of them above" not in page
    with shop.live.database.transaction() as connection:
        refunds.record(connection, other, "other", {})
        approvals.request(connection, "refund_2", now, now + timedelta(days=7))
    page = shop.log_in(MONA).get("/ops").text
    assert [page.count(f'"/ops/refunds/refund_{number}"') for number in (1, 2)] == [1, 1]
    assert "2, 1 of them above" in page
    assert "of them above" not in shop.log_in(MAX).get("/ops").text


@ONE_DATABASE
def test_one_draft_is_one(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    (mail,) = shop.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    client = shop.log_in(TESS)
    for title in ("Draft to send", "Drafts to send"):
        with shop.live.database.transaction() as connection:
            now = shop.live.now()
            drafts.record(connection, mail.conversation_id, [mail.mail_id], [], "Hi", now)
        assert f">{title}</span>" in client.get("/ops").text


def test_a_mail_that_waits_leads_to_its_conversation(shop: Harness) -> None:
    shop.write("Where is my kettle?", subject="Kettle <script>alert(1)</script>")
    page = shop.log_in(TESS).get("/ops?waiting=unanswered").text
    (conversation,) = shop.rows("SELECT conversation_id FROM conversations")
    assert f'href="/ops/conversations/{conversation.conversation_id}"' in page
    assert "Kettle &lt;script&gt;" in page
    assert "<script>alert" not in page


def test_a_lost_mail_is_dismissed_and_brought_back(shop: Harness) -> None:
    lost = lose(shop, "receipt")
    client, path = shop.log_in(TESS), "/ops?waiting=undelivered"
    back = post_form(client, "/ops/dismiss", path, subject=lost, back=path)
    assert (back.status_code, back.location) == (303, path)
    assert "Nothing waits here" in client.get(path).text
    everything = f"{path}&shown=all"
    assert f"dismissed by {TESS}" in client.get(everything).text
    post_form(client, "/ops/dismiss", everything, subject=lost, back=path, act="back")
    assert lost in client.get(path).text
    assert acts(shop) == [(TESS, "dismissed", lost), (TESS, "brought back", lost)]


def test_a_failed_run_that_fails_again_after_it_was_dismissed_is_back(shop: Harness) -> None:
    run_id, path = fail_run(shop), "/ops?waiting=failed"
    client = shop.log_in(OLGA)
    assert f'href="/ops/runs/{run_id}"' in client.get(path).text
    gone = post_form(client, "/ops/dismiss", path, subject=run_id, back="https://evil.example/ops")
    assert gone.location == "/ops"
    assert run_id not in client.get(path).text
    assert "Nothing is waiting" in client.get("/ops").text
    change_run(shop, run_id, f"completed_at = {microseconds(shop.live.now()) // 1000 + 60_000}")
    assert run_id in client.get(path).text


def test_a_failed_run_that_was_replayed_and_succeeded_vanishes_by_itself(shop: Harness) -> None:
    run_id = fail_run(shop)
    client = shop.log_in(OLGA)
    assert run_id in client.get("/ops?waiting=failed").text
    change_run(shop, run_id, "status = 'SUCCESS'")
    assert run_id not in client.get("/ops?waiting=failed&shown=all").text


def test_only_what_was_lost_or_failed_can_be_dismissed(shop: Harness) -> None:
    lose(shop, "receipt")
    shop.write("Where is my kettle?")
    (mail,) = shop.rows("SELECT mail_id FROM inbound_mails")
    client, path = shop.log_in(TESS), "/ops?waiting=undelivered"
    for subject in (mail.mail_id, "nothing", "", "x" * 500):
        assert post_form(client, "/ops/dismiss", path, subject=subject).status_code == 404
    assert acts(shop) == []


def test_a_lost_login_link_is_listed_without_its_words(shop: Harness) -> None:
    post_form(shop.client, "/ops/login", email=MONA)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE outbound_mails SET status = 'undelivered'")
    (mail,) = shop.rows("SELECT subject, text FROM outbound_mails")
    secret = re.search(r"/ops/login/(\S+)", mail.text)
    page = shop.log_in(OLGA).get("/ops?waiting=undelivered").text
    assert "Link to log in" in page
    assert secret is not None
    assert secret[1] not in page


def test_a_broken_cursor_shows_some_page(shop: Harness) -> None:
    client = shop.log_in(OLGA)
    for cursor in ("x", "~", "9" * 30 + "~x", "5~" + "y" * 300, "%00~%00", "1~'"):
        for waiting in ("undelivered", "failed", "approvals"):
            for side in ("newer", "older"):
                page = client.get(f"/ops?waiting={waiting}&{side}={cursor}")
                assert page.status_code == 200, (waiting, side, cursor)


def test_a_long_list_is_paged_by_links(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        wanted = {lose_mail(connection, f"m{number}", number) for number in range(120)}
    pages = read_pages(shop.log_in(TESS), "/ops?waiting=undelivered&order=newest")
    seen = re.findall(r'name="subject" value="([^"]+)"', "".join(pages))
    assert (len(pages), len(seen)) == (3, 120)
    assert set(seen) == wanted


def test_what_is_new_is_counted_since_the_page_was_made(shop: Harness) -> None:
    lose(shop, "before")
    keep_figures(shop, seconds=0)
    client = shop.log_in(MONA)
    since = re.search(r'data-since="(\d+)"', client.get("/ops").text)
    assert since is not None
    path = f"/ops/live?since={since[1]}"
    first = client.get(path)
    assert told(first, "undelivered") == ("1", 0)
    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.text) == (304, "")
    fail_run(shop, minutes_ago=-1)
    news = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert told(news, "failed") == ("1", 1)


def test_open_inboxes_share_what_was_counted_a_moment_ago(shop: Harness) -> None:
    keep_figures(shop, seconds=3600)
    mona, tess = shop.log_in(MONA), shop.log_in(TESS)
    earlier = microseconds(shop.live.now() - timedelta(minutes=30))
    assert told(mona.get(f"/ops/live?since={earlier}"), "failed") == ("0", 0)
    fail_run(shop, minutes_ago=10)
    assert told(tess.get(f"/ops/live?since={earlier}"), "failed") == ("0", 0)
    # A page made since then shows that one already, and must not be told less.
    later = microseconds(shop.live.now())
    assert told(tess.get(f"/ops/live?since={later}"), "failed") == ("1", 0)
    assert told(mona.get(f"/ops/live?since={earlier}"), "failed") == ("1", 1)


def test_an_outage_is_told_while_it_lasts(shop: Harness) -> None:
    keep_figures(shop, seconds=0)
    client = shop.log_in(MONA)
    with shop.live.database.transaction() as connection:
        incidents.open_incident(connection, shop.live.now(), IncidentKind.OPENAI, "401")
        incidents.open_incident(connection, shop.live.now(), IncidentKind.THROTTLED, "1")
    assert client.get("/ops/live").get_json()["outages"] == ["provider:openai"]
    with shop.live.database.transaction() as connection:
        incidents.close_incident(connection, shop.live.now(), IncidentKind.OPENAI)
    assert client.get("/ops/live").get_json()["outages"] == []


def test_a_provider_that_is_away_is_told_calmly_until_it_is_back(shop: Harness) -> None:
    keep_figures(shop, seconds=0)
    client = shop.log_in(MONA)
    failure = Failure("answered 503", wish_seconds=600)
    with shop.live.database.transaction() as connection:
        now = shop.live.now()
        circuit_breakers.record_failure(connection, OPENAI, failure, now, probing=False)
    page = client.get("/ops").text
    # Such a time is shown in the reader's zone.
    assert "OpenAI does not answer as it should since <time datetime=" in page
    assert "next try in 10 min" in page
    assert 'data-outages="away:openai"' in page
    assert client.get("/ops/live").get_json()["outages"] == ["away:openai"]
    with shop.live.database.transaction() as connection:
        circuit_breakers.record_success(connection, OPENAI, probing=True, now=now)
    assert "OpenAI" not in client.get("/ops").text


def test_an_outage_and_its_circuit_breaker_are_told_once(shop: Harness) -> None:
    client, now = shop.log_in(OLGA), shop.live.now()
    with shop.live.database.transaction() as connection:
        incidents.open_incident(connection, now, IncidentKind.OPENAI, "401")
        failure = Failure("401", needs_operator=True)
        circuit_breakers.record_failure(connection, OPENAI, failure, now, probing=False)
    page = client.get("/ops").text
    assert page.count("refuses us") == page.count(
        "The model&#39;s provider refuses us: no mail is answered"
    )
    assert (
        'data-outages="provider:openai away:openai"' in page
    )  # or both would be new to the script


def test_the_page_and_its_figures_count_a_list_to_a_thousand(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        for number in range(1_001):
            lose_mail(connection, f"n{number}")
    client = shop.log_in(TESS)
    assert '<strong data-count="undelivered">1,000+</strong>' in client.get("/ops").text
    assert client.get("/ops/live").get_json()["counts"]["undelivered"] == "1,000+"
