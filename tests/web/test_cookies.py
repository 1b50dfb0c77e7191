"""Cookies of several web processes whose clocks differ."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
from flask.testing import FlaskClient
from itsdangerous import TimestampSigner

from mailagent.store.console import sessions
from mailagent.web.guard import Cookies
from tests.cast import OLGA
from tests.harness import Harness, post_form


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
    client = shop.client
    client.set_cookie("mailagent", "eyJhIjoxfQ.aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb")
    assert client.get("/ops").status_code in (302, 303)
