"""Who works for the shop, and who is told of trouble after whom."""

from __future__ import annotations

import pytest

from mailagent.adapters.mime.dmarc import registered_domain
from mailagent.domain.shop import Shop, person_of, rate_limit_key
from tests.cast import MAX, MONA, SUPPORT, TESS

OLGA = "olga@shop.example"


def shop(team: tuple[str, ...], managers: tuple[str, ...], ops: tuple[str, ...]) -> Shop:
    return Shop(SUPPORT, "shop.example", managers, team, "http://localhost:8000", ops)


@pytest.mark.parametrize(
    ("team", "managers", "ops", "groups"),
    [
        ((TESS,), (MONA, MAX), (OLGA,), ((TESS,), (MONA, MAX), (OLGA,))),
        ((TESS,), (MONA,), (), ((TESS,), (MONA,))),
        ((MONA, MAX), (MONA, MAX), (OLGA,), ((MONA, MAX), (OLGA,))),
        ((TESS, MONA), (MONA, MAX), (MAX,), ((TESS, MONA), (MAX,))),
        ((MONA,), (MONA,), (MONA,), ((MONA,),)),
    ],
)
def test_everybody_is_in_one_group_only(
    team: tuple[str, ...],
    managers: tuple[str, ...],
    ops: tuple[str, ...],
    groups: tuple[tuple[str, ...], ...],
) -> None:
    found = shop(team, managers, ops)
    assert found.groups_of_people == groups
    assert sorted(found.people) == sorted({*team, *managers, *ops})


@pytest.mark.parametrize(
    ("default", "language", "locale"),
    [
        ("en", None, "en"),
        ("en", "de", "de"),
        ("de-CH", None, "de_CH"),
        ("de_CH", "de", "de_CH"),
        ("de_CH", "en", "en"),
        ("en_GB", "en", "en_GB"),
    ],
)
def test_a_shops_own_region_writes_the_amounts_of_its_own_language(
    default: str, language: str | None, locale: str
) -> None:
    named = Shop(SUPPORT, "shop.example", (MONA,), (TESS,), "http://x", default_language=default)
    assert named.locale_for(language) == locale


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        (MONA, MONA, True),
        (MONA, "Mona@Shop.Example", True),
        (MONA, "mona+second@shop.example", True),
        (MONA, "mona+a+b@shop.example", True),
        (MONA, "mona@shop.example.", True),
        (MONA, " mona@shop.example ", True),
        (MONA, "+mona@shop.example", False),
        (MONA, "mona.second@shop.example", False),
        (MONA, "m.ona@shop.example", False),
        (MONA, "mona@other.example", False),
        (MONA, MAX, False),
        ("mona@b\u00fccher.example", "mona@xn--bcher-kva.example", True),
        ("mona@b\u00fccher.example", "mona@BU\u0308CHER.example", True),
        ("mona@b\u00fccher.example", "mona@bucher.example", False),
        ("mona.berg@gmail.com", "monaberg@gmail.com", True),
        ("mona.berg@gmail.com", "M.o.n.a.Berg+refunds@GoogleMail.com.", True),
        ("mona.berg@gmail.com", "mona.burg@gmail.com", False),
        ("mona.berg@gmail.com", "monaberg@gmail.com.example", False),
        ("mona@icloud.com", "mona@me.com", True),
        ("mona@icloud.com", "mo.na@mac.com", False),
        ("mona.berg@proton.me", "mona_berg@protonmail.com", True),
        ("mona.berg@proton.me", "mona-berg+1@pm.me", True),
        ("mona@outlook.com", "mona@hotmail.com", False),
        ("mona.berg@outlook.com", "monaberg@outlook.com", False),
        ("...@gmail.com", "....@gmail.com", False),
    ],
)
def test_two_spellings_of_one_mailbox_are_one_person(address: str, other: str, same: bool) -> None:
    assert (person_of(address) == person_of(other)) is same


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("ada+kettle@yahoo.de", "ada@yahoo.de"),
        ("ada@yahoo.co.uk", "ada@yahoo.co.uk"),
        ("ada@hotmail.co.uk", "ada@hotmail.co.uk"),
        ("ada@hotmail.de", "ada@hotmail.de"),
        ("ada@live.de", "ada@live.de"),
        ("ada@outlook.fr", "ada@outlook.fr"),
        ("ada@gmx.net", "ada@gmx.net"),
        ("ada@web.de", "ada@web.de"),
        ("ada@libero.it", "ada@libero.it"),
        ("ada@live.example", "live.example"),  # not the provider's
        ("ada@mail.yahoo.evil.example", "evil.example"),
        ("ada@one.duckdns.org", "duckdns.org"),
        ("ada@two.duckdns.org", "duckdns.org"),
        ("ada@ada.github.io", "github.io"),
        ("ada@mail.ada.eu.org", "eu.org"),
        ("ada@mail.example.co.uk", "example.co.uk"),
    ],
)
def test_a_share_of_mail_is_a_mailboxs_or_a_registered_domains(address: str, expected: str) -> None:
    assert rate_limit_key(address, registered_domain) == expected
