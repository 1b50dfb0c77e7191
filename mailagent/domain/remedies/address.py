"""Decides whether the shop's system may set another delivery address without a person. Pure.

If anything is unclear, a person decides: a parcel to a wrong address is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from mailagent.domain.remedies.remedy import quotes, words_of


@dataclass(frozen=True, slots=True)
class NewAddress:
    """The parts of the address that a customer wants, in the customer's own words; None for a part that they
    did not write. `extra`: a second line, such as the floor."""

    street: str
    zip: str
    city: str
    name: str | None = None
    extra: str | None = None
    province: str | None = None
    country: str | None = None

    @property
    def parts(self) -> list[str]:
        return [each for each in asdict(self).values() if each]


@dataclass(frozen=True, slots=True)
class PostalAddress:
    """The delivery address of an order in the shop's system; an empty text for a part that it does not have.
    `countries` and `provinces`: the names that customers may write for the one country or province."""

    name: str
    company: str
    street: str
    extra: str
    zip: str
    city: str
    provinces: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()


def has_all(address: NewAddress, wish: str, mails: Iterable[str]) -> bool:
    """Return whether one of the customer's mails has each part word for word, and the parts have all words of
    their wish: nothing may be lost, such as a floor or a name at the door."""
    written = [_in_one_line(mail) for mail in mails]
    is_quoted = all(any(_in_one_line(part) in mail for mail in written) for part in address.parts)
    said = Counter(word for part in address.parts for word in words_of(part))
    return (
        is_quoted
        and said == Counter(words_of(wish))
        and all(quotes(part, [wish]) for part in address.parts)
    )


def move_to(current: PostalAddress, wanted: NewAddress) -> PostalAddress | str:
    """Return the address to set, or a text that says why a person must change it. Taxes and shipping may differ
    in another province or country, and another name may be another person."""
    if current.company:
        return "the address has a company, and the customer does not say whether it stays"
    if wanted.name and words_of(wanted.name) != words_of(current.name):
        return "it is for another name"
    if wanted.country and not _is_one_of(wanted.country, current.countries):
        return "it names another country, or in other words"
    if current.provinces and not wanted.province:
        return "it names no province"
    if wanted.province and not _is_one_of(wanted.province, current.provinces):
        return "it names another province, or in other words"
    return replace(
        current,
        street=_in_one_line(wanted.street),
        extra=_in_one_line(wanted.extra or ""),
        zip=_in_one_line(wanted.zip),
        city=_in_one_line(wanted.city),
    )


def _is_one_of(text: str, names: Iterable[str]) -> bool:
    return any(words_of(text) == words_of(name) for name in names if name)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
