"""Which files a person may send with an answer."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.outgoing_file import BYTES_MAX, FILES_MAX, OutgoingFile, find_problem


def file(name: str = "manual.pdf", size: int = 1) -> OutgoingFile:
    return OutgoingFile(name, b"x" * size)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], None),
        ([file()] * FILES_MAX, None),
        ([file()] * (FILES_MAX + 1), "You chose 11 files; 10 are the most"),
        ([file(size=BYTES_MAX)], None),
        ([file(size=BYTES_MAX), file()], "10.0 MB together; 10 MB are the most"),
        ([file(size=0)], "“manual.pdf” is empty"),
        ([file("PHOTO.JPG")], None),
        ([file("setup.exe")], "“setup.exe” cannot be sent: its name must end in pdf, jpg"),
        ([file("manual.pdf.js")], "cannot be sent"),
        ([file("page.html")], "cannot be sent"),
        ([file("picture.svg")], "cannot be sent"),
        ([file("pdf")], "cannot be sent"),
    ],
)
def test_what_cannot_be_sent_says_why(files: list[OutgoingFile], says: str | None) -> None:
    problem = find_problem(files)
    assert problem is None if says is None else says in str(problem)


def test_the_type_follows_from_the_name() -> None:
    assert file("PHOTO.JPG").content_type == "image/jpeg"
