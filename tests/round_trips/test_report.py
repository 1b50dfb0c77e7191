"""The report of a shop in which things happen: counted again without change, mailed once a week, and what
customers say of answers."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from mailagent import services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.model_cost import TokenPrices, day_begins_at, parse_prices
from mailagent.domain.operations.report import (
    AGENT,
    DAY,
    PEOPLE,
    WAITING,
    Figure,
    Report,
    last_week,
)
from mailagent.store import schema
from mailagent.store.operations import daily_figures
from mailagent.web.owners import report as report_page
from mailagent.workflows.steps.conversation import people
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.maintenance import report as counting
from mailagent.workflows.steps.maintenance.housekeeping import Deadline
from mailagent.workflows.steps.maintenance.report import count_days, write_weekly
from tests.cast import ADA, DESK_WISH, GRACE, KETTLE_WISH, MONA, TESS, big_order, order
from tests.handed_over import handed_over, thread, write_for_team
from tests.harness import Harness, open_shop, pass_time, post_form, running
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet
from tests.web.console.drafts import field, press

OWNER = "owner@shop.example"
OUTRAGE = "This is outrageous! I want to talk to a human being, now!"


@pytest.fixture
def owned_shop(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Harness]:
    """A shop whose owner wants a report, and which asks whether answers helped. It is never the hour in which
    all days are counted again."""
    monkeypatch.setattr(counting, "LOOKS_AT_ALL_IN_HOUR", None)
    settings = {"REPORT_EMAILS": OWNER, "ASK_IF_HELPED": "yes"}
    with open_shop(tmp_path, database_url, settings) as shop, running(shop):
        yield shop


def happen(shop: Harness) -> None:
    """Let one refund be paid unasked and one by a manager, and a conversation go to people."""
    shop.stock(order(), big_order())
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, 2)
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    decide(shop, link_in(request.text), "approve")
    shop.wait_for_mails(ADA, 4)
    shop.write(OUTRAGE, from_address=GRACE, from_name="Grace")
    (case,) = shop.wait_for_mails(TESS)
    shop.write(
        "Dear Grace, I call you.",
        from_address=TESS,
        to=case.reply_to,
        subject=f"Re: {case.subject}",
    )
    shop.wait_for_mails(GRACE, 2)
    wait_for_quiet(shop)


def read(shop: Harness, days: int = 1) -> Report:
    tomorrow = day_begins_at(services.current().now()) + DAY
    with shop.live.database.snapshot() as connection:
        return daily_figures.read(connection, tomorrow - timedelta(days=days), tomorrow)


@pytest.mark.both_databases
def test_a_day_is_counted_and_counted_again(owned_shop: Harness) -> None:
    shop = owned_shop
    prices = TokenPrices(Decimal(1), Decimal(1), Decimal(1))
    services.bind(replace(services.current(), token_prices=prices))
    happen(shop)
    assert count_days(Deadline(None)) == 2
    report = read(shop)
    mails = report.of(Figure.MAILS)
    assert (mails.get(AGENT), mails.get(PEOPLE)) == (2, 1)
    assert sum(report.of(Figure.ANSWER_SECONDS).values()) == 3  # Ada's two threads, and Grace's
    assert report.of(Figure.REFUNDS) == {"paid USD": 2}
    assert report.of(Figure.AMOUNTS) == {"paid USD": 4999 + 149_900}
    assert report.of(Figure.APPROVALS) == {"approve": 1}
    assert sum(report.of(Figure.DECISION_SECONDS).values()) == 1
    assert report.of(Figure.COST)[""] > 0
    count_days(Deadline(None))
    assert read(shop) == report
    assert len(report.by_day) == 1


def by_whom(shop: Harness) -> dict[str, int]:
    """Return how many mails of customers the report names, by who answered them."""
    count_days(Deadline(None))
    return {label: number for label, number in read(shop).of(Figure.MAILS).items() if number}


def two_mails_with_people(shop: Harness) -> None:
    """Let the agent only say that a person takes over, and the customer write once more."""
    first = shop.write(OUTRAGE)
    handed_over(shop)
    shop.write("Hello? Is anybody there?", in_reply_to=first.message_id)
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert people.pass_on_to_people(batch)


def test_mail_that_is_with_people_waits_until_they_answer(shop: Harness) -> None:
    two_mails_with_people(shop)
    assert by_whom(shop) == {WAITING: 2}
    assert "0 answered by the agent, 0 by people, 2 waiting" in next(read(shop).sentences())
    write_for_team(shop, "Dear Ada, I call you.")
    assert by_whom(shop) == {PEOPLE: 2}


def test_mail_that_people_close_does_not_wait(shop: Harness) -> None:
    two_mails_with_people(shop)
    tess, conversation_id = shop.log_in(TESS), thread(shop).conversation_id
    seen = field(tess.get(f"/ops/conversations/{conversation_id}").text, "seen")
    press(tess, conversation_id, "close", seen=seen)
    assert by_whom(shop) == {PEOPLE: 2}


def test_the_page_and_the_file_have_what_just_happened(owned_shop: Harness) -> None:
    shop = owned_shop
    shop.write("Where is my order?")
    shop.wait_for_mails(ADA)
    count_days(Deadline(None))
    shop.write("And when does it come?", from_address=GRACE, from_name="Grace")
    shop.wait_for_mails(GRACE)
    client = shop.log_in(OWNER)
    text = client.get("/ops/report").text
    assert "2 mails of customers" in text
    assert "Counted once an hour" not in text
    sent = client.get("/ops/report/export").data
    assert sent.startswith(codecs.BOM_UTF8)
    rows = list(csv.DictReader(io.StringIO(sent.decode("utf-8-sig"))))
    assert sum(int(row["value"]) for row in rows if row["figure"] == "mails") == 2


def test_many_mails_are_counted_once_an_hour(
    owned_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "MOST_COUNTED_NOW", 0)
    owned_shop.write("Where is my order?")
    owned_shop.wait_for_mails(ADA)
    text = owned_shop.log_in(OWNER).get("/ops/report").text
    assert "0 mails of customers" in text
    assert "Counted once an hour" in text


def test_days_that_were_never_counted_are_caught_up(owned_shop: Harness) -> None:
    shop = owned_shop
    shop.write("Where is my order?")
    shop.wait_for_mails(ADA)
    long_ago = shop.live.now() - timedelta(days=20)
    with shop.live.database.transaction() as connection:
        connection.execute(schema.inbound_mails.update().values(received_at=long_ago))
    assert count_days(Deadline(None)) == 21
    assert read(shop, 30).of(Figure.MAILS)[AGENT] == 1
    assert count_days(Deadline(None)) == 2


def test_the_owner_gets_each_week_once(owned_shop: Harness) -> None:
    shop = owned_shop
    happen(shop)
    not_written_down = HandOverReason.NOT_IN_KNOWLEDGE.value
    with shop.live.database.transaction() as connection:
        of_grace = schema.conversations.c.customer_email == GRACE
        asked = schema.conversations.update().where(of_grace)
        connection.execute(asked.values(handed_over_reason=not_written_down))
    count_days(Deadline(None))
    day = f"{shop.live.now():%a %-d}"
    pass_time(shop, days=7)
    since, _ = last_week(services.current().now())
    for _ in range(2):
        write_weekly()
    (mail,) = shop.wait_for_mails(OWNER)
    assert f"Your week from {since:%-d %B}" in mail.subject
    assert "3 mails of customers: 2 answered by the agent, 1 by people, 0 waiting." in mail.text
    assert f"/ops/report?from={since:%Y-%m-%d}&to=" in mail.text
    lines = [line.split() for line in mail.text.splitlines()]
    assert [*day.split(), "3", "2", "1", "0", "0"] in lines
    assert ["All", "3", "2", "1", "0", "0"] in lines
    assert ["Paid", "2", "$1,548.99"] in lines
    assert ["Approved", "1"] in lines
    html = mail.html or ""
    assert f">{day}</th><td" in html
    assert "- Questions that no passage answered: 1." in mail.text
    assert re.search(r"See what was asked:\n\S+/ops/report\?from=\S+#questions\n", mail.text)
    assert "Days are UTC days." in mail.text
    for words in (OUTRAGE, GRACE):  # erasing the customer would not reach this mailbox
        assert words not in mail.text + html
    pass_time(shop, days=14)
    write_weekly()
    assert len(shop.wait_for_mails(OWNER, 2)) == 2


def test_the_week_has_what_changed_after_its_days_were_counted(owned_shop: Harness) -> None:
    shop = owned_shop
    shop.write("Where is my order?")
    shop.wait_for_mails(ADA)
    count_days(Deadline(None))
    shop.write("Where is mine?", from_address=GRACE, from_name="Grace")
    shop.wait_for_mails(GRACE)
    wait_for_quiet(shop)
    pass_time(shop, days=7)
    write_weekly()
    (mail,) = shop.wait_for_mails(OWNER)
    assert "2 mails of customers: 2 answered by the agent" in mail.text
    assert "See what was asked" not in mail.text
    assert read(shop, 14).of(Figure.MAILS)[AGENT] == 2  # the page says the same


def test_nothing_is_mailed_without_an_address(busy_shop: Harness) -> None:
    write_weekly()
    assert busy_shop.rows("SELECT 1 FROM outbound_mails") == []


def test_the_page_and_its_file(owned_shop: Harness) -> None:
    shop = owned_shop
    happen(shop)
    count_days(Deadline(None))
    client = shop.log_in(OWNER)
    page = client.get("/ops/report?days=7").text
    assert "3 mails of customers: 2 answered by the agent, 1 by people, 0 waiting." in page
    assert "$1,548.99" in page
    assert '<svg viewBox="0 0 720 200" role="img"' in page
    assert "Bars from" in page
    assert 'aria-current="page">Last 7 days' in page
    assert "Days are UTC days." in page  # other times of the console are in the reader's zone
    day = f"{shop.live.now():%Y-%m-%d}"
    named = client.get(f"/ops/report?from={day}&to={day}").text
    assert f'value="{day}"' in named
    before = client.get("/ops/report?from=2020-01-01&to=2020-01-31").text
    assert "0 mails of customers" in before
    file = client.get("/ops/report/export?days=7")
    rows = {
        (row["figure"], row["label"]): row["value"]
        for row in csv.DictReader(io.StringIO(file.text))
    }
    assert rows["amounts", "paid USD"] == "1548.99"
    assert rows["mails", "agent"] == "2"
    assert shop.log_in(TESS).get("/ops/report").status_code == 403


NO_DAYS = (
    "days=x",
    "from=x",
    "from=2026-02-30",
    "from=2199-01-01&to=2199-01-02",
    "from=2026-03-01&to=2026-02-01",
)


@pytest.mark.parametrize(("prices", "is_told"), [(None, True), ("1,1,1", False)])
def test_the_page_says_why_it_has_no_cost(shop: Harness, prices: str | None, is_told: bool) -> None:
    live = replace(shop.live, token_prices=parse_prices(prices) if prices else None)
    services.bind(live)
    page = shop.log_in("olga@shop.example").get("/ops/report").text
    told = "Set <code>OPENAI_PRICES</code> to see what the model costs."
    assert (told in page) is is_told


@pytest.mark.parametrize("query", NO_DAYS)
def test_days_that_make_no_sense_are_the_last_thirty(shop: Harness, query: str) -> None:
    page = shop.log_in("olga@shop.example").get(f"/ops/report?{query}")
    assert (page.status_code, "Last 30 days" in page.text) == (200, True)


# --- whether it helped ----------------------------------------------------------------------------


def links(shop: Harness) -> tuple[str, str]:
    """Return the paths of the two links in the answer to a question of Ada's."""
    shop.write("Where is my order?")
    (mail,) = shop.wait_for_mails(ADA)
    yes, no = (line for line in mail.text.splitlines() if "/helped/" in line)
    url = shop.live.shop.public_url
    return yes.removeprefix(url), no.removeprefix(url)


def test_a_customer_says_once_whether_it_helped(owned_shop: Harness) -> None:
    shop = owned_shop
    yes, no = links(shop)
    client = shop.client
    for path in (yes, no, yes):  # a scanner opens every link
        assert "Did our answer help you?" in client.get(path).text
    assert shop.rows("SELECT 1 FROM votes") == []
    assert client.post(yes, data={"helped": "yes"}).status_code == 400  # without the form's token
    assert "Thank you" in post_form(client, no, helped="no").text
    assert "Thank you" in client.get(yes).text
    assert [row.helped for row in shop.rows("SELECT helped FROM votes")] == [False]
    count_days(Deadline(None))
    assert read(shop).of(Figure.VOTES) == {"no": 1}
    assert "Did our answer help?" in shop.log_in(OWNER).get("/ops/report").text


def test_the_first_answer_stands(owned_shop: Harness) -> None:
    shop = owned_shop
    yes, no = links(shop)
    opened = shop.client
    found = re.search(r'name="csrf_token" value="([^"]+)"', opened.get(no).text)
    assert found is not None
    post_form(shop.client, yes, helped="yes")
    assert "Thank you" in opened.post(no, data={"csrf_token": found[1], "helped": "no"}).text
    assert [bool(row.helped) for row in shop.rows("SELECT helped FROM votes")] == [True]


def test_the_links_leave_no_key_behind(owned_shop: Harness) -> None:
    shop = owned_shop
    links(shop)
    wait_for_quiet(shop)
    (stored,) = shop.rows("SELECT text, html FROM outbound_mails WHERE purpose = 'reply'")
    assert "/helped/…" in stored.text
    assert "/helped/W" not in stored.text + stored.html


def test_a_forged_link_is_not_valid_and_without_the_setting_there_is_none(
    busy_shop: Harness,
) -> None:
    shop = busy_shop
    yes = shop.live.links.sign_votes("mail_1")["yes"].removeprefix(shop.live.shop.public_url)
    forged = shop.client.get(f"{yes[:-3]}abc")
    assert (forged.status_code, "This link is not valid." in forged.text) == (404, True)
    approval = shop.live.links.sign_approval("approval_1", MONA).rpartition("/")[2]
    assert shop.client.get(f"/helped/{approval}").status_code == 404
    shop.write("Where is my order?")
    (mail,) = shop.wait_for_mails(ADA)
    assert "/helped/" not in mail.text


def test_the_page_speaks_the_customers_language(owned_shop: Harness) -> None:
    shop = owned_shop
    shop.write("Guten Tag, wo ist meine Bestellung? Ich warte schon so lange darauf.")
    (mail,) = shop.wait_for_mails(ADA)
    assert "Hat Ihnen unsere Antwort geholfen?" in mail.text
    line = next(each for each in mail.text.splitlines() if "/helped/" in each)
    page = shop.client.get(line.removeprefix(shop.live.shop.public_url)).text
    assert '<html lang="de">' in page
    assert "Ja, sie hat geholfen" in page
