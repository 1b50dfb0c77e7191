"""Our own mails and the manager's pages: true to the facts, and unmoved by hostile ones."""

from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from babel import Locale
from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

import mailagent
from mailagent.adapters.html.text import render_text
from mailagent.adapters.templates import formats
from mailagent.adapters.templates.engine import RenderedMail, Templates
from mailagent.adapters.templates.mail_samples import (
    LINK,
    LOGIN_LINK,
    NOON,
    REPLAY_LINK,
    TO_CUSTOMERS,
    VOTE_LINKS,
    facts_of,
)
from mailagent.domain import money
from mailagent.domain.mail.message import holds_code
from mailagent.domain.mail.reply_commands import holds_word
from mailagent.domain.money import Money
from mailagent.domain.refunds.escalation import ApprovalRequest, Question
from mailagent.web.approvals.attachments import ShownFile
from mailagent.web.language import teach

TEMPLATES = Path(mailagent.__file__).parent.parent / "templates"
COMMON = {"support_name": "Shop Support", "support_address": "support@shop.example"}

HOSTILE = (
    "Ada\r\nBcc: mallory@evil.example\r\n\r\nPlease pay <script>alert(1)</script>"
    "<img src=x onerror=alert(2)><a href='https://evil.example'>x</a> \"'> {{ 7 * 7 }}"
    "\x00\x1b\u2028\u202egpj.exe שלום עולם https://evil.example/x " + "W" * 30_000
)


NAMES = sorted(facts_of(""))
FIRST = {"decided_by": "max@shop.example", "decided_at": NOON, "amount": Money(99_900, "USD")}
LANGUAGES = ["en", "de", "fr", "es", "it", "nl", "pl", "pt"]


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_a_mail_names_its_facts(name: str) -> None:
    head, _, _ = (TEMPLATES / "mail" / f"{name}.subject").read_text("utf-8").partition("#}")
    unnamed = facts_of("")[name].keys() - COMMON.keys() - set(re.findall(r"\w+", head))
    assert unnamed == set()


def render(name: str, words: str = "My kettle", **changes: object) -> RenderedMail:
    return Templates(COMMON).render(name, facts_of(words)[name] | changes)


class Elements(HTMLParser):
    """The elements of a page with their attributes, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.found}

    @property
    def attributes(self) -> set[str]:
        return {name for _, attributes in self.found for name in attributes}

    @property
    def links(self) -> list[str | None]:
        return [attributes.get("href") for tag, attributes in self.found if tag == "a"]


def test_every_mail_of_the_folder_is_tested_here() -> None:
    written = {path.stem for path in (TEMPLATES / "mail").glob("*.subject")}
    assert written == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_subject_is_one_line_whatever_the_facts(name: str) -> None:
    subject = render(name, HOSTILE).subject
    assert len(subject) <= 250
    assert subject.splitlines() == [subject]
    assert not set(subject) & set("\x00\x1b\u202e")


@pytest.mark.parametrize("name", NAMES)
def test_hostile_words_stay_words_in_html(name: str) -> None:
    mail = render(name, HOSTILE)
    assert "{{ 7 * 7 }}" in HOSTILE
    assert " 49" not in mail.subject + mail.text + mail.html, "it was read as a template"
    page = Elements(mail.html)
    assert not page.tags & {"script", "img", "iframe", "form", "style"}
    assert ("table" in page.tags) == (name == "notice"), "tables are for figures only"
    links = {
        "approval_request": [LINK],
        "login_link": [LOGIN_LINK],
        "hand_over": ["https://shop.example/ops/conversations/c_17"],
        "notice": [LINK, REPLAY_LINK],
        "reply": [VOTE_LINKS["yes"], VOTE_LINKS["no"]],
    }
    assert page.links == links.get(name, [])
    assert not page.attributes & {"src", "onerror", "onclick"}


@pytest.mark.parametrize("name", ["approval_request", "hand_over"])
def test_a_customer_cannot_write_a_line_of_a_mail_to_our_people(name: str) -> None:
    text = render(name, "Ada\n\nApproved by the owner\rDo pay").text
    assert not [line for line in text.splitlines() if line.startswith(("Approved", "Do pay"))]


@pytest.mark.parametrize("name", ["approval_request", "hand_over"])
def test_what_a_customer_links_to_is_readable_but_no_link(name: str) -> None:
    mail = render(name, "See https://evil.example/x and www.evil.example")
    assert "evil.example" not in mail.subject
    for part in (mail.text, mail.html):
        assert "https[:]//evil[.]example/x" in part
        assert "evil.example" not in part


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_fact_is_an_error_not_a_gap(name: str) -> None:
    facts = facts_of("x")[name]
    for missing in facts.keys() - {"note", "amount", "order_id", "requested_at"}:
        with pytest.raises(UndefinedError):
            Templates(COMMON).render(
                name, {key: value for key, value in facts.items() if key != missing}
            )


@pytest.mark.parametrize("name", sorted(TO_CUSTOMERS))
def test_a_mail_to_a_customer_ends_with_the_line_that_marks_it_as_ours(name: str) -> None:
    mail = render(name)
    marker = formats.marker_line("support@shop.example")
    assert mail.text.splitlines()[-1] == marker
    assert marker in mail.html


@pytest.mark.parametrize(
    "name", sorted(TO_CUSTOMERS - {"reply", "handed_over", "neutral_reply", "team_reply"})
)
def test_a_mail_about_a_refund_stays_in_the_thread_or_says_which_order(name: str) -> None:
    assert render(name).subject == "My kettle"
    assert "W1001" in render(name, subject=None).subject


@pytest.mark.parametrize("name", NAMES)
def test_only_the_receipt_says_that_we_refunded(name: str) -> None:
    for part in (render(name).text, render(name).html):
        assert ("have refunded" in part) == (name in ("receipt", "receipts"))


def test_a_reply_is_the_agents_text_in_escaped_paragraphs() -> None:
    mail = render(
        "reply",
        customer_name="<Ada>",
        text="a\r\n\r\none\ntwo",
        confirm_code=None,
        goodwill=None,
        record=None,
        helped=None,
    )
    assert mail.text.startswith("Hello <Ada>,\n\na\n\none\ntwo\n\nKind regards\nShop Support\n")
    assert '">Hello &lt;Ada&gt;,</p>' in mail.html
    assert "one<br>\ntwo</p>" in mail.html


@pytest.mark.parametrize("asked", [True, False])
def test_an_unverified_sender_is_asked_to_answer(asked: bool) -> None:
    mail = render("reply", confirm_code="482716" if asked else None)
    assert ("so that we know it is you" in mail.text) is asked
    assert ("so that we know it is you" in mail.html) is asked
    assert ("- 21 November 2026, 12:00 UTC: “My kettle”\n" in mail.text) is asked
    assert ("21 November 2026, 12:00 UTC: “<bdi>My kettle</bdi>”</p>" in mail.html) is asked


def test_a_receipt_says_what_was_paid_and_when_to_expect_it() -> None:
    mail = render("receipt", "re_123", note=None)
    for part in (mail.text, mail.html):
        assert "$1,299.00" in part
        assert "re_123" in part
        assert "21 November 2026" in part
        assert "within 10 business days" in part
        assert "within one business day" in part
        assert "A colleague added" not in part


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_receipt_for_several_refunds_lists_each_as_its_own_would(language: str) -> None:
    mails = Templates(COMMON)
    facts = facts_of()["receipts"]
    mail = mails.render("receipts", facts, language)
    for refund in facts["refunds"]:
        own = mails.render("receipt", {"subject": None} | refund | {"record": None}, language)
        signature = own.text.rfind("\n\n")
        assert own.text[:signature] in mail.text
    assert mail.text.count("Shop Support") == 1
    assert mails.render("receipts", facts | {"subject": None}, language).subject.endswith(
        ": W1001, W1002"
    )


def test_a_receipt_without_a_reference_or_a_date_promises_neither() -> None:
    paid = {"method": "card", "amount": Money(129_900, "USD"), "reference": None}
    mail = render("receipt", payments=[paid | {"expected_days": None}])
    assert "Reference" not in mail.text
    assert "depends on your bank" in mail.text


def test_a_request_says_who_how_much_what_why_and_where_before_anything_long() -> None:
    mail = render("approval_request")
    assert mail.subject == "Refund $1,299.00? My kettle, order W1001"
    assert mail.text.splitlines()[:6] == [
        "My kettle asks for $1,299.00 back on order W1001. Please decide.",
        f"Reason: {facts_of('')['approval_request']['reason']}",
        "Why you are asked: The amount is above $1,000.00.",
        "If you approve it, the exchange or replacement that waits for its items is withdrawn.",
        "",
        LINK,
    ]
    assert mail.text.count(LINK) == 1
    assert "Opening the link decides nothing" in mail.text
    for part in (mail.text, mail.html):
        assert "This link was sent to mona@shop.example" in part


def test_what_colleagues_noted_cannot_be_taken_for_a_decision() -> None:
    note = {"manager_email": "max@shop.example", "written_at": NOON, "text": "My view:\nreject"}
    mail = render(
        "approval_request", first_approval=FIRST | {"note": "So:\n\napprove"}, notes=[note]
    )
    for part in (mail.text, render_text(mail.html).text):
        assert "So: approve" in part
        assert "My view: reject" in part
        assert not holds_word(part)


@pytest.mark.parametrize("decides", [True, False])
def test_a_request_says_whether_an_answer_decides(decides: bool) -> None:
    mail = render("approval_request", reply_decides=decides)
    for part in (mail.text, mail.html):
        assert ("alone in its first line you decide" in part) is decides
        assert ("an answer to this mail cannot decide" in part) is not decides


def test_a_request_for_the_second_approval_says_who_gave_the_first() -> None:
    mail = render("approval_request", first_approval=FIRST | {"note": "Known fault"})
    assert mail.subject == "Second approval: refund $999.00? My kettle, order W1001"
    for part in (mail.text, mail.html):
        assert "max@shop.example" in part
        assert "Your approval is the second" in part
        assert "Known fault" in part


@pytest.mark.parametrize("name", ["reply", "handed_over"])
def test_a_discount_is_told_with_its_code_and_its_last_day(name: str) -> None:
    mail = render(name)
    for part in (mail.text, mail.html):
        assert "10% off" in part
        assert "K7MX-4PQR-9TWZ" in part
        assert "20 January 2027" in part
    assert "K7MX" not in render(name, goodwill=None).text


def test_a_customer_without_a_name_is_called_by_the_address() -> None:
    assert "ada@example.com" in render("approval_request", customer_name="").subject


def test_the_team_is_warned_of_a_sender_nobody_verified() -> None:
    assert "CAUTION" in render("hand_over").text
    assert "CAUTION" not in render("hand_over", sender_verified=True).text


def test_a_mail_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="there is no mail 'greeting'"):
        Templates(COMMON).render("greeting", {})


@pytest.mark.parametrize("locale", ["sv", "xx", "", "../../etc", "en-GB", "nonsense_nonsense"])
def test_a_language_that_is_not_written_falls_back_to_english(locale: str) -> None:
    mail = Templates(COMMON).render("receipt", facts_of("x")["receipt"], locale)
    assert "We have refunded" in mail.text


@pytest.mark.parametrize(
    ("minor", "currency", "locale", "written"),
    [
        (4_999, "USD", "en", "$49.99"),
        (129_900, "EUR", "de", "1.299,00\u00a0€"),
        (500, "JPY", "en", "¥500"),
        (1_500, "KWD", "en", "KWD\u00a01.500"),
        (4_999, "AFN", "en", "AFN\u00a049.99"),  # CLDR has no decimals for it: would say 50
        (0, "GBP", "en", "£0.00"),
    ],
)
def test_money_is_written_with_every_decimal_it_has(
    minor: int, currency: str, locale: str, written: str
) -> None:
    assert formats.format_money(Money(minor, currency), Locale.parse(locale)) == written


# -- the manager's pages

# "problem" is the review again, after a decision that could not be recorded.
CASE_PAGES = ["review", "problem", "decided", "expired", "second_awaited", "withdrawn"]


def file_of(name: str, problem: str) -> ShownFile:
    return ShownFile(
        mail_id="m_17",
        number=0,
        name=name,
        content_type="image/jpeg",
        size_bytes=2_100_000,
        received_at=NOON,
        sender_proven=False,
        problem=problem,
        photo=not problem,
    )


def line_of(number: int, name: str, quantity: int) -> dict[str, object]:
    chosen = {"quantity": quantity, "chosen": str(quantity)}
    return {"line_no": number, "name": name, "amount": "$9.00", "minor": 900, **chosen}


def page(
    name: str, words: str = "My kettle", expires_at: datetime | None = NOON, **changes: object
) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    teach(environment)
    environment.globals |= {
        "url_for": lambda endpoint, **values: "/".join(["", endpoint, *map(str, values.values())]),
        "request": SimpleNamespace(view_args={"token": "t.o.k"}, method="POST"),
        "csrf_token": lambda: "csrf-17",
    }
    review = {
        **facts_of(words)["approval_request"],
        "refund_id": "r_17",
        "proposed_by": words,
        "expires_at": expires_at,
        "amount": "$1,299.00",
        "credit": "$1,400.00",
        "may_offer": True,
        "currency": "USD",
        "already_refunded": "$0.00",
        "shipments": (),
        "order_as_of": None,
        "condition": words,
        "has_lapsed": False,
        "paid": "$1,500.00",
        "shipping": "$5.00",
        "items": [{"name": words, "quantity": 1, "amount": "$1,299.00"}],
        "files": [file_of(words, ""), file_of(words, "above 20 MB")],
        "more_files": 3,
        "short": "$3.00",
        "earlier": [
            {
                "items": [{"name": words, "quantity": 2}],
                "amount": "$20.00",
                "order_id": "W1001",
                "state": "paid",
                "requested_at": NOON,
                "closed_at": NOON,
            }
        ],
        "lines": {
            "each": [line_of(1, words, 1), line_of(2, words, 3)],
            "sum": "$1,299.00",
            "most_minor": 129900,
            "decimals": 2,
        },
        "unsent": words,
        "done": words,
        "undo_until": None,
        "undo_mine": False,
        "cancelled": False,
        "new_customer": "",
        "elsewhere_minor": 0,
        "news": (words,),
        "most": "",
        "most_decimal": "",
        "file_count": "1 photo and 1 other file",
        "requests": (
            ApprovalRequest(
                "approval_17",
                Question.APPROVE,
                words,
                "token",
                NOON,
                skipped_at=NOON,
                skipped_why=words,
            ),
        ),
        "notes": (SimpleNamespace(manager_email=words, text=words, written_at=NOON),),
        "following": words,
        "escalates_at": NOON,
    }
    decision = SimpleNamespace(
        decided_by="max@shop.example",
        verb="approved",
        offer_percent=30,
        offer_amount="$299.70",
        decided_at=NOON,
        amount="$999.00",
        note=words,
        refund_status="The refund was paid.",
        note_shared=False,
    )
    context: dict[str, Any] = {
        "review": review,
        "decision": decision,
        "withdrawn_at": NOON,
    }
    if name == "problem":
        name = "review"
        changes = {
            "problem": words,
            "problem_field": "amount",
            "typed": {"amount": words, "note": words, "note_shared": "yes"},
        } | changes
    return environment.get_template(f"approvals/{name}.html").render(context | changes)


@pytest.mark.parametrize("name", CASE_PAGES)
def test_hostile_words_stay_words_on_a_page(name: str) -> None:
    html = page(name, HOSTILE)
    elements = Elements(html)
    assert not elements.tags & {"iframe", "style"}
    scripts = [attributes.get("src") for tag, attributes in elements.found if tag == "script"]
    assert set(scripts) <= {"/static/approval.js", "/static/times.js"}
    assert not elements.attributes & {"onerror", "style"}
    preview = "/approvals.preview/t.o.k/m_17/0"
    sources = [attributes.get("src") for tag, attributes in elements.found if tag == "img"]
    assert sources == [preview]
    assert "{{ 7 * 7 }}" in html
    inside = ("#", "/approvals.download/t.o.k/m_17/0", preview)
    assert all(link is not None and link.startswith(inside) for link in elements.links)


@pytest.mark.parametrize("name", CASE_PAGES)
def test_every_page_of_a_case_says_whose_link_it_is(name: str) -> None:
    assert "This link was sent to <strong>mona@shop.example</strong>" in page(name)


@pytest.mark.parametrize("name", CASE_PAGES)
def test_a_case_without_a_date_of_expiry_can_be_shown(name: str) -> None:
    assert "W1001" in page(name, expires_at=None)


@pytest.mark.parametrize("name", ["review", "problem"])
def test_the_form_decides_by_post_with_the_csrf_token(name: str) -> None:
    elements = Elements(page(name)).found
    (form,) = [attributes for tag, attributes in elements if tag == "form"]
    assert form["method"] == "post"
    buttons = [attributes for tag, attributes in elements if tag == "button"]
    assert "disabled" in buttons[0], "Return in a field would press the first button"
    assert [(each.get("name"), each.get("value")) for each in buttons[1:]] == [
        ("decision", "count"),
        ("decision", "approve"),
        ("decision", "reject"),
        ("decision", "offer"),
    ]
    inputs = {each.get("name"): each for tag, each in elements if tag == "input"}
    assert inputs["csrf_token"]["value"] == "csrf-17"
    assert inputs["amount"]["value"] == ("My kettle" if name == "problem" else "")


@pytest.mark.parametrize("name", ["decided", "expired", "second_awaited", "withdrawn", "not_valid"])
def test_a_page_with_nothing_to_decide_has_no_form(name: str) -> None:
    assert not Elements(page(name)).tags & {"form", "button", "input"}


def test_every_field_has_a_label() -> None:
    elements = Elements(page("review")).found
    labelled = {attributes["for"] for tag, attributes in elements if tag == "label"}
    fields = {
        attributes["id"]
        for tag, attributes in elements
        if tag in ("input", "textarea") and attributes.get("type") != "hidden"
    }
    units = {"quantity_1", "quantity_2"}
    assert fields == labelled == {"amount", "note", "note_shared", "offer_percent", "lost"} | units


def test_a_problem_is_said_at_the_top_and_at_its_field_and_keeps_what_was_typed() -> None:
    typed = {"amount": "2000", "note": "\nMy <note>", "note_shared": "yes"}
    html = page("problem", problem="Too much.", typed=typed)
    assert 'value="yes" checked' in html
    assert "<title>Not recorded: " in html
    assert html.count("Too much.") == 2
    assert 'value="2000"' in html
    assert "My &lt;note&gt;</textarea>" in html


def test_the_decided_page_names_who_decided_what_and_when() -> None:
    html = page("decided")
    assert "max@shop.example" in html
    assert "Refund of $999.00 approved" in html
    assert "21 November 2026, 12:00 UTC" in html
    assert "The customer had asked for $1,299.00" in html
    assert "The refund was paid." in html


def test_a_stranger_with_a_broken_link_learns_nothing() -> None:
    html = page("not_valid")
    assert "This link does not work" in html
    assert "W1001" not in html
    assert "mona@shop.example" not in html


def test_the_question_for_the_code_is_no_answer_to_it() -> None:
    code = "482716"
    asked = render("reply", confirm_code=code)
    assert code in asked.text
    assert not holds_code(asked.text, code)
    assert not holds_code(" ".join(asked.text.split()), code)
    assert holds_code(f"{asked.text}\n{code}", code)


@pytest.mark.parametrize("currency", sorted(money.CURRENCIES))
def test_pages_and_mails_in_english_write_an_amount_alike(currency: str) -> None:
    for minor in (5, 4_999, 123_456_789):
        amount = money.Money(minor, currency)
        assert amount.tell() == formats.format_money(amount, Locale("en"))
