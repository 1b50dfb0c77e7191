"""The shop's knowledge: passages that the shop wrote for its customers, and that a reply may quote. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PASSAGE_MAX_LENGTH = 1_500


@dataclass(frozen=True, slots=True)
class Passage:
    """The text under one heading. `passage_id`: the file and the heading, such as `returns/how-to-return`.
    `problems`: sentences about content that a mail cannot show, such as a table, and what to do."""

    passage_id: str
    title: str
    text: str
    problems: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """A hash of the text. It shows whether the passage has changed since a reply quoted it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def links(self) -> list[str]:
        return re.findall(r"https?://[^\s<>()]+[^\s<>().,;:!?]", self.text)


@dataclass(frozen=True, slots=True)
class Knowledge:
    passages: Sequence[Passage] = ()
    by_id: Mapping[str, Passage] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {each.passage_id: each for each in self.passages})

    def list_problems(self) -> list[str]:
        """Return a sentence for each problem that the shop should mend: a heading that two passages share, a
        passage that is too long for a mail, or content that a mail cannot show."""
        by_title: dict[str, list[str]] = {}
        for each in self.passages:
            by_title.setdefault(each.title.casefold(), []).append(each.passage_id)
        return [
            *(
                f"{', '.join(ids)}: the same heading {title!r}; give each a heading of its own"
                for title, ids in by_title.items()
                if len(ids) > 1
            ),
            *(
                f"{each.passage_id}: {len(each.text)} characters, and at most {PASSAGE_MAX_LENGTH}"
                " fit a mail; split it by a heading"
                for each in self.passages
                if len(each.text) > PASSAGE_MAX_LENGTH
            ),
            *(
                f"{each.passage_id}: {problem}"
                for each in self.passages
                for problem in each.problems
            ),
        ]


def slug(title: str) -> str:
    """Return a title as part of a passage id: lower case, no accents, hyphens between words. A title without
    letters and digits gives "text"."""
    plain = unicodedata.normalize("NFKD", title.casefold().replace("ß", "ss"))
    kept = "".join(each for each in plain if not unicodedata.combining(each))
    composed = unicodedata.normalize("NFC", kept)  # the model writes ids in NFC
    return re.sub(r"[\W_]+", "-", composed).strip("-") or "text"
