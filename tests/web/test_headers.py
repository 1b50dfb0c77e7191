"""What every answer tells a browser to refuse, and what no page of ours has in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from tests.cast import OLGA
from tests.harness import Harness
from tests.web.doors import HTTPS, doors, furnish, visit
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
    client = fullest.log_in(OLGA)
    with client.session_transaction() as cookies:
        assert OLGA not in str(dict(cookies))


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
    # engine.py puts escaped facts into a sentence of a catalogue.
    assert sorted(found) == [
        "mailagent/adapters/templates/engine.py",
        "mailagent/adapters/templates/formats.py",
        "mailagent/adapters/totp.py",
    ]
