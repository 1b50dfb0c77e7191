"""Whatever the bytes: thanked for, kept whole, and never an exception."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mailagent.domain.mail.message import Identity, MailKind, MailStatus
from tests.adapters.parse_requests import CONTENT_TYPE, common_fields, form, raw_request
from tests.harness import Harness, open_shop
from tests.letters.posting import Outcome, post_request

EXAMPLES = 150

HEAD = b"From: Ada Example <ada@example.com>\nTo: support@shop.example\nSubject: Kettle\n"

# Random bytes alone never get past the first step of a parser.
PIECES = (
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\x00",
        b"\n\n",
        b" ",
        b"\t",
        b":",
        b";",
        b'"',
        b"<",
        b">",
        b"=",
        b"?",
    ),
    *(b"--cut", b"--cut--", b"\n--cut\n", b"\n--xYzZY\n", b"\r\n--xYzZY\r\n", b"\r\n--xYzZY--\r\n"),
    *(b"Content-Type: multipart/mixed; boundary=cut", b"Content-Type: text/html; charset="),
    *(b"Content-Type: message/rfc822", b"Content-Type: message/delivery-status"),
    *(b"Content-Transfer-Encoding: base64", b"Content-Transfer-Encoding: quoted-printable"),
    *(b"Content-Disposition: attachment; filename*0*=utf-8''%ff", b"Subject: =?utf-8?B?/w==?="),
    *(
        b"From: ",
        b"ada@example.com",
        b"Message-ID: <a@b>",
        b"References: <",
        b"Date: ",
        b"=?x?Q?=FF?=",
    ),
    *(b"> ", b"On Thu, Ada wrote:", b"-----Original Message-----", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"<div style='display:none'>", b"<blockquote>", b"<table><tr><td>", b"<!--", b"&#xd800;"),
    *(b"4111 1111 1111 1111", b"\xe2\x80\xae", b"+AGE-", b"\x1b$B"),
)
some_bytes = st.lists(st.sampled_from(PIECES) | st.binary(max_size=40), max_size=30).map(b"".join)

CHARSETS = (
    *("utf-8", "utf-7", "utf-16", "idna", "punycode", "base64_codec", "rot13", "undefined", "zlib"),
    *("unicode_escape", "iso-2022-jp", "hz", "cp65001", "x-user-defined", "..", "\x00", "%s", "ß"),
)
charset_names = (
    st.sampled_from(CHARSETS).map(str.encode)
    | st.text(max_size=40).map(lambda name: name.encode("utf-8", "surrogatepass"))
    | some_bytes
)


@pytest.fixture(scope="module")
def open_door(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Harness]:
    """A shop for all examples: they must not depend on each other."""
    folder = tmp_path_factory.mktemp("properties")
    path = folder / "properties.db"
    shutil.copy(migrated_sqlite, path)
    with open_shop(folder, f"sqlite:///{path}") as shop:
        yield shop


def own_id(*parts: bytes) -> bytes:
    """Return a Message-ID field for these bytes alone: other bytes must never pass for a repetition."""
    return b"Message-ID: <" + sha256(repr(parts).encode()).hexdigest().encode() + b"@letters>\n"


def assert_kept(outcome: Outcome) -> None:
    assert outcome.problems == ()
    assert outcome.code == 200
    assert outcome.whole
    assert outcome.row is not None
    assert MailKind(outcome.row.kind)
    assert Identity(outcome.row.identity)
    assert MailStatus(outcome.row.status)
    assert len(outcome.row.new_text) <= len(outcome.row.body)
    assert "\x00" not in outcome.row.body


@settings(max_examples=EXAMPLES)
@given(body=some_bytes)
@example(body=b"")
def test_any_bytes_as_body(open_door: Harness, body: bytes) -> None:
    assert_kept(post_request(open_door, raw_request(own_id(body) + HEAD + b"\n" + body)))


@settings(max_examples=EXAMPLES)
@given(head=some_bytes, part=some_bytes)
@example(head=b"Content-Type: text/html\n", part=b"")
def test_any_bytes_as_part(open_door: Harness, head: bytes, part: bytes) -> None:
    parts = b"--cut\n\nHello\n--cut\n" + head + b"\n" + part + b"\n--cut--\n"
    mail = own_id(head, part) + HEAD + b"Content-Type: multipart/mixed; boundary=cut\n\n" + parts
    assert_kept(post_request(open_door, raw_request(mail)))


@settings(max_examples=EXAMPLES)
@given(
    name=st.sampled_from(
        (
            *("From", "To", "Subject", "Date", "References", "In-Reply-To", "Content-Type"),
            *("Content-Disposition", "Auto-Submitted", "List-Id", "DKIM-Signature", "X-Loop"),
        )
    ),
    value=some_bytes,
)
@example(name="From", value=b"")
@example(name="Date", value=b"Fri, 99 Nov 2026 99:99:99 +9999")
def test_any_bytes_as_header(open_door: Harness, name: str, value: bytes) -> None:
    field = name.encode() + b": " + value + b"\n"
    mail = own_id(field) + field + HEAD + b"\nMy kettle is broken.\n"
    assert_kept(post_request(open_door, raw_request(mail)))


@settings(max_examples=EXAMPLES)
@given(charset=charset_names, body=some_bytes, html=st.booleans())
def test_any_bytes_as_charset_name(
    open_door: Harness, charset: bytes, body: bytes, html: bool
) -> None:
    kind = b"text/html" if html else b"text/plain"
    word = b"=?" + charset + b"?Q?=FF=00K=E4nnchen?="
    head = b"Content-Type: " + kind + b'; charset="' + charset + b'"\nKeywords: ' + word + b"\n"
    mail = own_id(head, body) + b"Subject: " + word + b"\n" + HEAD + head + b"\n" + body
    assert_kept(post_request(open_door, raw_request(mail)))


@settings(max_examples=EXAMPLES)
@given(
    mode=st.sampled_from(("email", "headers")),
    values=st.dictionaries(
        st.sampled_from(("text", "html", "envelope", "charsets", "dkim", "SPF", "from", "subject")),
        some_bytes,
    ),
)
@example(mode="email", values={"envelope": b'{"to":["\xed\xa0\x80"],"from":null}'})
@example(mode="headers", values={"envelope": b'{"to":["a@b.example"]}', "charsets": b"[]"})
@example(mode="headers", values={"envelope": b"[" * 5_000})
def test_any_bytes_as_fields_of_the_form(
    open_door: Harness, mode: str, values: dict[str, bytes]
) -> None:
    head = own_id(mode.encode(), repr(list(values.items())).encode()) + HEAD
    assert_kept(post_request(open_door, form({**common_fields(), mode: head, **values})))


@settings(max_examples=EXAMPLES)
@given(
    body=some_bytes.filter(bool),  # of nothing, Werkzeug's client makes a form of its own
    content_type=st.sampled_from((CONTENT_TYPE, "text/plain", "multipart/form-data", "")),
)
def test_any_bytes_as_request(open_door: Harness, body: bytes, content_type: str) -> None:
    assert_kept(post_request(open_door, body, content_type))
