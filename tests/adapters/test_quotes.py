"""The line that says who wrote what is quoted: found however it is wrapped, and nothing else with it."""

from __future__ import annotations

import textwrap
import time

import pytest

from mailagent.adapters.mime.reply_text import new_text
from tests.adapters.quotes import (
    ATTRIBUTIONS,
    LABELS,
    MORE_ATTRIBUTIONS,
    NEW,
    OURS,
    OWN_LINES,
    WITHOUT_COLON,
    quoted,
)

# Of these two no line is ever wrapped.
NAMED = {
    name: " ".join(text.split())
    for name, text in (ATTRIBUTIONS | MORE_ATTRIBUTIONS).items()
    if name not in {"zoho", "proton"}
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


@pytest.mark.parametrize("name", ["gmail en", "gmail de", "gmail fr", "gmail es", "gmail nl"])
def test_an_attribution_may_stand_behind_the_reply_on_its_line(name: str) -> None:
    for between in (" ", "--- "):
        assert new_text(f"Thanks{between}{NAMED[name]}\n{quoted(OURS)}") == "Thanks"


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


# --- header block ---------------------------------------------------------------------------------


VALUES = ("The Shop <support@shop.example>", "3. 11. 2026 10:12", "Ada <ada@example.com>", "Kettle")


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_a_header_block_below_the_reply_is_cut(labels: str) -> None:
    for above in ("", "\n", "_" * 32 + "\n", "\n-----\n", "\n----- Original Message -----\n"):
        for form in ("{}: {}", "{} : {}", "{}\uff1a{}", "*{}:* {}", "**{}:** {}"):
            block = "\n".join(map(form.format, labels.split("|"), VALUES))
            assert new_text(f"{NEW}\n{above}{block}\n\n{OURS}", subject="Re: Kettle") == NEW


@pytest.mark.parametrize("own", ["Date: 3 November", "To: your support", "Subject: the lid"])
def test_a_line_of_the_customer_that_has_such_a_label_is_kept(own: str) -> None:
    block = "\n".join(map("{}: {}".format, LABELS["en"].split("|"), VALUES))
    assert new_text(f"{NEW}\n{own}\n{block}\n\n{OURS}") == f"{NEW}\n{own}"


def test_four_labels_are_no_header_block_if_they_name_no_mail() -> None:
    body = "Hello,\nItem: kettle\nBought: 3.11.2026 10:12\nPaid: 49.99\nOrder: W1001\nIt broke."
    assert new_text(body) == body


@pytest.mark.parametrize(
    "own",
    [
        "Name: Ada <ada@example.com>\nBought: 3.11.2026 10:12\nWrite to: grace@example.org\nItem: Kettle",
        "From: Berlin\nTo: Hamburg\nDate: 3.11.2026 10:12\nThat train never came.",
    ],
)
def test_a_form_and_a_journey_with_a_time_of_day_are_kept(own: str) -> None:
    assert new_text(f"Hello,\n{own}\nIt broke.") == f"Hello,\n{own}\nIt broke."


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_header_block_may_follow_another(between: str) -> None:
    block = "\n".join(map("{}: {}".format, LABELS["en"].split("|"), VALUES)) + "\n"
    assert new_text(f"{NEW}\n\n{block}{between}{block}\n{OURS}") == NEW


@pytest.mark.parametrize("own", ["In its original box", "From: my flat in Berlin", "To: Tess"])
def test_the_last_line_above_a_short_header_block_is_kept(own: str) -> None:
    block = "From: The Shop <support@shop.example>\nSent: 3 November 2026 10:12\nTo: Ada"
    assert new_text(f"{NEW}\n{own}\n{block}\n\n{OURS}") == f"{NEW}\n{own}"


@pytest.mark.parametrize("date", ["3 March 2026", "Monday", "12.11."])
@pytest.mark.parametrize("item", ["", "* ", "- "])
def test_a_list_of_the_customer_that_names_no_mail_is_kept(date: str, item: str) -> None:
    values = f"From: Berlin|To: Hamburg|Date: {date}|Subject: my parcel"
    body = "Hello,\n" + "\n".join(item + line for line in values.split("|")) + "\nIt broke."
    assert new_text(body) == body


@pytest.mark.parametrize(
    ("sent", "subject"),
    [
        ("Monday, 3 March 2025 10:11", "Kettle"),
        ("Monday, March 3, 2025 10:11 AM", "Kettle"),
        ("3.3.2025 10:11", "Kettle"),
        ("Monday", "Re: Kettle"),
        ("Monday", "AW: Kettle"),
    ],
)
def test_a_header_block_with_names_only_is_cut(sent: str, subject: str) -> None:
    block = f"From: Ada Example\nSent: {sent}\nTo: Support\nSubject: {subject}"
    assert new_text(f"{NEW}\n\n{block}\n\n{OURS}") == NEW


# --- signature lines ------------------------------------------------------------------------------


QUOTE = f"{ATTRIBUTIONS['gmail en']}\n{quoted(OURS)}"


@pytest.mark.parametrize(
    "below",
    [
        "-- \nAda Example\n\nPS: My order is W1001.",
        "-- \nAda Example\nP.S. My order is W1001",
        "-- \nAda Example\n\nOh, and the mug is chipped too.",
        "-- \nAda Example\n\nW1001",
        "--\nMy order number is W1001, by the way.",
        "--\nPlease call me on 020 7946 0000",
        "-- \nAda Example\n\nmy new address is ada@example.org",
        "Sent by mail last week, no app needed.",
    ],
)
def test_what_a_customer_writes_below_a_signature_is_kept(below: str) -> None:
    assert new_text(f"{NEW}\n\n{below}") == f"{NEW}\n\n{below}"


@pytest.mark.parametrize("signature", ["-- \nAda Example", "--\nAda", "Sent from my iPhone"])
def test_an_answer_below_the_quote_is_no_part_of_the_signature_above_it(signature: str) -> None:
    body = f"{NEW}\n\n{signature}\n\n{QUOTE}\n\nMy order is W1001."
    assert new_text(body).split() == f"{NEW}\nMy order is W1001.".split()


@pytest.mark.parametrize(
    "addition",
    [
        "-- \nAda Example\nTel. +44 20 7946 0000\n\nExample Ltd, https://example.com",
        "-- \nAda\n\nThis e-mail is confidential. If you are not the intended recipient, delete it.",
        "=====",
        "Gesendet von Outlook für Android<https://aka.example/x>",
        "Sendt fra min iPhone",
        "iPhone'umdan gönderildi",
        "나의 iPhone에서 보냄",
        "Odesláno z iPhonu",
        "Outlook for Android",
    ],
)
def test_what_programs_and_signatures_add_goes(addition: str) -> None:
    assert new_text(f"{NEW}\n\n{addition}") == NEW
