"""What the customer newly wrote, apart from what they quote.

Nothing is thrown away: the full text is kept beside it, and whatever would leave nothing, leaves
everything. In order: our own stored texts (free of language), line rules, quotequail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import quotequail

from mailagent.adapters.attribution import may_name_author, names_author
from mailagent.adapters.our_lines import our_lines
from mailagent.adapters.quote_line import (
    is_quoted,
    may_split_inline,
    plain_line,
    split_inline,
    unquoted,
)
from mailagent.adapters.quote_marks import (
    Found,
    Mark,
    find_mark,
    is_forwarded_line,
    is_reply_above,
)
from mailagent.adapters.quote_words import FORWARD_PREFIXES
from mailagent.adapters.signature_lines import without_signature

LINE_MAX_LENGTH = 2_000  # longer lines are text, whatever they look like
QUOTEQUAIL_MAX_LENGTH = 20_000
QUOTEQUAIL_MAX_LINES = 1_000  # the rest it hides unread
WRAPPED_MIN_LENGTH = 65
WRAPPED_MAX_LENGTH = 45

_FORWARD_SUBJECT = re.compile(
    r"\s*[\[(]?(?:" + "|".join(re.escape(word) for word in FORWARD_PREFIXES) + r")\s?[:：]", re.I
)


def new_text(body: str, our_texts: Sequence[str] = (), subject: str = "") -> str:
    """Return the newly written part of a mail's text; all of it if nothing else is left.

    `our_texts` are mails we sent into the thread: their lines are quotes whatever they look like.
    A forward, told by its subject or its first mark, is kept whole.
    """
    whole = body.strip()
    if not whole or _FORWARD_SUBJECT.match(subject):
        return whole
    lines = _lines(whole)
    kept = _written_lines(lines, our_lines(lines, our_texts))
    if kept is None:
        return whole
    if kept == lines:
        kept = _by_quotequail(whole) or kept
    text = "\n".join(without_signature(kept)).strip()
    return text or whole


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    if not may_split_inline(text):
        return lines
    return [part for line in lines for part in _parts(line)]


def _parts(line: str) -> list[str]:
    return split_inline(line) if len(line) <= LINE_MAX_LENGTH else [line]


def _written_lines(lines: Sequence[str], ours: Sequence[bool]) -> list[str] | None:
    """Return the lines that are not quoted, or None for a forward."""
    plain = [plain_line(line[:LINE_MAX_LENGTH]) for line in lines]
    quoted = [is_quoted(line) for line in lines]
    kept: list[str] = []
    at, at_top = 0, True  # above the first mark; a forward within quoted history is history
    while at < len(lines):
        if quoted[at]:
            bare = plain_line(unquoted(lines[at][:LINE_MAX_LENGTH]))
            if at_top and is_forwarded_line(bare):
                return None
            if is_reply_above(bare):
                break
            at += 1
            continue
        if ours[at] or _is_wrapped_quote(lines, quoted, at):
            at += 1
            continue
        found = find_mark(plain, at)
        if found is None:
            kept.append(lines[at])
            at += 1
            continue
        if found.mark is Mark.FORWARDED:
            return None
        if not _goes_on(lines, plain, ours, found):
            break
        at, at_top = found.end, False
    return kept


def _goes_on(
    lines: Sequence[str], plain: Sequence[str], ours: Sequence[bool], found: Found
) -> bool:
    """Whether new text may follow below a mark: if the quote is marked line by line, or known to be
    ours, it ends somewhere; else it is all the rest."""
    if found.mark is Mark.REPLY_ABOVE:
        return False
    following = found.end
    while following < len(lines) and not plain[following]:
        following += 1
    if following >= len(lines):
        return False
    return is_quoted(lines[following]) or ours[following] or bool(find_mark(plain, following))


def _is_wrapped_quote(lines: Sequence[str], quoted: Sequence[bool], at: int) -> bool:
    """Whether a line, which is not quoted, is the rest of a quoted line that was too long."""
    if not 0 < at < len(lines) - 1 or not (quoted[at - 1] and quoted[at + 1]):
        return False
    before, line = lines[at - 1], lines[at].strip()
    return bool(line) and len(before) >= WRAPPED_MIN_LENGTH and len(lines[at]) < WRAPPED_MAX_LENGTH


def _by_quotequail(text: str) -> list[str] | None:
    """Return what quotequail shows, if what it hides begins as a program would begin a quote: it also
    takes a line of underscores, or any sentence that ends in "wrote:", for the end of the reply."""
    # Wherever it might begin to hide, most mails have nothing to begin with; and it is slow.
    if len(text) > QUOTEQUAIL_MAX_LENGTH or not may_name_author(plain_line(text)):
        return None
    if not any(map(_begins_quote, _beginnings(text))):
        return None
    parts = quotequail.quote(text, limit=QUOTEQUAIL_MAX_LINES, quote_intro_line=True)
    hidden = next((part for shown, part in parts if not shown), "")
    if not _begins_quote(hidden.split("\n", 3)[:3]):
        return None
    kept = "\n".join(part for shown, part in parts if shown)
    return kept.split("\n") if kept.strip() else None


def _beginnings(text: str) -> Iterator[list[str]]:
    """Return all that quotequail may hide from, each with the lines that tell."""
    lines = text.split("\n")
    return (lines[at : at + 3] for at in range(min(len(lines), QUOTEQUAIL_MAX_LINES)))


def _begins_quote(lines: Sequence[str]) -> bool:
    """Whether a program would begin a quote with these lines."""
    return names_author(plain_line(" ".join(lines)))
