"""Who works for the shop, and who is told of trouble after whom."""

from __future__ import annotations

import pytest

from mailagent.domain.shop import Shop, person_of
from tests.cast import MAX, MONA, SUPPORT, TESS

OLGA = "olga@shop.example"


def shop(team: tuple[str, ...], managers: tuple[str, ...], ops: tuple[str, ...]) -> Shop:
    return Shop(SUPPORT, "shop.example", managers, team, "http://localhost:8000", ops)


@pytest.mark.parametrize(
    ("team", "managers", "ops", "circles"),
    [
        ((TESS,), (MONA, MAX), (OLGA,), ((TESS,), (MONA, MAX), (OLGA,))),
        ((TESS,), (MONA,), (), ((TESS,), (MONA,))),
        ((MONA, MAX), (MONA, MAX), (OLGA,), ((MONA, MAX), (OLGA,))),
        ((TESS, MONA), (MONA, MAX), (MAX,), ((TESS, MONA), (MAX,))),
        ((MONA,), (MONA,), (MONA,), ((MONA,),)),
    ],
)
def test_everybody_is_in_one_circle_only(
    team: tuple[str, ...],
    managers: tuple[str, ...],
    ops: tuple[str, ...],
    circles: tuple[tuple[str, ...], ...],
) -> None:
    found = shop(team, managers, ops)
    assert found.circles == circles
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
    ("address", "same"),
    [
        (MONA, True),
        ("Mona@Shop.Example", True),
        ("mona+second@shop.example", True),
        ("mona+a+b@shop.example", True),
        ("+mona@shop.example", False),
        ("mona.second@shop.example", False),
        ("mona@other.example", False),
        (MAX, False),
    ],
)
def test_a_tag_makes_nobody_a_second_person(address: str, same: bool) -> None:
    assert (person_of(address) == person_of(MONA)) is same
