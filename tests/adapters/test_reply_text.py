"""What customers wrote, apart from what they quote: every program introduces quotes its own way."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.reply_text import (
    is_answer,
    may_lose_words,
    new_text,
    own_words,
    words_to_pass_on,
)
from mailagent.domain.mail.message import body_of_hidden
from tests.adapters.quotes import ATTRIBUTIONS, NEW, OURS, quoted
from tests.growth import assert_linear

HEADER_BLOCKS = {
    "outlook en": "From: The Shop <support@shop.example>\nSent: 03 November 2026 10:12\n"
    "To: Ada Example <ada@example.com>\nSubject: Your kettle",
    "outlook en bold": "*From:* The Shop [mailto:support@shop.example]\n*Sent:* Tuesday, November 3\n"
    "*To:* Ada Example\n*Subject:* Your kettle",
    "outlook en, rule above": "________________________________\nFrom: The Shop <support@shop.example>\n"
    "Sent: 03 November 2026 10:12\nTo: Ada\nSubject: Your kettle",
    "outlook en, wrapped recipients": "From: The Shop <support@shop.example>\nSent: Tuesday\n"
    "To: Ada Example <ada@example.com>; Grace\n <grace@example.org>\nSubject: Your kettle",
    "outlook de": "Von: The Shop <support@shop.example>\nGesendet: Dienstag, 3. November 2026 10:12\n"
    "An: Ada Example\nBetreff: Ihr Kessel",
    "outlook fr": "De : The Shop <support@shop.example>\nEnvoyé : mardi 3 novembre 2026 10:12\n"
    "À : Ada Example\nObjet : Votre bouilloire",
    "outlook es": "De: The Shop <support@shop.example>\nEnviado el: martes, 3 de noviembre de 2026\n"
    "Para: Ada\nAsunto: Su hervidor",
    "outlook sv": "Från: The Shop <support@shop.example>\nSkickat: den 3 november 2026 10:12\n"
    "Till: Ada\nÄmne: Din kittel",
    "outlook zh": "发件人: The Shop <support@shop.example>\n发送时间: 2026年11月3日 10:12\n"
    "收件人: Ada\n主题: Your kettle",
    "outlook ja": "差出人: The Shop <support@shop.example>\n送信日時: 2026年11月3日 10:12\n"
    "宛先: Ada\n件名: Your kettle",
    "outlook tr": "Kimden: The Shop <support@shop.example>\nGönderildi: 3 Kasım 2026\n"
    "Kime: Ada\nKonu: Su ısıtıcı",
    "gmx": 'Gesendet: Dienstag, 03. November 2026 um 10:12 Uhr\nVon: "The Shop" <support@shop.example>\n'
    "An: ada@example.com\nBetreff: Ihr Kessel",
    "blank lines between": "From: The Shop <support@shop.example>\n\nSent: Tuesday\n\nTo: Ada\n\n"
    "Subject: Your kettle",
    "markdown": "**From:** The Shop\n**Sent:** Tuesday\n**To:** Ada\n**Subject:** Your kettle",
    "original message": "-----Original Message-----\nFrom: The Shop\nDate: Tuesday\nTo: Ada",
    "original message without headers": "-----Original Message-----",
    "original message de": "-----Ursprüngliche Nachricht-----\nVon: The Shop\nGesendet: Dienstag",
    "original message fr": "-----Message d'origine-----\nDe : The Shop",
    "original message ru": "-------- Исходное сообщение --------\nОт: The Shop",
    "android": "-------- Original message --------\nFrom: The Shop <support@shop.example>\n"
    "Date: 03/11/2026 10:12 (GMT+01:00)\nTo: ada@example.com\nSubject: Your kettle",
    "qq": '------------------ 原始邮件 ------------------\n发件人: "The Shop" <support@shop.example>;\n'
    "发送时间: 2026年11月3日(星期二) 上午10:12\n收件人: Ada\n主题: Your kettle",
    "help desk": "##- Please type your reply above this line -##",
    "help desk de": "--- Bitte antworten Sie oberhalb dieser Linie ---",
}


SEVERAL = (
    "- 1 × Stainless steel kettle, $29.99\n- 1 × Hand-painted ceramic mug, $20.00\n"
    "Which of the two is it about?\nThe shop"
)


@pytest.mark.parametrize("attribution", ATTRIBUTIONS.values(), ids=ATTRIBUTIONS.keys())
@pytest.mark.parametrize("history", [quoted(OURS), OURS], ids=["quote signs", "no quote signs"])
def test_text_above_a_quote_is_new(attribution: str, history: str) -> None:
    assert new_text(f"{NEW}\n\n{attribution}\n\n{history}\n") == NEW


@pytest.mark.parametrize("block", HEADER_BLOCKS.values(), ids=HEADER_BLOCKS.keys())
def test_text_above_a_header_block_is_new(block: str) -> None:
    assert new_text(f"{NEW}\n\n{block}\n\n{OURS}\n") == NEW


@pytest.mark.parametrize("attribution", ATTRIBUTIONS.values(), ids=ATTRIBUTIONS.keys())
def test_text_below_a_quote_is_new(attribution: str) -> None:
    assert new_text(f"{attribution}\n{quoted(OURS)}\n\n{NEW}\n") == NEW


@pytest.mark.parametrize(
    "attribution",
    [
        "The Shop wrote:",
        "Quoting The Shop <support@shop.example>:",
        "At 10:12 03/11/2026, you wrote:",
        "On Tuesday The Shop said:",
        "Am 03.11.26 um 10:12 schrieb The Shop:",
        "03.11.2026 10:12, The Shop пишет:",
    ],
)
def test_short_attributions_are_known_by_the_quote_signs_below(attribution: str) -> None:
    assert new_text(f"{NEW}\n\n{attribution}\n{quoted(OURS)}") == NEW


def test_answers_between_quoted_lines_are_new() -> None:
    body = (
        "On Tue, Nov 3, 2026 at 10:12 AM The Shop <support@shop.example> wrote:\n"
        "> Which order is it?\n\nW1001\n\n> And what is broken?\n\nThe lid.\n"
    )
    assert new_text(body).split() == ["W1001", "The", "lid."]


def test_a_quoted_line_that_was_wrapped_is_still_a_quote() -> None:
    body = (
        f"{NEW}\n\n"
        "> Your kettle is on its way and should reach you on Tuesday at the latest, so\n"
        "please be at home\n"
        "> between eight and twelve.\n"
    )
    assert new_text(body) == NEW


@pytest.mark.parametrize(
    "body",
    [
        quoted(OURS),
        "On Tue, Nov 3, 2026 at 10:12 AM The Shop <support@shop.example> wrote:\n" + quoted(OURS),
        "-----Original Message-----\nFrom: The Shop\n\n" + OURS,
        "-- \nAda Example\nLondon",
    ],
    ids=["only quote", "attribution and quote", "original message", "only signature"],
)
def test_a_mail_that_would_become_empty_is_kept_whole(body: str) -> None:
    assert new_text(body) == body.strip()


@pytest.mark.parametrize(
    "body",
    [
        "On Tuesday the courier wrote: nobody at home. I was at home.",
        "The note on the parcel said:\nnobody at home at 10:12 on 3 November 2026.\nI was.",
        "Please send it:\nFrom: Berlin\nTo: Munich\nDate: 3 November\nThank you.",
        "My address bob@example.com wrote:\nplease use ada@example.com now.",
        "I paid 49.99 -- and now?\nIt is broken.",
        "Ordered:\n- a kettle\n- a mug\n\nNeither came.",
        "Subject: refund\nI want my money back.",
        "Reply when you can, the sooner the better. The text above the bottom line is smudged.",
        "Hello,\n----------\nW1001\n----------\nis broken.",
        "I sent from my office, not from home, the parcel back.",
        ">From the start it was broken.",
        "From: Ada\n\nI wrote to: your shop\n\nThe date: Monday",
        "Hello\n________________________________\nmy order W1001",
        "Hi,\nOn Tuesday the courier wrote:\nnobody at home. I was.",
    ],
)
def test_words_that_only_resemble_a_quote_are_kept(body: str) -> None:
    assert new_text(body) == body


FORWARD_MARKS = {
    "gmail": "---------- Forwarded message ---------",
    "apple": "Begin forwarded message:",
    "apple quoted": "> Begin forwarded message:",
    "thunderbird de": "-------- Weitergeleitete Nachricht --------",
    "thunderbird fr": "-------- Message transféré --------",
    "yahoo it": "----- Messaggio inoltrato -----",
    "gmail-like pl": "---------- Wiadomość przesłana dalej ---------",
    "mail.ru": "-------- Пересылаемое сообщение --------",
    "words we do not know": "---------- Peslaw klewu ----------",
}


@pytest.mark.parametrize("mark", FORWARD_MARKS.values(), ids=FORWARD_MARKS.keys())
@pytest.mark.parametrize("above", ["", "Please see this receipt.\n\n"])
def test_a_forward_is_kept_whole(mark: str, above: str) -> None:
    body = (
        f"{above}{mark}\nFrom: The Shop <orders@shop.example>\nDate: 3 November 2026\n"
        "Subject: Receipt\nTo: ada@example.com\n\nKettle 49.99"
    )
    assert new_text(body) == body.strip()


@pytest.mark.parametrize(
    "subject", ["Fwd: Receipt", "FW: Receipt", "WG: Beleg", "TR : Reçu", "RV: x"]
)
def test_a_forward_told_by_its_subject_is_kept_whole(subject: str) -> None:
    body = "See below.\n\n" + HEADER_BLOCKS["outlook en"] + "\n\nKettle 49.99"
    assert new_text(body, subject=subject) == body


@pytest.mark.parametrize("mark", FORWARD_MARKS.values(), ids=FORWARD_MARKS.keys())
def test_what_is_forwarded_is_not_their_own_words(mark: str) -> None:
    body = f"Is this yours?\n\n{mark}\n{HEADER_BLOCKS['outlook en']}\n\nSend it to 1 Evil Street"
    assert own_words(body) == "Is this yours?"
    assert own_words(body.removeprefix("Is this yours?")) == ""


@pytest.mark.parametrize("attribution", ATTRIBUTIONS.values(), ids=ATTRIBUTIONS.keys())
def test_what_is_quoted_is_not_their_own_words(attribution: str) -> None:
    below = f"{attribution}\n{quoted('Send it to 1 Evil Street')}"
    assert own_words(f"{NEW}\n\n{below}") == NEW
    assert own_words(quoted("Send it to 1 Evil Street")) == ""


def test_their_signature_is_their_own_words() -> None:
    body = "Please send it to the address below.\n\n-- \nAda Example\n12 New Road"
    assert own_words(body) == body


@pytest.mark.parametrize("subject", ["Fwd: Your parcel", "WG: Ihr Paket", "转发: kettle"])
def test_a_forward_without_a_mark_has_no_words_of_theirs(subject: str) -> None:
    assert own_words("Send it to 1 Evil Street", subject=subject) == ""


@pytest.mark.parametrize(
    "subject",
    ["Re: a", "AW: a", "[EXTERN] Antw: a", "Odp: a", "R: a", "回复：a", "[Fwd: a]", "TR : a"],
)
def test_the_subject_of_an_answer_is_told(subject: str) -> None:
    assert is_answer(subject)
    assert not is_answer("Address: 12 New Road")


@pytest.mark.parametrize("above", ["", "Sent from my iPhone", "-- \nTess Team", "\u200b"])
@pytest.mark.parametrize(
    "quote",
    [
        quoted(OURS),
        f"{ATTRIBUTIONS['gmail en']}\n{OURS}",
        # A part of our mail that our text does not have: the program has changed a link.
        f"{HEADER_BLOCKS['outlook en']}\n\n{OURS}\nhttps://safe.example/?url=shop.example/ops",
    ],
    ids=["quote signs", "attribution", "header block"],
)
def test_an_answer_that_only_quotes_has_no_words_to_pass_on(above: str, quote: str) -> None:
    assert words_to_pass_on(f"{above}\n\n{quote}", [OURS], "Re: Your kettle") == ""
    assert words_to_pass_on(f"{NEW}\n\n{quote}", [OURS], "Re: Your kettle") == NEW


@pytest.mark.parametrize("ours", [OURS, SEVERAL], ids=["from its beginning", "several lines"])
def test_an_answer_that_quotes_us_without_a_mark_has_no_words_to_pass_on(ours: str) -> None:
    """What is left of it may be a part of our mail that a program has changed."""
    body = f"{NEW}\n\n{ours}\nhttps://safe.example/?url=shop.example/ops"
    assert words_to_pass_on(body, [f"Hello Ada,\n\n{SEVERAL}", OURS], "Re: Your kettle") == ""


@pytest.mark.parametrize(
    ("inside", "is_lost"),
    [
        ("We ordered forty of them last week.", True),
        ("It is the mug, she says.", True),
        ("• 1 × Hand-painted ceramic mug, $20.00", False),
        ("See what we wrote: https://safe.example/?url=shop.example", False),
        ("Yes.", False),
        ("", False),
    ],
)
def test_an_answer_between_quoted_lines_may_be_lost(inside: str, is_lost: bool) -> None:
    first, *others = SEVERAL.splitlines()
    quote = "\n".join([HEADER_BLOCKS["outlook en"], "", first, inside, *others])
    assert may_lose_words(f"{NEW}\n\n{quote}\nThis mail is confidential.", [SEVERAL]) is is_lost


@pytest.mark.parametrize("delimiter", ["--", "-- "])
@pytest.mark.parametrize(("above", "is_lost"), [("send it here:", True), ("we wait.", False)])
def test_what_a_colon_announces_may_be_lost(delimiter: str, above: str, is_lost: bool) -> None:
    body = f"Please {above}\n\n{delimiter}\nShop GmbH\nMusterweg 1\n12345 Berlin"
    assert may_lose_words(body, []) is is_lost
    assert not may_lose_words(f"Please {above}", [])


@pytest.mark.parametrize("mark", FORWARD_MARKS.values(), ids=FORWARD_MARKS.keys())
def test_a_forward_has_no_words_to_pass_on(mark: str) -> None:
    body = f"Please answer her.\n\n{mark}\n{HEADER_BLOCKS['outlook en']}\n\n{OURS}"
    assert words_to_pass_on(body, [], "Re: Your kettle") == ""
    assert words_to_pass_on("Please answer her.", [], "Fwd: Your kettle") == ""


@pytest.mark.parametrize("body", ["", " \n", body_of_hidden("Pay all of it."), "a\n" * 20_002])
def test_a_mail_that_shows_nothing_or_too_much_has_no_words_to_pass_on(body: str) -> None:
    assert words_to_pass_on(body, [], "Re: Your kettle") == ""


def test_an_answer_to_a_forward_is_an_answer() -> None:
    body = f"{NEW}\n\n{HEADER_BLOCKS['outlook en']}\n\nKettle 49.99"
    assert new_text(body, subject="Re: Fwd: Receipt") == NEW


def test_a_forward_deep_in_the_quoted_history_makes_no_forward() -> None:
    body = f"{NEW}\n\n{ATTRIBUTIONS['gmail en']}\n> Hello\n> ---------- Forwarded message ------"
    assert new_text(body) == NEW


@pytest.mark.parametrize(
    "addition",
    [
        "-- \nAda Example\n1 Example Street",
        "--\nAda",
        "Sent from my iPhone",
        "Von meinem iPhone gesendet",
        "Get Outlook for iOS<https://link.example>",
        "iPhoneから送信",
        "________________________________________\nfans mailing list\nhttps://lists.example/listinfo/fans",
        "Sent from my phone\n\n-- \nAda",
        "Sent from my Samsung Galaxy, an LTE smartphone",
    ],
)
def test_signatures_are_no_part_of_the_new_text(addition: str) -> None:
    assert new_text(f"{NEW}\n\n{addition}\n") == NEW


@pytest.mark.parametrize(
    "ending",
    [
        "--\nWhen will the money come?",
        "-- \n" + "another item on my long list\n" * 12,
        "Sent from my office, by courier",
        "Sent from Berlin on Monday",
        "Sent from home, as my phone is broken.",
    ],
)
def test_text_that_only_resembles_a_signature_is_kept(ending: str) -> None:
    body = f"{NEW}\n\n{ending}".strip()
    assert new_text(body) == body


def test_our_own_text_is_recognised_without_any_mark() -> None:
    assert new_text(f"{NEW}\n\n{OURS}", our_texts=[OURS]) == NEW


def test_our_own_text_is_recognised_when_wrapped_anew() -> None:
    wrapped = "Hello Ada,\nyour kettle is on its way\nand should reach you\non Tuesday.\nThe shop"
    assert new_text(f"{NEW}\n\n{wrapped}", our_texts=["Something else.", OURS]) == NEW


def test_answers_below_our_unmarked_text_are_found() -> None:
    body = f"{HEADER_BLOCKS['outlook en']}\n\n{OURS}\n\n{NEW}"
    assert new_text(body, our_texts=[OURS]) == NEW


@pytest.mark.parametrize("answer", ["Yes", "W1001", "The shop!"])
def test_a_short_answer_below_our_question_is_new(answer: str) -> None:
    ours = "Which order is it, W1001 or W1002?\nIs that right?\nYes or no?\nThe shop"
    body = f"Which order is it, W1001 or W1002?\n{answer}\nIs that right?\nYes or no?\nThe shop"
    assert new_text(body, [ours]) == answer


def test_our_text_in_a_script_without_spaces_is_recognised() -> None:
    ours = "お問い合わせありがとうございます。返金の手続きを開始しました。"
    assert new_text(f"蓋が壊れています。\n\n{ours}", our_texts=[ours]) == "蓋が壊れています。"


def test_a_line_of_ours_that_the_customer_wrote_into_is_theirs() -> None:
    body = "your kettle is on its way and should reach you on Tuesday. NO, it did not"
    assert new_text(body, our_texts=[OURS]) == body


LISTED = f"Hello Ada,\n\nOrder W1001:\n{SEVERAL}"


@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize("below", ["", f"\n\n{quoted(LISTED)}"])
def test_a_line_of_ours_that_the_author_copied_is_theirs(lines: int, below: str) -> None:
    copied = "\n".join(LISTED.splitlines()[3 : 3 + lines])
    own = f"Hello,\n\nit is about this:\n{copied}\n\nThanks, Ada"
    assert new_text(own + below, [LISTED]) == own


def test_several_lines_of_ours_without_a_mark_are_a_quotation() -> None:
    """The program leaves out the greeting, and breaks lines anew."""
    for ours in (SEVERAL, SEVERAL.replace(", ", ",\n")):
        assert new_text(f"{NEW}\n\n{ours}", [LISTED]) == NEW
        assert new_text(f"{ours}\n\n{NEW}", [LISTED]) == NEW


@pytest.mark.parametrize(
    "mark", [ATTRIBUTIONS["gmail en"], HEADER_BLOCKS["outlook en"], "> Hello Ada,"]
)
def test_a_line_of_ours_below_a_mark_is_a_quotation(mark: str) -> None:
    line = LISTED.splitlines()[3]
    assert new_text(f"{NEW}\n\n{mark}\n\n{line}\n", [LISTED]) == NEW
    assert own_words(f"{NEW}\n\n{mark}\n\n{line}\n", [LISTED]) == NEW


def test_an_answer_behind_our_question_on_its_line_is_kept() -> None:
    ours = "Thank you for your mail, dear Ada.\nWhich order is it?\nThe shop"
    answer = "Which order is it? The one of last week, W1001"
    assert new_text(f"Thank you for your mail, dear Ada.\n{answer}", [ours]) == answer


@given(st.text(), st.text(), st.text(max_size=50))
def test_no_text_raises_or_becomes_empty(body: str, ours: str, subject: str) -> None:
    assert bool(new_text(body, [ours], subject)) == bool(body.strip())


HOSTILE = [
    "On ",
    "On On wrote:",
    "> ",
    ">",
    "\n",
    "-",
    "_",
    "--\n",
    "Am 1. schrieb ",
    "From: a@b\n",
    "<a@b>",
    "a\n>b\n",
    "On 1 <a@b.example> wrote:\n",
    "---- Forwarded ",
    "reply above this ",
    "1:1:",
    "From:\nSent:\n",
    "。 on 1",
    ". on 1",
    ". on 1 <a@b.example> wrote",
    "-" * 155 + "x\n",
    "-- a " * 30 + "\n",
    "reply" * 70 + " above\n",
    "1.1.1 1:1 a@b wrote" * 15 + ":\n",
    "sent from my " * 6 + "\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    assert_linear(lambda body: new_text(body, [body[:5_000]]), piece, 25_000)


@pytest.mark.parametrize("line", [">", ">\na", "1.1.26 1:11 <a@b>", "on 1 may 2026"])
def test_a_mail_of_tiny_lines_takes_little_time(line: str) -> None:
    body = f"{line}\n" * (200_000 // (len(line) + 1))
    begun = time.process_time()
    new_text(body)
    assert time.process_time() - begun < 0.5


def test_a_long_quoted_thread_is_still_cut() -> None:
    assert new_text(f"{NEW}\n\n" + quoted(f"{OURS}\n" * 2_000)) == NEW
