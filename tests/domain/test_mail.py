"""Thread headers of answers, and tokens in recipient addresses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mailagent.domain.mail.conversation import is_loop
from mailagent.domain.mail.language import find_language
from mailagent.domain.mail.left_out import left_out
from mailagent.domain.mail.message import (
    AddressedToken,
    Door,
    Identity,
    InboundMail,
    MailKind,
    MailStatus,
    ThreadHeaders,
    answer_headers,
    confirm_code,
    find_token,
    first_words,
    holds_code,
)
from mailagent.domain.mail.webhook import age_seconds, is_fresh
from tests.cast import ADA, NOW

TOKEN = "abcdefghij234567abcd"


def mail(**changes: Any) -> InboundMail:
    values: dict[str, Any] = {
        "mail_id": "mail_1",
        "conversation_id": "conversation_1",
        "from_address": ADA,
        "from_name": "Ada",
        "subject": "Broken kettle",
        "message_id": "m3@example.com",
        "references": ("m1@example.com", "m2@shop.example"),
        "body": "",
        "new_text": "",
        "identity": Identity.DKIM,
        "kind": MailKind.CUSTOMER,
        "status": MailStatus.UNANSWERED,
        "received_at": NOW,
    }
    return InboundMail(**(values | changes))


def test_an_answer_continues_the_thread() -> None:
    assert answer_headers(mail()) == ThreadHeaders(
        "Re: Broken kettle",
        "m3@example.com",
        ("m1@example.com", "m2@shop.example", "m3@example.com"),
    )


@pytest.mark.parametrize(
    ("subject", "answered"),
    [
        ("Broken kettle", "Re: Broken kettle"),
        ("Re: Broken kettle", "Re: Broken kettle"),
        ("RE : Broken", "RE : Broken"),
        ("re[2]: Broken", "re[2]: Broken"),
        ("Reading lamp", "Re: Reading lamp"),
        ("", "Re: Your message"),
    ],
)
def test_the_subject_is_kept(subject: str, answered: str) -> None:
    assert answer_headers(mail(subject=subject)).subject == answered


def test_a_mail_without_message_id_is_answered_without_thread() -> None:
    headers = answer_headers(mail(message_id=None))
    assert headers.in_reply_to is None
    assert headers.references == ()


def test_long_chains_keep_the_first_and_the_last_ten() -> None:
    chain = tuple(f"m{number}@example.com" for number in range(50))
    references = answer_headers(mail(references=chain)).references
    assert len(references) == 11
    assert references[0] == "m0@example.com"
    assert references[-1] == "m3@example.com"


@pytest.mark.parametrize(
    ("recipients", "found"),
    [
        ((f"case+{TOKEN}@shop.example",), AddressedToken(Door.CASE, TOKEN)),
        ((f"CASE+{TOKEN.upper()}@Shop.Example",), AddressedToken(Door.CASE, TOKEN)),
        ((f"confirm+{TOKEN}@shop.example",), AddressedToken(Door.CONFIRM, TOKEN)),
        (("support@shop.example", f"case+{TOKEN}@shop.example"), AddressedToken(Door.CASE, TOKEN)),
        ((f"team+{TOKEN}@shop.example",), AddressedToken(Door.TEAM, TOKEN)),
        ((f"case+{TOKEN}@evil.example",), None),
        ((f"case+{TOKEN}@shop.example.evil.example",), None),
        (("case+short@shop.example",), None),
        ((f"x+{TOKEN}@shop.example",), None),
        ((f"ca\u017fe+{TOKEN}@shop.example",), None),  # a long s, which is an s in capitals
        ((f"case+\u017f{TOKEN[1:]}@shop.example",), None),
        ((f"case+{TOKEN}",), None),
        ((), None),
    ],
)
def test_tokens_are_found_in_our_own_recipients_only(
    recipients: tuple[str, ...], found: AddressedToken | None
) -> None:
    assert find_token(recipients, "shop.example") == found


@pytest.mark.parametrize(
    ("written", "holds"),
    [
        ("{code}", True),
        ("Yes, it was me: {code}.", True),
        ("Yes: {head} {rest}", True),
        ("{head}-{rest}", True),
        ("{head}\u202f{rest}", True),
        ("{wide}", True),
        ("Please answer this mail with the code {code}, so that we know it is you.", False),
        ("Ticket 17: “> answer this\n> mail with the\n> code {code}, so …”", False),
        ("With the code {code}, as you asked.", True),
        ("Hiermit bestätige ich das mit dem Code {code}.", True),
        ("It is not {code}1", False),
        ("1{code}", False),
        ("{head}", False),
        ("Yes, it was me", False),
        ("", False),
    ],
)
def test_the_code_of_a_confirmation_is_found_as_people_copy_it(written: str, holds: bool) -> None:
    code = confirm_code(TOKEN, "mail_1")
    wide = code.translate({ord("0") + digit: ord("０") + digit for digit in range(10)})
    text = written.format(code=code, head=code[:3], rest=code[3:], wide=wide)
    assert holds_code(text, code) == holds


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("My kettle\nleaks.", "My kettle leaks."),
        ("Do n0t refund W1001, please", "Do … refund … please"),
        ("4 5 6 My kettle leaks 7 8", "… My kettle leaks …"),
        (
            "one two three four five six " * 3,
            "one two three four five six one two three four five six …",
        ),
        ("a b c d e f g h i j k l m", "a b c d e f g h i j k l m"),
        ("1) 2) 3) 4) 5) 6) 7) 8) 9) 10) 11) 12) Please refund it", "… Please refund it"),
        ("https://evil.example evil.example me@evil.example 0800", ""),
        ("Grüße, ça va? Łódź – it’s Jean-Luc!", "Grüße, ça va? Łódź … it’s Jean-Luc!"),
        ("", ""),
    ],
)
def test_the_first_words_of_a_mail_are_its_own_and_say_where_some_are_left_out(
    written: str, shown: str
) -> None:
    assert first_words(written) == shown


def test_every_confirm_mail_has_a_code_of_six_digits() -> None:
    codes = {confirm_code(TOKEN, f"mail_{number}") for number in range(500)}
    assert {len(code) for code in codes} == {6}
    assert len(codes) > 490


@pytest.mark.parametrize(
    ("body", "new_text", "rest"),
    [
        ("Hello", "Hello", ""),
        ("Broken.\n-- \nOrder: W1001", "Broken.", "--\nOrder: W1001"),
        ("a\n> b\na", "a", "> b\na"),
        ("", "", ""),
    ],
)
def test_what_was_left_out_of_a_mail_is_known(body: str, new_text: str, rest: str) -> None:
    assert [line.strip() for line in left_out(body, new_text).splitlines()] == rest.splitlines()


# --- language -------------------------------------------------------------------------------------


WRITTEN = {
    "en": [
        "Where is my order?",
        "The kettle leaks. Refund it please.",
        "I want my money back",
        "I'd like to cancel W3004, a friend gave me a chess set.",
    ],
    "de": [
        "Mein Wasserkocher ist kaputt. Bitte erstatten Sie das Geld.",
        "Wo bleibt meine Bestellung W1001?",
        "Guten Tag, der Artikel kam defekt an.\n\nSent from my iPhone",
        "Laut Beschluss des Gerichts: Der Kaufpreis der Werkbank ist heute auszuzahlen.",
    ],
    "fr": [
        "Où est mon colis ?",
        "La bouilloire est arrivée cassée, je voudrais un remboursement.",
        "Je n'ai rien reçu",
    ],
    "es": [
        "¿Dónde está mi pedido?",
        "El hervidor llegó roto y quiero un reembolso",
        "Quiero devolver la tetera",
        "¿Dan cursos de cocina en la tienda?",
    ],
    "it": [
        "Il mio ordine non è arrivato, vorrei il rimborso.",
        "Dov'è il mio pacco?",
        "Avete una tessera fedeltà a punti?",
        "Buongiorno, ho ricevuto l'articolo rotto.",
    ],
    "nl": [
        "Hoi, mijn bestelling is kapot aangekomen, ik wil het geld terug.",
        "Waar blijft mijn pakket?",
        "Dank u wel voor uw snelle antwoord.",
    ],
    "pt": [
        "Olá, o meu pedido não chegou, por favor devolvam o dinheiro.",
        "Onde está a minha encomenda?",
        "Boa tarde, gostaria de devolver a chaleira.",
    ],
    "pl": [
        "Gdzie jest moja paczka?",
        "Dzień dobry, zamówienie W1001 nie dotarło.",
        "Proszę o zwrot pieniędzy.",
    ],
}
# Too short, in two languages at once, or in a language that has no catalogue.
NOT_TOLD = [
    "",
    "W1001",
    "One of these: W1001, W1002, W1101.",
    "Ok, danke!",
    "Kettle kaputt, refund?",
    "Dobrý den, vraťte mi prosím peníze.",
    "Hej, min vattenkokare är trasig och jag vill ha pengarna tillbaka",
    "返金してください。",
]


@pytest.mark.parametrize(
    ("language", "text"), [(each, text) for each, texts in WRITTEN.items() for text in texts]
)
def test_a_language_that_our_mails_are_written_in_is_found(language: str, text: str) -> None:
    assert find_language(text) == language


@pytest.mark.parametrize("text", NOT_TOLD)
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    assert find_language(text) is None


# --- conversation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minutes", "tripped"),
    [
        ([], False),
        ([0], False),
        ([0, 1], False),
        ([0, 1, 2], True),
        ([2, 0, 1], True),
        ([0, 0, 0], True),
        ([0, 30, 59], True),
        ([0, 30, 60], False),
        ([0, 59, 60, 118], True),
        ([0, 30, 60, 90, 120], False),
        ([0, 600, 601, 602, 1400], True),
    ],
)
def test_three_within_any_hour_blow_a_loop_guard_of_three(
    minutes: list[int], tripped: bool
) -> None:
    times = [NOW + timedelta(minutes=minute) for minute in minutes]
    assert is_loop(times, 3) is tripped


def test_a_loop_guard_of_one_blows_at_the_first() -> None:
    assert is_loop([NOW], 1)
    assert not is_loop([], 1)


# --- webhook --------------------------------------------------------------------------------------


HERE = int(NOW.timestamp())
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("age", "hours", "fresh"),
    [
        (0, 24, True),
        (DAY, 24, True),
        (DAY + 1, 24, False),
        (DAY + 1, 96, True),
        (4 * DAY, 96, True),
        (4 * DAY + 1, 96, False),
        (-3600, 24, True),
        (-3601, 24, False),
        (-3601, 96, False),
    ],
)
def test_a_request_is_fresh_for_some_hours_and_not_before_its_time(
    age: int, hours: int, fresh: bool
) -> None:
    assert age_seconds(str(HERE - age), NOW) == age
    assert is_fresh(str(HERE - age), NOW, hours) is fresh


@pytest.mark.parametrize(
    "timestamp",
    ["", " ", "now", "-1", "+1", f"{HERE}.0", f" {HERE}", "1e9", "٣", "²", "9" * 13, "9" * 5_000],
)
def test_what_is_no_timestamp_is_never_fresh(timestamp: str) -> None:
    assert age_seconds(timestamp, NOW) is None
    assert not is_fresh(timestamp, NOW)
