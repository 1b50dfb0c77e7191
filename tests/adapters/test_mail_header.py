"""Header blocks: fields, encoded words, parameters, ids and dates as real programs write them."""

from __future__ import annotations

from datetime import UTC, datetime
from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.address_list import Mailbox, parse_addresses
from mailagent.adapters.mime.dmarc import organisational_domain
from mailagent.adapters.mime.headers import (
    clean,
    decode,
    decode_words,
    parse_block,
    parse_date,
    parse_ids,
    parse_message_id,
    parse_parameters,
)
from mailagent.adapters.mime.multipart import Span
from tests.growth import assert_linear


def block(source: bytes) -> tuple[dict[str, tuple[str, ...]], bytes]:
    headers, body, _ = parse_block(source, Span(0, len(source)))
    return dict(headers), source[body:]


@pytest.mark.parametrize(
    ("source", "headers", "body"),
    [
        (b"A: 1\nb: 2\n\nbody", {"a": ("1",), "b": ("2",)}, b"body"),
        (b"A: 1\r\nA: 2\r\n\r\nbody", {"a": ("1", "2")}, b"body"),
        (b"A: 1\n  and\n\tmore\n\nbody", {"a": ("1 and more",)}, b"body"),
        (b"A : 1\n\nbody", {"a": ("1",)}, b"body"),
        (b"A: f\xc3\xbcr\nB: f\xfcr\n\n", {"a": ("für",), "b": ("für",)}, b""),
        (
            b"A: 1\nThe blank line is missing.\nSo what?",
            {"a": ("1",)},
            b"The blank line is missing.\nSo what?",
        ),
        (b"A: 1\nFrom ada Sat Jan  1\nB: 2\n\nbody", {"a": ("1",), "b": ("2",)}, b"body"),
        (b"\nbody", {}, b"body"),
        (b"just text", {}, b"just text"),
        (b"", {}, b""),
    ],
)
def test_fields_end_where_the_body_begins(
    source: bytes, headers: dict[str, tuple[str, ...]], body: bytes
) -> None:
    assert block(source) == (headers, body)


def test_endless_headers_are_cut_and_the_body_is_still_found() -> None:
    headers, body = block(b"X: y\n" * 50_000 + b"\nbody")
    assert body == b"body"
    assert len(headers["x"]) < 2_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Broken kettle", "Broken kettle"),
        ("=?utf-8?Q?f=C3=BCr_dich?=", "für dich"),
        ("=?UTF-8?B?ZsO8cg==?=", "für"),
        ("=?iso-8859-1*de?q?f=FCr?=", "für"),
        ("a =?utf-8?q?b?= c", "a b c"),
        ("=?utf-8?q?a?= =?utf-8?q?b?=", "ab"),
        ("=?utf-8?q?a?=\n =?iso-8859-1?q?=FC?=", "aü"),
        ("=?utf-8?b?ZsM=?= =?utf-8?b?vHI=?=", "für"),  # a character split between two words
        ("=?utf-8?b?ZsO8cg?=", "für"),  # padding is missing
        ("=?utf-8?q?what?is this?=", "what?is this"),
        ("=?no-such?q?=FC?=", "ü"),
        ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
        ("=?utf-8?q?never closed", "=?utf-8?q?never closed"),
        ("a=?utf-8?q?b?=c", "abc"),
        ("two\r\n lines", "two lines"),
    ],
)
def test_encoded_words_are_decoded(value: str, expected: str) -> None:
    assert decode_words(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('text/plain; charset="utf-8"', {"charset": "utf-8"}),
        ("text/plain; Charset = utf-8 ; format=flowed", {"charset": "utf-8", "format": "flowed"}),
        ("x; name*=UTF-8''f%C3%BCr%20dich.txt", {"name": "für dich.txt"}),
        ("x; name*0*=iso-8859-1'de'f%FC; name*1=r.txt", {"name": "für.txt"}),
        ("x; name*1=b; name*0=a", {"name": "ab"}),
        ('x; name="=?utf-8?q?f=C3=BCr?="', {"name": "für"}),
        ('x; name="a;b\\"c"', {"name": 'a;b"c'}),
        ("x; a=1; a=2", {"a": "1"}),
        ('x; name="never closed', {"name": "never closed"}),
        ("x;;; =; a", {}),
    ],
)
def test_parameters_are_put_together(value: str, expected: dict[str, str]) -> None:
    assert parse_parameters(value)[1] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<a@x.example> <b@x.example>", ("a@x.example", "b@x.example")),
        ("<a@x.example>,<b@x.example>", ("a@x.example", "b@x.example")),
        ("<a@x.example><a@x.example>", ("a@x.example",)),
        ("a@x.example b@x.example", ("a@x.example", "b@x.example")),
        ("<a@x.example> broken <b@x", ("a@x.example",)),
        ("<a @x.example>", ("a@x.example",)),
        ("<ä@x.example>", ()),
        ("Ada's mail of Monday", ()),
    ],
)
def test_ids_are_read_from_malformed_references(value: str, expected: tuple[str, ...]) -> None:
    assert parse_ids({"references": (value,)}, "references") == expected


def test_of_very_many_references_the_first_and_the_last_are_kept() -> None:
    ids = parse_ids({"references": (" ".join(f"<{n}@x>" for n in range(500)),)}, "references")
    assert (ids[0], ids[-1], len(ids)) == ("0@x", "499@x", 100)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<m1@example.com>", "m1@example.com"),
        ("m1@example.com", "m1@example.com"),
        (" <m1 @example.com> (a comment)", "m1@example.com"),
        ("<no-at-sign>", "no-at-sign"),
        ("", None),
        ("<>", None),
        ("<mü@example.com>", None),
        ("<" + "x" * 1_100 + ">", None),
    ],
)
def test_message_ids_are_bare(value: str, expected: str | None) -> None:
    assert parse_message_id({"message-id": (value,)}) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Fri, 20 Nov 2026 11:00:00 +0100", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("20 Nov 2026 10:00:00 -0000", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("yesterday", None),
        ("Fri, 31 Feb 2026 11:00:00 +0100", None),
        ("Fri, 20 Nov 2026 11:00:00 +9999999999", None),
        ("", None),
    ],
)
def test_dates_become_utc(value: str, expected: datetime | None) -> None:
    assert parse_date(value) == expected


@given(st.binary())
def test_no_bytes_raise(source: bytes) -> None:
    block(source)


@given(st.text())
def test_no_value_raises(value: str) -> None:
    decode_words(value)
    parse_parameters(value)
    parse_ids({"x": (value,)}, "x")
    parse_message_id({"message-id": (value,)})
    parse_date(value)


@pytest.mark.parametrize(
    "piece",
    [
        "=?a?q?",
        "=?utf-8?q?=?= ",
        "=?",
        "?=",
        ";a=",
        ';a="',
        ";a*0*=''",
        "<a@",
        "@@<",
        "<",
        "\\",
        "% ",
    ],
)
def test_hostile_values_take_linear_time(piece: str) -> None:
    def read(value: str) -> None:
        decode_words(value)
        parse_parameters(value)
        parse_ids({"x": (value,)}, "x")

    assert_linear(read, piece, 5_000)


# --- address list ---------------------------------------------------------------------------------


def one(name: str, address: str) -> list[Mailbox]:
    return [Mailbox(name, address)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Ada <ada@example.com>", one("Ada", "ada@example.com")),
        ("ada@example.com", one("", "ada@example.com")),
        ("Ada Example<Ada@Example.com>", one("Ada Example", "ada@example.com")),
        ('"Example, Ada" <ada@example.com>', one("Example, Ada", "ada@example.com")),
        ("Example, Ada <ada@example.com>", one("Ada", "ada@example.com")),
        ('"\\"Ada\\"" <ada@example.com>', one('"Ada"', "ada@example.com")),
        ("=?utf-8?q?J=C3=BCrgen=2C_X?= <j@example.net>", one("Jürgen, X", "j@example.net")),
        ("ada@example.com (Ada)", one("", "ada@example.com")),
        ("Ada (of (London)) <ada@example.com>", one("Ada", "ada@example.com")),
        ('"ada@example.com" <ada@example.com>', one("ada@example.com", "ada@example.com")),
        ("ada@example.com <ada@example.com>", one("ada@example.com", "ada@example.com")),
        ("<mailto:ada@example.com>", one("", "ada@example.com")),
        ("<@relay.example:ada@example.com>", one("", "ada@example.com")),
        (
            "Team: Ada <ada@example.com>, grace@example.org;",
            [Mailbox("Ada", "ada@example.com"), Mailbox("", "grace@example.org")],
        ),
        ("undisclosed-recipients:;", []),
        ("MAILER-DAEMON", []),
        ("<>", []),
        ("", []),
    ],
)
def test_plain_fields_are_read(value: str, expected: list[Mailbox]) -> None:
    assert list(parse_addresses(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "ada@example.com <mallory@evil.example>",
        "ada@example.com, <mallory@evil.example>",
        "<ada@example.com> <mallory@evil.example>",
        "<mallory@evil.example> ada@example.com",
        "mallory@evil.example:<ada@example.com>",
        '"Ada <ada@example.com>, <mallory@evil.example>',
        "Ada (<ada@example.com>, <mallory@evil.example>",
        "ada@example.com mallory@evil.example",
        '"x\\" <ada@example.com>',
        "Ada <ada@example.com",
        "<ada@example.com>x",
        "<ada(x)@example.com>",
    ],
)
def test_fields_that_can_be_read_in_two_ways_prove_nothing(value: str) -> None:
    found = parse_addresses(value)
    assert len(found) != 1 or not found[0].plain


def test_a_display_name_is_never_the_address() -> None:
    assert list(parse_addresses('"help@shop.example" <mallory@evil.example>')) == one(
        "help@shop.example", "mallory@evil.example"
    )


@given(st.text())
def test_no_text_raises(value: str) -> None:
    parse_addresses(value)


@pytest.mark.parametrize(
    "piece",
    ["(", ")", "<", '"', '\\"', '"\\', ",", "a@b,", "<a@b>", ":", "a@b:", '( "', "<(@", ";", "a"],
)
def test_hostile_fields_take_linear_time(piece: str) -> None:
    assert_linear(parse_addresses, piece, 5_000)
    assert_linear(lambda text: parse_addresses("\\" + text), piece, 5_000)


# --- charset --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "charset", "expected"),
    [
        (b"pidi\xa2", "cp850", "pidió"),
        (b"caf\xe9", "iso-8859-1", "café"),
        (b"it\x92s \x85", "windows-1252", "it’s …"),
        (b"it\x92s", "ISO-8859-1", "it’s"),  # as browsers read it
        (b"it\x92s", "us-ascii", "it’s"),
        (b"f\xc3\xbcr", "us-ascii", "für"),
        (b"f\xc3\xbcr", None, "für"),
        (b"f\xfcr", None, "für"),
        (b"f\xfcr", "utf-8", "für"),
        (b"f\xc3\xbcr it\x92s", "utf-8", "für it’s"),
        (b"f\xfcr", "no-such-charset", "für"),
        (b"f\xfcr", "", "für"),
        (b"f\xfcr", "zlib", "für"),
        (b"f\xfcr", "unicode_escape", "für"),
        (b"x\\u0041", "raw_unicode_escape", "x\\u0041"),
        ("返金".encode("iso2022_jp"), "ISO-2022-JP", "返金"),
        ("返金".encode("cp932"), "Shift_JIS", "返金"),
        ("退款".encode("gb18030"), "gb2312", "退款"),
        ("환불".encode("cp949"), "ks_c_5601-1987", "환불"),
        ("возврат".encode("koi8_r"), "KOI8-R", "возврат"),
        ("возврат".encode("koi8_u"), "koi8-u", "возврат"),
        ("возврат".encode("cp1251"), '"windows-1251"', "возврат"),
        (b"\xe1\xf0", "iso-8859-8-i", "בנ"),
        (b"\xff\xfeA\x00", "utf-16", "A"),
        (b"\xef\xbb\xbfA", "utf-8", "A"),
        (b"J\xf6rgen", "iso-8859-10", "Jörgen"),
        (b"A\x00B", None, "AB"),
        (b"\xed\xa0\x80", None, "í\xa0€"),  # a lone surrogate is no UTF-8
        (b"\x81\x8d", None, "\x81\x8d"),  # open places of windows-1252
        (b"", None, ""),
    ],
)
def test_declared_then_utf8_then_windows_1252(
    data: bytes, charset: str | None, expected: str
) -> None:
    assert decode(data, charset) == expected


@given(st.binary(), st.text(max_size=50) | st.sampled_from(sorted(aliases)))
def test_no_bytes_and_no_name_raise(data: bytes, charset: str) -> None:
    text = decode(data, charset)
    text.encode("utf-8")
    assert "\x00" not in text


@given(st.binary())
def test_text_without_a_charset_is_utf8_where_it_can_be(data: bytes) -> None:
    try:
        expected = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    assert decode(data, None) == clean(expected)


@pytest.mark.parametrize("piece", [b"\xff", b"a\xff", b"\xc3", b"\xe2\x82", b"+", b"\x1b$B", b"&-"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-7", "iso-2022-jp", "hz", "no-such-charset"])
def test_hostile_bytes_take_linear_time(piece: bytes, charset: str) -> None:
    assert_linear(lambda data: decode(data, charset), piece, 50_000)


# --- organisational domain ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("example.com", "example.com"),
        ("mail.eu.example.com", "example.com"),
        ("shop.example.co.uk", "example.co.uk"),
        ("co.uk", None),
        ("com", None),
        ("ada.github.io", "ada.github.io"),
        ("github.io", None),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", None),
    ],
)
def test_organisations_end_at_the_public_suffix(domain: str, expected: str | None) -> None:
    assert organisational_domain(domain) == expected
