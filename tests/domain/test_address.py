"""Another delivery address: nothing of the customer's words may be lost, and nothing added."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent.domain.remedies.address import NewAddress, has_all

MAIL = "Hello,\nplease send it to\nAda Lovelace\n12/3 New Road, 3rd floor\n10117  Berlin\nThanks"
WISH = "Ada Lovelace, 12/3 New Road, 3rd floor, 10117 Berlin"
ADDRESS = NewAddress("12/3 New Road", "10117", "Berlin", "Ada Lovelace", "3rd floor")


def test_parts_that_are_all_of_the_wish_are_taken() -> None:
    assert has_all(ADDRESS, WISH, [MAIL])


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": None},  # the floor is lost
        {"name": None},
        {"street": "12 3 New Road"},  # other punctuation
        {"street": "12/3 New Street"},
        {"zip": "10118"},
        {"country": "Germany"},  # not written
        {"city": "Berlin 10117"},  # said twice
        {"extra": "floor 3rd"},
    ],
)
def test_other_parts_are_not(changes: dict[str, str]) -> None:
    assert not has_all(replace(ADDRESS, **changes), WISH, [MAIL])
