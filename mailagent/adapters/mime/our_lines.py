"""Which lines of a mail are ours, quoted back to us: found by what we stored, in any language and
however the sender's program wrapped or marked them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

OUR_TEXTS_MAX_LENGTH = 100_000  # the newest texts; a thread that long quotes no more than that
# Pieces of this many characters, white space aside, tell our words from a customer's.
PIECE_LENGTH = 16
_OVERLAP = PIECE_LENGTH - 1

_LINE_MAX_LENGTH = 2_000
_NOT_TEXT = str.maketrans("", "", "> \t\r\n\u00a0\u200b\ufeff*_|")


def our_lines(lines: Sequence[str], our_texts: Sequence[str]) -> list[bool]:
    """Return for each line whether it stands in one of `our_texts`, which are newest last.

    A line is ours if every piece of it is: so a line of ours that the customer wrote into is theirs.
    A line too short for that is ours if it continues one that is, as it does in our text.
    """
    ours = _newest(our_texts)
    pieces = set(_cut(ours))
    if not pieces:
        return [False] * len(lines)
    bare = [_bare(line[:_LINE_MAX_LENGTH]) for line in lines]
    found = [_all_in(line, pieces) for line in bare]
    _mark_continuations(bare, found, pieces, range(len(bare)), backwards=False)
    _mark_continuations(bare, found, pieces, range(len(bare) - 1, -1, -1), backwards=True)
    return found


def _mark_continuations(
    bare: list[str], found: list[bool], pieces: set[str], order: range, *, backwards: bool
) -> None:
    near = ""  # our last words on the way, white space aside: an answer may stand in between
    for at in order:
        line = bare[at]
        joined = line[-_OVERLAP:] + near if backwards else near + line[:_OVERLAP]
        if line and not found[at] and near:
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
