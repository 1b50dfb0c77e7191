"""Which files count as a photo."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.message import PHOTO_MIN_BYTES, Attachment, is_photo


@pytest.mark.parametrize(
    ("name", "content_type", "size", "expected"),
    [
        ("a.jpg", "image/jpeg", PHOTO_MIN_BYTES, True),
        ("a.jpg", "image/jpeg", PHOTO_MIN_BYTES - 1, False),
        ("IMG_1.HEIC", "application/octet-stream", 3_000_000, True),
        ("photo", "IMAGE/PNG; name=photo", 20_000, True),
        ("a.svg", "image/svg+xml", 20_000, False),
        ("a.jpg", "application/pdf", 20_000, False),
        ("a.exe", "application/octet-stream", 20_000, False),
        ("invoice.pdf", "application/pdf", 20_000, False),
    ],
)
def test_a_picture_of_some_size_is_a_photo(
    name: str, content_type: str, size: int, expected: bool
) -> None:
    assert is_photo(Attachment(name, content_type, size)) is expected
