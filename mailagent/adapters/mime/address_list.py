"""Address fields of a mail (RFC 5322 section 3.4) as senders really write them. Linear, never raises.

An attacker writes fields that two programs read differently; so whatever is not plain is marked,
and a From field that is marked proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mailagent.adapters.mime.headers import decode_words
from mailagent.domain.mail.authentication import normalise_address

MAILBOXES_MAX = 500

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>|[(),;:<>]|[^(),;:<>"]++', re.DOTALL)
_UNQUOTED_PIECE = re.compile(r"<[^<>]*+>|[(),;:<>]|[^(),;:<>]++")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One author or recipient. `address` is normalised, or empty if it could not be read;
    `plain` is false if another program might read another address out of the same text."""

    name: str
    address: str
    plain: bool = True


def parse_addresses(value: str) -> tuple[Mailbox, ...]:
    """Return the mailboxes of a From, To or Cc field as it came, encoded words and all."""
    mailboxes: list[Mailbox] = []
    pieces: list[str] = []
    split, sound = _split(value)
    for piece in (*split, ","):
        if piece not in {",", ";"}:
            pieces.append(piece)
            continue
        mailboxes += _parse_mailbox(pieces, sound)
        pieces = []
        if len(mailboxes) >= MAILBOXES_MAX:
            break
    return tuple(mailboxes)


def _split(value: str) -> tuple[list[str], bool]:
    """Return the pieces without comments, and whether every quote and comment was closed.

    An open one would swallow the address, so its mark is then a letter like any other.
    """
    pieces = _PIECE.findall(value)
    open_quote = bool(pieces) and pieces[-1][0] == '"' and not _is_quoted(pieces[-1])
    if open_quote:
        pieces = _UNQUOTED_PIECE.findall(value)
    kept: list[str] = []
    depth = 0
    for piece in pieces:
        if piece == ")" and depth:
            depth -= 1
        elif piece == "(":
            depth += 1
        elif not depth:
            kept.append(piece)
    return (pieces, False) if depth else (kept, not open_quote)


def _parse_mailbox(pieces: list[str], sound: bool) -> list[Mailbox]:
    if not any("@" in piece for piece in pieces):
        return []  # a group's name, a stray comma in a name, "undisclosed-recipients:;"
    colons = [index for index, piece in enumerate(pieces) if piece == ":"]
    group = pieces[: colons[-1]] if colons else []
    pieces = pieces[colons[-1] + 1 :] if colons else pieces
    plain = sound and not any("@" in piece for piece in group)
    in_brackets = [piece for piece in pieces if _is_bracketed(piece)]
    others = [piece for piece in pieces if not _is_bracketed(piece)]
    if not in_brackets:
        return _bare_mailboxes("".join(others), plain)
    name = decode_words("".join(_unquoted(piece) for piece in others))
    unquoted = " ".join(piece for piece in others if piece[0] != '"').strip()
    found = [_bracketed_address(piece) for piece in in_brackets]
    plain = plain and not any("(" in piece or "\\" in piece for piece in in_brackets)
    plain = plain and len(found) == 1 and _is_bracketed([p for p in pieces if p.strip()][-1])
    plain = plain and ("@" not in unquoted or normalise_address(unquoted) == found[0])
    return [Mailbox(name, address, plain) for address in found]


def _bare_mailboxes(text: str, plain: bool) -> list[Mailbox]:
    # `Name <ada@example.com` without the closing bracket comes from real programs.
    head, _bracket, tail = text.rpartition("<")
    words = [word for word in tail.split() if "@" in word]
    alone = plain and len(words) == 1 and text.split() == words
    name = decode_words(_unquoted(head.strip()))
    return [Mailbox(name, normalise_address(word.strip('"')) or "", alone) for word in words]


def _bracketed_address(piece: str) -> str:
    # RFC 822 allowed comments and spaces within an address; "wide" ones are still seen.
    text = "".join(re.sub(r"\([^()]*\)", "", piece[1:-1]).split())
    if text.startswith("@"):  # a route, obsolete since RFC 2822
        text = text.rpartition(":")[2]
    return normalise_address(text.removeprefix("mailto:")) or ""


def _is_bracketed(piece: str) -> bool:
    return piece[0] == "<" and len(piece) > 1


def _is_quoted(piece: str) -> bool:
    # An escaped quote does not close: only an even number of backslashes may stand before it.
    inside = piece[1:-1]
    backslashes = len(inside) - len(inside.rstrip("\\"))
    return len(piece) > 1 and piece[-1] == '"' and backslashes % 2 == 0


def _unquoted(piece: str) -> str:
    if piece and piece[0] == '"' and _is_quoted(piece):
        return re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.DOTALL)
    return piece
