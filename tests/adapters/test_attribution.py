"""The line that says who wrote what is quoted: found however it is wrapped, and nothing else with it."""

from __future__ import annotations

import textwrap
import time

import pytest

from mailagent.adapters.mime.reply_text import new_text
from tests.adapters.quotes import (
    ATTRIBUTIONS,
    MORE_ATTRIBUTIONS,
    NEW,
    OURS,
    OWN_LINES,
    WITHOUT_COLON,
    quoted,
)

# Of these three no line is ever wrapped.
NAMED = {
    name: " ".join(text.split())
    for name, text in (ATTRIBUTIONS | MORE_ATTRIBUTIONS).items()
    if name not in {"zoho", "groupwise", "proton"}
}
HISTORIES = [quoted(OURS), OURS]


def wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


@pytest.mark.parametrize("history", HISTORIES, ids=["quote signs", "no quote signs"])
@pytest.mark.parametrize("own", OWN_LINES)
def test_the_customers_last_line_above_an_attribution_is_kept(own: str, history: str) -> None:
    for attribution in NAMED.values():
        for written in (attribution, attribution.replace("<", "<\n"), wrapped(attribution, 60)):
            assert new_text(f"Hello\n{own}\n{written}\n{history}") == f"Hello\n{own}"


@pytest.mark.parametrize("attribution", NAMED.values(), ids=NAMED.keys())
def test_an_attribution_is_found_however_it_is_wrapped(attribution: str) -> None:
    for width in (78, 72, 66, 60):
        for history in HISTORIES:
            assert new_text(f"{NEW}\n\n{wrapped(attribution, width)}\n{history}") == NEW


@pytest.mark.parametrize("attribution", NAMED.values(), ids=NAMED.keys())
def test_an_attribution_may_stand_below_an_answer_below_a_quote(attribution: str) -> None:
    for history in HISTORIES:
        older = f"{attribution}\n{history}"
        assert new_text(f"{quoted(OURS)}\n\n{NEW}\n{older}") == NEW


@pytest.mark.parametrize(
    "attribution",
    [
        "Am Di., 3. Nov.\n2026 um 10:12 Uhr schrieb The Shop <support@shop.example>:",
        "Am Di., 3.\nNov. 2026 um 10:12 Uhr schrieb The Shop <\nsupport@shop.example>:",
        "The Shop <support@shop.example> schrieb am Di., 3.\nNov. 2026 um 10:12 Uhr:",
        'Am 03.11.2026 10:12 schrieb "The Shop" <support@shop.example\n>:',
        "On Tue, Nov 3, 2026 at 10:12 AM Tess\n\n<\nmailto:Tess <support@shop.example>\n> wrote:",
        "On Tue, Nov 3, 2026\nat 10:12 AM The Shop\n<support@shop.example>\nwrote:",
        *WITHOUT_COLON,
    ],
)
def test_an_attribution_may_be_broken_in_odd_places_or_lack_its_colon(attribution: str) -> None:
    assert new_text(f"{NEW}\n\n{attribution}\n{quoted(OURS)}") == NEW


@pytest.mark.parametrize(
    "name", ["gmail en", "gmail de", "gmail fr", "gmail es", "gmail nl", "tb en", "tb de"]
)
def test_an_attribution_may_stand_behind_the_reply_on_its_line(name: str) -> None:
    for between in (" ", "--- "):
        assert new_text(f"Thanks{between}{NAMED[name]}\n{quoted(OURS)}") == "Thanks"


@pytest.mark.parametrize(
    "name",
    ["gmail pt", "gmail tr", "gmail ru", "gmail no", "gmail is", "gmail zh", "notes de", "ox de"],
)
def test_a_sentence_may_end_before_an_attribution_on_its_line(name: str) -> None:
    assert new_text(f"Thanks, it works! {NAMED[name]}\n{quoted(OURS)}") == "Thanks, it works!"


@pytest.mark.parametrize(
    "name", ["gmail pl", "gmail ro", "gmail ru", "apple uk", "yandex2", "tb ru"]
)
def test_the_words_before_an_attribution_that_begins_with_its_date_are_kept(name: str) -> None:
    assert new_text(f"Hello,\nThanks {NAMED[name]}\n{quoted(OURS)}") == "Hello,\nThanks"


def test_a_mail_that_is_all_quote_stays_whole_though_we_do_not_know_its_first_word() -> None:
    body = f"Xyz 3 Nov 2026, 10:12, The Shop <support@shop.example>:\n{OURS}"
    assert new_text(body) == body


@pytest.mark.parametrize(
    "own",
    [
        "Your mail of 3 November 2026, 10:12, said:\nit is shipped. It is not.",
        "I paid on 3 Nov 2026 10:12 from ada@example.com:\n49.99",
        "Am 3.11.2026 um 10:12 schrieb mir Ihr Kollege:\nIch solle warten.",
        "Le 3 novembre 2026 à 10:12, Tess m'a écrit :\nattendez.",
        "On 3 Nov 2026 at 10:12 I wrote to <support@shop.example>:\nno answer so far.",
        "On 3 Nov 2026 at 10:12 I emailed <support@shop.example>\n\nand nobody answered.",
        "Am 3.11.2026 um 10:12 schrieb ich an <support@shop.example>:\nkeine Antwort.",
        "On 3 Nov 2026 at 10:12 I wrote to you <support@shop.example>: no answer so far.",
    ],
)
def test_what_customers_say_of_their_own_mails_is_kept(own: str) -> None:
    assert new_text(f"Hello,\n{own}") == f"Hello,\n{own}"


@pytest.mark.parametrize(
    "piece", [". 3 Nov 2026 : ", ". On 3 Nov 2026 10:12 a@b ", "! Abc 3 Nov 2026 wrote: "]
)
def test_lines_full_of_what_may_begin_an_attribution_take_little_time(piece: str) -> None:
    body = "\n".join([(piece * 200)[:1990]] * 100)
    begun = time.process_time()
    new_text(body)
    assert time.process_time() - begun < 2  # it was 27 s


@pytest.mark.parametrize("behind", ["thanks, that works:", "two questions, please answer:"])
def test_words_behind_an_attribution_are_kept(behind: str) -> None:
    when = "On Mon, 3 Nov 2026 at 10:12, The Shop <support@shop.example> wrote:"
    for body in (f"{when} {behind}\nWhere is it?", f"Hello,\n{when} {behind}\nWhere is it?"):
        assert new_text(body) == body
