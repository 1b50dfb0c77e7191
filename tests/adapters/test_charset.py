"""Bytes become text whatever the charset says."""

from __future__ import annotations

from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.headers import clean, decode
from tests.growth import assert_linear


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
