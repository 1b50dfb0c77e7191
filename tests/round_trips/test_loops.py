"""Loops: machines that answer machines stop by themselves, and people are told once."""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mailagent import services
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.mail.conversation import Limits
from mailagent.workflows.steps.maintenance import flood
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, SUPPORT, TESS
from tests.harness import Harness, wait_until
from tests.round_trips.neighbour import ADDRESS, TEAM, Neighbour, open_neighbour

MOST_ANSWERS = 6
ROUNDS = 15
QUIET_SECONDS = 2.0
LONGEST_SECONDS = 60.0
AWAY = "Thank you for writing. I have got your mail and will look at it when I am back."


def answer_everything(shop: Harness, answer: Callable[[SentMail], object]) -> list[SentMail]:
    """Answer each mail to Ada at once until none comes any more; return what she got."""
    done = 0
    for _round in range(ROUNDS):
        wait_until(shop.at_rest, 20, "the shop to come to rest")
        mails = shop.mails_to(ADA)
        if len(mails) == done:
            return mails
        for mail in mails[done:]:
            answer(mail)
        done = len(mails)
    raise AssertionError(f"no end after {ROUNDS} rounds")


def by_reply_address(mail: SentMail) -> dict[str, object]:
    return {"to": mail.reply_to, "subject": f"Re: {mail.subject}"}


def by_references(mail: SentMail) -> dict[str, object]:
    return {"to": SUPPORT, "in_reply_to": mail.message_id, "references": mail.references}


def by_both_under_another_subject(mail: SentMail) -> dict[str, object]:
    return {**by_references(mail), "to": mail.reply_to, "subject": "I have got your mail"}


@pytest.mark.parametrize(
    "way",
    [by_reply_address, by_references, by_both_under_another_subject],
    ids=lambda way: way.__name__,
)
def test_a_responder_without_any_header_is_answered_a_few_times_only(
    busy_shop: Harness, way: Callable[[SentMail], dict[str, object]]
) -> None:
    busy_shop.write("Where is my kettle?")
    got = answer_everything(busy_shop, lambda mail: busy_shop.write(AWAY, **way(mail)))
    assert len(got) == Limits().answers_per_hour
    (conversation,) = busy_shop.rows("SELECT * FROM conversations")
    assert conversation.status == "handed_over"
    assert "loop guard" in conversation.handed_over_reason
    assert len(busy_shop.mails_to(TESS)) == 1


def test_after_the_loop_guard_later_mail_is_kept_and_not_answered(busy_shop: Harness) -> None:
    busy_shop.write("Where is my kettle?")
    got = answer_everything(busy_shop, lambda mail: busy_shop.write(AWAY, **by_reply_address(mail)))
    later = busy_shop.write("Is anybody there?", **by_reply_address(got[-1]))
    wait_until(busy_shop.at_rest, 20, "the shop to come to rest")
    (mail,) = busy_shop.rows(
        "SELECT * FROM inbound_mails WHERE message_id = :id", id=later.message_id
    )
    assert mail.status == "throttled"
    assert "loop guard" in mail.no_answer_reason
    assert len(busy_shop.mails_to(ADA)) == len(got)
    assert len(busy_shop.mails_to(TESS)) == 1


# --- two mailagents -----------------------------------------------------------------------------


@pytest.fixture
def neighbour(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Neighbour]:
    folder = tmp_path / "neighbour"
    folder.mkdir()
    shutil.copy(migrated_sqlite, folder / "neighbour.db")
    with open_neighbour(folder, folder / "neighbour.db") as opened:
        yield opened


def carried(mail: SentMail, auto_submitted: str | None = None) -> bytes:
    """Return the request that brings a sent mail to its recipient's shop."""
    domain = mail.from_address.rpartition("@")[2]
    head = {
        "From": f"Support <{mail.from_address}>",
        "To": mail.to,
        "Reply-To": mail.reply_to,
        "Subject": mail.subject,
        "Message-ID": f"<{mail.message_id}>",
        "References": mail.references,
        "Auto-Submitted": auto_submitted,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "base64",
    }
    lines = [f"{name}: {value}" for name, value in head.items() if value]
    source = "\n".join([*lines, "", base64.encodebytes(mail.text.encode()).decode()])
    return raw_request(
        source,
        dkim=f"{{@{domain} : pass}}",
        envelope_from=mail.from_address,
        envelope_to=[mail.to],
    )


def begin(shop: Harness) -> SentMail:
    """Let a person of the other shop write by hand; return the agent's answer."""
    shop.write("Do you sell kettles to clubs, too?", from_address=ADDRESS, subject="Kettles")
    (answer,) = shop.wait_for_mails(ADDRESS)
    return answer


def test_two_mailagents_stop_at_the_first_answer(busy_shop: Harness, neighbour: Neighbour) -> None:
    answer = begin(busy_shop)
    (row,) = busy_shop.rows(
        "SELECT * FROM outbound_mails WHERE message_id = :id", id=answer.message_id
    )
    assert row.auto_submitted == "auto-replied"
    assert neighbour.post(carried(answer, row.auto_submitted)) == 200
    time.sleep(QUIET_SECONDS)
    assert neighbour.mailboxes.sent() == []


def told(shop: Harness, neighbour: Neighbour) -> list[int]:
    """How often the people of each shop were told of the loop."""
    return [len(shop.mails_to(TESS)), len(neighbour.mailboxes.sent(TEAM))]


def carry_on(shop: Harness, neighbour: Neighbour) -> None:
    """Carry every mail between the two shops, without the header, until somebody was told of the
    loop and all is quiet."""
    there = here = 0
    began_at = quiet_since = time.monotonic()
    while not any(told(shop, neighbour)) or time.monotonic() - quiet_since < QUIET_SECONDS:
        assert time.monotonic() - began_at < LONGEST_SECONDS, "nobody was told of the loop"
        to_them, to_us = shop.mails_to(ADDRESS), neighbour.mailboxes.sent(SUPPORT)
        for mail in to_them[there:]:
            assert neighbour.post(carried(mail)) == 200
        for mail in to_us[here:]:
            assert shop.post_inbound(carried(mail)).status_code == 200
        if (there, here) != (len(to_them), len(to_us)):
            quiet_since = time.monotonic()
        there, here = len(to_them), len(to_us)
        assert there + here < 4 * MOST_ANSWERS, "the two do not stop"
        time.sleep(0.05)


def test_two_mailagents_stop_even_if_the_header_is_lost_on_the_way(
    busy_shop: Harness, neighbour: Neighbour
) -> None:
    begin(busy_shop)
    carry_on(busy_shop, neighbour)
    ours, theirs = busy_shop.mails_to(ADDRESS), neighbour.mailboxes.sent(SUPPORT)
    assert 1 <= len(theirs) <= MOST_ANSWERS
    assert 1 <= len(ours) <= MOST_ANSWERS
    # One of them saw the loop, or both; each was told once.
    assert sorted(told(busy_shop, neighbour)) in ([0, 1], [1, 1])


# --- shares ---------------------------------------------------------------------------------------


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
