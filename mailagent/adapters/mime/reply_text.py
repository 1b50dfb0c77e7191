"""What the customer newly wrote, apart from what they quote.

Nothing is thrown away: the full text is kept beside it, and whatever would leave nothing, leaves
everything. In order: our own stored texts (free of language), then line rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mailagent.adapters.mime.attribution import attribution_within
from mailagent.adapters.mime.our_lines import our_lines
from mailagent.adapters.mime.quote_line import is_quoted, plain_line, unquoted
from mailagent.adapters.mime.quote_marks import (
    Found,
    Mark,
    find_mark,
    is_forwarded_line,
    is_reply_above,
    split_reply_above,
)
from mailagent.adapters.mime.quote_words import FORWARD_PREFIXES
from mailagent.adapters.mime.signature_lines import without_signature

LINE_MAX_LENGTH = 2_000  # longer lines are text, whatever they look like
# Of the customer's own lines; what is below so many is all text, or marked line by line.
MARKS_MAX_LINES = 500
MAIL_MAX_LINES = 20_000  # nobody writes more: hostile mail would cost a second
QUOTE_WIDTH = 70  # the least at which programs break the lines that they quote
WRAPPED_MAX_LENGTH = 80
SENTENCE_ENDS = (".", "?", "!", ":", "…", "。", "？", "！")

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
    if whole.count("\n") > MAIL_MAX_LINES:
        return whole
    lines = _lines(whole)
    stretches = _written(lines, our_lines(lines, our_texts))
    if stretches is None:
        return whole
    kept = [line for stretch in stretches for line in without_signature(stretch)]
    return "\n".join(kept).strip() or whole


def _lines(text: str) -> list[str]:
    """Return the lines of a text, those in two or more that hold a mark behind the customer's words."""
    lines = text.splitlines()
    searched = min(len(lines), MARKS_MAX_LINES)
    return [part for at in range(searched) for part in _parts(lines, at)] + lines[searched:]


def _parts(lines: Sequence[str], at: int) -> Iterator[str]:
    line = lines[at]
    if found := attribution_within(lines, at):
        start, end = found
        yield from (line[:start], line[start:end].lstrip(" -"))
        line = line[end:]
    if line or not found:
        yield from split_reply_above(line)


def _written(lines: Sequence[str], ours: Sequence[bool]) -> list[list[str]] | None:
    """Return the lines that are not quoted, in stretches between quotes, or None for a forward."""
    plain = [plain_line(line[:LINE_MAX_LENGTH]) for line in lines]
    quoted = [is_quoted(line) for line in lines]
    kept: list[list[str]] = [[]]
    left = MARKS_MAX_LINES
    at, at_top = 0, True  # above the first mark; a forward within quoted history is history
    while at < len(lines):
        if quoted[at]:
            bare = plain_line(unquoted(lines[at][:LINE_MAX_LENGTH]))
            if at_top and is_forwarded_line(bare):
                return None
            if is_reply_above(bare):
                break
            at += 1
        elif ours[at] or _is_wrapped_quote(lines, quoted, at):
            at += 1
        elif left <= 0 or (found := find_mark(plain, at)) is None:
            kept[-1].append(lines[at])
            left -= bool(plain[at])
            at += 1
            continue
        elif found.mark is Mark.FORWARDED:
            return None
        elif not _goes_on(lines, plain, ours, found):
            break
        else:
            at, at_top = found.end, False
            left -= 1
        if kept[-1]:
            kept.append([])
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
    """Whether a line, which is not quoted, is the rest of a quoted line that was too long: it goes on
    in the middle of a sentence, with a word for which that line had no room."""
    if not 0 < at < len(lines) - 1 or not (quoted[at - 1] and quoted[at + 1]):
        return False
    before, line = lines[at - 1].rstrip(), lines[at].strip()
    if not line or len(line) > WRAPPED_MAX_LENGTH or before.endswith(SENTENCE_ENDS):
        return False
    word = line.split(maxsplit=1)[0]
    return not (word[0].isupper() or word[0].isdigit()) and len(before) + len(word) >= QUOTE_WIDTH
