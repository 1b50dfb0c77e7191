"""Our own letters through the whole inbound path: each has an oddity, and what must come of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mailagent import mailers, services
from mailagent.domain.mail.message import Door, confirm_code, token_address
from mailagent.store.database import Row
from mailagent.store.mail import conversations, inbound
from mailagent.web.webhooks import threading
from tests.cast import NOW
from tests.databases import postgres_copy
from tests.harness import Harness, open_shop
from tests.letters.expectation import (
    FOLDER,
    NEW_THREAD,
    NO_THREAD,
    Expectation,
    load_expectations,
)
from tests.letters.posting import Checks, Outcome, post

EXPECTED = load_expectations()
FEWEST_LETTERS = 35


@contextmanager
def fresh_url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param == "sqlite":
        path = folder / "letters.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server = request.getfixturevalue("postgres_url")
    with postgres_copy(server, request.getfixturevalue("migrated_postgres")) as url:
        yield url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """What came of every letter, in one shop for all of them."""
    folder = tmp_path_factory.mktemp("letters")
    found: dict[str, Outcome] = {}
    with (
        fresh_url(request, folder) as url,
        open_shop(folder, url) as shop,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Each letter for itself: the second of an unproven sender would wait for the first.
        patch.setattr(threading, "_why_unconfirmed", lambda *_: None)
        services.bind(replace(shop.live, now=lambda: NOW))  # the letters' own day
        for one in EXPECTED:
            to = envelope_to(shop, one, found)
            mail = one.mail
            if "confirm of " in one.envelope_to:
                code = ask(shop, found[one.envelope_to.removeprefix("confirm of ")])
                mail = mail.replace(b"CONFIRM-CODE", code.encode())
            found[one.file] = post(shop, mail, Checks(one.dkim, one.spf, one.envelope_from, to))
    return found


def envelope_to(shop: Harness, one: Expectation, found: Mapping[str, Outcome]) -> str:
    """Return the recipient; "case of x.eml" is an address of that letter's conversation."""
    door, of, file = one.envelope_to.partition(" of ")
    if not of:
        return one.envelope_to
    with shop.live.database.snapshot() as connection:
        conversation = conversations.load(connection, row_of(found[file]).conversation_id)
    tokens = {"case": conversation.reply_token, "confirm": conversation.confirm_token}
    return token_address(Door(door), tokens[door], shop.live.shop.reply_domain)


def ask(shop: Harness, outcome: Outcome) -> str:
    """Answer a letter whose author is not proven; return the code that the answer asks for."""
    mail_ids = [row_of(outcome).mail_id]
    with shop.live.database.transaction() as connection:
        thread = conversations.load(connection, row_of(outcome).conversation_id)
        mails = inbound.list_by_id(connection, mail_ids)
        reader = mailers.reader_of(connection, thread, mails)
        outbound_id = mailers.write_reply(reader, mails, mailers.Letter("Thank you.", "en"))
        inbound.answer(connection, mail_ids, outbound_id)
    return confirm_code(thread.confirm_token, mail_ids[0])


def row_of(outcome: Outcome) -> Row:
    assert outcome.row is not None
    return outcome.row


def one_letter(one: Expectation) -> str:
    return one.file.removesuffix(".eml")


def test_every_letter_has_its_expectation_and_there_are_many() -> None:
    files = sorted(path.name for path in FOLDER.rglob("*.eml"))
    assert files == sorted(one.file for one in EXPECTED)
    assert len(files) >= FEWEST_LETTERS


@pytest.mark.parametrize("one", EXPECTED, ids=one_letter)
def test_a_letter_is_thanked_for_and_kept_whole(
    outcomes: dict[str, Outcome], one: Expectation
) -> None:
    outcome = outcomes[one.file]
    assert (outcome.code, outcome.answer, outcome.problems) == (200, one.answer, ())
    assert outcome.whole


@pytest.mark.parametrize("one", EXPECTED, ids=one_letter)
def test_it_is_known_what_it_is_and_whose(outcomes: dict[str, Outcome], one: Expectation) -> None:
    row = row_of(outcomes[one.file])
    assert (row.kind, row.identity, row.status) == (one.kind, one.identity, one.status)
    assert (one.reason or "") in (row.no_answer_reason or "")
    assert (one.reason is None) == (row.no_answer_reason is None)
    assert tuple(row.flags) == one.flags
    assert one.from_address in (None, row.from_address)


@pytest.mark.parametrize("one", EXPECTED, ids=one_letter)
def test_it_says_what_was_written(outcomes: dict[str, Outcome], one: Expectation) -> None:
    row = row_of(outcomes[one.file])
    assert [word for word in one.contains if word not in row.new_text] == []
    assert [word for word in one.lacks if word in row.new_text] == []
    assert one.subject in (None, row.subject)
    assert tuple(attachment["name"] for attachment in row.attachments) == one.attachments


@pytest.mark.parametrize("one", EXPECTED, ids=one_letter)
def test_it_is_in_the_thread_where_it_belongs(
    outcomes: dict[str, Outcome], one: Expectation
) -> None:
    conversation_id = row_of(outcomes[one.file]).conversation_id
    if one.thread == NO_THREAD:
        assert conversation_id is None
    elif one.thread == NEW_THREAD:
        before = [other.file for other in EXPECTED[: EXPECTED.index(one)]]
        assert conversation_id is not None
        assert conversation_id not in {row_of(outcomes[file]).conversation_id for file in before}
    else:
        assert conversation_id == row_of(outcomes[one.thread]).conversation_id
