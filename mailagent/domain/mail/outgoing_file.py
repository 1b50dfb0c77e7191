"""Files that the shop's people send with an answer: the allowed types, number and size.

Mailboxes refuse mails with programs in them, and mails of more than about 20 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mailagent.domain.text import Fill, fill

FILES_MAX = 10
BYTES_MAX = 10_000_000  # of all files of a mail together
# The type follows from the file name. We ignore the type that the browser names.
TYPES = {
    "pdf": "application/pdf",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "txt": "text/plain",
    "csv": "text/csv",
    "ics": "text/calendar",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
}


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file of a mail of ours. Its `name` is already free of paths and control characters."""

    name: str
    content: bytes

    @property
    def content_type(self) -> str:
        """Its media type. Raises KeyError for an ending that is not in TYPES."""
        return TYPES[_ending(self.name)]


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def find_problem(files: Sequence[OutgoingFile], _: Fill = fill) -> str | None:
    """Return why these files cannot be sent with one mail, and what to do; None if they can."""
    if len(files) > FILES_MAX:
        return _(
            "You chose %(number)s files; %(most)s are the most. Send some in a second mail.",
            number=len(files),
            most=FILES_MAX,
        )
    for file in files:
        if _ending(file.name) not in TYPES:
            return _(
                "“%(name)s” cannot be sent: its name must end in %(endings)s.",
                name=file.name,
                endings=", ".join(TYPES),
            )
        if not file.content:
            return _("“%(name)s” is empty. Choose it again.", name=file.name)
    total = sum(len(file.content) for file in files)
    if total > BYTES_MAX:
        return _(
            "The files have %(total)s MB together; %(most)s MB are the most."
            " Make them smaller, or send some in a second mail.",
            total=f"{total / 1e6:.1f}",
            most=f"{BYTES_MAX / 1e6:.0f}",
        )
    return None
