"""A shop's own templates: they stand in for ours, and what is wrong with them is told before any mail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from mailagent.adapters.templates.catalogue import list_messages
from mailagent.adapters.templates.engine import PARTS, RenderedMail, Templates
from mailagent.adapters.templates.mail_samples import COMMON, TO_CUSTOMERS, facts_of
from mailagent.adapters.templates.template_check import (
    find_problems,
    find_untranslated,
    list_languages,
)


def write(folder: Path, name: str, words: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words, "utf-8")


def render(folder: Path, name: str, locale: str = "en") -> RenderedMail:
    return Templates(COMMON, folder).render(name, facts_of()[name], locale)


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "it", "nl", "pl", "pt"])
def test_our_own_templates_have_no_problem(language: str, tmp_path: Path) -> None:
    write(tmp_path, f"{language}/_signature.txt", "{{ marker_line(support_address) }}")
    assert find_problems(tmp_path) == []
    assert find_untranslated(language, None) == []


def test_a_shops_file_stands_in_for_one_part_and_the_others_stay_ours(tmp_path: Path) -> None:
    write(tmp_path, "de/handed_over.txt", "Frau Beispiel meldet sich.")
    assert find_problems(tmp_path) == []
    mail = render(tmp_path, "handed_over", "de")
    assert mail.text == "Frau Beispiel meldet sich.\n"
    assert "jemand aus unserem Team" in mail.html
    assert "A colleague" in render(tmp_path, "handed_over").text


def test_a_shops_piece_stands_in_for_ours_in_every_mail(tmp_path: Path) -> None:
    write(tmp_path, "fr/_signature.txt", "L’équipe de la boutique")
    assert render(tmp_path, "receipt", "fr").text.endswith("\nL’équipe de la boutique\n")
    assert render(tmp_path, "reply", "fr").text.endswith("\nL’équipe de la boutique\n")


def test_a_shop_can_add_a_language_and_what_it_left_out_is_english_throughout(
    tmp_path: Path,
) -> None:
    for part in PARTS:
        write(tmp_path, f"sv/refund_expired{part}", "Återbetalning av {{ amount|money }}")
    assert find_problems(tmp_path) == []
    assert "sv" in list_languages(tmp_path)
    subject = render(tmp_path, "refund_expired", "sv").subject
    assert subject.startswith("Återbetalning av 1\xa0299,00")
    assert "We have refunded $1,299.00" in render(tmp_path, "receipt", "sv").text
    assert set(find_untranslated("sv", tmp_path)) == TO_CUSTOMERS - {"refund_expired"}


def catalogue(folder: Path, language: str, translate: Callable[[str], str]) -> Path:
    """Write a whole catalogue, each message translated by a function."""
    filled = Catalog(locale=language)
    for message in list_messages():
        texts = (message,) if isinstance(message, str) else message
        plurals = 1 if isinstance(message, str) else filled.num_plurals
        done = tuple(translate(texts[-1]) for _ in range(plurals))
        filled.add(message, done[0] if isinstance(message, str) else done)
    path = folder / f"{language}.po"
    with path.open("wb") as file:
        write_po(file, filled)
    return path


def test_one_catalogue_of_a_shop_is_a_new_language(tmp_path: Path) -> None:
    catalogue(tmp_path, "sv", lambda text: f"Ja: {text}")
    assert find_problems(tmp_path) == []
    assert "sv" in list_languages(tmp_path)
    assert find_untranslated("sv", tmp_path) == []
    assert render(tmp_path, "receipt", "sv").text.startswith("Ja: We have refunded 1\xa0299,00")


def test_a_shops_sentence_stands_in_for_ours_and_the_rest_stays(tmp_path: Path) -> None:
    catalogue(tmp_path, "de", lambda text: "Nein!" if text.startswith("They wrote") else text)
    assert "Nein!" in render(tmp_path, "refund_rejected", "de").text


def test_a_shops_catalogue_may_have_one_sentence_of_a_language_that_we_have(tmp_path: Path) -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
    write(tmp_path, "de.po", f'{head}msgid "Kind regards"\nmsgstr "Viele Grüße"\n')
    assert find_problems(tmp_path) == []
    text = render(tmp_path, "reply", "de").text
    assert "Guten Tag Ada," in text
    assert "Viele Grüße" in text


def test_what_a_catalogue_lacks_or_spells_wrongly_is_told(tmp_path: Path) -> None:
    words = {"Amount": "", "Valid until %(day)s, for one order.": "Giltig till %(dag)s."}
    path = catalogue(tmp_path, "sv", lambda text: words.get(text, text))
    told = "\n".join(find_problems(tmp_path))
    assert f"{path}: has no translation of 'Amount'" in told
    assert "dag" in told
    assert len(told.splitlines()) == 2
    path.write_text("msgid nonsense")
    assert "cannot be read" in find_problems(tmp_path)[0]
    path.rename(tmp_path / "svenska.po")
    assert "is no language" in find_problems(tmp_path)[0]


def test_a_regions_own_words_are_preferred_to_its_languages(tmp_path: Path) -> None:
    for part in PARTS:
        write(tmp_path, f"de_CH/handed_over{part}", "Grüezi")
    assert find_problems(tmp_path) == []
    assert render(tmp_path, "handed_over", "de-CH").text == "Grüezi\n"
    assert "Team" in render(tmp_path, "handed_over", "de_AT").text


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        (
            "de/receipt.txt",
            "Betrag\n{{ amonut|money }}",
            "receipt.txt, line 2: 'amonut' is undefined",
        ),
        ("de/receipt.txt", "{% if note %}\n{{ nothing }}{% endif %}", "receipt.txt, line 2: "),
        ("de/receipt.txt", "{% if not note %}{{ x }}{% endif %}", "receipt.txt, line 1: "),
        ("de/receipt.html", "\n\n{% if amount %}", "receipt.html, line 3: "),
        (
            "de/receipt.subject",
            "{{ amount|euro }}",
            "receipt.subject, line 1: No filter named 'euro'",
        ),
        ("de/receipt.txt", '{% include "_sig.txt" %}', "receipt.txt, line 1: "),
        ("de/receipt.txt", "{{ amount.minor / 0 }}", "receipt.txt, line 1: division by zero"),
        ("de/_signature.txt", "{{ ''.__class__ }}", "_signature.txt, line 1: access to attribute"),
        ("de/_confirm_address.txt", "Antworten Sie!", "does not show confirm_code"),
        ("de/_confirm_address.txt", "Code: {{ confirm_code }}", "does not show confirm_mails"),
        (
            "de/_confirm_address.txt",
            "Code: {{ confirm_code }}{% for mail in confirm_mails %} {{ mail.words }}{% endfor %}",
            "is not taken for an answer",
        ),
        (
            "de/_confirm_address.txt",
            "Die Mail mit dem Code {{ confirm_code }}{% for mail in confirm_mails %} {{ mail.words }}"
            "{% endfor %} Nur die letzte: {{ confirm_last_code }}",
            "is not taken for an answer",
        ),
        ("de/recipt.txt", "Betrag", "recipt.txt is no part of a mail"),
        ("de/receipt.md", "Betrag", "receipt.md is no part of a mail"),
        ("receipt.txt", "Betrag", "receipt.txt is no part of a mail"),
        ("deutsch/receipt.txt", "Betrag", "deutsch is no language"),
        ("sv/receipt.txt", "Belopp", "sv/receipt.txt is never used: the mail needs "),
        ("en/notice.txt", "{{ tilte }}", "notice.txt, line 1: 'tilte' is undefined"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_with_file_and_line(
    name: str, words: str, told: str, tmp_path: Path
) -> None:
    write(tmp_path, name, words)
    problems = find_problems(tmp_path)
    assert len([each for each in problems if told in each]) == 1, problems
    assert str(tmp_path) in problems[0] or "_confirm_address" in problems[0]


OWN_PHRASES = '{% set phrases = {"hi": _("Welcome back!"), "bye": _("Have a nice day.")} %}'


def test_a_shop_has_phrases_of_its_own_and_translates_them(tmp_path: Path) -> None:
    write(tmp_path, "_phrases.txt", OWN_PHRASES)
    catalogue(tmp_path, "de", lambda text: f"Ja: {text}")
    with (tmp_path / "de.po").open("a") as file:
        file.write('\nmsgid "Welcome back!"\nmsgstr "Schön, Sie wiederzusehen!"\n')
    assert find_problems(tmp_path) == []
    templates = Templates(COMMON, tmp_path)
    assert templates.phrases() == {"hi": "Welcome back!", "bye": "Have a nice day."}
    german = {"hi": "Schön, Sie wiederzusehen!", "bye": "Ja: Have a nice day."}
    assert templates.phrases("de") == templates.phrases("de-AT") == german
    assert templates.phrases("fr")["bye"] == "Je vous souhaite une bonne journée."


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        (
            "de/_phrases.txt",
            '{% set phrases = {"hi": "Hallo!"} %}',
            "has other ids than English: all_",
        ),
        ("_phrases.txt", "{% set phrases = {} %}", "does not set `phrases`"),
        ("_phrases.txt", "{% set phrases = {", "_phrases.txt, line 1: "),
    ],
)
def test_what_is_wrong_with_phrases_is_told(
    name: str, words: str, told: str, tmp_path: Path
) -> None:
    write(tmp_path, name, words)
    problems = find_problems(tmp_path)
    assert problems
    assert all(told in each for each in problems), problems


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, "de/receipt.txt", "{{ a }}")
    write(tmp_path, "fr/reply.html", "{{ b }}")
    assert len(find_problems(tmp_path)) == 2


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "is not a folder" in find_problems(tmp_path / "nowhere")[0]


def test_a_hidden_file_of_an_editor_is_no_problem(tmp_path: Path) -> None:
    write(tmp_path, "de/.receipt.txt.swp", "\x00")
    assert find_problems(tmp_path) == []
