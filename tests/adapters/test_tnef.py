"""The text inside what Outlook sends as `winmail.dat`."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.tnef import TEXT_MAX_BYTES, TnefText, read_tnef
from tests.adapters.tnef_files import (
    body,
    compressed_rtf,
    html,
    named,
    number,
    properties,
    rtf_stream,
    unicode_text,
    winmail,
)
from tests.growth import assert_linear

PLAIN_RTF = rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\pard My kettle is broken.\par It smells of fish.}"
HTML_RTF = (
    rb"{\rtf1\ansi\ansicpg1252\fromhtml1 \deff0{\fonttbl{\f0\fswiss Arial;}}"
    rb"{\*\htmltag64 <p>}\htmlrtf {\htmlrtf0 Mein K\'f6chel \u8364?\htmlrtf\par}\htmlrtf0 {\*\htmltag72 </p>}}"
)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (winmail(body("My kettle is broken.\r\nAda")), TnefText("My kettle is broken.\nAda")),
        (winmail(properties(unicode_text("Mon café"))), TnefText("Mon café")),
        (winmail(properties(html(b"<p>Broken</p>"))), TnefText(html=b"<p>Broken</p>")),
        (
            winmail(properties(number(0x0E07, 3), named("Keywords", "x"), unicode_text("Broken"))),
            TnefText("Broken"),
        ),
        (
            winmail(properties(compressed_rtf(PLAIN_RTF))),
            TnefText("My kettle is broken.\nIt smells of fish."),
        ),
        (
            winmail(properties(compressed_rtf(HTML_RTF))),
            TnefText(html="<p>Mein Köchel €</p>".encode()),
        ),
    ],
)
def test_the_text_is_read(file: bytes, text: TnefText) -> None:
    assert read_tnef(file) == text


def test_a_stream_refers_to_the_dictionary_that_it_starts_with() -> None:
    # MS-OXRTFCP section 3.1: {\\rtf1\\ansi\\ansicpg1252\\pard hello world}
    example = "03000a00726370673132354232 0af320 68656c 0900 2062 7705b0 6c647d 0a800fa0"
    found = read_tnef(winmail(properties(rtf_stream(bytes.fromhex(example), 43))))
    assert found == TnefText("hello world")


@pytest.mark.parametrize("length", [0, 3, 9, 20, 40])
def test_a_file_that_was_cut_off_gives_what_was_read_before(length: int) -> None:
    whole = winmail(body("My kettle is broken."), properties(html(b"<p>Broken</p>")))
    assert read_tnef(whole[:-length] if length else whole).plain == "My kettle is broken."


def test_what_is_no_such_file_has_no_text() -> None:
    assert read_tnef(b"PK\x03\x04" + bytes(100)) == TnefText()


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    read_tnef(winmail(data))
    read_tnef(winmail(properties(data)))
    read_tnef(winmail(properties(rtf_stream(data, 10))))


@pytest.mark.parametrize(
    "piece", [b"{", b"}", b"\\", b"\\'e9", b"\\u1 ", b"{\\*\\htmltag1 <p>}a", b"\\htmlrtf "]
)
def test_hostile_rtf_takes_linear_time(piece: bytes) -> None:
    assert_linear(lambda rtf: read_tnef(winmail(properties(compressed_rtf(rtf)))), piece, 20_000)


def test_a_stream_that_grows_is_cut() -> None:
    # Each reference of two bytes writes seventeen.
    data = (b"\xff" + b"\x00\x0f" * 8) * 40_000
    begun = time.process_time()
    found = read_tnef(winmail(properties(rtf_stream(data, 10**9))))
    assert len(found.plain) <= TEXT_MAX_BYTES
    assert time.process_time() - begun < 5
