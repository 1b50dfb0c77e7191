"""Parses address fields of a mail (RFC 5322 section 3.4) as senders really write them. Takes linear time; never
raises.

An attacker may write a field that two programs read in different ways. So we mark everything unusual as not
`plain`, and a From field that is not plain proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mailagent.adapters.mime.headers import decode_words
from mailagent.domain.mail.authentication import normalise_address

MAILBOXES_MAX = 500

_ADDRESS = r"""[^\s<>()\\",;:@]++@[^\s<>()\\",;:@]++"""
# One mailbox, or a part of a name with a comma in it.
_MAILBOX = re.compile(
    rf"""\s*+(?:
        (?P<name>(?:"(?:[^"\\]|\\.)*+"|[^<>()\\",;:])*+)
            <\s*+(?:mailto:|@[^\s<>:]++:)?(?P<bracketed>{_ADDRESS})\s*+>
        |(?P<bare>{_ADDRESS})
        |[^<>()\\",;:@]*+
    )\s*+(?:[,;]|\Z)""",
    re.VERBOSE | re.DOTALL,
)
# Tries one address for each word: tried at each letter, a long word takes quadratic time.
_ANY_ADDRESS = re.compile(rf"""(?<![^\s<>()\\",;:@]){_ADDRESS}""")
_COMMENT = re.compile(r'\((?:[^()<>@]*+|[^()<>"]*+)\)')
_COMMENT_DEPTH_MAX = 3
_GROUP = re.compile(r'[^()<>@",;:\\]*+:([^:;]*+);\s*')
_IN_BRACKETS = re.compile(r"<[^<>]*+>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One author or recipient. `address`: normalised, or empty if we cannot read it. `plain`: False if another
    program may read another address from the same text."""

    name: str
    address: str
    plain: bool = True


def parse_addresses(value: str) -> tuple[Mailbox, ...]:
    """Return the mailboxes of a From, To or Cc field. `value`: the field as it came, with encoded words."""
    text = value
    for _depth in range(_COMMENT_DEPTH_MAX):
        text = _COMMENT.sub(" ", text)
    group = _GROUP.fullmatch(text)
    text = group[1] if group else text
    mailboxes: list[Mailbox] = []
    at = 0
    while at < len(text) and len(mailboxes) < MAILBOXES_MAX:
        match = _MAILBOX.match(text, at)
        if match is None:
            return _all_addresses(value)
        at = match.end()
        if match["bracketed"] or match["bare"]:
            mailboxes.append(_mailbox(match["name"] or "", match["bracketed"] or match["bare"]))
    return tuple(mailboxes)


def _mailbox(name: str, text: str) -> Mailbox:
    address = normalise_address(text) or ""
    unquoted = _QUOTED.sub("", name).strip()
    plain = "@" not in unquoted or normalise_address(unquoted) == address
    shown = _QUOTED.sub(lambda quoted: re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL), name)
    return Mailbox(decode_words(shown), address, plain)


def _all_addresses(value: str) -> tuple[Mailbox, ...]:
    """Return everything that looks like an address in a malformed field."""
    dense = _IN_BRACKETS.sub(
        lambda bracketed: "".join(bracketed[0].split()), _COMMENT.sub("", value)
    )
    found = _ANY_ADDRESS.findall(dense)[:MAILBOXES_MAX]
    name, bracket, _rest = dense.partition("<")
    name = decode_words(name.strip(' "')) if len(found) == 1 and bracket else ""
    return tuple(Mailbox(name, normalise_address(one) or "", plain=False) for one in found)
