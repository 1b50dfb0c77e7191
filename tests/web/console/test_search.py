"""The search: ids lead straight there, words and addresses to lists, and nothing typed does harm."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from mailagent.store.console import search
from mailagent.store.console.search import Kind, TooMuchWork, Wanted, bounded
from mailagent.store.database import Database, open_database
from mailagent.store.ids import new_id
from mailagent.store.pagination import Window
from tests.cast import ADA, GRACE, MONA, OLGA, TESS, big_order, order
from tests.databases import postgres_copy
from tests.harness import Harness, open_shop
from tests.web.console.failed_runs import fail_run
from tests.web.questions import record_refund

pytestmark = pytest.mark.both_databases

NO_HITS = "Nothing was found"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def searched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """A shop that Ada, Grace and their likes have written to; one for all tests here, which only look."""
    folder = tmp_path_factory.mktemp("searched")
    with ExitStack() as stack:
        if request.param == "sqlite":
            path = shutil.copy(request.getfixturevalue("migrated_sqlite"), folder / "test.db")
            url = f"sqlite:///{path}"
        else:
            server = request.getfixturevalue("postgres_url")
            template = request.getfixturevalue("migrated_postgres")
            url = stack.enter_context(postgres_copy(server, template))
        harness = stack.enter_context(open_shop(folder, url))
        harness.stock(order())
        harness.write("The red kettle\nis broken, 100% of it.", subject="Order W1001")
        harness.write(
            "Where is my blue_kettle?",
            from_address=GRACE,
            subject="Parcel",
            from_name="Grace Hopper",
        )
        text = "Hello? Please write to <bob@home.example>."
        harness.write(text, from_address="adam@example.com", subject="Nothing much")
        yield harness


@pytest.fixture
def team(searched: Harness) -> FlaskClient:
    """A client of the team's."""
    return searched.log_in(TESS)


def found(client: FlaskClient, query: str) -> set[str]:
    """Return which of the three customers stand on the page of a search."""
    page = client.get(f"/ops/search?{query}")
    assert page.status_code == 200
    table = page.text.partition("<tbody>")[2]
    return {each for each in (ADA, GRACE, "adam@example.com") if f"<bdi>{each}</bdi>" in table}


@pytest.mark.parametrize(
    ("query", "customers"),
    [
        ("q=ada@example.com", {ADA}),
        ("q=ADA@Example.com", {ADA}),
        ("q=ada&kind=conversations", {ADA, "adam@example.com"}),
        ("q=ada@", {ADA}),
        ("q=Hopper", {GRACE}),
        ("q=hopper&kind=conversations", {GRACE}),
        ("q=%22grace+hopper%22+-w1001&kind=conversations", {GRACE}),
        ("q=parcel&kind=conversations", {GRACE}),
        ("q=parcel+-hopper&kind=conversations", set()),
        ("q=order&kind=conversations", {ADA}),
        ("q=w1001&kind=conversations", {ADA}),
        ("q=@example.com", {ADA, "adam@example.com"}),
        ("q=Ada+%3CAda@example.com%3E", {ADA}),
        ("q=%22Example,+Ada%22+%3Cada@example.com%3E;", {ADA}),
        ("q=Example,+Ada+%3Cada@example.com%3E", {ADA}),
        ("q=hello+%3Cbob@home.example%3E&kind=mails", {"adam@example.com"}),
        ("q=teapot+%3Cbob@home.example%3E&kind=mails", set()),
        ("q=@example", set()),
        ("q=ad%25m@&kind=conversations", set()),
        ("q=_da&kind=conversations", set()),
        ("q=kettle", {ADA}),
        ("q=KETTLE+red", {ADA}),
        ("q=kettle+green", set()),
        ("q=parcel", {GRACE}),
        ("q=r_d&kind=mails", set()),
        ("q=k%25e&kind=mails", set()),
        ("q=kettle+-broken", {GRACE}),
        ("q=red+kettle+-broken", set()),
        ("q=-kettle&kind=mails", {"adam@example.com"}),
        ("q=%22kettle+is%22", {ADA}),
        ("q=%22kettle+red%22", set()),
        ("q=parcel+or+hello", {GRACE, "adam@example.com"}),
        ("q=parcel+green+or+hello", {"adam@example.com"}),
        ("q=-", set()),
        ("q=hello&state=unanswered&kind=mails", {"adam@example.com"}),
        ("q=hello&state=throttled&kind=mails", set()),
        ("q=hello&kind=mails&from=2020-01-01", {"adam@example.com"}),
        ("q=hello&kind=mails&to=2020-01-01", set()),
        ("kind=conversations&state=open", {ADA, GRACE, "adam@example.com"}),
        ("kind=conversations&order=oldest", {ADA, GRACE, "adam@example.com"}),
    ],
)
def test_words_and_addresses_find(team: FlaskClient, query: str, customers: set[str]) -> None:
    # On SQLite a part of a word is found, too.
    shown = found(team, query)
    assert shown == customers or (query == "q=kettle" and shown == {ADA, GRACE})


HOSTILE = (
    "'", '"', "\\", "%", "_", "%00", "%0d%0aSet-Cookie:+a=b", "';DROP+TABLE+refunds;--", "%F0%9F",
    "<script>alert(1)</script>", '"><img+src=x+onerror=alert(1)>', "&|!()<->:*", "a:*+|+b",
    "%E2%80%AEexe.jpg", "-", "--", "@", "#", "refund_", "refund_%27", "mail_%00", "x" * 5000,
    "%22unclosed", "%F4%8F%BF%BF", "conversation-%27", "{{7*7}}", "\u0660", "NaN", "a@b@c",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["", *Kind])
def test_nothing_that_is_typed_does_harm(team: FlaskClient, kind: str) -> None:
    for words in HOSTILE:
        page = team.get(f"/ops/search?q={words}&kind={kind}")
        assert page.status_code == 200, words
        assert "<script>alert" not in page.text, words
        assert "<img" not in page.text, words
        assert ">49<" not in page.text, words
        assert "Set-Cookie: a=b" not in str(page.headers), words


@pytest.mark.parametrize("field", ["state", "from", "to", "order", "kind", "newer", "older"])
def test_a_filter_that_makes_no_sense_is_ignored(team: FlaskClient, field: str) -> None:
    for value in ("'", "%00", "9999-12-31", "0001-01-01", "<script>", "9" * 40):
        assert team.get(f"/ops/search?q=kettle&{field}={value}").status_code == 200


def test_an_id_leads_straight_to_its_page(searched: Harness, team: FlaskClient) -> None:
    (mail, *_) = searched.rows("SELECT mail_id, conversation_id FROM inbound_mails")
    conversation = f"/ops/conversations/{mail.conversation_id}"
    for typed in (mail.conversation_id, f"%20{mail.mail_id}%20"):
        page = team.get(f"/ops/search?q={typed}")
        assert (page.status_code, page.location) == (303, conversation)
    assert NO_HITS in team.get(f"/ops/search?q={new_id('refund')}").text


def test_a_run_is_found_by_whoever_may_see_runs(searched: Harness) -> None:
    run_id = fail_run(searched)
    page = searched.log_in(OLGA).get(f"/ops/search?q={run_id}")
    assert (page.status_code, page.location) == (303, f"/ops/runs/{run_id}")
    assert searched.log_in(MONA).get(f"/ops/search?q={run_id}").status_code == 200


@pytest.mark.parametrize("typed", ["W1001", "%23W1001", "w1001", "%23w1001"])
def test_an_order_leads_to_its_customer(team: FlaskClient, typed: str) -> None:
    page = team.get(f"/ops/search?q={typed}").text
    assert "Order <strong>W1001</strong>" in page
    assert "/ops/customers/ada%40example.com" in page
    assert NO_HITS not in page


def test_an_order_without_refunds_opens_the_mails_that_name_it(team: FlaskClient) -> None:
    assert found(team, "q=W1001") == {ADA}
    assert "Nothing else was found" in team.get("/ops/search?q=W1001&kind=refunds").text


@pytest.mark.parametrize("typed", ["W2001", "%23w2001"])
def test_an_order_with_refunds_opens_them(shop: Harness, typed: str) -> None:
    shop.stock(big_order())
    shop.write("Please refund order W2001.")
    record_refund(shop, *shop.rows("SELECT * FROM inbound_mails"))
    page = shop.log_in(TESS).get(f"/ops/search?q={typed}").text
    assert "/ops/refunds/refund_1" in page


def test_no_words_of_a_search_are_logged(
    team: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    assert "secretword" in team.get("/ops/search?q=secretword").text
    assert "secretword" not in caplog.text


def test_a_word_that_many_mails_have_is_found_in_the_order_of_time(database: Database) -> None:
    """Both ways of PostgreSQL, and SQLite's, find the same, page by page."""
    with database.transaction() as connection:
        for number in range(60):
            connection.execute(sa.text(_MAIL), _mail(number))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")
    for words, wanted in (("common", range(60)), ("sixth common", range(0, 60, 6)), ("last", [59])):
        for newest_first in (True, False):
            assert sorted(_pages(database, words, newest_first)) == [
                f"mail_{number:03}" for number in wanted
            ]


_MAIL = (
    "INSERT INTO inbound_mails (mail_id, dedup_key, from_address, from_name, envelope_to, subject,"
    " in_reply_to, mail_references, received_at, body, new_text, attachments, flags, identity, kind,"
    " status) VALUES (:mail_id, :mail_id, 'ada@example.com', 'Ada', '[]', 'Hello', '[]', '[]',"
    " :received_at, '', :text, '[]', '[]', 'dkim', 'customer', 'unanswered')"
)


def _mail(number: int) -> dict[str, str]:
    words = ["common", "sixth" if number % 6 == 0 else "", "last" if number == 59 else ""]
    at = f"2026-11-20 12:00:{number // 4:02}.000000"
    return {"mail_id": f"mail_{number:03}", "received_at": at, "text": " ".join(words)}


def _pages(database: Database, words: str, newest_first: bool) -> list[str]:
    seen: list[str] = []
    window: Window | None = Window(newest_first, size=7)
    while window is not None:
        with database.snapshot() as connection:
            part = search.find(connection, Wanted(words, Kind.MAILS), window)
        seen += [entry.row_id for entry in part.rows]
        older, newer = (part.older, None) if newest_first else (None, part.newer)
        window = Window(newest_first, newer, older, 7) if older or newer else None
    return seen


def test_a_question_that_takes_too_long_is_given_up(
    postgres_url: str,
) -> None:
    database, began = open_database(postgres_url), time.monotonic()
    with database.snapshot() as connection, pytest.raises(TooMuchWork), bounded(connection, 0.1):
        connection.exec_driver_sql("SELECT pg_sleep(9)")
    assert time.monotonic() - began < 5
    database.close()


def test_on_sqlite_the_page_says_how_far_it_looked(searched: Harness, team: FlaskClient) -> None:
    page = team.get("/ops/search?q=kettle").text
    sqlite = searched.live.database.engine.dialect.name == "sqlite"
    assert (f"newest {search.SQLITE_READS:,} are" in page) is sqlite
