"""What the shop has written down for its customers: passages that a reply may quote. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

PASSAGE_MAX_LENGTH = 1_500

_HEADING = re.compile(r"^#{1,4}\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\(<?([^()\s<>]{1,500})>?\)")
# An address is left as it is: it may have underscores.
_EMPHASIS = re.compile(r"https?://\S+|(?<!\w)(\*\*|__|\*|_)(?=\S)(.{1,300}?)(?<=\S)\1(?!\w)")


@dataclass(frozen=True, slots=True)
class Passage:
    """The text under one heading. `passage_id`: the file and the heading, such as `returns/how-to-return`."""

    passage_id: str
    title: str
    text: str

    @property
    def version(self) -> str:
        """A hash of the text, to see whether the passage has changed since it was quoted."""
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
        """Return what a shop should mend: headings that stand twice, passages that are too long for a mail."""
        titles = Counter(passage.title.casefold() for passage in self.passages)
        return [
            *(f"the heading {title!r} stands {n} times" for title, n in titles.items() if n > 1),
            *(
                f"{each.passage_id}: {len(each.text)} characters; at most {PASSAGE_MAX_LENGTH} fit a mail"
                for each in self.passages
                if len(each.text) > PASSAGE_MAX_LENGTH
            ),
        ]


def parse_passages(name: str, markdown: str) -> list[Passage]:
    """Return the passages of a file called `name`, without its ending.

    A heading begins a passage. Text before the first heading has the file's name as its title. Raises
    ValueError if two headings have the same id.
    """
    passages: dict[str, Passage] = {}
    for title, text in _sections(name, markdown.replace("\r\n", "\n")):
        passage = Passage(f"{_slug(name)}/{_slug(title)}", title, _plain(text))
        if passage.text and passage.passage_id in passages:
            raise ValueError(f"the heading {title!r} stands twice; name one of them otherwise")
        if passage.text:
            passages[passage.passage_id] = passage
    return list(passages.values())


def _sections(name: str, markdown: str) -> Iterator[tuple[str, str]]:
    title, lines, is_code = name, list[str](), False
    for line in markdown.split("\n"):
        is_code ^= bool(_FENCE.match(line))
        heading = None if is_code else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield title, "\n".join(lines)
        title, lines = heading[1], []
    yield title, "\n".join(lines)


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title.casefold().replace("ß", "ss"))
    kept = "".join(each for each in plain if not unicodedata.combining(each))
    composed = unicodedata.normalize("NFC", kept)  # as a model writes it
    return re.sub(r"[\W_]+", "-", composed).strip("-") or "text"


def _plain(text: str) -> str:
    """Return Markdown as it reads in a plain mail: a link with its address behind it, no marks of emphasis."""
    linked = _LINK.sub(lambda match: f"{match[1]} ({match[2]})", text)
    return re.sub(r"\n{3,}", "\n\n", _EMPHASIS.sub(lambda each: each[2] or each[0], linked)).strip()
