"""Previews of photos: small, plain, and never more than a stranger's bytes deserve."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from mailagent.adapters.mime.photo_preview import PREVIEW_PIXELS, Preview, count_scans, make_preview
from tests.small_png import huge_png


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
