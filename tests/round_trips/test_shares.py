"""A flood of one domain uses up its own share of the hour, and nothing of the others'."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent import services
from mailagent.domain.mail.conversation import Limits
from mailagent.workflows.steps.maintenance import flood
from tests.harness import Harness


@pytest.fixture
def small_shop(shop: Harness) -> Harness:
    """A shop that lets in sixty mails an hour, six of them from one domain."""
    shop.live = replace(shop.live, limits=Limits(mails_of_sender_per_hour=4, mails_per_hour=60))
    services.bind(shop.live)
    return shop


def write_from(shop: Harness, *addresses: str) -> list[str]:
    """Write a mail from each address; return what became of them."""
    for number, address in enumerate(addresses):
        shop.write("Hello", from_address=address, subject=f"s{number}")
    rows = shop.rows("SELECT from_address, status FROM inbound_mails")
    found = {row.from_address: row.status for row in rows}
    return [found[address] for address in addresses]


def test_of_a_flood_of_one_domain_only_the_excess_is_throttled(small_shop: Harness) -> None:
    flood = [f"c{n}@m{n}.flood.test" for n in range(70)]
    assert write_from(small_shop, *flood) == ["unanswered"] * 6 + ["throttled"] * 64
    assert write_from(small_shop, "ada@other.test") == ["unanswered"]
    reasons = small_shop.rows("SELECT DISTINCT no_answer_reason AS why FROM inbound_mails")
    assert any("6 mails an hour from flood.test" in (row.why or "") for row in reasons)


def test_customers_of_a_free_mail_provider_share_nothing(small_shop: Harness) -> None:
    assert set(write_from(small_shop, *(f"c{n}@gmail.com" for n in range(20)))) == {"unanswered"}


def test_throttled_mail_is_let_in_going_round_the_domains(small_shop: Harness) -> None:
    write_from(small_shop, *(f"c{n}@flood.test" for n in range(12)))
    write_from(small_shop, *(f"c{n}@other.test" for n in range(7)))
    later = small_shop.live.now() + timedelta(minutes=61)
    limits = replace(small_shop.live.limits, mails_per_hour=120)
    services.bind(replace(small_shop.live, now=lambda: later, limits=limits))
    assert flood.release_throttled_mail() == 2
    assert write_from(small_shop) == []
    let_in = (
        "SELECT 1 FROM inbound_mails WHERE from_address = 'c6@other.test' AND status = 'unanswered'"
    )
    assert small_shop.rows(let_in)
