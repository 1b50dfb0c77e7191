"""Thread headers of answers, and tokens in recipient addresses."""

from __future__ import annotations

from typing import Any

import pytest

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
    holds_confirm_code,
    left_out,
)
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
    code = confirm_code(TOKEN)
    wide = code.translate({ord("0") + digit: ord("０") + digit for digit in range(10)})
    text = written.format(code=code, head=code[:3], rest=code[3:], wide=wide)
    assert holds_confirm_code(text, TOKEN) == holds


def test_every_token_has_a_code_of_six_digits() -> None:
    codes = {confirm_code(f"{TOKEN}{number}") for number in range(500)}
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
