"""How the top of a manager's page counts what the customer sent."""

from __future__ import annotations

import pytest

from mailagent.web.approvals.attachments import ShownFile, count_files
from tests.cast import NOW


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ((), ""),
        (("image/jpeg",), "1 photo"),
        (("image/jpeg", "image/png"), "2 photos"),
        (("application/pdf",), "1 file"),
        (("image/png", "application/pdf"), "1 photo and 1 other file"),
        (("image/png", "text/plain", "application/pdf"), "1 photo and 2 other files"),
    ],
)
def test_photos_are_counted_apart_from_other_files(types: tuple[str, ...], words: str) -> None:
    files = [ShownFile("mail_1", 0, "x", each, "1 kB", NOW, True, "") for each in types]
    assert count_files(files) == words
