"""Texts and attachments of MIME mails: every structure that programs send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.attachment import harmless_name
from mailagent.adapters.mime.mail_text import MailText, read_text
from mailagent.adapters.mime.multipart import Span
from mailagent.adapters.mime.parser import parse_mime
from mailagent.domain.mail.message import Attachment, shows_nothing
from tests.adapters.multipart import HTML, PHOTO, PLAIN, multipart, part
from tests.growth import assert_linear


def read(source: bytes | str) -> MailText:
    data = source.encode() if isinstance(source, str) else source
    return read_text(parse_mime(data, Span(0, len(data))))


PHOTO_FILE = Attachment("photo.jpg", "image/jpeg", 100)


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("no header at all", "no header at all"),
        ("Subject: x\n\ntext", "text"),
        (PLAIN, "plain"),
        (HTML, "html"),
        (multipart("alternative", PLAIN, HTML), "plain"),
        (multipart("alternative", HTML, PLAIN), "plain"),
        (multipart("alternative", part("text/plain", "  \n"), HTML), "html"),
        (multipart("mixed", PLAIN, PHOTO), "plain"),
        (multipart("mixed", PHOTO, PLAIN), "plain"),
        (multipart("mixed", PLAIN, PHOTO, part("text/plain", "below")), "plain\n\nbelow"),
        (multipart("mixed", part("text/plain", "one"), HTML), "one\n\nhtml"),
        (
            multipart("mixed", multipart("alternative", PLAIN, HTML, boundary="c"), PHOTO),
            "plain",
        ),
        (
            multipart("alternative", PLAIN, multipart("related", HTML, PHOTO, boundary="c")),
            "plain",
        ),
        (multipart("signed", PLAIN, part("application/pgp-signature", "xxx")), "plain"),
        (
            multipart(
                "mixed", part("text/plain", "a=20b", "Content-Transfer-Encoding: quoted-printable")
            ),
            "a b",
        ),
        (part("text/plain", "cGxhaW4=", "Content-Transfer-Encoding: BASE64"), "plain"),
        (part("text/plain", "cGx\nhaW4", "Content-Transfer-Encoding: base64;"), "plain"),
        (part("text/plain", "cGxh\n==\naW4=", "Content-Transfer-Encoding: base64"), "plain"),
        (part("text", "plain"), "plain"),
        (part("text/plain; charset=no-such", "plain"), "plain"),
        (part("multipart/mixed", "no boundary"), "no boundary"),
        (part("multipart/mixed; boundary=b", "never used"), "never used"),
        (part("multipart/mixed; boundary=b", "--b\n\nplain, never closed"), "plain, never closed"),
        (
            part("multipart/mixed; boundary=b", "--b\nplain without a blank line\n--b--"),
            "plain without a blank line",
        ),
        (part("multipart/mixed; boundary=b", "--bb\n\nno\n--b\n\nplain\n--b--"), "plain"),
        (part("text/plain; name=letter.txt", "plain"), "plain"),
        (
            multipart("mixed", part("text/plain", ""), part("text/plain; name=a.txt", "in a file")),
            "in a file",
        ),
        ("Subject: x\n\n", ""),
        ("", ""),
    ],
)
def test_the_text_is_found(source: str, body: str) -> None:
    assert read(source).body == body
    assert read(source.replace("\n", "\r\n")).body == body


def test_line_ends_of_old_macs_are_line_ends() -> None:
    assert read("Subject: x\r\rone\rtwo\r").body == "one\ntwo"


@pytest.mark.parametrize(
    ("source", "attachments"),
    [
        (multipart("mixed", PLAIN, PHOTO), (PHOTO_FILE,)),
        (multipart("related", HTML, PHOTO), (PHOTO_FILE,)),
        (PHOTO, (PHOTO_FILE,)),
        (
            multipart("mixed", PLAIN, part("application/ms-tnef; name=winmail.dat", "xyz")),
            (Attachment("winmail.dat", "application/ms-tnef", 3),),
        ),
        (
            multipart("mixed", PLAIN, part("text/plain; name=a.txt", "xyz")),
            (Attachment("a.txt", "text/plain", 3),),
        ),
        (
            multipart("mixed", PLAIN, part("text/plain", "xyz", "Content-Disposition: attachment")),
            (Attachment("unnamed", "text/plain", 3),),
        ),
        (
            multipart(
                "mixed",
                PLAIN,
                part(
                    "x/y",
                    "=41=42\n",
                    "Content-Transfer-Encoding: quoted-printable",
                    "Content-Disposition: attachment; filename*=utf-8''f%C3%BCr%2F..%2Fdich.pdf",
                ),
            ),
            (Attachment("dich.pdf", "x/y", 3),),
        ),
        (
            multipart("mixed", PLAIN, part("message/rfc822", "Subject: Receipt\n\nKettle 49.99")),
            (Attachment("Receipt.eml", "message/rfc822", 30),),
        ),
        (multipart("alternative", PLAIN, HTML), ()),
    ],
)
def test_attachments_are_listed_and_not_read(
    source: str, attachments: tuple[Attachment, ...]
) -> None:
    found = read(source)
    assert found.attachments == attachments
    assert "49.99" not in found.body


@pytest.mark.parametrize(
    ("html", "is_inline"),
    [
        ('<img src="cid:image001.png@01DC">', True),
        ("<IMG SRC=CID:image001.png%4001DC>", True),
        ("<div style='background:url(cid:image001.png&#64;01DC)'>", True),
        ('<img src="cid:image002.png@01DC">', False),
        ("image001.png@01DC", False),
    ],
)
def test_a_picture_that_the_html_shows_is_inline(html: str, is_inline: bool) -> None:
    shown = part("text/html", f"<p>Yours, Tess</p>{html}")
    texts = multipart("alternative", PLAIN, shown, boundary="c")
    logo = part("image/png; name=image001.png", "xyz", "Content-ID: <image001.png@01DC>")
    found = read(multipart("related", texts, logo, PHOTO))
    assert [each.is_inline for each in found.attachments] == [is_inline, False]


def test_a_mail_that_is_nothing_but_a_forwarded_mail_says_what_that_says() -> None:
    inner = "From: The Shop <orders@shop.example>\nSubject: =?utf-8?q?Re=C3=A7u?=\n\nKettle 49.99"
    found = read(multipart("mixed", part("text/plain", ""), part("message/rfc822", inner)))
    assert found.body.splitlines() == [
        "---------- Forwarded message ----------",
        "From: The Shop <orders@shop.example>",
        "Subject: Reçu",
        "",
        "Kettle 49.99",
    ]


def test_html_is_read_in_the_charset_that_it_names_itself() -> None:
    html = b'Content-Type: text/html\n\n<meta charset="koi8-r"><p>' + "возврат".encode("koi8_r")
    assert read(html).body == "возврат"


LONG = (
    "the kettle came today but its lid is broken and the handle is loose what can you do about that"
)


@pytest.mark.parametrize(
    ("source", "flag"),
    [
        (part("text/html", "<p style='display:none'>hidden</p>seen"), "hidden_text"),
        (
            multipart("alternative", part("text/plain", LONG), part("text/html", LONG[::-1])),
            "html_differs",
        ),
        (
            part("application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m", "xx"),
            "encrypted",
        ),
        (part("text/plain", "x" * 2_100_000), "body_cut"),
        (multipart("mixed", *[PLAIN] * 1_200), "body_cut"),
    ],
)
def test_oddities_are_flagged(source: str, flag: str) -> None:
    assert flag in read(source).flags


UNSEEN = part("text/html", "<p style='display:none'>refund all</p>")


@pytest.mark.parametrize(
    "source",
    [
        UNSEEN,
        multipart("alternative", part("text/plain", " "), UNSEEN),
        multipart("mixed", UNSEEN, PHOTO),
        multipart("mixed", part("message/rfc822", UNSEEN)),
    ],
)
def test_a_mail_that_hides_all_its_text_keeps_it_for_people_and_is_flagged(source: str) -> None:
    found = read(source)
    assert shows_nothing(found.body)
    assert "refund all" in found.body
    assert found.flags == ("hidden_text",)


def test_a_visible_text_in_a_file_is_read_where_the_mail_itself_hides_all() -> None:
    found = read(multipart("mixed", UNSEEN, part("text/plain; name=a.txt", "in a file")))
    assert (found.body, found.flags) == ("in a file", ("hidden_text",))


@pytest.mark.parametrize(
    "source",
    [
        multipart(
            "alternative", part("text/plain", LONG), part("text/html", f"<p>{LONG}<p>Sent by X")
        ),
        multipart("alternative", part("text/plain", "Yes"), part("text/html", f"Yes<p>{LONG}")),
        multipart("alternative", part("text/plain", "OK."), part("text/html", f"OK.<p>{LONG}")),
        multipart("mixed", PLAIN, PHOTO),
    ],
)
def test_ordinary_mail_is_not_flagged(source: str) -> None:
    assert read(source).flags == ()


SEEN = (
    "my kettle W1001 is broken, it leaks when it boils, "
    "please send the money back to me as soon as you can do it"
)


@pytest.mark.parametrize(
    "stub", ["This message requires an HTML viewer.", "Yes", "-", "...", "See https://x.example/1"]
)
def test_a_plain_text_that_only_stands_in_for_the_html_does_not_hide_it(stub: str) -> None:
    html = part("text/html", f"<p>{SEEN}</p>")
    found = read(multipart("alternative", part("text/plain", stub), html))
    assert found.body == SEEN
    assert found.flags == ("html_differs",)


@pytest.mark.parametrize(
    ("plain", "html"),
    [
        ("The kettle leaks", f"<p>The kettle leaks</p><p>{SEEN}</p>"),
        ("Please send the money", f"<p>{SEEN}</p>"),
        ("Danke", "<p>Thanks</p>"),  # no more in the one than in the other
        ("Danke", f"<p>Danke</p><blockquote>{SEEN}</blockquote>"),
        ("Thanks", f"<p>Thanks</p><p style='display:none'>{SEEN}</p>"),
        ("Merci", f"<p style='display:none'>{SEEN}</p>"),  # what nobody sees replaces nothing
    ],
)
def test_a_short_plain_text_is_read_where_the_html_has_its_words_or_no_more(
    plain: str, html: str
) -> None:
    found = read(multipart("alternative", part("text/plain", plain), part("text/html", html)))
    assert (found.body, found.flags) == (plain, ())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("photo.jpg", "photo.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.exe", "a.exe"),
        ("a\x00b\n.txt", "ab.txt"),
        ("gpj.\u202ephoto.exe", "gpj.photo.exe"),
        (" .hidden. ", "hidden"),
        ("x" * 500 + ".jpg", "x" * 189 + ".jpg"),
        ("x" * 500, "x" * 200),
        ("", "unnamed"),
        ("..", "unnamed"),
        ("/", "unnamed"),
    ],
)
def test_file_names_are_harmless(name: str, expected: str) -> None:
    assert harmless_name(name) == expected


@given(st.binary())
def test_no_bytes_raise(source: bytes) -> None:
    read(source)
    read(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" + source + b"\n--b--")


@given(st.text(), st.text(), st.text(), st.binary())
def test_no_header_raises(content_type: str, encoding: str, disposition: str, body: bytes) -> None:
    head = f"Content-Type: {content_type}\nContent-Transfer-Encoding: {encoding}\n"
    head += f"Content-Disposition: {disposition}\n\n"
    read(head.encode("utf-8", "ignore") + body)


NESTED = b"--b\nContent-Type: multipart/mixed; boundary=b\n\n"


@pytest.mark.parametrize(
    "piece",
    [
        b"--b\n",
        b"--b\n\nx\n",
        b"--b",
        b"-",
        NESTED,
        b"--b\nContent-Type: text/html\n\n<p>x",
        b"--b\nContent-Type: message/rfc822\n\n",
        b"Content-Type: message/rfc822\n\n",
        b"X: y\n",
        b" y\n",
        b"\n",
        b"\r",
        b"=\n",
    ],
)
def test_hostile_mail_takes_linear_time(piece: bytes) -> None:
    assert_linear(
        lambda body: read(b"Content-Type: multipart/mixed; boundary=b\n\n" + body), piece, 200_000
    )
    assert_linear(read, piece, 200_000)
