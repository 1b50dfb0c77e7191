"""Card numbers are masked; other long numbers are left alone."""

from __future__ import annotations

import base64
import quopri
from html.entities import html5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.links import Links
from mailagent.adapters.mime.attachment import may_hold_key
from mailagent.domain.mail.redaction import Mention, mask_card_numbers, without_keys
from tests.cast import MONA
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111111111111111", "************1111"),
        ("4111 1111 1111 1111", "**** **** **** 1111"),
        ("4111-1111-1111-1111", "****-****-****-1111"),
        ("4111\u00a01111\u00a01111\u00a01111", "****\u00a0****\u00a0****\u00a01111"),
        ("378282246310005", "***********0005"),
        ("3782 822463 10005", "**** ****** *0005"),
        ("30569309025904", "**********5904"),
        ("4222222222222", "*********2222"),  # 13 digits, the shortest
        ("6304000000000000000", "***************0000"),  # 19 digits, the longest
        ("card:4111111111111111.", "card:************1111."),
        ("Visa4111111111111111", "Visa************1111"),
        ("4111 1111 1111 1111 12/27 123", "**** **** **** 1111 12/27 123"),
        ("order 1001 4111 1111 1111 1111", "order 1001 **** **** **** 1111"),
        ("4111111111111111 1227 123", "************1111 1227 123"),
        (
            "4111 1111 1111 1111 and 5500 0000 0000 0004",
            "**** **** **** 1111 and **** **** **** 0004",
        ),
    ],
)
def test_card_numbers_keep_their_last_four_digits_only(text: str, expected: str) -> None:
    assert mask_card_numbers(text) == expected


@pytest.mark.parametrize(
    "between",
    [
        *"./_,*|\t\n\u2009\u2010\u2011\u2012\u2014\u2212\u3000\u00ad\u200b\u2060\ufeff",
        *("\r\n", " \n", "\n> ", "  ", "   ", ", ", " - ", " \u200b"),
    ],
)
def test_card_numbers_are_masked_whatever_stands_between_their_groups(between: str) -> None:
    for hidden, last in ((["4111", "1111", "1111"], "1111"), (["2223", "0031", "2200"], "3222")):
        card = between.join([*hidden, last])
        masked = between.join(["****"] * 3 + [last])
        assert mask_card_numbers(f"card {card} please") == f"card {masked} please"
    amex = between.join(["3782", "822463", "10005"])
    assert mask_card_numbers(amex) == between.join(["****", "******", "*0005"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111 1111\n1111 1111", "**** ****\n**** 1111"),
        ("4111.1111.1111.1111, 12/27, 123", "****.****.****.1111, 12/27, 123"),
        ("1001, 4111, 1111, 1111, 1111", "1001, ****, ****, ****, 1111"),
        ("4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "*,*,*,*,*,*,*,*,*,*,*,*,1,1,1,1"),
        ("4111/1111/1111/1111, 5500/0000/0000/0004", "****/****/****/1111, ****/****/****/0004"),
        ("4111 1111 1111 1111\n1234 5678", "**** **** **** 1111\n1234 5678"),
        ("４１１１１１１１１１１１１１１１", "************１１１１"),
        ("４１１１ １１１１ １１１１ １１１１", "**** **** **** １１１１"),
        ("٤١١١١١١١١١١١١١١١", "************١١١١"),
        ("4111١١١١1111١١١١", "************١١١١"),
        ("4111111111111111\u00b2", "************1111\u00b2"),  # a footnote is no digit
    ],
)
def test_card_numbers_are_masked_as_people_write_them(text: str, expected: str) -> None:
    assert mask_card_numbers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",  # the Luhn sum is off by one
        "411111111111",  # 12 digits
        "42222222222220000000",  # 20 digits
        "orders 1001 1002 1003 1004 1005",
        "order W1234567890123",
        "call +49 30 1234567 before 17:30",
        "4111    1111    1111    1111",  # four spaces
        "4111\n\n1111\n\n1111\n\n1111",  # paragraphs
        "4111 1111\n\n1111 1111",
        "4111,1111,1111,1112",  # the Luhn sum is off by one
        "1111, 1111, 1111, 1117",  # no network begins with 1, whatever the sum
        "2019\n2020\n2021\n2026",  # nor with 20
        "orders 1001, 1002, 1003, 1004",
        "orders 1001\n1002\n1003\n1004\n1005",
        "41111111.11111111",  # not the groups of a card
        "411111,1111111111",
        "3782.8224.6310.005",
        "49.99\n12.50\n1.499,00\n249.00",
        "call +49.30.1234567, +49/30/7654321",
        "IBAN DE89 3704 0044 0532 0130 00",
        "tracking 1Z 999 AA1 01 2345 6784",
        "2026-11-20, 2026/11/21, 20.11.2026",
        "paid 1,499.00 USD on 2026-11-20",
        "",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert mask_card_numbers(text) == text


@given(st.text(alphabet="0123456789 -x,\n\u0664\u200b", max_size=60))
def test_masking_changes_digits_only_and_settles(text: str) -> None:
    masked = mask_card_numbers(text)
    assert len(masked) == len(text)
    assert all(
        new == old or (new == "*" and old.isdecimal())
        for new, old in zip(masked, text, strict=True)
    )


@given(st.text())
def test_no_text_raises(text: str) -> None:
    mask_card_numbers(text)


@pytest.mark.parametrize(
    "piece",
    [
        *("4", "4 ", "4111 ", "4111 1111 1111 1111 ", "1-", " 4"),
        *("4, ", "4111,\n", "4111,,,", ",", "\n", "\u0664", "3782 \n822463", "4111.1111.1111.111"),
    ],
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    assert_linear(mask_card_numbers, piece, 20_000)


# --- keys -----------------------------------------------------------------------------------------


LINK = Links(["a key"], "https://shop.example").sign_approval("approval_01HXYZ", MONA)
TOKEN = LINK.rpartition("/")[2]
SECRET = "aB3-_" * 8 + "xyz"
START, END = TOKEN[:40], TOKEN[40:]
LOGIN = f"https://shop.example/ops/login/{SECRET}"


def filtered(word: str) -> str:
    """Write a word as a mail filter does in its own addresses."""
    return word.replace("-", "-2D").replace("_", "-5F")


def logs_in(word: str) -> bool:
    return word == SECRET


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("see http://shop.example/approvals/abcDEF123._-x now", "see http://shop.example/approvals/… now"),
        ("https://x.example/ops/login/abcdefgh12345", "https://x.example/ops/login/…"),
        ("?url=http%3A%2F%2Fx%2Fapprovals%2Fabcdefghij&d=1", "?url=http%3A%2F%2Fx/approvals/…&d=1"),
        (f"https://f.example/?u=https-3A__h_approvals_{filtered(TOKEN)}&d=1", "https://f.example/?u=https-3A__h_approvals_…&d=1"),
        (f"/approvals/\n{TOKEN}\nBye", "/approvals/\n…\nBye"),
        (f"/appro\u200bvals/{TOKEN[:9]}\u200b{TOKEN[9:]}", "/appro\u200bvals/…"),
        (f"&#47;approvals&#47;{TOKEN}.", "&#47;approvals&#47;…"),
        (f"it is {TOKEN}, Mona", "it is …, Mona"),
        (f"> {START} \r\n> {END}\r\n> Please decide", "> …\r\n> Please decide"),
        (f"{START}=\n{END}\nPlease", "…\nPlease"),
        (f"{TOKEN[:-9]}\n{TOKEN[-9:]} ok", "… ok"),
        (f"{LOGIN} now", "https://shop.example/ops/login/… now"),
        (f"https-3A__h_ops_login_{filtered(SECRET)}&d", "https-3A__h/ops/login/…&d"),
        (f"/ops/login/\n{SECRET}\nBye", "/ops/login/…\nBye"),
        (f"use {SECRET}.", "use …"),
        (f"{SECRET[:20]}\n> {SECRET[20:]}\nbye", "…\nbye"),
        ("our approvals/decisions are slow", "our approvals/decisions are slow"),
        ("/approvals/\nPlease decide", "/approvals/\nPlease decide"),
        ("/ops/login", "/ops/login"),
        (SECRET.lower(), SECRET.lower()),
        ("the kettle broke\nafter a week\n" * 20, "the kettle broke\nafter a week\n" * 20),
    ],
    ids=[
        *("approval", "login", "wrapped", "filter", "broken_before", "no_width", "html", "bare"),
        *("quoted", "soft", "broken_late", "secret", "filtered_secret", "secret_below"),
        *("bare_secret", "broken_secret", "words", "words_below", "page", "not_a_secret", "prose"),
    ],
)  # fmt: skip
def test_words_by_which_one_acts_as_somebody_else_are_cut(written: str, kept: str) -> None:
    assert without_keys(written, logs_in) == kept


def test_a_token_that_was_worth_compressing_is_cut() -> None:
    long_address = f"{'mona.' * 20}@shop.example"
    token = Links(["k"], "").sign_approval("approval_1", long_address).rpartition("/")[2]
    assert token.startswith(".eJ")
    assert without_keys(f"see {token}\nBye") == "see …\nBye"
    assert may_hold_key(token.encode(), None)


@pytest.mark.parametrize(
    "data",
    [
        LINK.encode(),
        f"<a href='{LINK}'>decide</a>".encode(),
        f"<p>{START}<wbr>{END}</p>".encode(),
        TOKEN.replace("W", "&#87;").encode(),
        TOKEN.replace("W", "&#x00000057").encode(),
        f"&copy{LINK}".replace("/", "&sol;").replace(".", "&period;").encode(),
        LOGIN.replace("_", "&lowbar;").replace("/", "&#0047").encode(),
        f"{START[:8]}&zwnj;{START[8:]}&shy{END}".encode(),
        f"{START[:8]}\xad{START[8:]}&shy;{END}".encode("latin-1"),
        f"&quot{SECRET}&quot".encode(),
        f"&eacute{SECRET}&nbsp;".encode(),
        f"&amp;amp;{'&a' * 50_000}{LINK.replace('/', '&#x2F;')}".encode(),
        quopri.encodestring(f"{'x' * 50}{LINK}".encode()),
        b"boundary=" + b"a" * 25 + b"\n" + base64.encodebytes(b"Dear Max, " + LINK.encode()),
        base64.b64encode(base64.encodebytes(LINK.encode())),
        LINK.encode("utf-16"),
        f"{START}\r\n> {END}".encode(),
        LOGIN.encode(),
        f"word: {SECRET}\n".encode(),
    ],
    ids="plain tag html entity hex named login_named unseen unseen_latin quoted_secret word_before many"
    " quoted base64 twice utf16 lines login secret".split(),
)
def test_a_file_with_such_a_word_is_found_however_it_is_encoded(data: bytes) -> None:
    assert may_hold_key(data, logs_in)


def test_a_link_with_a_reference_for_any_of_its_characters_is_found() -> None:
    for letter in sorted(set(LOGIN)):
        names = [f"&{name}" for name, value in html5.items() if value == letter]
        code = ord(letter)
        for written in (*names, f"&#{code};", f"&#{code:07};", f"&#x{code:X};", f"&#X{code:05x};"):
            assert may_hold_key(LOGIN.replace(letter, written).encode(), logs_in), written


def test_a_secret_is_found_behind_any_reference_without_a_semicolon() -> None:
    for name in html5:
        if not name.endswith(";"):
            assert may_hold_key(f"&{name}{SECRET}".encode(), logs_in), name


@pytest.mark.parametrize(
    "data",
    [
        b"&#" + b"9" * 5_000,  # Python refuses to parse longer numbers
        b"&#1114112;&#x110000;&#xD800;&#xffffffff;&#;&#x;&#0;&;&",
        b"&a" * 5_000_000,
    ],
    ids="digits codes beginnings".split(),
)
def test_references_that_stand_for_nothing_are_read_over(data: bytes) -> None:
    assert not may_hold_key(data, logs_in)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"My kettle & I <b>see</b> /approvals/ and /ops/login = nothing\n",
        base64.encodebytes(bytes(range(256)) * 40),
        b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40,
    ],
    ids="empty text base64 photo".split(),
)
def test_other_files_are_not(data: bytes) -> None:
    assert not may_hold_key(data, logs_in)


# --- mention --------------------------------------------------------------------------------------


DA, ALIAS = "da@example.com", "erased-1@erased.invalid"


@pytest.mark.parametrize(
    "text",
    [
        DA,
        "Mail of DA@Example.com.",
        "From: 'da@example.com' (Da)",
        "<da@example.com>: mailbox full",
        "mailto:da@example.com?subject=x",
        "https://shop.example/ops/customers/da@example.com",
        "bounce-1=da@example.com",
        "*da@example.com*, da@example.com - and more",
        "an odd one: da@example.com_",
        "> Ask da@example[.]com.",
    ],
)
def test_a_whole_address_is_found_and_replaced(text: str) -> None:
    mention = Mention(DA)
    assert mention.is_in(None, "", text)
    assert mention.core in text.lower()
    assert "da@" not in mention.replaced(text, ALIAS).lower()
    assert ALIAS in mention.replaced(text, ALIAS)


@pytest.mark.parametrize(
    "text",
    [
        "ada@example.com",
        "1da@example.com",
        "éda@example.com",
        "a.da@example.com",
        "a+da@example.com",
        "a_da@example.com",
        "a-da@example.com",
        "o'da@example.com",
        "da@example.com.au",
        "da@example.community",
        "da@example.com-shop.example",
        "da@exampleXcom",
        "a[.]da@example[.]com",
        "da@example[.]com[.]au",
    ],
)
def test_a_longer_address_is_somebody_elses(text: str) -> None:
    mention = Mention(DA)
    assert not mention.is_in(text)
    assert mention.replaced(text, ALIAS) == text


def test_capitals_outside_of_ascii_make_another_address() -> None:
    assert not Mention("kim@example.com").is_in("\u212aim@example.com")  # the Kelvin sign


def test_an_address_is_found_as_html_spells_it() -> None:
    text = "<td>o&#39;da@example.com</td>"
    assert not Mention(DA).is_in(text)
    assert Mention("o'da@example.com").replaced(text, ALIAS) == f"<td>{ALIAS}</td>"


def test_json_is_searched_to_its_bottom() -> None:
    body = {"to": [f"<{DA}>", "ada@example.com"], DA: {"paid": 1, "note": None}}
    assert Mention(DA).replaced_within(body, ALIAS) == {
        "to": [f"<{ALIAS}>", "ada@example.com"],
        ALIAS: {"paid": 1, "note": None},
    }
