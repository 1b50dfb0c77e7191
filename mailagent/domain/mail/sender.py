"""Who wrote a mail: the From address judged by what the receiving server checked (alignment).

Pure. Parsing headers and knowing public suffixes belong to the adapters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from mailagent.domain.mail.message import Identity

ADDRESS_MAX_LENGTH = 320  # RFC 3696 erratum 1690 says 254; old systems allow 64 + 1 + 255

# The last label may not be a number: an IP address has no organisation.
_HOST = re.compile(r"(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-|\d+\Z)[a-z0-9_-]{1,63}(?<!-)")
_LOCAL_PART = re.compile(r'[^\s@<>()\[\]\\,;:"\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+')
# SendGrid's own notation, not JSON: `{@a.example : pass}`, several with commas, or several braces.
_DKIM_ENTRY = re.compile(r"@([a-z0-9._-]{1,253})\s*:\s*([a-z]{1,20})")
_DKIM_GROUP = re.compile(r"\{([^{}]*)\}")
_DKIM_FIELD_MAX_LENGTH = 4_000
# IDNA 2003 turns these into other letters; IDNA 2008, which registries use, keeps them apart.
_IDNA_DEVIATIONS = re.compile("[ß\u03c2\u200c\u200d]")


def decide_identity(
    from_addresses: Sequence[str],
    envelope_from: str | None,
    spf: str,
    dkim_field: str,
    organisational_domain: Callable[[str], str | None],
) -> Identity:
    """Decide whether the From address was proven, DMARC-like with relaxed alignment.

    `from_addresses` are all addresses of all From fields: more than one proves nothing. `spf` is
    about `envelope_from`, `dkim_field` names the domains that signed; neither says anything of From
    by itself. What signatures cover is judged in `domain.dkim`. `organisational_domain` gives the
    registrable domain, or None for a public suffix. RFC 7489 section 3.1. What cannot be read counts
    as not passed.
    """
    if len(from_addresses) != 1:
        return Identity.NONE
    author = address_domain(from_addresses[0])
    if author is None:
        return Identity.NONE

    def aligned(domain: str | None) -> bool:
        return domain is not None and is_aligned(author, domain, organisational_domain)

    if any(result == "pass" and aligned(domain) for domain, result in parse_dkim(dkim_field)):
        return Identity.DKIM
    if spf.strip().lower() == "pass" and aligned(address_domain(envelope_from or "")):
        return Identity.SPF
    return Identity.NONE


def is_aligned(
    author: str, domain: str, organisational_domain: Callable[[str], str | None]
) -> bool:
    """Return whether a domain that signed or sent may vouch for the domain of From, relaxed alignment."""
    if author == domain:
        return True
    organisation = organisational_domain(author)
    return organisation is not None and organisation == organisational_domain(domain)


def parse_dkim(field: str) -> tuple[tuple[str, str], ...]:
    """Return the (domain, result) pairs of SendGrid's `dkim` field.

    One word that does not fit empties the whole list: a half-understood field proves nothing.
    """
    text = field.strip().lower()
    if len(text) > _DKIM_FIELD_MAX_LENGTH or _DKIM_GROUP.sub("", text).strip(", \t\r\n"):
        return ()
    entries: list[tuple[str, str]] = []
    for group in _DKIM_GROUP.findall(text):
        for word in group.split(","):
            match = _DKIM_ENTRY.fullmatch(word.strip())
            domain = ascii_domain(match[1]) if match else None
            if match is None or domain is None:
                return ()
            entries.append((domain, match[2]))
    return tuple(entries)


def ascii_domain(domain: str) -> str | None:
    """Return a host name in lower-case A-label form (RFC 5890), or None if it is none.

    Look-alikes in other scripts thereby become visibly different `xn--` names.
    """
    return _ascii_domain(domain) if len(domain) <= 253 else None


# Of each mail the same few names are asked again and again, and most mails come from a few providers.
@lru_cache(maxsize=1_000)
def _ascii_domain(domain: str) -> str | None:
    labels = re.split("[.\u3002\uff0e\uff61]", domain.removesuffix("."))
    if not all(labels):
        return None
    try:
        host = ".".join(_ascii_label(label) for label in labels)
    except UnicodeError:
        return None
    return host if len(host) <= 253 and _HOST.fullmatch(host) else None


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    if len(label) > 63:
        raise UnicodeError("label too long")
    if _IDNA_DEVIATIONS.search(label):
        return "xn--" + label.lower().encode("punycode").decode("ascii")
    return label.encode("idna").decode("ascii").lower()


def normalise_address(address: str) -> str | None:
    """Return an address as it is compared and stored, or None if it is none.

    The local part is lower-cased in ASCII only: Unicode rules would turn the Kelvin sign into `k`
    and so one person's address into another's.
    """
    local, at, domain = address.strip().rpartition("@")
    host = ascii_domain(domain)
    if not at or host is None or not _LOCAL_PART.fullmatch(local):
        return None
    if len(local) + 1 + len(host) > ADDRESS_MAX_LENGTH:
        return None
    return f"{_ascii_lower(local)}@{host}"


def address_domain(address: str) -> str | None:
    """Return the domain of an address in A-label form, or None."""
    return ascii_domain(address.strip().rpartition("@")[2]) if "@" in address else None


def _ascii_lower(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
