"""What every answer tells a browser to refuse, and what no page of ours has in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import product
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from gunicorn.config import Config
from itsdangerous import TimestampSigner
from werkzeug.test import TestResponse

from mailagent.serving import ServerLog, without_tokens
from mailagent.store.console import sessions
from mailagent.web.guard import SESSION_KEY, Cookies, Guard
from tests.cast import OLGA
from tests.harness import Harness, post_form
from tests.web.doors import HTTPS, csrf_token, doors, furnish, visit
from tests.web.page_source import PageSource

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATES = sorted(
    path
    for path in (ROOT / "templates").rglob("*.html")
    if path.relative_to(ROOT / "templates").parts[0] not in ("mail", "demo")
)
SCRIPTS = sorted((ROOT / "mailagent" / "web" / "static").rglob("*.js"))


def policy_of(answer: TestResponse) -> dict[str, list[str]]:
    """Return the directives of an answer's Content-Security-Policy."""
    directives = answer.headers["Content-Security-Policy"].split(";")
    return {name: sources for name, *sources in (each.split() for each in directives)}


def problems_of(answer: TestResponse, demo: bool) -> list[str]:
    """Return what an answer does not tell the browser to refuse."""
    policy, headers = policy_of(answer), answer.headers
    sources = [source for each in policy.values() for source in each]
    scripts = policy.get("script-src", policy["default-src"])
    # The demo's page shows mail, which has its styles inline. It is never there in production.
    inline = policy.get("style-src", []) if demo else []
    found = {
        "inline": "'unsafe-inline'" in sources and "'unsafe-inline'" not in inline,
        "eval": "'unsafe-eval'" in sources,
        "scripts of others": not set(scripts) <= {"'self'", "'none'"},
        "others": "*" in sources or (not demo and any("http" in each for each in sources)),
        "frames": policy.get("frame-ancestors") != ["'none'"]
        and headers.get("X-Frame-Options") != "DENY",
        "guessed types": headers.get("X-Content-Type-Options") != "nosniff",
        "referrer": headers.get("Referrer-Policy") != "same-origin",
        "plain HTTP": "max-age=31536000" not in headers.get("Strict-Transport-Security", ""),
    }
    return [name for name, wrong in found.items() if wrong]


def test_every_answer_tells_browsers_what_to_refuse(fullest: Harness) -> None:
    case = furnish(fullest)
    operator, stranger = fullest.log_in(OLGA), fullest.client
    seen: set[int] = set()
    wrong: dict[str, list[str]] = {}
    for door in doors(fullest):
        for client in (operator, stranger):
            # Without their tokens: what is refused has to be as strict as what is shown.
            answer, _ = visit(client, door.path(case.values), door.method)
            seen.add(answer.status_code)
            if problems := problems_of(answer, door.rule.rule == "/demo/"):
                wrong[door.name] = problems
    for path, method in (("/nowhere", "GET"), ("/ops/nowhere", "GET"), ("/healthz", "DELETE")):
        answer, _ = visit(operator, path, method)
        seen.add(answer.status_code)
        assert problems_of(answer, False) == []
    assert wrong == {}
    assert seen >= {200, 303, 400, 404, 405}


def test_a_failure_of_our_own_is_as_strict(fullest: Harness) -> None:
    def fail() -> None:
        raise RuntimeError("broken on purpose")

    fullest.app.before_request(fail)
    answer = fullest.client.get("/healthz")
    assert answer.status_code == 500
    assert problems_of(answer, False) == []
    assert "broken on purpose" not in answer.text


def test_plain_http_is_not_told_to_be_https(shop: Harness) -> None:
    assert "Strict-Transport-Security" not in shop.client.get("/ops/login").headers


def test_the_cookie_is_for_this_host_over_https_only(fullest: Harness) -> None:
    answer = fullest.client.get("/ops/login", base_url=HTTPS)
    (cookie,) = answer.headers.getlist("Set-Cookie")
    name, _, attributes = cookie.partition(";")
    assert name.startswith("__Host-")
    told = {each.strip() for each in attributes.split(";")}
    assert told >= {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"}
    assert "Domain" not in attributes


def test_nothing_in_the_cookie_logs_anybody_in_elsewhere(fullest: Harness) -> None:
    """The cookie is signed but can be read: it holds a secret of its own, never who one is."""
    client, secret, now = fullest.client, sessions.new_secret(), fullest.live.now()
    with fullest.live.database.transaction() as connection:
        sessions.record_link(connection, secret, OLGA, "/ops", now, now + timedelta(hours=1))
    assert post_form(client, f"/ops/login/{secret}").status_code == 303
    assert client.get("/ops").status_code == 200
    with client.session_transaction() as cookies:
        kept = str(dict(cookies))
    assert SESSION_KEY in kept
    assert [each for each in (OLGA, secret) if each in kept] == []


def test_nothing_that_is_shown_to_people_is_kept_by_a_cache(fullest: Harness) -> None:
    case = furnish(fullest)
    client = fullest.log_in(OLGA)
    for door in doors(fullest):
        if door.method == "GET" and ("/ops" in door.rule.rule or "/approvals" in door.rule.rule):
            answer, _ = visit(client, door.path(case.values))
            assert answer.headers.get("Cache-Control") == "no-store", door.name


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_inline_code_or_anything_from_outside(template: Path) -> None:
    text = template.read_text("utf-8")
    assert PageSource(text).problems == []
    # Whatever a stranger wrote is escaped, unless somebody says that it need not be.
    assert not re.search(r"\|\s*safe\b|autoescape\s+false|Markup", text)


def test_no_script_makes_code_or_markup_from_text() -> None:
    made = r"\beval\(|new Function|document\.write|innerHTML|outerHTML|insertAdjacentHTML"
    found = [script.name for script in SCRIPTS if re.search(made, script.read_text("utf-8"))]
    assert found == []


def test_no_python_of_ours_declares_text_to_be_safe() -> None:
    declared = re.compile(r"\bMarkup\(|render_template_string|autoescape=False")
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "mailagent").rglob("*.py")
        if declared.search(path.read_text("utf-8"))
    ]
    # In formats.py the text of mails is escaped first, and its line breaks are put in afterwards;
    # totp.py draws a QR code, which has no text in it.
    # engine.py and language.py put escaped facts into a sentence of a catalogue.
    assert sorted(found) == [
        "mailagent/adapters/templates/engine.py",
        "mailagent/adapters/templates/formats.py",
        "mailagent/adapters/totp.py",
        "mailagent/web/language.py",
    ]


# --- cookies --------------------------------------------------------------------------------------


def signed_elsewhere(client: FlaskClient, off_seconds: int) -> None:
    """Sign a client's cookie anew, as a web process would whose machine's clock is off."""

    class Elsewhere(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() + off_seconds

    with client.session_transaction() as cookies:
        kept = dict(cookies)
    serializer = Cookies().get_signing_serializer(client.application)
    assert serializer is not None
    serializer.signer = Elsewhere
    client.set_cookie("mailagent", serializer.dumps(kept))


@pytest.mark.parametrize("off_seconds", [-40 * 86_400, -1, 0, 2, 86_400])
def test_a_form_and_a_login_last_however_wrong_the_signing_machines_clock_is(
    shop: Harness, off_seconds: int
) -> None:
    client = shop.log_in(OLGA)
    page = client.get("/ops")
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert page.status_code == 200
    assert token
    signed_elsewhere(client, off_seconds)
    assert client.post("/ops/logout", data={"csrf_token": token[1]}).status_code == 303
    assert client.get("/ops").status_code == 303


def test_a_browser_is_told_the_end_of_a_login_by_the_one_clock(shop: Harness) -> None:
    secret, now = sessions.new_secret(), shop.live.now()
    with shop.live.database.transaction() as connection:
        sessions.record_link(connection, secret, OLGA, "/ops", now, now + timedelta(hours=1))
    answer = post_form(shop.client, f"/ops/login/{secret}")
    cookie = next(each for each in answer.headers.getlist("Set-Cookie") if "Expires=" in each)
    expires = parsedate_to_datetime(cookie.partition("Expires=")[2].partition(";")[0])
    lasts = timedelta(seconds=shop.live.waits.ops_session_seconds)
    assert abs(expires - datetime.now(UTC) - lasts) < timedelta(minutes=1)


def test_a_cookie_that_nobody_signed_is_no_login(shop: Harness) -> None:
    client = shop.log_in(OLGA)
    cookie = client.get_cookie("mailagent")
    assert cookie is not None
    content, _, signature = cookie.value.rpartition(".")
    for signed, status in ((signature, 200), ("b" * len(signature), 303)):
        client.set_cookie("mailagent", f"{content}.{signed}")
        assert client.get("/ops").status_code == status


# --- redirects ------------------------------------------------------------------------------------


NAMES = ("next", "url", "return_to", "redirect", "back", "page", "path", "from")
ELSEWHERE = (
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/ops//evil.example",
    "/ops/..//evil.example",
    "javascript:alert(1)",
    "https:evil.example",
    "\thttps://evil.example",
    "/ops\r\nLocation: https://evil.example",
)
FORWARDED = {"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
HOSTS = {"Host": "evil.example", **FORWARDED}


def test_no_door_leads_to_another_host(fullest: Harness) -> None:
    case = furnish(fullest)
    operator, stranger = fullest.log_in(OLGA), fullest.client
    # Who has logged out is led to the login from everywhere.
    last = sorted(doors(fullest), key=lambda door: door.rule.rule.startswith("/ops/log"))
    led: set[tuple[str, bool]] = set()
    for door, client in product(last, (operator, stranger)):
        if door.rule.rule == "/demo/crash" or door.method == "HEAD":
            continue
        token = csrf_token(client) if door.method == "POST" else None
        # A browser keeps its cookie, with login and token, from another host.
        hosts = {} if token or client is operator else {"Host": "evil.example"}
        for wanted in ELSEWHERE:
            hostile = dict.fromkeys(NAMES, wanted)
            answer, _ = visit(
                client,
                door.path(case.values),
                door.method,
                query_string=hostile,
                data={**hostile, "csrf_token": token} if token else None,
                headers={**FORWARDED, **hosts, "Referer": "https://evil.example/"},
            )
            location = answer.headers.get("Location")
            if location is not None:
                led.add((door.name, client is operator))
                assert location.startswith("/"), (door.name, location)
                assert not location.startswith(("//", "/\\")), (door.name, location)
                assert "\r" not in location, (door.name, location)
    # Forms were taken, and the operator was inside.
    assert {("POST /language", False), ("POST /ops/drafts/<draft_id>", True)} <= led
    assert ("GET /ops/audit", True) not in led


def test_a_mailed_link_names_our_host_whatever_host_was_asked(shop: Harness) -> None:
    client, host = shop.client, "http://evil.example"
    page = client.get("/ops/login", base_url=host, headers=HOSTS).text
    token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    form = {"email": OLGA, "csrf_token": token}
    assert client.post("/ops/login", data=form, base_url=host, headers=HOSTS).status_code == 200
    (mail,) = shop.rows("SELECT text, html FROM outbound_mails WHERE purpose = 'login'")
    assert f"{shop.live.shop.public_url}/ops/login/" in mail.text
    assert "evil.example" not in mail.text + mail.html


# --- access log -----------------------------------------------------------------------------------


def test_no_line_about_a_request_has_the_token_of_a_link(fullest: Harness) -> None:
    case = furnish(fullest)
    secrets = [case.values[name] for name in ("token", "secret", "vote")]
    found = [door for door in doors(fullest) if door.guard is Guard.LINK]
    assert found
    for door in found:
        path = door.path(case.values)
        for line in (
            path,
            f"{door.method} {path}?x=1 HTTP/1.1",
            f"https://agent.shop.example{path}",
        ):
            if any(secret in line for secret in secrets):
                told = without_tokens(line)
                assert not [secret for secret in secrets if secret in told], door.name
                assert line.endswith(told.rpartition("…")[2]), "more than the token is gone"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_about_an_error_has_the_token_of_a_link(
    log_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOG_FORMAT", log_format)
    log = ServerLog(Config())
    try:
        for path in ("/approvals/secret.of-a_link?x=1", "/ops/login/secret"):
            log.exception("Error handling request %s %s", "GET", path)
        log.warning("Invalid request line: 'GET /approvals/secret HTTP/9'")
    finally:
        log.error_log.handlers.clear()
    told = capsys.readouterr().err
    assert told.count("/approvals/…") == 2 or told.count("/approvals/\\u2026") == 2
    assert "secret" not in told
