"""HTML of mails taken apart into tags and text, as browsers do it, in linear time.

libxml2 needs a minute for one tag with 80,000 attributes, and drops what is nested too deep; so it
never sees a mail. Names are lower-case, and so are the values of attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

# Start and end tags. Laying out costs about 10 µs a tag; beyond these, only quotes are told apart.
TAGS_MAX = 4_000
TEXT_MAX_LENGTH = 500_000
REST_MAX_LENGTH = 500_000  # of markup
REST_MAX_QUOTES = 1_000
ATTRIBUTE_MAX_LENGTH = 2_000
ATTRIBUTES_MAX = 50

_RAW_TEXT = {"script", "style", "title", "template", "noframes"}

# A sign that begins nothing is text, together with what is around it: 900,000 of them as a text each
# would take seconds.
_MARKUP = re.compile(r"<(?=/|[a-zA-Z!?])")
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]{0,100}+)")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+(?:(>)|([^\s/>=]++)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>]*+)))?|=)"""
)
_SKIPPED = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1[^>]*+>?|\Z)", re.DOTALL | re.IGNORECASE
)
_QUOTE = re.compile(r"<(/?)blockquote\b[^>]*+>", re.IGNORECASE)
_ANY_TAG = re.compile(r"</?[a-zA-Z!][^>]*+(?:>|\Z)")
_LINES = re.compile(r"[ \t\r\n]{2,}")
# Python refuses to read very long numbers, and none of them is a character.
_HUGE_REFERENCE = re.compile(r"&#(?:[xX][0-9a-fA-F]{7,}|[0-9]{8,});?")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class StartTag:
    name: str
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True)
class EndTag:
    name: str


@dataclass(frozen=True, slots=True)
class StyleSheet:
    text: str
    media: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """What follows are only texts and quotes; no other markup is understood."""


Token = StartTag | EndTag | StyleSheet | Cut | str


def tokenise(html: str) -> Iterator[Token]:
    """Yield the tags, texts and style sheets of an HTML document; scripts and comments are skipped.

    After `TAGS_MAX` tags the rest is read as plain text; after so much text that no person would read on,
    it stops.
    """
    at, tags, length = 0, 0, 0
    while at < len(html):
        if tags >= TAGS_MAX or length >= TEXT_MAX_LENGTH:
            yield Cut()
            yield from _rest(html[at : at + REST_MAX_LENGTH], TEXT_MAX_LENGTH - length)
            return
        markup = _MARKUP.search(html, at)
        start = markup.start() if markup else len(html)
        if start > at:
            end = min(start, at + TEXT_MAX_LENGTH)
            yield _text(html[at:end])
            length, at = length + end - at, end
            continue
        tag = _TAG.match(html, start)
        if tag is None:
            at = _after_declaration(html, start)
            tags += 1
            continue
        name = tag[2].lower()
        attributes, at = _read_attributes(html, tag.end())
        tags += 1 + len(attributes) // 8
        if tag[1]:
            yield EndTag(name)
        elif name in _RAW_TEXT:
            content, at = _raw_text(html, at, name)
            if name == "style":
                yield StyleSheet(content, attributes.get("media", ""))
        else:
            yield StartTag(name, attributes)


def _rest(html: str, length: int) -> Iterator[Token]:
    pieces = _QUOTE.split(_SKIPPED.sub(" ", html), REST_MAX_QUOTES)
    for index, piece in enumerate(pieces if length > 0 else ()):
        if index % 2:  # what the group of `_QUOTE` matched
            yield EndTag("blockquote") if piece else StartTag("blockquote", {})
        else:
            text = _LINES.sub("\n", _ANY_TAG.sub(" ", piece))[: max(length, 0)]
            length -= len(text)
            yield _text(text)


def _text(source: str) -> str:
    return _NOT_XML.sub("", unescape(_HUGE_REFERENCE.sub("\ufffd", source)))


def _after_declaration(html: str, start: int) -> int:
    if html.startswith("<!--", start):
        end = html.find("-->", start + 2)
        return len(html) if end < 0 else end + 3
    end = html.find(">", start)
    return len(html) if end < 0 else end + 1


def _read_attributes(html: str, at: int) -> tuple[dict[str, str], int]:
    attributes: dict[str, str] = {}
    while match := _ATTRIBUTE.match(html, at):
        at = match.end()
        if match[1]:
            break
        name = (match[2] or "").lower()
        if len(attributes) < ATTRIBUTES_MAX and name not in attributes:
            value = (match[3] or match[4] or match[5] or "")[:ATTRIBUTE_MAX_LENGTH]
            attributes[name] = (_text(value) if "&" in value else value).lower()
    return attributes, at


def _raw_text(html: str, at: int, name: str) -> tuple[str, int]:
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, at)
    if end is None:
        return html[at:], len(html)
    close = html.find(">", end.end())
    return html[at : end.start()], len(html) if close < 0 else close + 1
