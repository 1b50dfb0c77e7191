"""Finds what the author of a mail newly wrote, apart from quotations.

We also store the full text. If nothing would be left of a customer's mail, all of it counts as new. First we
look for our own stored texts, which works in every language; then we apply rules to lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mailagent.adapters.mime.quote_marks import (
    QUOTE_SIGNS,
    Mark,
    find_mark,
    is_forwarded_line,
    is_reply_above,
    next_text,
    plain_line,
    split_line,
)
from mailagent.adapters.mime.quote_words import FORWARD_PREFIXES, REPLY_PREFIXES
from mailagent.adapters.mime.signature_lines import without_signature
from mailagent.domain.mail.message import shows_nothing

LINE_MAX_LENGTH = 2_000  # longer lines are text, whatever they look like
# We look for marks in the first 500 lines of the customer's own. Below, only lines with a quote sign are
# quotations.
MARKS_MAX_LINES = 500
MAIL_MAX_LINES = 20_000  # people write fewer lines; a hostile mail with more would take a second
QUOTE_WIDTH = 70  # programs break quoted lines at this width or more
WRAPPED_MAX_LENGTH = 80
SENTENCE_ENDS = (".", "?", "!", ":", "…", "。", "？", "！")


def _subject_with(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\s*[\[(]?(?:{'|'.join(map(re.escape, words))})\s?[:：]", re.I)


_FORWARD_SUBJECT = _subject_with(FORWARD_PREFIXES)
_ANSWER_SUBJECT = _subject_with((*REPLY_PREFIXES, *FORWARD_PREFIXES))
_SUBJECT_TAGS = re.compile(r"\A(?:\s*\[[^\[\]]{1,30}\])+")
_QUOTE_PREFIX = re.compile(r"(?:\s{0,8}[>\uff1e])+\s?")
_LINK = re.compile(r"@|://|www\.")
# A line is new if we know at most this share of it. Programs change bullets and spaces of our lines.
NEW_SHARE = 0.5
# ">> urgent <<": no quotation, because no program writes quote signs at the end of a line.
_SHOUTED = re.compile(r">{2}.*<{2}\Z")


def new_text(body: str, our_texts: Sequence[str] = (), subject: str = "") -> str:
    """Return the newly written part of a mail's text; all of the text if nothing would be left.

    `our_texts`: our mails in the thread, newest last. Their lines are quotations, with or without a mark. A
    forwarded mail, recognised by its subject or its first mark, is kept whole.
    """
    whole = body.strip()
    if not whole or _FORWARD_SUBJECT.match(subject) or whole.count("\n") > MAIL_MAX_LINES:
        return whole
    lines = _split(whole)
    written = _written(lines, our_texts)
    return whole if written.is_forward else _without_signatures(written.stretches) or whole


def words_to_pass_on(body: str, our_texts: Sequence[str], subject: str) -> str:
    """Return the newly written part of an answer of our people, which goes to a customer or decides.

    Empty for a forward, if nothing is new, and if the mail quotes us without a mark: what is left of such a
    mail may be ours, too. `our_texts` as for `new_text`.
    """
    whole = body.strip()
    if shows_nothing(body) or _FORWARD_SUBJECT.match(subject) or whole.count("\n") > MAIL_MAX_LINES:
        return ""
    lines = _split(whole)
    written = _written(lines, our_texts, to_pass_on=True)
    if written.is_forward or written.quotes_unmarked:
        return ""
    words = _without_signatures(written.stretches)
    return words if plain_line(words) else ""


def may_lose_words(body: str, known_texts: Sequence[str]) -> bool:
    """Return whether `words_to_pass_on` may leave out words that are meant for the customer: answers between
    the lines of a quotation without quote signs, or what "at this address:" announces, taken for a signature.

    `known_texts`: what we wrote in the conversation, newest last, as text and as programs render its HTML.
    """
    lines = _split(body.strip())
    written = _written(lines, known_texts, to_pass_on=True)
    whole = "\n".join(line for stretch in written.stretches for line in stretch).strip()
    kept = _without_signatures(written.stretches)
    return (kept != whole and kept.endswith((":", "："))) or _is_answered_inside(
        written.below, known_texts
    )


def _is_answered_inside(quoted: Sequence[str], known_texts: Sequence[str]) -> bool:
    """Return whether a line of several words that are mostly new stands between known lines. Above
    and below these, programs put headers and notices. Links do not count, because programs change them."""
    pieces = set(_cut(_newest(known_texts)))
    plain = [plain_line(line[:LINE_MAX_LENGTH]) for line in quoted[:MARKS_MAX_LINES]]
    at, new, seen_known = 0, False, False
    while at < len(plain):
        if found := find_mark(plain, at):
            at = found.end
            continue
        own = list(_cut(_bare(plain[at])))
        share = sum(piece in pieces for piece in own) / len(own) if own else 0
        if share > NEW_SHARE:
            if new:
                return True
            seen_known = True
        elif own and seen_known and plain[at].count(" ") >= 2 and not _LINK.search(plain[at]):
            new = True
        at += 1
    return False


def _without_signatures(stretches: Sequence[Sequence[str]]) -> str:
    kept = [line for stretch in stretches for line in without_signature(stretch)]
    return "\n".join(kept).strip()


def is_answer(subject: str) -> bool:
    """Return whether a subject has the prefix of an answer or a forward. Then others may have written it."""
    return any(map(_ANSWER_SUBJECT.match, (subject, _SUBJECT_TAGS.sub("", subject))))


def own_words(body: str, our_texts: Sequence[str] = (), subject: str = "") -> str:
    """Return what the author of a mail wrote, with their signature, but nothing that they quote or forward;
    perhaps an empty text. A forward without a mark in its text has no words of the author."""
    whole = body.strip()
    if whole.count("\n") > MAIL_MAX_LINES:
        return ""
    lines = _split(whole)
    kept = [line for stretch in _written(lines, our_texts).stretches for line in stretch]
    if len(kept) == len(lines) and _FORWARD_SUBJECT.match(subject):
        return ""
    return "\n".join(kept).strip()


def _split(whole: str) -> list[str]:
    lines = whole.splitlines()
    searched = [part for line in lines[:MARKS_MAX_LINES] for part in split_line(line)]
    return searched + lines[MARKS_MAX_LINES:]


@dataclass(frozen=True, slots=True)
class _Written:
    """The lines that are not quoted, in pieces between quotations; of a forward, only those above the forwarded
    text. `quotes_unmarked`: words of ours were left out though no mark or quote sign stands above them.
    `below`: the lines from the mark on below which all counts as quoted."""

    stretches: list[list[str]]
    is_forward: bool = False
    quotes_unmarked: bool = False
    below: Sequence[str] = ()


def _written(lines: Sequence[str], our_texts: Sequence[str], to_pass_on: bool = False) -> _Written:
    """Tell what was written. `to_pass_on`: a quotation without quote signs ends it, even if we know that its
    words are ours."""
    plain = [plain_line(line[:LINE_MAX_LENGTH]) for line in lines]
    quoted = [_is_quoted(line) for line in lines]
    ours = our_lines(lines, our_texts)
    unmarked = unmarked_quote(lines, ours, our_texts)
    marked = next((at for at, sign in enumerate(quoted) if sign), len(lines))
    kept: list[list[str]] = [[]]
    left = MARKS_MAX_LINES
    at, at_top = 0, True  # above the first mark; a forward within quoted history is history
    quotes_unmarked = False
    while at < len(lines):
        if quoted[at]:
            bare = plain_line(_QUOTE_PREFIX.sub("", lines[at][:LINE_MAX_LENGTH], count=1))
            if at_top and is_forwarded_line(bare):
                return _Written(kept, is_forward=True)
            if is_reply_above(bare):
                break
            at += 1
        elif ours[at] and at >= min(marked, unmarked):
            quotes_unmarked = quotes_unmarked or at < marked
            at += 1
        elif _is_wrapped_quote(lines, quoted, at):
            at += 1
        elif left <= 0 or (found := find_mark(plain, at)) is None:
            kept[-1].append(lines[at])
            left -= bool(plain[at])
            at += 1
            continue
        elif found.mark is Mark.FORWARDED:
            return _Written(kept, is_forward=True)
        else:
            following = next_text(plain, found.end)
            # If the quote is marked line by line, or known to be ours, new text may follow it.
            ends = following < len(lines) and (
                quoted[following]
                or (ours[following] and not to_pass_on)
                or find_mark(plain, following)
            )
            if found.mark is Mark.REPLY_ABOVE or not ends:
                break
            at, at_top, marked = found.end, False, min(marked, found.end)
            left -= 1
        if kept[-1]:
            kept.append([])
    return _Written(kept, quotes_unmarked=quotes_unmarked, below=lines[at:])


def _is_quoted(line: str) -> bool:
    """Return whether a line begins with a quote sign. `>From` is none: mailbox files write it for a plain
    `From`."""
    if not line.lstrip(" \t\u00a0\ufeff").startswith(QUOTE_SIGNS):
        return False
    return not (line.startswith(">From ") or _SHOUTED.match(line[:400].strip()))


def _is_wrapped_quote(lines: Sequence[str], quoted: Sequence[bool], at: int) -> bool:
    """Return whether a line without a quote sign is the rest of a quoted line that was too long: it continues
    the sentence with a word for which that line had no space."""
    if not 0 < at < len(lines) - 1 or not (quoted[at - 1] and quoted[at + 1]):
        return False
    before, line = lines[at - 1].rstrip(), lines[at].strip()
    if not line or len(line) > WRAPPED_MAX_LENGTH or before.endswith(SENTENCE_ENDS):
        return False
    word = line.split(maxsplit=1)[0]
    return not (word[0].isupper() or word[0].isdigit()) and len(before) + len(word) >= QUOTE_WIDTH


# --- our own lines --------------------------------------------------------------------------------
# We find our own lines by our stored texts, in any language, also if a program has wrapped or marked them.

OUR_TEXTS_MAX_LENGTH = 100_000  # characters of our newest texts; a mail quotes no more than that
# We compare pieces of this many characters, without white space, to tell our words from a customer's.
PIECE_LENGTH = 16
_OVERLAP = PIECE_LENGTH - 1
# People copy a line of ours, or two. A program quotes more, and begins where our mail begins.
UNMARKED_LEAST_LINES = 3
_NOT_TEXT = str.maketrans("", "", "> \t\r\n\u00a0\u200b\ufeff*_|")


def our_lines(lines: Sequence[str], our_texts: Sequence[str]) -> list[bool]:
    """Return for each line whether its words are from one of `our_texts`, which are newest last.

    A line is ours if every piece of it is, so a line of ours into which the customer wrote is theirs. A line
    that is too short for a piece is ours if it is next to a line of ours, as in our text.
    """
    ours = _newest(our_texts)
    pieces = set(_cut(ours))
    if not pieces:
        return [False] * len(lines)
    bare = [_bare(line[:LINE_MAX_LENGTH]) for line in lines]
    found = [_all_in(line, pieces) for line in bare]
    _mark_continuations(bare, found, pieces, range(len(bare)), backwards=False)
    _mark_continuations(bare, found, pieces, range(len(bare) - 1, -1, -1), backwards=True)
    return found


def unmarked_quote(lines: Sequence[str], ours: Sequence[bool], our_texts: Sequence[str]) -> int:
    """Return the first line that shows that a program quotes us without a mark, or the end of the mail.

    It begins one of `our_texts`, or is the first of several long lines of ours in a row. Another line of ours
    (`ours`, from `our_lines`) may be copied, or one that our mail has from its author.
    """
    bare = [_bare(line[:LINE_MAX_LENGTH]) for line in lines]
    said = [at for at, words in enumerate(bare) if words]
    beginnings = {_bare(text[:LINE_MAX_LENGTH])[:PIECE_LENGTH] for text in our_texts}
    first = count = 0
    for number, at in enumerate(said):
        if not ours[at]:
            count = 0
            continue
        following = said[number : number + PIECE_LENGTH]
        if "".join(bare[each][:PIECE_LENGTH] for each in following)[:PIECE_LENGTH] in beginnings:
            return at
        first = first if count else at
        count += len(bare[at]) >= PIECE_LENGTH
        if count == UNMARKED_LEAST_LINES:
            return first
    return len(lines)


def _mark_continuations(
    bare: list[str], found: list[bool], pieces: set[str], order: range, *, backwards: bool
) -> None:
    near = ""  # our last words so far, without white space; an answer may be in between
    for at in order:
        line = bare[at]
        joined = line[-_OVERLAP:] + near if backwards else near + line[:_OVERLAP]
        # Behind the beginning of a longer line the customer may have written something.
        if 0 < len(line) < PIECE_LENGTH and not found[at] and near:
            found[at] = _all_in(joined, pieces)
        if found[at]:
            near = (line + near)[:_OVERLAP] if backwards else (near + line)[-_OVERLAP:]


def _newest(our_texts: Sequence[str]) -> str:
    kept: list[str] = []
    left = OUR_TEXTS_MAX_LENGTH
    for text in reversed(our_texts):
        kept.append(_bare(text[: max(left, 0)]))
        left -= len(text)
    return "\n".join(kept)


def _bare(text: str) -> str:
    return text.translate(_NOT_TEXT).lower()


def _cut(bare: str) -> Iterable[str]:
    return (bare[at : at + PIECE_LENGTH] for at in range(len(bare) - PIECE_LENGTH + 1))


def _all_in(bare: str, pieces: set[str]) -> bool:
    return len(bare) >= PIECE_LENGTH and all(piece in pieces for piece in _cut(bare))
