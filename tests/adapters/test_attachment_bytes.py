"""The bytes of attachments: the same files as the parsed mail lists, under names that harm nobody."""

from __future__ import annotations

import base64
import io
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mailagent.adapters.mime.attachment import (
    ATTACHMENTS_MAX,
    DOWNLOAD_MAX_BYTES,
    AttachmentBytes,
    content_disposition,
    harmless_name,
)
from mailagent.adapters.mime.photo_preview import PREVIEW_PIXELS, Preview, count_scans, make_preview
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
from tests.small_png import huge_png

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


# --- photo preview --------------------------------------------------------------------------------


def photo(kind: str, size: tuple[int, int] = (1600, 1200), mode: str = "RGB") -> bytes:
    written = io.BytesIO()
    Image.new(mode, size, "red").save(written, kind)
    return written.getvalue()


def opened(preview: Preview) -> Image.Image:
    assert preview.picture is not None, preview.problem
    return Image.open(io.BytesIO(preview.picture))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_photo_becomes_a_small_jpeg(kind: str) -> None:
    preview = opened(make_preview(photo(kind)))
    assert preview.format == "JPEG"
    assert preview.size == (PREVIEW_PIXELS, PREVIEW_PIXELS * 3 // 4)
    red, green, blue = preview.convert("RGB").getpixel((10, 10))  # type: ignore[misc]  # RGB has three
    assert red > 200
    assert max(green, blue) < 40


def test_a_small_one_is_not_made_larger() -> None:
    assert opened(make_preview(photo("PNG", (40, 30)))).size == (40, 30)


def test_where_and_with_what_it_was_taken_is_not_in_it() -> None:
    exif = Image.Exif()
    exif[0x010F] = "A maker's name"
    exif[0x0112] = 6  # turned by a quarter
    exif.get_ifd(0x8825)[1] = "N"
    written = io.BytesIO()
    Image.new("RGB", (300, 200)).save(written, "JPEG", exif=exif, comment=b"<script>")
    assert b"A maker's name" in written.getvalue()
    preview = make_preview(written.getvalue())
    assert opened(preview).size == (200, 300)  # upright
    assert preview.picture is not None
    assert b"A maker's name" not in preview.picture
    assert b"<script>" not in preview.picture
    assert not opened(preview).getexif()


def test_what_is_transparent_is_white() -> None:
    written = io.BytesIO()
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(written, "PNG")
    assert opened(make_preview(written.getvalue())).getpixel((5, 5)) == (255, 255, 255)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8\xff\xe0<script>alert(1)</script>" * 30,
        b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n(run) run",
        photo("BMP"),
        photo("TIFF"),
        photo("JPEG")[:700],
        huge_png(),
    ],
    ids=["nothing", "script", "svg", "postscript", "bmp", "tiff", "cut_off", "bomb"],
)
def test_anything_else_has_no_preview(data: bytes) -> None:
    preview = make_preview(data)
    assert preview.picture is None
    assert preview.problem


def test_scans_are_counted_up_to_the_end_and_not_within_what_a_camera_adds() -> None:
    written = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(written, "JPEG", progressive=True)
    progressive, plain = written.getvalue(), photo("JPEG", (64, 64))
    assert count_scans(plain) == 1
    assert 5 < count_scans(progressive) < 15
    thumbnail = b"\xff\xe1" + (len(progressive) + 2).to_bytes(2, "big") + progressive
    assert count_scans(plain[:2] + thumbnail + plain[2:]) == 1
    temporary = b"\xff\x01"  # the marker TEM has no length
    assert count_scans(progressive[:2] + temporary + progressive[2:]) == count_scans(progressive)
    assert (
        count_scans(plain + progressive) == 1
    )  # a film behind the picture, as some phones have it
