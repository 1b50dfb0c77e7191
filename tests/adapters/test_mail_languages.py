"""Our mails to customers in every language: complete, true to the same facts, and in one language only."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from babel import Locale

from mailagent.adapters.html.text import render_text
from mailagent.adapters.templates import formats
from mailagent.adapters.templates.catalogue import MAIL_FOLDER, find_problems, list_messages
from mailagent.adapters.templates.engine import RenderedMail, Templates
from mailagent.adapters.templates.mail_samples import COMMON, TO_CUSTOMERS, facts_of, list_samples
from mailagent.adapters.templates.template_check import list_languages
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.message import holds_code
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OUR_WORDS
from tests.programs import gallery

OURS = Templates(COMMON)
TRANSLATED = ["de", "es", "fr", "it", "nl", "pl", "pt"]
LANGUAGES = ["en", *TRANSLATED]
EVERY = [(name, language) for name in sorted(TO_CUSTOMERS) for language in LANGUAGES]
ENGLISH = frozenset(
    "the and your you we our for order refund refunded asked paid back days day date amount reference"
    " card gift shipping business usually arrives within colleague answer this with please wrote"
    " were not it is of a to by money subject request".split()
)

THEIRS_TOO = {
    "fr": {"date"},
    "nl": {"is", "of", "card", "we", "were", "order"},
    "it": {"a"},
    "pl": {"to"},
    "pt": {"for"},
}


def render(name: str, language: str, words: str = "Xyzzy") -> RenderedMail:
    return OURS.render(name, facts_of(words)[name], language)


def words_of(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) > 1}


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_has_every_message_with_its_placeholders(language: str) -> None:
    assert find_problems(MAIL_FOLDER / f"{language}.po", list_messages()) == []


def test_every_language_that_has_a_catalogue_is_tested_here() -> None:
    assert list_languages(None) == sorted(LANGUAGES)


@pytest.mark.parametrize(("name", "language"), EVERY)
def test_text_and_html_say_the_same(name: str, language: str) -> None:
    for facts in list_samples(name):
        mail = OURS.render(name, facts, language)
        title = words_of(mail.subject)  # of the HTML page
        text = re.sub(r"https?://\S+", "", mail.text)  # an HTML link shows its words only
        assert words_of(render_text(mail.html).text) - title == words_of(text) - title


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_english_word_is_left_in_a_mail_of_another_language(language: str) -> None:
    for name in sorted(TO_CUSTOMERS):
        for facts in list_samples(name):
            plain = {
                **facts,
                "text": "Xyzzy",
                "member": "Xyzzy",
                "note": facts.get("note") and "Xyzzy",
            }
            mail = OURS.render(name, plain, language)
            said = words_of(f"{mail.subject.replace('My kettle', '')}\n{mail.text}")
            left = said & (ENGLISH - THEIRS_TOO.get(language, set()))
            assert left == set(), f"{language}/{name}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(TO_CUSTOMERS - {"team_reply", "receipt", "receipts"}))
def test_a_mail_is_in_the_language_that_it_is_filed_under(name: str, language: str) -> None:
    mail = render(name, language)
    assert find_language(mail.text) == language
    tag = {"pt": "pt-PT"}.get(language, language)  # our Portuguese is Portugal's
    assert f'<html lang="{tag}" dir="ltr">' in mail.html


@pytest.mark.parametrize(
    ("language", "amount", "method", "day", "expected"),
    [
        ("en", "$1,299.00", "Gift card", "21 November 2026", "within 10 business days"),
        ("de", "1.299,00\xa0$", "Geschenkkarte", "21. November 2026", "von 10 Arbeitstagen"),
        ("fr", "1\xa0299,00\xa0$US", "Carte cadeau", "21 novembre 2026", "sous 10 jours ouvrés"),
        ("es", "1.299,00\xa0US$", "Tarjeta regalo", "21 de noviembre de 2026", "10 días hábiles"),
        ("it", "1.299,00\xa0USD", "Carta regalo", "21 novembre 2026", "10 giorni lavorativi"),
        ("nl", "US$\xa01.299,00", "Cadeaukaart", "21 november 2026", "binnen 10 werkdagen"),
        ("pl", "1\xa0299,00\xa0USD", "Karta podarunkowa", "21 listopada 2026", "10 dni roboczych"),
        ("pt", "1\xa0299,00\xa0US$", "Cartão-presente", "21 de novembro de 2026", "10 dias úteis"),
    ],
)
def test_a_receipt_states_amount_method_reference_and_when_to_expect_it(
    language: str, amount: str, method: str, day: str, expected: str
) -> None:
    mail = render("receipt", language, "re_123")
    for part in (mail.text, render_text(mail.html).text):
        for said in (amount, method, "PayPal", day, expected, "re_123", "W1001"):
            assert " ".join(said.split()) in " ".join(part.split())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_method_that_has_no_name_is_shown_as_the_shop_calls_it(language: str) -> None:
    payment = {"method": "twint_<b>", "amount": Money(500, "CHF"), "reference": None}
    facts = facts_of()["receipt"] | {"payments": [payment | {"expected_days": None}]}
    mail = OURS.render("receipt", facts, language)
    assert "- twint <b>" in mail.text
    assert "twint &lt;b&gt;" in mail.html


@pytest.mark.parametrize(
    ("method", "name"),
    [("card", "Karte"), ("Gift Card", "Geschenkkarte"), ("bank-transfer", "Überweisung")],
)
def test_a_method_is_known_however_the_shops_systems_spell_it(method: str, name: str) -> None:
    names = {"card": "Karte", "gift_card": "Geschenkkarte", "bank_transfer": "Überweisung"}
    assert formats.named(method, names) == name


@pytest.mark.parametrize(
    ("language", "opening", "within"),
    [
        ("en", "- Card + gift card:", "(gift card)"),
        ("de", "- Karte + Geschenkkarte:", "(Geschenkkarte)"),
        ("fr", "- Carte bancaire + carte cadeau\xa0:", "(carte cadeau)"),
        ("es", "- Tarjeta + tarjeta regalo:", "(tarjeta regalo)"),
    ],
)
def test_a_method_is_written_as_its_place_in_the_sentence_wants(
    language: str, opening: str, within: str
) -> None:
    payment = {"method": "Shopify Payments + Gift Card", "amount": Money(500, "EUR")}
    payments = [payment | {"reference": None, "expected_days": 10}]
    receipt = OURS.render("receipt", facts_of()["receipt"] | {"payments": payments}, language)
    assert opening in receipt.text
    assert within in render("refund_failed", language).text


@pytest.mark.parametrize(
    ("language", "bank"),
    [("en", "your bank"), ("de", "Ihrer Bank"), ("fr", "votre banque"), ("es", "su banco")],
)
def test_no_bank_is_waited_for_where_a_gift_card_paid(language: str, bank: str) -> None:
    for method, waits in (("gift_card", False), ("card", True)):
        payment = {"method": method, "amount": Money(500, "EUR"), "reference": None}
        facts = facts_of()["receipt"] | {"payments": [payment | {"expected_days": None}]}
        mail = OURS.render("receipt", facts, language)
        assert (bank in mail.text, bank in mail.html) == (waits, waits)


def test_every_word_that_we_have_for_a_method_has_a_name() -> None:
    text = (MAIL_FOLDER / "_methods.txt").read_text("utf-8")
    assert set(re.findall(r'^    "(\w+)": ', text, re.MULTILINE)) >= OUR_WORDS


@pytest.mark.parametrize("name", ["confirm_code", "confirm_last_code"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_question_for_the_code_is_no_answer_to_it_in_any_language(
    language: str, name: str
) -> None:
    facts = facts_of()["reply"]
    code = facts[name]
    asked = OURS.render("reply", facts, language).text
    quoted = "\n".join(f"> {line}" for line in asked.splitlines())
    assert code in asked
    for text in (asked, quoted, " ".join(asked.split()), asked.upper()):
        assert not holds_code(text, code)
    assert holds_code(f"{quoted}\n\n{code}", code)


@pytest.mark.parametrize(
    ("locale", "amount"),
    [
        ("de", "1.299,00\xa0$"),
        ("de-PL", "1.299,00\xa0$"),
        ("de-CH", "$\xa01’299.00"),
        ("es_MX", "USD\xa01,299.00"),
    ],
)
def test_a_regions_amounts_stand_in_its_languages_words(locale: str, amount: str) -> None:
    mail = render("refund_expired", locale)
    assert amount in mail.text
    assert find_language(mail.text) == locale[:2]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_day_by_which_goods_are_due_is_no_day_of_payment(language: str) -> None:
    """A record that reads "paid when the goods are back, by 5 November" promises money by then."""
    due_at = datetime(2026, 11, 5, 12, tzinfo=UTC)
    refund: dict[str, Any] = {
        "status": "approved",
        "amount": Money(4999, "EUR"),
        "credit": None,
        "asked": Money(4999, "EUR"),
        "items": [],
        "requested_at": due_at - timedelta(days=30),
        "goods_by": due_at,
        **dict.fromkeys(("part_paid", "part_credit", "returned", "returned_credit")),
    }
    order: dict[str, Any] = {"order_id": "W1001", "parcels": [], "refunds": [refund]}
    order |= {"offer": None, "elsewhere": None, "discount": None}
    record = OURS.fragment("_record.txt", {"orders": [order]}, language)
    (line,) = (each for each in record.splitlines() if ";" in each)
    about_goods, about_payment = line.split(";")
    day = formats.format_day(due_at, Locale.parse(language))
    assert day in about_goods
    assert day not in about_payment


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_record_names_a_discount(language: str) -> None:
    """The record ends with "Only what stands here is binding": a discount that is missing there is in doubt."""
    until = datetime(2026, 12, 5, 12, tzinfo=UTC)
    order: dict[str, Any] = {"order_id": "W1001", "parcels": [], "refunds": []}
    order |= {"offer": None, "elsewhere": None, "as_of": None}
    order |= {"discount": {"percent": 15, "expires_at": until}}
    record = OURS.fragment("_record.txt", {"orders": [order]}, language)
    (line,) = (each for each in record.splitlines() if "15" in each)
    assert formats.format_day(until, Locale.parse(language)) in line


def test_the_gallery_has_every_mail_in_every_language() -> None:
    shown = list(gallery.list_mails())
    for language in LANGUAGES:
        names = {each.name for each in shown if each.sheet == language}
        assert names == {*TO_CUSTOMERS, "reply_question", "reply_unproven"}
