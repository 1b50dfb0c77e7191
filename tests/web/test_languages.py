"""The pages in the languages of their catalogues: whole, true to the messages, and chosen by the reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel import Locale
from markupsafe import escape

from mailagent.adapters.templates.catalogue import (
    PAGES_FOLDER,
    MessageId,
    find_problems,
    read_catalogue,
)
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.store.mail import assignments, conversations, inbound
from mailagent.web.language import COOKIE, LANGUAGES
from tests.cast import OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.programs.messages import list_messages
from tests.web.doors import csrf_token
from tests.web.questions import Question

CATALOGUES = sorted(PAGES_FOLDER.glob("*.po"), key=str)
IDS = [path.stem for path in CATALOGUES]
MESSAGES = list_messages()
# What pages show has no other tags and facts than the message.
_MARKS = re.compile(r"</?\w+[^>]*>|%\(\w+\)s|%%|\{\{|\}\}")


@pytest.mark.parametrize("path", CATALOGUES, ids=IDS)
def test_a_catalogue_has_every_message_with_its_placeholders(path: Path) -> None:
    assert find_problems(path, MESSAGES) == []


@pytest.mark.parametrize("path", CATALOGUES, ids=IDS)
def test_a_catalogue_has_no_message_that_no_page_says(path: Path) -> None:
    catalogue = read_catalogue(path)
    known = {_key(message.id) for message in catalogue if message.id}
    assert known - {_key(each) for each in MESSAGES} == set()


@pytest.mark.parametrize("path", CATALOGUES, ids=IDS)
def test_a_translation_has_the_tags_of_its_message(path: Path) -> None:
    differ = []
    for message in read_catalogue(path):
        texts = message.string if isinstance(message.string, list | tuple) else [message.string]
        for text in texts if message.id else ():
            wanted, found = (_marks(each) for each in (_key(message.id)[-1], text or ""))
            if found != wanted and not (message.pluralizable and found < wanted):
                differ.append((message.id, text))
    assert differ == []


def _key(message_id: str | list[str] | tuple[str, ...] | MessageId) -> tuple[str, ...]:
    return (message_id,) if isinstance(message_id, str) else tuple(message_id)


def _marks(text: str) -> set[str]:
    return set(_MARKS.findall(text))


@ONE_DATABASE
@pytest.mark.parametrize(
    ("chosen", "header", "language"),
    [
        (None, None, "en"),
        (None, "de-AT, en;q=0.5", "de"),
        (None, "sv, de;q=0.7", "de"),
        (None, "de;q=0, en", "en"),
        (None, "sv, xx;q=0.9, *;q=0.1", "en"),
        (None, "nonsense;;q=,", "en"),
        ("de", "fr, en;q=0.5", "de"),
        ("en", "de", "en"),
        ("xx", "de", "de"),
    ],
)
def test_the_readers_choice_comes_first_then_their_browsers(
    shop: Harness, chosen: str | None, header: str | None, language: str
) -> None:
    client = shop.app.test_client()
    if chosen:
        client.set_cookie(COOKIE, chosen)
    page = client.get("/ops/login", headers={"Accept-Language": header} if header else {})
    assert f'<html lang="{language}">' in page.text
    assert {"Accept-Language", "Cookie"} <= set(page.vary)


@ONE_DATABASE
def test_a_choice_is_kept_and_leads_back_to_the_page(shop: Harness) -> None:
    client = shop.app.test_client()
    answer = client.post(
        "/language",
        data={"language": "de", "csrf_token": csrf_token(client)},
        headers={"Referer": "http://localhost/ops/login?next=/ops/runs"},
    )
    assert (answer.status_code, answer.location) == (303, "/ops/login?next=/ops/runs")
    assert "HttpOnly" in answer.headers["Set-Cookie"]
    assert '<html lang="de">' in client.get("/ops/login").text


@ONE_DATABASE
@pytest.mark.parametrize(
    ("referrer", "location"),
    [
        (None, "/ops"),
        ("http://evil.example/ops/runs", "/ops/runs"),
        ("http://localhost//evil.example/", "/evil.example/"),
        ("http://localhost/\\evil.example", "/evil.example"),
    ],
)
def test_a_choice_never_leads_to_another_host(
    shop: Harness, referrer: str | None, location: str
) -> None:
    client = shop.app.test_client()
    answer = client.post(
        "/language",
        data={"language": "xx", "csrf_token": csrf_token(client)},
        headers={"Referer": referrer} if referrer else {},
    )
    assert answer.location == location
    assert "Set-Cookie" not in answer.headers


@ONE_DATABASE
def test_programs_and_files_stay_english(shop: Harness) -> None:
    answer = shop.app.test_client().get(
        "/nothing", headers={"Accept-Language": "de", "Accept": "*/*"}
    )
    assert answer.text == "404 Not Found\n"


@ONE_DATABASE
@pytest.mark.parametrize("why", HandOverReason)
def test_the_reason_of_a_hand_over_is_in_the_readers_language(
    shop: Harness, why: HandOverReason
) -> None:
    shop.write("Hello?")
    (thread,) = shop.rows("SELECT conversation_id FROM conversations")
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, thread.conversation_id, why.value, shop.live.now())
    client, path = shop.log_in(TESS), f"/ops/conversations/{thread.conversation_id}"
    for page in (path, "/ops?waiting=people"):
        assert escape(why.value) in client.get(page).text
        assert escape(why.value) not in client.get(page, headers={"Accept-Language": "de"}).text


@ONE_DATABASE
def test_a_state_at_the_beginning_keeps_its_capitals(question: Question) -> None:
    client, german = question.shop.log_in(OLGA), {"Accept-Language": "de"}
    page = client.get(f"/ops/refunds/{question.refund_id}", headers=german).text
    assert ">Wartet auf einen Manager</p>" in page
    question.decide()
    page = question.shop.client.get(question.link(), headers=german).text
    assert ">Genehmigt</p>" in page


def test_every_language_has_its_own_name() -> None:
    own = {each: str(Locale.parse(each).languages[each]).capitalize() for each in ("en", *IDS)}
    assert own == LANGUAGES
    assert list(LANGUAGES) == list(own)


@ONE_DATABASE
def test_why_a_mail_gets_no_answer_is_in_the_readers_language(shop: Harness) -> None:
    shop.write("Hello?")
    (thread,) = shop.rows("SELECT conversation_id FROM conversations")
    (mail,) = shop.rows("SELECT mail_id FROM inbound_mails")
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, [mail.mail_id], assignments.PEOPLE_ANSWER)
    client, path = shop.log_in(TESS), f"/ops/conversations/{thread.conversation_id}"
    assert assignments.PEOPLE_ANSWER in client.get(path).text
    page = client.get(path, headers={"Accept-Language": "de"}).text
    assert "Keine Antwort: <bdi>Menschen kümmern sich um diese Unterhaltung" in page
