"""Files with an answer: checked, kept with the mail, listed in the conversation, and only ever saved."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent.adapters.links import Links
from mailagent.domain.mail.outgoing_file import BYTES_MAX
from mailagent.store.ids import new_id
from mailagent.web.guard import FORM_WITH_FILES_BYTES
from tests.cast import GRACE, TESS
from tests.handed_over import thread
from tests.harness import Harness
from tests.web.console.drafts import press

PDF = ("Küche 4111 1111 1111 1111.pdf", b"%PDF-1.7 manual")
MEGABYTE = 1_000_000
LINK = (
    Links(["a key for tests only"], "https://shop.example")
    .sign_approval(new_id("approval"), TESS)
    .encode()
)

Chosen = tuple[str, bytes]


def upload(*files: Chosen) -> list[Any]:
    return [(io.BytesIO(content), name) for name, content in files]


def answer(client: FlaskClient, conversation_id: str, *files: Chosen, **fields: str) -> Any:
    given = {"text": "Here it is.", "once": new_id("once"), **fields}
    return press(client, conversation_id, "answer", **given, files=upload(*files))


def kept(shop: Harness) -> list[tuple[str, bytes]]:
    rows = shop.rows("SELECT * FROM outgoing_files ORDER BY outbound_id, number")
    return [(row.name, bytes(row.content)) for row in rows]


@pytest.fixture
def conversation_id(shop: Harness) -> str:
    shop.write("May I have the manual?")
    return str(thread(shop).conversation_id)


def test_files_are_kept_with_the_mail_once_and_only_saved(
    shop: Harness, conversation_id: str
) -> None:
    client, once = shop.log_in(TESS), new_id("once")
    for _ in range(2):
        sent = answer(client, conversation_id, PDF, ("a.png", b"png"), once=once)
        assert sent.status_code == 303
    masked = "Küche ____ ____ ____ 1111.pdf"
    assert [content for _, content in kept(shop)] == [PDF[1], b"png"]
    page = client.get(f"/ops/conversations/{conversation_id}").text
    assert "4111" not in page
    links = re.findall(r'href="(/ops/conversations/[^"]+/sent-files/[^"]+)"', page)
    saved = [client.get(link) for link in links]
    assert [each.data for each in saved] == [PDF[1], b"png"]
    assert saved[0].content_type == "application/octet-stream"
    assert saved[0].headers["Content-Disposition"].startswith("attachment; ")
    assert "sandbox" in saved[0].headers["Content-Security-Policy"]
    assert masked.replace("_", "*") in page
    assert shop.client.get(links[0]).status_code == 303  # to the login
    shop.write("Hello", from_address=GRACE, subject="Other")
    other = shop.rows("SELECT conversation_id FROM conversations ORDER BY conversation_id")[1]
    elsewhere = links[0].replace(conversation_id, other.conversation_id)
    assert client.get(elsewhere).status_code == 404
    assert client.get(links[0][:-1] + "9").status_code == 404


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([("run.exe", b"MZ")], "“run.exe” cannot be sent"),
        ([("a.pdf", b"")], "“a.pdf” is empty"),
        ([("a.pdf", b"x")] * 11, "You chose 11 files"),
        ([("a.pdf", b"x" * (BYTES_MAX + MEGABYTE))], "11.0 MB together; 10 MB are the most"),
        ([("a.txt", LINK)], "holds a link"),
    ],
)
def test_files_that_cannot_be_sent_send_nothing_and_keep_the_words(
    shop: Harness, conversation_id: str, files: list[Chosen], says: str
) -> None:
    told = answer(shop.log_in(TESS), conversation_id, *files)
    assert told.status_code == 422
    for shown in (says, "Here it is.", "Choose your files again", 'aria-describedby="files-wrong'):
        assert shown in told.text, shown
    assert not shop.rows("SELECT 1 FROM outbound_mails WHERE purpose = 'team_reply'")


def test_a_page_that_comes_back_says_that_the_files_are_lost(
    shop: Harness, conversation_id: str
) -> None:
    client = shop.log_in(TESS)
    told = press(client, conversation_id, "saved-reply", text="Hello", files=upload(PDF))
    assert "Choose your files again" in told.text
    told = press(client, conversation_id, "saved-reply", text="Hello")
    assert "Choose your files again" not in told.text


def test_only_people_who_have_logged_in_may_send_much_and_not_more_than_the_limit(
    shop: Harness, conversation_id: str
) -> None:
    much, too_much = b"x" * 2 * MEGABYTE, b"x" * (FORM_WITH_FILES_BYTES + 1)
    path = f"/ops/conversations/{conversation_id}/answer"

    def post(client: FlaskClient, content: bytes, to: str = path) -> TestResponse:
        return client.post(to, data={"files": upload(("a.pdf", content))})

    assert post(shop.client, much).status_code == 413
    client = shop.log_in(TESS)
    assert post(client, too_much).status_code == 413
    assert post(client, much).status_code == 400  # no CSRF token
    note = f"/ops/conversations/{conversation_id}/notes"
    assert post(client, much, note).status_code == 413
    assert kept(shop) == []
