"""Stored code: a customer writes some wherever they may write, and every page and mail of the shop shows it
as what it is, words."""

from __future__ import annotations

import re

import pytest

from tests.cast import MONA, OLGA, TESS
from tests.harness import Harness, post_form, wait_until
from tests.hostile import HOSTILE, be_answered, bounce, code, write_everywhere
from tests.round_trips.approvals import approval_path, starts
from tests.web.page_source import PageSource, crawl

# What is looked at here is the same on both databases.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

# Where their words must turn up as words: otherwise the crawl has not seen the pages it should.
SEEN_BY_MANAGER = {"NAME", "ITEM", "TEXT", "FILE"}
SEEN_BY_OPERATOR = {"SUBJECT", "TEXT", "ITEM", "FILE", "NOTE", "ANSWER"}


@pytest.fixture
def attacked(busy_shop: Harness) -> Harness:
    write_everywhere(busy_shop)
    return busy_shop


def fields_in(pages: dict[str, PageSource]) -> set[str]:
    text = " ".join(page.text for page in pages.values())
    return set(re.findall(r"XSS-([A-Z]+)", text))


def test_code_in_any_field_stays_words_on_every_page(attacked: Harness) -> None:
    manager, operator = attacked.client, attacked.log_in(OLGA)
    link = approval_path(attacked)
    pages = crawl(manager, [link])
    assert fields_in(pages) >= SEEN_BY_MANAGER
    typed = post_form(manager, link, decision="approve", amount=code("AMOUNT"), note=code("NOTE"))
    pages["a form with a problem"] = PageSource(typed.text)
    decided = post_form(manager, link, decision="reject", note=code("NOTE"))
    pages["decided"] = PageSource(decided.text)
    attacked.wait_for_refund("rejected")
    told = "SELECT 1 FROM outbound_mails WHERE purpose = 'refund_outcome' AND status = 'sent'"
    # Until then an answer would be asked whether it still holds.
    wait_until(lambda: bool(attacked.rows(told)), 30, "the mail that tells the outcome")
    be_answered(attacked, TESS, code("ANSWER"))
    bounce(attacked)
    consoles = crawl(operator, starts(attacked))
    assert fields_in(consoles) >= SEEN_BY_OPERATOR
    for path, page in (pages | consoles).items():
        assert page.problems == [], path
        # A place of a template that is a template itself would have done the sum.
        assert "49{{" not in page.text, path


def test_code_in_any_field_stays_words_in_every_mail(attacked: Harness) -> None:
    link = approval_path(attacked)
    post_form(attacked.client, link, decision="reject", note=code("NOTE"))
    attacked.wait_for_refund("rejected")
    be_answered(attacked, TESS, code("ANSWER"))
    attacked.wait_for_mails(HOSTILE, 4)
    mails = attacked.mails_to(MONA) + attacked.mails_to(TESS) + attacked.mails_to(HOSTILE)
    found: set[str] = set()
    for sent in mails:
        assert sent.html is not None
        source = PageSource(sent.html)
        found |= fields_in({"": source})
        ours = attacked.live.shop.public_url
        foreign = [link for link in source.links if not link.startswith((ours, "mailto:"))]
        assert foreign == [], sent.subject
        tags = set(re.findall(r"<(\w+)", sent.html))
        assert tags.isdisjoint({"xss", "img", "script", "svg", "iframe"}), sent.subject
    assert found >= {"TEXT", "NOTE", "ANSWER"}
