"""What a request gets that fails: a page for browsers, a line for programs, JSON below /api."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Response, abort
from flask.testing import FlaskClient

from mailagent.domain.operations.access import Permission
from mailagent.web.guard import needs, open_to_all
from tests.cast import MONA, OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.harness import Harness, open_shop
from tests.programs.soak.server import own_server
from tests.web.page_source import PageSource

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
CODES = (400, 403, 404, 405, 413, 418, 429, 500, 503)


@pytest.fixture
def client(shop: Harness) -> FlaskClient:
    """A visitor of a shop with a page for each error, and one with a bug."""

    def fail(code: int) -> str:
        abort(code)

    def err() -> str:
        return str(1 // 0)

    shop.app.add_url_rule("/test-error/<int:code>", "error", open_to_all(fail))
    shop.app.add_url_rule("/test-bug", "bug", open_to_all(err))
    shop.app.config["PROPAGATE_EXCEPTIONS"] = False
    return shop.client


@pytest.mark.parametrize("code", CODES)
def test_a_browser_gets_a_page_and_a_program_a_line(client: FlaskClient, code: int) -> None:
    page = client.get(f"/test-error/{code}", headers=BROWSER)
    assert (page.status_code, page.mimetype) == (code, "text/html")
    assert "mailagent.css" in page.text
    assert f"Error {code}" in page.text
    assert page.headers["Cache-Control"] == "no-store"
    assert "Werkzeug" not in page.text
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        line = client.get(f"/test-error/{code}", headers=accept)
        assert (line.status_code, line.mimetype) == (code, "text/plain")
        assert line.text.startswith(f"{code} ")
        assert "<" not in line.text


def test_a_bug_is_told_without_what_went_wrong(client: FlaskClient) -> None:
    page = client.get("/test-bug", headers=BROWSER)
    assert page.status_code == 500
    assert "Something went wrong here" in page.text
    assert "ZeroDivision" not in page.text
    assert client.get("/test-bug").text == "500 Internal Server Error\n"


@pytest.mark.parametrize("path", ["/api/nothing", "/metrics/nothing", "/webhooks/nothing"])
def test_programs_get_no_page_even_if_they_say_that_they_read_them(
    client: FlaskClient, path: str
) -> None:
    answer = client.get(path, headers=BROWSER)
    assert answer.status_code == 404
    if path.startswith("/api"):
        assert answer.json == {"error": "Not Found"}
    else:
        assert answer.text == "404 Not Found\n"


def test_the_headers_of_an_error_stay(client: FlaskClient) -> None:
    for accept in ({}, BROWSER):
        answer = client.delete("/healthz", headers=accept)
        assert answer.status_code == 405
        assert "GET" in answer.headers["Allow"]


def test_a_form_that_is_too_large_is_told(shop: Harness) -> None:
    large = {"email": "x" * 1_100_000}
    page = shop.client.post("/ops/login", data=large, headers=BROWSER)
    assert page.status_code == 413
    assert "That is too large" in page.text


def test_an_error_page_needs_no_database_and_names_nobody(shop: Harness) -> None:
    client = shop.log_in(OLGA)
    shop.live.database.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop.live.database, "snapshot", lambda: 1 / 0)
        page = client.get("/nowhere", headers=BROWSER)
    assert page.status_code == 404
    assert OLGA not in page.text


def test_a_stopped_database_is_told_on_every_page_until_it_is_back(tmp_path: Path) -> None:
    with own_server() as server, open_shop(tmp_path, server.url) as shop:
        shop.app.config["PROPAGATE_EXCEPTIONS"] = False
        client = shop.log_in(OLGA)
        links = shop.live.links
        mailed = [links.sign_approval("apr_1", MONA), *links.sign_votes("out_1").values()]
        server.stop("fast")
        for path in ("/ops", "/ops/login", "/ops/runs"):
            page = client.get(path, headers=BROWSER)
            assert page.status_code == 503, path
            assert "The database does not answer" in page.text
            assert re.search(r"Its last answer came at .*\d\d:\d\d UTC", page.text)
            assert "If this lasts longer than ten minutes, tell the operators" in page.text
            assert "If you are an operator: see whether PostgreSQL is up" in page.text
            assert "mailagent.css" in page.text
            assert page.headers["Retry-After"] == "60"
            assert OLGA not in page.text
        assert "503" in client.get("/ops").text
        stranger = shop.app.test_client()
        assert stranger.get("/ops/login", headers=BROWSER).status_code == 503
        for path in mailed:
            page = stranger.get(path, headers=BROWSER)
            assert page.status_code == 503, path
            assert "What was recorded is kept, and what waits goes on by itself." in page.text
            assert not re.search("database|PostgreSQL|flask|DATABASE_URL", page.text, re.I), path
        german = client.get("/ops", headers={**BROWSER, "Accept-Language": "de"}).text
        assert "Die Datenbank antwortet nicht" in german
        server.start()
        assert client.get("/ops", headers=BROWSER).status_code == 200


def test_a_database_that_never_answered_is_told_without_a_time(tmp_path: Path) -> None:
    nothing = "postgresql+psycopg://mailagent@127.0.0.1:1/mailagent"
    with open_shop(tmp_path, nothing, {"MAILAGENT_ROLE": "web"}) as shop:
        shop.app.config["PROPAGATE_EXCEPTIONS"] = False
        page = shop.client.get("/ops/login", headers=BROWSER)
    assert page.status_code == 503
    assert "The database does not answer" in page.text
    assert "Its last answer" not in page.text


@ONE_DATABASE
@pytest.mark.parametrize(("email", "is_told"), [(OLGA, True), (MONA, False), (TESS, False)])
def test_only_people_who_may_be_operators_are_told_what_operators_do(
    shop: Harness, email: str, is_told: bool
) -> None:
    def lose_database() -> Response:
        raise sa.exc.OperationalError(
            "SELECT 1", {}, ConnectionError(), connection_invalidated=True
        )

    shop.app.config["PROPAGATE_EXCEPTIONS"] = False
    view = needs(Permission.VIEW)(lose_database)
    shop.app.add_url_rule("/ops/test-outage", "outage", view)
    client = shop.log_in(email)
    page = client.get("/ops/test-outage", headers=BROWSER)
    assert page.status_code == 503
    assert "Wait a minute, then load the page again." in page.text
    assert "If this lasts longer than ten minutes, tell the operators" in page.text
    assert ("flask check" in page.text) is is_told


def test_error_pages_have_nothing_inline(client: FlaskClient) -> None:
    assert PageSource(client.get("/test-error/404", headers=BROWSER).text).problems == []
