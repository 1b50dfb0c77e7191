"""The text and the attachments of a MIME tree: decides which parts are text and which are files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from html import unescape
from urllib.parse import unquote

from mailagent.adapters.html.text import render_text
from mailagent.adapters.html.tree import all_words
from mailagent.adapters.mime.attachment import ATTACHMENTS_MAX, make_attachment
from mailagent.adapters.mime.headers import decode, decode_words, first
from mailagent.adapters.mime.parser import Part, decoded_body, decoded_size
from mailagent.domain.mail.message import Attachment, body_of_hidden, shows_nothing

# The most encoded bytes of plain text, and of HTML, that we read of a mail: ten times as much as we store.
TEXT_MAX_BYTES = 2_000_000
HTML_MAX_BYTES = 1_000_000
COMPARED_MAX_LENGTH = 50_000
COMPARED_MIN_WORDS = 15
STUB_TIMES_WORDS = 2

_ENCRYPTED = {*("application/pgp-encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")}
_ANY_WORD = re.compile(r"\w+")
_CONTENT_ID = re.compile(r"""\bcid:([^\s"'<>)]{1,300})""", re.IGNORECASE)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*+=\s*+["']?\s*+([\w.:-]{1,40})""", re.I)


@dataclass(frozen=True, slots=True)
class MailText:
    """All of a mail's visible text, its attachments and its oddities."""

    body: str
    attachments: tuple[Attachment, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(slots=True)
class Segment:
    """One piece of the mail's text, as plain text, as HTML, or as both (multipart/alternative)."""

    plain: str = ""
    html: str = ""


@dataclass(slots=True)
class Gathered:
    """What a walk through the tree has found so far."""

    segments: list[Segment] = field(default_factory=list)
    files: list[Part] = field(default_factory=list)
    text_bytes: int = TEXT_MAX_BYTES
    html_bytes: int = HTML_MAX_BYTES
    cut: bool = False


def read_text(mail: Part) -> MailText:
    """Return the text of a mail: its text parts in order. If a part has both forms, plain text wins over
    HTML."""
    return _read(mail)[0]


def list_files(mail: Part) -> tuple[Part, ...]:
    """Return the parts that `read_text` lists as attachments, in the same order."""
    return _read(mail)[1]


def _read(mail: Part) -> tuple[MailText, tuple[Part, ...]]:
    gathered = Gathered()
    _gather(mail, gathered)
    body, flags = compose(gathered.segments)
    raised = dict.fromkeys(flags)
    if not body or shows_nothing(body):
        inner, flags = _text_in_files(gathered)
        body = inner or body
        raised |= dict.fromkeys(flags)
    if gathered.cut or any(part.cut for part in mail.walk()):
        raised["body_cut"] = None
    if any(part.media_type in _ENCRYPTED for part in gathered.files):
        raised["encrypted"] = None
    files, shown = tuple(gathered.files[:ATTACHMENTS_MAX]), list_shown(gathered.segments)
    attachments = tuple(
        replace(describe_file(part), is_inline=_content_id(part) in shown) for part in files
    )
    return MailText(body, attachments, tuple(raised)), files


def list_shown(segments: list[Segment]) -> set[str]:
    """Return the Content-IDs of the files that the HTML shows."""
    found = (name for each in segments for name in _CONTENT_ID.findall(each.html))
    return {unquote(unescape(name)) for name in found}


def _content_id(part: Part) -> str:
    return first(part.headers, "content-id").strip().removeprefix("<").removesuffix(">")


def compose(segments: list[Segment]) -> tuple[str, tuple[str, ...]]:
    """Return the text of all segments, and flags about oddities in it.

    If no text is visible, return the hidden text, marked by `body_of_hidden`.
    """
    texts: list[str] = []
    hidden: list[str] = []
    flags: dict[str, None] = {}
    for segment in segments:
        text = segment.plain
        stub = bool(segment.html and text.strip()) and _is_stub(text, segment.html)
        flags |= dict.fromkeys(("html_differs",) * stub)
        if segment.html and (stub or not text.strip()):
            rendered = render_text(segment.html)
            text = rendered.text
            hidden += [rendered.hidden_text] if rendered.hidden_text else []
            flags |= dict.fromkeys(("hidden_text",) * rendered.hidden)
            flags |= dict.fromkeys(("body_cut",) * rendered.cut)
        elif segment.html and _say_different_things(text, segment.html):
            flags["html_differs"] = None
        if text.strip():
            texts.append(text.strip("\n"))
    body = "\n\n".join(texts)
    if hidden and not body:
        body = body_of_hidden("\n\n".join(hidden))
    return body, tuple(flags)


def _say_different_things(plain: str, html: str) -> bool:
    """Return whether the two forms of a text share so few words that one was written for another reader: people
    may see one form while we read the other."""
    in_html = _words(all_words(html[:COMPARED_MAX_LENGTH]))
    in_plain = _words(plain[:COMPARED_MAX_LENGTH])
    if min(len(in_html), len(in_plain)) < COMPARED_MIN_WORDS:
        return False
    return len(in_html & in_plain) < min(len(in_html), len(in_plain)) / 2


def _is_stub(plain: str, html: str) -> bool:
    """Return whether the plain form is only a stub ("your program shows no HTML"): a few words, and the
    much longer HTML lacks most of them."""
    in_plain = _words(plain[:COMPARED_MAX_LENGTH])
    if len(in_plain) >= COMPARED_MIN_WORDS:
        return False
    in_plain = in_plain or set(_ANY_WORD.findall(plain[:COMPARED_MAX_LENGTH].lower()))
    seen = set(_ANY_WORD.findall(render_text(html[:COMPARED_MAX_LENGTH]).text.lower()))
    if len(seen) < max(COMPARED_MIN_WORDS, STUB_TIMES_WORDS * len(in_plain)):
        return False
    return len(in_plain & seen) <= len(in_plain) / 2


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{3,40}", text.lower()))


def _gather(part: Part, gathered: Gathered) -> None:
    if part.media_type == "multipart/alternative":
        before = len(gathered.segments)
        for child in part.children:
            _gather(child, gathered)
        alternatives = gathered.segments[before:]
        gathered.segments[before:] = [_merged(alternatives)]
    elif part.media_type.startswith("multipart/") and part.children:
        for child in part.children:
            _gather(child, gathered)
    elif _is_text(part):
        gathered.segments.append(_read_segment(part, gathered))
    else:
        gathered.files.append(part)


def _merged(segments: list[Segment]) -> Segment:
    return Segment(
        "\n".join(s.plain for s in segments if s.plain),
        "\n".join(s.html for s in segments if s.html),
    )


def _is_text(part: Part) -> bool:
    if part.media_type not in {"text/plain", "text/html", "text/enriched"}:
        return False
    return part.disposition != "attachment" and not part.file_name


def _read_segment(part: Part, gathered: Gathered) -> Segment:
    length = len(part.body)
    html = part.media_type == "text/html"
    left = gathered.html_bytes if html else gathered.text_bytes
    gathered.cut = gathered.cut or length > left
    data = decoded_body(part, left)
    charset = part.parameters.get("charset")
    if html:
        gathered.html_bytes -= min(length, left)
        return Segment(html=decode_html(data, charset))
    gathered.text_bytes -= min(length, left)
    return Segment(plain=decode(data, charset).replace("\r\n", "\n"))


def decode_html(data: bytes, charset: str | None) -> str:
    """Return HTML as text. If the mail names no charset, the HTML's own meta element does."""
    match = None if charset else _META_CHARSET.search(data[:4_000])
    return decode(data, match[1].decode("ascii") if match else charset)


def _text_in_files(gathered: Gathered) -> tuple[str, tuple[str, ...]]:
    """Return the text, and flags, of a mail that consists only of a file or a forwarded mail."""
    for part in list(gathered.files):
        if part.media_type in {"text/plain", "text/html"} and part.disposition != "attachment":
            gathered.files.remove(part)
            return compose([_read_segment(part, gathered)])
        if part.children:
            inner = part.children[0]
            return _with_introduction(inner, read_text(inner))
    return "", ()


def _with_introduction(inner: Part, text: MailText) -> tuple[str, tuple[str, ...]]:
    if shows_nothing(text.body):
        return text.body, text.flags
    fields = (
        f"{name.capitalize()}: {decode_words(first(inner.headers, name))}"
        for name in ("from", "date", "subject", "to")
        if name in inner.headers
    )
    introduction = ["---------- Forwarded message ----------", *fields, ""]
    return "\n".join([*introduction, text.body]), text.flags


def describe_file(part: Part) -> Attachment:
    """Return a file part as an attachment. An attached mail gets its subject as its name."""
    name = part.file_name
    if not name and part.children:
        subject = decode_words(first(part.children[0].headers, "subject"))
        name = f"{subject or 'mail'}.eml"
    return make_attachment(name, part.media_type, decoded_size(part))
