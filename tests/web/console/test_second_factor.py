"""A code of an authenticator app beside the mailed link: enrolled once, used once, and refused in time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyotp
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.adapters.totp import Totp
from mailagent.store.console import sessions
from mailagent.web.guard import SESSION_KEY, Guard
from tests.cast import MALLORY, OLGA, TESS
from tests.harness import Harness, open_shop, post_form
from tests.web.doors import csrf_token, doors, open_fullest, two_cases, visit

PAGE = "/ops/login/second-factor"
STEP = timedelta(seconds=30)


@pytest.fixture
def strict(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop whose logins need a second factor, at a time that stands still."""
    with open_shop(tmp_path, database_url, {"OPS_SECOND_FACTOR": "totp"}) as harness:
        set_clock(harness, harness.live.now())
        yield harness


def set_clock(harness: Harness, now: datetime) -> None:
    harness.live = replace(harness.live, now=lambda: now)
    services.bind(harness.live)


def pass_time(harness: Harness, more: timedelta) -> None:
    set_clock(harness, harness.live.now() + more)


def press_link(harness: Harness, email: str = OLGA) -> FlaskClient:
    """Return a browser whose mailed link was pressed, and no more."""
    client, secret, now = harness.client, sessions.new_secret(), harness.live.now()
    with harness.live.database.transaction() as connection:
        sessions.record_link(
            connection, secret, email, "/ops/search", now, now + timedelta(hours=1)
        )
    pressed = post_form(client, f"/ops/login/{secret}")
    assert pressed.status_code == 303
    return client


def secret_on(client: FlaskClient) -> str:
    found = re.search(r"<code>([A-Z2-7 ]{39})</code>", client.get(PAGE).text)
    assert found is not None
    return found[1].replace(" ", "")


def code_of(harness: Harness, secret: str, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(harness.live.now(), counter_offset=steps)


def wrong_code(harness: Harness, secret: str) -> str:
    right = {code_of(harness, secret, steps) for steps in range(-2, 3)}
    return next(code for code in map("{:06}".format, range(10)) if code not in right)


def enter(client: FlaskClient, code: str) -> TestResponse:
    return post_form(client, PAGE, code=code, next="/ops/search")


def enrol(harness: Harness, email: str = OLGA) -> str:
    """Set an app up as `email` does at the first login; return its secret."""
    client = press_link(harness, email)
    secret = secret_on(client)
    assert enter(client, code_of(harness, secret)).status_code == 303
    pass_time(harness, 10 * STEP)
    return secret


def actions(harness: Harness) -> list[str]:
    return [row.action for row in harness.rows("SELECT action FROM audit ORDER BY audit_id")]


def test_the_first_right_code_enrols_the_app_and_logs_in(strict: Harness) -> None:
    client = press_link(strict)
    page = client.get(f"{PAGE}?next=/ops/search")
    assert "<svg" in page.text
    assert " style=" not in page.text
    assert 'href="otpauth://totp/' in page.text
    assert page.headers["Cache-Control"] == "no-store"
    entered = enter(client, code_of(strict, secret_on(client)))
    assert entered.location == "/ops/search"
    assert client.get("/ops").status_code == 200
    assert actions(strict) == ["second factor enrolled", "logged in"]


def test_a_wrong_code_enrols_nothing(strict: Harness) -> None:
    client = press_link(strict)
    secret = secret_on(client)
    refused = enter(client, wrong_code(strict, secret))
    assert refused.status_code == 422
    assert 'aria-describedby="code-wrong"' in refused.text
    assert secret_on(client) == secret
    assert strict.rows("SELECT 1 FROM second_factors") == []
    assert client.get("/ops").status_code == 303
    assert actions(strict) == ["second factor refused"]


def test_each_login_before_the_first_code_offers_another_secret(strict: Harness) -> None:
    mine, theirs = press_link(strict), press_link(strict)
    secret, other = secret_on(mine), secret_on(theirs)
    assert secret != other
    enter(mine, code_of(strict, secret))
    # Who was second is asked for a code of the app that is enrolled by now.
    assert "<svg" not in theirs.get(PAGE).text
    pass_time(strict, 5 * STEP)
    assert enter(theirs, code_of(strict, other)).status_code == 422


@pytest.mark.parametrize(("steps", "status"), [(-2, 422), (-1, 303), (0, 303), (1, 303), (2, 422)])
def test_a_code_of_the_step_before_or_after_counts_and_no_other(
    strict: Harness, steps: int, status: int
) -> None:
    secret = enrol(strict)
    client = press_link(strict)
    assert secret not in client.get(PAGE).text.replace(" ", "")
    assert enter(client, code_of(strict, secret, steps)).status_code == status
    assert client.get("/ops").status_code == (200 if status == 303 else 303)


def test_a_code_counts_once_and_none_before_it_counts_later(strict: Harness) -> None:
    secret = enrol(strict)
    code, before = code_of(strict, secret), code_of(strict, secret, -1)
    assert enter(press_link(strict), f" {code[:3]} {code[3:]}").status_code == 303
    thief = press_link(strict)
    assert enter(thief, code).status_code == 422
    assert enter(thief, before).status_code == 422
    assert enter(thief, code_of(strict, secret, 1)).status_code == 303


@pytest.mark.parametrize(
    "typed", ["", "abcdef", "12345", "1234567", "\u0661\u0662\u0663\u0664\u0665\u0666", "\0" * 6]
)
def test_what_is_no_code_is_refused(strict: Harness, typed: str) -> None:
    enrol(strict)
    assert enter(press_link(strict), typed).status_code == 422


def test_five_wrong_codes_stop_the_right_one_for_a_while_in_every_session(strict: Harness) -> None:
    secret = enrol(strict)
    client = press_link(strict)
    wrong = wrong_code(strict, secret)
    assert [enter(client, wrong).status_code for _ in range(5)] == [422] * 5
    for refused in (enter(client, code_of(strict, secret)), enter(press_link(strict), wrong)):
        assert refused.status_code == 429
        assert "Wait 15 minutes" in refused.text
    assert actions(strict).count("second factor refused") == 5
    tess = press_link(strict, TESS)
    assert enter(tess, code_of(strict, secret_on(tess))).status_code == 303
    pass_time(strict, timedelta(minutes=15))
    assert enter(press_link(strict), code_of(strict, secret)).status_code == 303


def test_half_a_session_opens_no_page_of_the_console(tmp_path: Path, database_url: str) -> None:
    with open_fullest(tmp_path, database_url, OPS_SECOND_FACTOR="totp") as harness:
        values = two_cases(harness)[0].values
        half = press_link(harness)
        form = {"csrf_token": csrf_token(half)}
        inside = [door for door in doors(harness) if door.guard is Guard.LOGIN]
        assert len(inside) > 20
        for door in inside:
            answer, _ = visit(half, door.path(values), door.method, data=form)
            assert answer.status_code == 303, door.name
            assert answer.location.startswith("/ops/login"), door.name
        # The same session opens them when the code was right.
        secret = secret_on(half)
        assert enter(half, code_of(harness, secret)).status_code == 303
        assert half.get("/ops/audit").status_code == 200


def test_half_a_session_ends_with_its_link_and_gives_way_to_another_cookie(strict: Harness) -> None:
    client, thief = press_link(strict), strict.client
    with client.session_transaction() as cookies, thief.session_transaction() as stolen:
        stolen[SESSION_KEY] = cookies[SESSION_KEY]
    late = press_link(strict)
    assert enter(client, code_of(strict, secret_on(client))).status_code == 303
    assert client.get("/ops").status_code == 200
    assert thief.get("/ops").status_code == 303
    assert thief.get(PAGE).status_code == 303
    pass_time(strict, timedelta(minutes=16))
    assert late.get(PAGE).status_code == 303


def test_a_session_without_a_second_factor_ends_when_the_setting_is_turned_on(
    strict: Harness,
) -> None:
    client = strict.log_in(OLGA)
    assert client.get("/ops").status_code == 303
    assert client.get(PAGE).status_code == 303


def test_the_page_is_for_half_sessions_of_people_in_the_settings(strict: Harness) -> None:
    assert strict.client.get(PAGE).location == "/ops/login"
    client = press_link(strict)
    secret = secret_on(client)
    token = csrf_token(client)
    left = replace(strict.live.shop, ops_emails=())
    services.bind(replace(strict.live, shop=left))
    form = {"csrf_token": token, "code": code_of(strict, secret)}
    assert client.get(PAGE).location == "/ops/login"
    assert client.post(PAGE, data=form).location == "/ops/login"
    assert strict.rows("SELECT 1 FROM second_factors") == []


def test_a_reset_removes_the_secret_and_ends_the_sessions(strict: Harness) -> None:
    old = enrol(strict)
    client, half = press_link(strict), press_link(strict)
    assert enter(client, code_of(strict, old)).status_code == 303
    run = strict.app.test_cli_runner().invoke
    done = run(args=["ops", "reset-second-factor", " Olga@Shop.example "])
    assert done.exit_code == 0, done.output
    assert client.get("/ops").status_code == 303
    assert half.get(PAGE).status_code == 303
    assert secret_on(press_link(strict)) != old
    (reset,) = strict.rows("SELECT actor, subject FROM audit WHERE action = 'second factor reset'")
    assert reset.actor.startswith("command line")
    assert reset.subject == OLGA
    nothing = run(args=["ops", "reset-second-factor", MALLORY])
    assert nothing.exit_code == 1
    assert "has no second factor" in nothing.output


def test_a_printed_link_asks_for_the_code_too(strict: Harness) -> None:
    secret = enrol(strict)
    done = strict.app.test_cli_runner().invoke(args=["ops", "login-link", OLGA])
    client, link = strict.client, done.output.split()[-1]
    pressed = post_form(client, link.removeprefix(strict.live.shop.public_url))
    assert pressed.location == f"{PAGE}?next=/ops"
    assert client.get("/ops").status_code == 303
    assert enter(client, code_of(strict, secret)).status_code == 303


def with_keys(harness: Harness, *keys: str) -> None:
    harness.live = replace(harness.live, totp=Totp(keys, "Shop"))
    services.bind(harness.live)


def test_a_secret_outlives_the_rotation_of_keys_but_not_the_loss_of_its_own(
    strict: Harness,
) -> None:
    secret = enrol(strict)
    stored = strict.rows("SELECT encrypted_secret FROM second_factors")[0].encrypted_secret
    assert secret not in stored
    with_keys(strict, "another key for tests", "a key for tests only")
    assert enter(press_link(strict), code_of(strict, secret)).status_code == 303
    pass_time(strict, 5 * STEP)
    with_keys(strict, "another key for tests")
    client = press_link(strict)
    assert "cannot be read" in client.get(PAGE).text
    form = {"csrf_token": csrf_token(client), "code": code_of(strict, secret)}
    assert client.post(PAGE, data=form).status_code == 422


def test_a_session_that_waits_for_its_code_is_never_whole(strict: Harness) -> None:
    client = press_link(strict)
    assert client.get("/ops").status_code == 303
    strict.live = replace(strict.live, totp=None)
    services.bind(strict.live)
    assert client.get("/ops").status_code == 303
    assert actions(strict) == []


def test_without_the_setting_a_link_logs_in_by_itself(shop: Harness) -> None:
    client = press_link(shop)
    assert client.get("/ops").status_code == 200
    assert client.get(PAGE).location == "/ops/login"
    assert shop.rows("SELECT 1 FROM sessions WHERE offered_secret IS NOT NULL") == []
    assert actions(shop) == ["logged in"]
