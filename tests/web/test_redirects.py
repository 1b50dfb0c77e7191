"""Nobody is led away: no door redirects to another host, whatever is asked for and by whatever name the
request came, and mailed links begin with PUBLIC_URL."""

from __future__ import annotations

from itertools import product

import pytest

from tests.cast import OLGA
from tests.harness import Harness, post_form
from tests.web.doors import csrf_token, doors, furnish, visit

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
HOSTS = {
    "Host": "evil.example",
    "X-Forwarded-Host": "evil.example",
    "Forwarded": "host=evil.example",
}


def test_no_door_leads_to_another_host(fullest: Harness) -> None:
    case = furnish(fullest)
    operator, stranger = fullest.log_in(OLGA), fullest.client
    token = csrf_token(operator)
    redirects = 0
    for door, client, wanted in product(doors(fullest), (operator, stranger), ELSEWHERE):
        if door.rule.rule == "/demo/crash" or (door.method != "GET" and client is operator):
            continue
        hostile = dict.fromkeys(NAMES, wanted)
        form = {**hostile, "csrf_token": token} if door.method == "POST" else None
        answer, _ = visit(
            client,
            door.path(case.values),
            door.method,
            query_string=hostile,
            data=form,
            headers={**HOSTS, "Referer": "https://evil.example/"},
        )
        location = answer.headers.get("Location")
        if location is not None:
            redirects += 1
            assert location.startswith("/"), (door.name, location)
            assert not location.startswith(("//", "/\\")), (door.name, location)
            assert "\r" not in location, (door.name, location)
    assert redirects


@pytest.mark.parametrize("wanted", ELSEWHERE)
def test_a_login_that_asks_for_elsewhere_ends_in_the_console(shop: Harness, wanted: str) -> None:
    post_form(shop.client, "/ops/login", email=OLGA, next=wanted)
    (link,) = shop.rows("SELECT next_path FROM login_links")
    assert link.next_path == "/ops"


def test_a_mailed_link_names_our_host_whatever_host_was_asked(shop: Harness) -> None:
    client, host = shop.client, "http://evil.example"
    page = client.get("/ops/login", base_url=host, headers=HOSTS).text
    token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    form = {"email": OLGA, "csrf_token": token}
    assert client.post("/ops/login", data=form, base_url=host, headers=HOSTS).status_code == 200
    (mail,) = shop.rows("SELECT text, html FROM outbound_mails WHERE purpose = 'login'")
    assert f"{shop.live.shop.public_url}/ops/login/" in mail.text
    assert "evil.example" not in mail.text + mail.html
