"""The audit trail: seen by operators, found by filters, and taken along whole, without formulas."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from datetime import timedelta

import pytest

from mailagent.adapters.csv_file import plain_cell
from mailagent.store import audit
from mailagent.store.audit import Wanted
from tests.cast import NOW, OLGA, TESS
from tests.harness import Harness, post_form
from tests.web.console.pages import read_pages

PATH = "/ops/audit"
EXPORT = "/ops/audit/export"


@pytest.fixture
def trail(shop: Harness) -> Harness:
    """A shop in which the team, the agent and a formula have acted."""
    with shop.live.database.transaction() as connection:
        audit.record(connection, NOW, TESS, "dismissed", "refund_1")
        audit.record(connection, NOW, "agent", "mail answered", "mail_1", {"amount": 5})
        audit.record(connection, NOW + timedelta(days=1), '=HYPERLINK("x")', "dismissed", "@cmd")
    return shop


def subjects(page: str) -> list[str]:
    return re.findall(r'/ops/audit\?subject=([^"]+)"', page)


FILTERED: tuple[tuple[str, list[str]], ...] = (
    ("", ["%40cmd", "mail_1", "refund_1"]),
    ("order=oldest", ["refund_1", "mail_1", "%40cmd"]),
    (f"actor={TESS}", ["refund_1"]),
    ("action=dismissed", ["%40cmd", "refund_1"]),
    ("subject=mail_1", ["mail_1"]),
    ("from=2026-11-21", ["%40cmd"]),
    ("to=2026-11-20", ["mail_1", "refund_1"]),
    ("from=2026-11-20&to=2026-11-21&actor=agent", ["mail_1"]),
    ("from=nonsense&actor=nobody", []),
)


def test_the_trail_is_filtered(trail: Harness) -> None:
    client = trail.log_in(OLGA)
    shown = [(query, subjects(client.get(f"{PATH}?{query}").text)) for query, _ in FILTERED]
    assert shown == list(FILTERED)


def test_the_filter_says_whose_days_it_means(trail: Harness) -> None:
    page = trail.log_in(OLGA).get(PATH).text
    assert re.findall(r'<label for="(?:from|to)">(\w+) \(<span data-zone="[\w ]+">UTC<', page) == [
        "From",
        "To",
    ]


def test_acts_are_told_in_the_readers_language_and_found_as_they_are_recorded(
    trail: Harness,
) -> None:
    german = {"Accept-Language": "de"}
    page = trail.log_in(OLGA).get(f"{PATH}?action=mail+answered", headers=german).text
    assert '<option value="mail answered" selected>Mail beantwortet</option>' in page
    assert "Betrag: 5" in page
    assert re.search(r'actor=agent">\s*(<bdi>)?Agent', page)
    assert subjects(page) == ["mail_1"]


def test_csv_has_every_act_and_no_formula(trail: Harness) -> None:
    sent = post_form(trail.log_in(OLGA), EXPORT, PATH, format="csv")
    assert sent.headers["Content-Disposition"].startswith('attachment; filename="audit-')
    assert sent.data.startswith(codecs.BOM_UTF8)
    rows = list(csv.DictReader(io.StringIO(sent.data.decode("utf-8-sig"))))
    assert [row["actor"] for row in rows] == [TESS, "agent", '\'=HYPERLINK("x")', OLGA]
    assert [row["subject"] for row in rows][:3] == ["refund_1", "mail_1", "'@cmd"]
    assert json.loads(rows[1]["details"]) == {"amount": 5}


def test_json_lines_have_what_the_filters_leave(trail: Harness) -> None:
    sent = post_form(trail.log_in(OLGA), EXPORT, PATH, format="jsonl", actor=TESS)
    (line,) = sent.text.splitlines()
    act = json.loads(line)
    assert (act["actor"], act["action"], act["subject"]) == (TESS, "dismissed", "refund_1")


def test_taking_it_along_is_on_record_and_looking_is_not(trail: Harness) -> None:
    client = trail.log_in(OLGA)
    before = len(trail.rows("SELECT 1 FROM audit"))
    client.get(PATH)
    client.get(EXPORT)
    assert len(trail.rows("SELECT 1 FROM audit")) == before
    post_form(client, EXPORT, PATH, format="csv", action="dismissed")
    (last, *_) = trail.rows("SELECT actor, action, details FROM audit ORDER BY audit_id DESC")
    assert (last.actor, last.action) == (OLGA, "audit exported")
    assert "action" in str(last.details)
    assert "dismissed" not in str(last.details)  # what was typed may be a customer's address


def test_a_format_that_is_none_is_refused_and_not_recorded(trail: Harness) -> None:
    client = trail.log_in(OLGA)
    assert post_form(client, EXPORT, PATH, format="xml").status_code == 400
    assert trail.rows("SELECT 1 FROM audit WHERE action = 'audit exported'") == []


def test_it_is_taken_in_batches_without_loss_or_repetition(trail: Harness) -> None:
    database, known = trail.live.database, ["refund_1", "mail_1", "@cmd"]
    for size in (1, 2, 3, 4):
        acts = audit.stream(database, Wanted(), batch=size)
        first = next(acts)
        with database.transaction() as connection:
            audit.record(connection, NOW + timedelta(days=3), TESS, "dismissed", f"later_{size}")
        # What is recorded while the log is read is not part of it.
        assert [each.subject for each in (first, *acts)] == known
        known.append(f"later_{size}")


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_cell_is_no_formula(sign: str) -> None:
    assert plain_cell(f"{sign}1+1") == f"'{sign}1+1"
    assert plain_cell(f"1{sign}1") == f"1{sign}1"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('x;=HYPERLINK("http://evil.example")', 'x;\'=HYPERLINK("http://evil.example")'),
        ("x\t@SUM(1)", "x\t'@SUM(1)"),
        ("x\n+1", "x\n'+1"),
        ("x\r\n-1", "x\r\n'-1"),
        ("x; =1", "x;' =1"),
        (" =1", "' =1"),
        (";;=1;=2", ";;'=1;'=2"),
        *((f"{sign}1", f"'{sign}1") for sign in "\uff1d\uff0b\uff0d\uff20"),
        ("x;\uff1d1", "x;'\uff1d1"),
        ("Ada; Grace", "Ada; Grace"),
        ("ada@example.com;grace@example.org", "ada@example.com;grace@example.org"),
        ("W-1001; 2 + 2 = 4", "W-1001; 2 + 2 = 4"),
        ("x\n\ny", "x\n\ny"),
        ("", ""),
    ],
)
def test_no_part_of_a_cell_is_a_formula_where_semicolons_separate(text: str, plain: str) -> None:
    assert plain_cell(text) == plain
    assert plain_cell(plain) == plain  # a file that came back is not changed again


def test_the_trail_is_paged_by_links(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        for number in range(110):
            audit.record(connection, NOW, "agent", "mail answered", f"mail_{number:03}")
    pages = read_pages(shop.log_in(OLGA), PATH)
    seen = [subject for page in pages for subject in subjects(page)]
    assert seen == [f"mail_{number:03}" for number in reversed(range(110))]
