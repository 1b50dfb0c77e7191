"""The inbox: what waits comes first for whom it waits, leaves when it is put away, and says what is new."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from mailagent.store.ids import new_id
from mailagent.store.keyset import microseconds
from tests.cast import MONA, OLGA, TESS
from tests.stage import Stage, post_form
from tests.store.test_inbox import lose_mail


def titles(client: FlaskClient) -> list[str]:
    """Return what the tiles of the inbox are called, in their order."""
    tiles = client.get("/ops").text.partition('<ul class="tiles">')[2].partition("</ul>")[0]
    return [
        " ".join(re.sub(r"<[^>]+>", "", tile).split()[1:3])
        for tile in tiles.split("<li>")[1:]
    ]  # fmt: skip


def tables_of_runs(stage: Stage) -> str:
    sqlite = stage.live.database.engine.dialect.name == "sqlite"
    return "workflow_status" if sqlite else "dbos.workflow_status"


def fail_run(stage: Stage, minutes_ago: int = 5) -> str:
    """Have a run that failed in DBOS's table, and return its id."""
    run_id = new_id("x").replace("x_", "delivery-")
    failed = stage.live.now() - timedelta(minutes=minutes_ago)
    failed_ms = microseconds(failed) // 1000
    with stage.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO {tables_of_runs(stage)} (workflow_uuid, status, name, created_at, updated_at,"
            f" completed_at, priority) VALUES ('{run_id}', 'ERROR', 'delivery', {failed_ms},"
            f" {failed_ms}, {failed_ms}, 0)"
        )
    return run_id


def change_run(stage: Stage, run_id: str, change: str) -> None:
    with stage.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE {tables_of_runs(stage)} SET {change} WHERE workflow_uuid = '{run_id}'"
        )


def lose(stage: Stage, name: str) -> str:
    with stage.live.database.transaction() as connection:
        return lose_mail(connection, name)


def acts(stage: Stage) -> list[tuple[str, str, str]]:
    rows = stage.rows("SELECT actor, action, subject FROM audit ORDER BY audit_id")
    return [(row.actor, row.action, row.subject) for row in rows]


def test_what_waits_for_a_role_comes_first(shop: Stage) -> None:
    assert titles(shop.log_in(MONA))[:1] == ["Waiting for"]
    assert titles(shop.log_in(TESS))[:2] == ["Drafts to", "With the"]
    assert titles(shop.log_in(OLGA))[:3] == ["Failed", "Mail that", "Parked mail"]


def test_an_empty_inbox_says_so(shop: Stage) -> None:
    assert "Nothing waits for anybody" in shop.log_in(OLGA).get("/ops").text


def test_a_mail_that_waits_leads_to_its_conversation(shop: Stage) -> None:
    shop.write("Where is my kettle?", subject="Kettle <script>alert(1)</script>")
    page = shop.log_in(TESS).get("/ops?waiting=unanswered").text
    (conversation,) = shop.rows("SELECT conversation_id FROM conversations")
    assert f'href="/ops/conversations/{conversation.conversation_id}"' in page
    assert "Kettle &lt;script&gt;" in page
    assert "<script>alert" not in page


def test_a_lost_mail_is_put_away_and_brought_back(shop: Stage) -> None:
    lost = lose(shop, "receipt")
    client, path = shop.log_in(TESS), "/ops?waiting=undelivered"
    back = post_form(client, "/ops/put-away", path, subject=lost, back=path)
    assert (back.status_code, back.location) == (303, path)
    assert "Nothing waits here" in client.get(path).text
    everything = f"{path}&shown=all"
    assert f"put away by {TESS}" in client.get(everything).text
    post_form(client, "/ops/put-away", everything, subject=lost, back=path, act="back")
    assert lost in client.get(path).text
    assert acts(shop) == [(TESS, "put away", lost), (TESS, "brought back", lost)]


def test_a_failed_run_that_fails_again_after_it_was_put_away_is_back(shop: Stage) -> None:
    run_id, path = fail_run(shop), "/ops?waiting=failed"
    client = shop.log_in(OLGA)
    assert f'href="/ops/runs/{run_id}"' in client.get(path).text
    post_form(client, "/ops/put-away", path, subject=run_id)
    assert run_id not in client.get(path).text
    change_run(shop, run_id, f"completed_at = {microseconds(shop.live.now()) // 1000 + 60_000}")
    assert run_id in client.get(path).text


def test_a_failed_run_that_was_replayed_and_succeeded_vanishes_by_itself(shop: Stage) -> None:
    run_id = fail_run(shop)
    client = shop.log_in(OLGA)
    assert run_id in client.get("/ops?waiting=failed").text
    change_run(shop, run_id, "status = 'SUCCESS'")
    assert run_id not in client.get("/ops?waiting=failed&shown=all").text


def test_only_what_was_lost_or_failed_can_be_put_away(shop: Stage) -> None:
    lose(shop, "receipt")
    shop.write("Where is my kettle?")
    (mail,) = shop.rows("SELECT mail_id FROM inbound_mails")
    client, path = shop.log_in(TESS), "/ops?waiting=undelivered"
    for subject in (mail.mail_id, "nothing", "", "x" * 500):
        assert post_form(client, "/ops/put-away", path, subject=subject).status_code == 404
    assert acts(shop) == []


def test_a_manager_puts_nothing_away(shop: Stage) -> None:
    lost, path = lose(shop, "receipt"), "/ops?waiting=undelivered"
    client = shop.log_in(MONA)
    assert "/ops/put-away" not in client.get(path).text
    assert post_form(client, "/ops/put-away", path, subject=lost).status_code == 403


def test_putting_away_leads_back_into_the_console_only(shop: Stage) -> None:
    lost, path = lose(shop, "receipt"), "/ops?waiting=undelivered"
    client = shop.log_in(TESS)
    gone = post_form(client, "/ops/put-away", path, subject=lost, back="https://evil.example/ops")
    assert gone.location == "/ops"


def test_a_lost_login_link_is_listed_without_its_words(shop: Stage) -> None:
    post_form(shop.client, "/ops/login", email=MONA)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE outbound_mails SET status = 'undelivered'")
    (mail,) = shop.rows("SELECT subject, text FROM outbound_mails")
    secret = re.search(r"/ops/login/(\S+)", mail.text)
    page = shop.log_in(OLGA).get("/ops?waiting=undelivered").text
    assert "Link to log in" in page
    assert secret is not None
    assert secret[1] not in page


def test_a_broken_cursor_shows_some_page(shop: Stage) -> None:
    client = shop.log_in(OLGA)
    for cursor in ("x", "~", "9" * 30 + "~x", "5~" + "y" * 300, "%00~%00", "1~'"):
        for waiting in ("undelivered", "failed", "approvals"):
            for side in ("newer", "older"):
                page = client.get(f"/ops?waiting={waiting}&{side}={cursor}")
                assert page.status_code == 200, (waiting, side, cursor)


def test_a_long_list_is_paged_by_links(shop: Stage) -> None:
    with shop.live.database.transaction() as connection:
        wanted = {lose_mail(connection, f"m{number}", number) for number in range(120)}
    client, path = shop.log_in(TESS), "/ops?waiting=undelivered&order=newest"
    seen: list[str] = []
    for _ in range(3):
        page = client.get(path).text
        seen += re.findall(r'name="subject" value="([^"]+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = unescape(following[1]) if following else ""
    assert path == ""
    assert len(seen) == 120
    assert set(seen) == wanted


def told(answer: TestResponse, name: str) -> tuple[str, int]:
    facts = answer.get_json()
    return facts["counts"][name], facts["newer"][name]


def test_what_is_new_is_counted_since_the_page_was_made(shop: Stage) -> None:
    lose(shop, "before")
    client = shop.log_in(MONA)
    since = re.search(r'data-since="(\d+)"', client.get("/ops").text)
    assert since is not None
    path = f"/ops/live?since={since[1]}"
    first = client.get(path)
    assert told(first, "undelivered") == ("1", 0)
    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.text) == (304, "")
    fail_run(shop, minutes_ago=-1)
    news = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert told(news, "failed") == ("1", 1)


def test_a_stranger_learns_no_counts(shop: Stage) -> None:
    assert shop.client.get("/ops/live").status_code == 303
