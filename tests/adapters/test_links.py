"""Signed links: whom we mailed what, and nothing that we did not sign."""

from __future__ import annotations

import pytest
from itsdangerous import URLSafeSerializer

from mailagent.adapters.links import ApprovalLink, Links

PUBLIC_URL = "https://support.shop.example"
MONA = "mona@shop.example"


def token_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_link_names_the_approval_and_whom_it_was_sent_to() -> None:
    links = Links(["key"], PUBLIC_URL + "/")
    url = links.sign_approval("a_17", MONA)
    assert url.startswith(f"{PUBLIC_URL}/approvals/")
    assert links.verify_approval(token_of(url)) == ApprovalLink("a_17", MONA)


def test_a_link_is_short_and_needs_no_escaping() -> None:
    url = Links(["key"], PUBLIC_URL).sign_approval("0193c1d2-7a5e-7c3b-9f11-3b8a2f6d4e50", MONA)
    assert len(url) < 200
    assert token_of(url).replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert url[-1].isalnum(), "mail programs leave trailing punctuation out of a link"


def test_the_newest_key_signs_and_every_key_in_use_verifies() -> None:
    before = Links(["old"], PUBLIC_URL)
    rotated = Links(["new", "old"], PUBLIC_URL)
    after = Links(["new"], PUBLIC_URL)

    mailed_before = token_of(before.sign_approval("a_17", MONA))
    mailed_since = token_of(rotated.sign_approval("a_17", MONA))

    assert rotated.verify_approval(mailed_before) == ApprovalLink("a_17", MONA)
    assert after.verify_approval(mailed_since) == ApprovalLink("a_17", MONA)
    assert after.verify_approval(mailed_before) is None


def test_a_link_with_any_character_changed_is_not_valid() -> None:
    links = Links(["key"], PUBLIC_URL)
    token = token_of(links.sign_approval("a_17", MONA))
    for place, letter in enumerate(token):
        for other in "AB":
            changed = token[:place] + other + token[place + 1 :]
            assert letter == other or links.verify_approval(changed) is None


@pytest.mark.parametrize("length", [0, 1, 10, -1, -5, -44])
def test_a_link_that_was_cut_off_is_not_valid(length: int) -> None:
    links = Links(["key"], PUBLIC_URL)
    token = token_of(links.sign_approval("a_17", MONA))
    assert links.verify_approval(token[:length]) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b", "é.é", "\ud800.x", "\x00", "x" * 100_000, "a.b!", "-._"]
)
def test_nonsense_is_not_valid_and_not_an_error(token: str) -> None:
    assert Links(["key"], PUBLIC_URL).verify_approval(token) is None


@pytest.mark.parametrize("end", ["!", "!!!!", " ", "\n", "é", "="])
def test_a_link_with_something_added_is_not_valid(end: str) -> None:
    links = Links(["key"], PUBLIC_URL)
    assert links.verify_approval(token_of(links.sign_approval("a_17", MONA)) + end) is None


def test_something_signed_for_another_use_is_not_an_approval() -> None:
    other_use = URLSafeSerializer("key", salt="login").dumps(["a_17", MONA])
    assert Links(["key"], PUBLIC_URL).verify_approval(str(other_use)) is None


@pytest.mark.parametrize("keys", [[], [""], ["key", ""], "key"])
def test_no_links_without_proper_keys(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="SECRET_KEY"):
        Links(keys, PUBLIC_URL)
