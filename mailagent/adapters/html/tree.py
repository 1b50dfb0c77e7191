"""Parses the HTML of a mail into a tree of lxml, even if it is very large or broken.

libxml2 reads HTML as browsers do, in linear time, with three exceptions: it needs a minute for a tag with
80,000 attributes, drops everything if elements are nested too deep, and drops what follows `</html>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from typing import Any

from lxml import etree  # type: ignore[import-untyped]  # lxml has no types

# The layout costs about 10 µs for each tag. In a mail with more tags, we only tell quotations from other text.
TAGS_MAX = 4_000
QUOTES_MAX = 200  # beyond TAGS_MAX
TAG_MAX_LENGTH = 4_000

Node = Any  # an element of lxml

_MARKUP = re.compile(r"<(?=[/a-zA-Z!?])")
# A tag without `>` goes to the end of the mail, so that no search begins again at each tag inside it.
# libxml2 drops what follows the end of the document.
_END_OF_ALL = re.compile(r"</(?:html|body)\b[^>]*+(?:>|\Z)", re.IGNORECASE)
_LONG_TAG = re.compile(
    r"""<[a-zA-Z][^\s/>]*+(?:[\s/]++|[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]*+))?|=)*+>?"""
)
_QUOTE = re.compile(r"</?blockquote\b[^>]*+(?:>|\Z)", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z!?][^>]*+(?:>|\Z)")
_TAG_BUT_QUOTE = re.compile(r"<(?!/?blockquote\b)/?[a-zA-Z!?][^>]*+(?:>|\Z)", re.IGNORECASE)
_NO_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|title)\b.*?(?:</\1[^>]*+>?|\Z)", re.DOTALL | re.IGNORECASE
)


def parse_html(html: str) -> tuple[Node | None, bool]:
    """Return the tree of a mail (None if it has no text), and whether we left out some of its markup."""
    at = _find_nth(_MARKUP, html, TAGS_MAX)
    cut = at is not None
    if at is not None:
        html = html[:at] + _only_quotes(html[at:])
    root, whole = _parse_with_lxml(html)
    if not whole:  # elements are nested too deep
        root, _whole = _parse_with_lxml(_only_quotes(html))
    return root, cut or not whole


def _parse_with_lxml(html: str) -> tuple[Node | None, bool]:
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    html = _LONG_TAG.sub(_shortened, _END_OF_ALL.sub("", html)).replace("\0", "")
    source = html.encode("utf-8", "replace")
    root = etree.fromstring(source, parser) if source else None
    return root, not any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)


def _shortened(tag: re.Match[str]) -> str:
    # These characters end an open value in quotation marks, and the tag.
    return tag[0] if len(tag[0]) <= TAG_MAX_LENGTH else tag[0][:TAG_MAX_LENGTH] + "'\">"


def _only_quotes(html: str) -> str:
    """Return HTML with all of its text, and with no markup except that of quotations."""
    html = _TAG_BUT_QUOTE.sub(" ", _NO_TEXT.sub(" ", html))
    at = _find_nth(_QUOTE, html, QUOTES_MAX)
    return html if at is None else html[:at] + _QUOTE.sub(" ", html[at:])


def _find_nth(pattern: re.Pattern[str], text: str, number: int) -> int | None:
    found = next(islice(pattern.finditer(text), number, None), None)
    return None if found is None else found.start()


def all_words(html: str) -> str:
    """Return all text of an HTML mail, visible or hidden."""
    return unescape(_TAG.sub(" ", _NO_TEXT.sub(" ", html)))


def walk(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield "start" and "end" of each element that may have text, with the element."""
    etree.strip_elements(root, "script", "style", "template", "title", "noframes", with_tail=False)
    yield from etree.iterwalk(root, events=("start", "end"))
