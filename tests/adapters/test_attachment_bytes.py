"""The bytes of attachments: the same files as the parsed mail lists, under names that harm nobody."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.attachment import (
    ATTACHMENTS_MAX,
    DOWNLOAD_MAX_BYTES,
    AttachmentBytes,
    content_disposition,
    harmless_name,
)
from mailagent.adapters.sendgrid.inbound import find_attachment
from tests.adapters.multipart import HTML, PHOTO, PLAIN, multipart, part
from tests.adapters.parse_requests import (
    CONTENT_TYPE,
    common_fields,
    form,
    letter,
    parse,
    raw_request,
)
from tests.cast import ADA, SUPPORT

JPEG = b"\xff\xd8" * 50
ATTACHED_MAIL = part("message/rfc822", "Subject: Receipt\n\nPaid with thanks.\n")


def with_head(source: str) -> bytes:
    return raw_request(f"From: {ADA}\nTo: {SUPPORT}\nMessage-ID: <a@b.example>\n{source}")


def find(body: bytes, number: int) -> AttachmentBytes | None:
    return find_attachment(CONTENT_TYPE, body, number)


def base64_file(name: str, data: bytes) -> str:
    return part(
        "application/octet-stream",
        base64.encodebytes(data).decode(),
        "Content-Transfer-Encoding: base64",
        f'Content-Disposition: attachment; filename="{name}"',
    )


@pytest.mark.parametrize(
    "body",
    [
        with_head(multipart("mixed", PLAIN, PHOTO, ATTACHED_MAIL, base64_file("a.bin", b"abc"))),
        with_head(multipart("mixed", PHOTO, multipart("alternative", PLAIN, HTML, boundary="c"))),
        with_head(multipart("alternative", PLAIN, multipart("related", HTML, PHOTO, boundary="c"))),
        with_head(part("text/plain; name=note.txt", "The only text is a file.")),
        with_head(multipart("mixed", part("text/plain; name=a.txt", "said in a file"), PHOTO)),
        with_head(multipart("mixed", ATTACHED_MAIL)),
        with_head(PHOTO),
        raw_request(letter()),
        form(
            {"text": "Hello", "headers": f"From: {ADA}\n", **common_fields()},
            [("attachment1", "../a.jpg", "image/jpeg", JPEG), ("attachment2", "", "x", b"\r\n")],
        ),
    ],
)
def test_the_number_of_a_file_is_that_of_the_parsed_mail(body: bytes) -> None:
    listed = parse(body).attachments
    found = [find(body, number) for number in range(len(listed))]
    assert [(one.name, len(one.data)) for one in found if one] == [
        (file.name, file.size_bytes) for file in listed
    ]
    assert find(body, len(listed)) is None
    assert find(body, -1) is None


def test_the_bytes_are_those_that_were_attached() -> None:
    data = bytes(range(256)) * 40
    message = EmailMessage()
    message["From"], message["To"] = ADA, SUPPORT
    message.set_content("See the file.")
    message.add_attachment(data, maintype="image", subtype="png", filename="Küche.png")
    message.add_attachment("für Ada\n", filename="note.txt")
    body = raw_request(message.as_bytes())
    assert find(body, 0) == AttachmentBytes("Küche.png", data)
    note = find(body, 1)
    assert note is not None
    assert note.data.decode() == "für Ada\n"


def test_the_bytes_of_parsed_mode_are_exact() -> None:
    data = b"\r\n--xYzZ\x00\xff\r\n"
    body = form({"text": "Hi", **common_fields()}, [("attachment1", "a.bin", "a/b", data)])
    assert find(body, 0) == AttachmentBytes("a.bin", data)


def test_an_attached_mail_is_handed_out_whole() -> None:
    found = find(with_head(multipart("mixed", PLAIN, ATTACHED_MAIL)), 0)
    assert found == AttachmentBytes("Receipt.eml", b"Subject: Receipt\n\nPaid with thanks.\n")


@pytest.mark.parametrize(("over", "handed_out"), [(0, True), (1, False)])
@pytest.mark.parametrize("raw", [True, False])
def test_a_file_above_the_limit_is_listed_and_not_handed_out(
    over: int, handed_out: bool, raw: bool
) -> None:
    data = b"x" * (DOWNLOAD_MAX_BYTES + over)
    if raw:
        body = with_head(multipart("mixed", PLAIN, base64_file("big.bin", data)))
    else:
        body = form({"text": "Hi", **common_fields()}, [("attachment1", "big.bin", "a/b", data)])
    assert parse(body).attachments[0].size_bytes == len(data)
    assert (find(body, 0) is not None) is handed_out


@pytest.mark.parametrize("raw", [True, False])
def test_no_more_files_are_listed_or_handed_out_than_the_limit(raw: bool) -> None:
    if raw:
        body = with_head(multipart("mixed", PLAIN, *[base64_file("a", b"a")] * 205))
    else:
        files = [(f"attachment{n}", "a", "a/b", b"a") for n in range(205)]
        body = form({"text": "Hi", **common_fields()}, files)
    assert len(parse(body).attachments) == ATTACHMENTS_MAX
    assert find(body, ATTACHMENTS_MAX - 1) is not None
    assert find(body, ATTACHMENTS_MAX) is None


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("", b""),
        ("application/json", b"{}"),
        (CONTENT_TYPE, b""),
        ("multipart/form-data", with_head(PHOTO)),
        (CONTENT_TYPE, form({}, [("attachment1", "a", "a/b", b"a form without fields")])),
    ],
)
def test_a_request_that_is_no_mail_has_no_files(content_type: str, body: bytes) -> None:
    assert find_attachment(content_type, body, 0) is None


@given(st.binary(), st.integers(-1, 3))
def test_no_bytes_raise(source: bytes, number: int) -> None:
    find_attachment(CONTENT_TYPE, source, number)
    head = b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: x/y\n"
    find(raw_request(head + source + b"\n--b--"), number)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("con", "_con"),
        ("NUL.txt", "_NUL.txt"),
        ("aux .tar.gz", "_aux .tar.gz"),
        ("COM1.jpg", "_COM1.jpg"),
        ("lpt\u00b9", "_lpt\u00b9"),
        ("CONOUT$", "_CONOUT$"),
        ("console.log", "console.log"),
        ("com10.txt", "com10.txt"),
        ("photo.jpg:run.exe", "photo.jpg_run.exe"),
        ('a"b<c>|d?*.png', "a_b_c__d__.png"),
        ("photo.jpg" + " " * 90 + ".exe", "photo.jpg .exe"),
        ("photo.jpg . .", "photo.jpg"),
        ("x" * 199 + ". after the end of it", "x" * 199),
        ("C:\\CON", "_CON"),
    ],
)
def test_names_are_files_on_every_system(name: str, expected: str) -> None:
    assert harmless_name(name) == expected


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("photo.jpg", "attachment; filename=\"photo.jpg\"; filename*=UTF-8''photo.jpg"),
        (
            "Küche 1.png",
            "attachment; filename=\"K_che 1.png\"; filename*=UTF-8''K%C3%BCche%201.png",
        ),
        ("a%22;b.txt", "attachment; filename=\"a_22_b.txt\"; filename*=UTF-8''a%2522%3Bb.txt"),
        ("*1111.jpg", "attachment; filename=\"_1111.jpg\"; filename*=UTF-8''_1111.jpg"),
    ],
)
def test_a_file_is_saved_under_its_name(name: str, header: str) -> None:
    assert content_disposition(name) == header


@given(st.text())
def test_no_name_breaks_out_of_its_header(name: str) -> None:
    header = content_disposition(harmless_name(name))
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    assert header.startswith('attachment; filename="')
