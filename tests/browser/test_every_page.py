"""Every page that people of the shop see, as a browser shows it: nothing runs that is not ours, nothing has
to be scrolled sideways on a small phone, and axe finds nothing that keeps anybody out.

The shop is the one of the hostile customer, so every list and every text has the worst in it. The pages of
the console are found by following links; only the states of an approval are told here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from flask import Flask, abort
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.adapters.totp import Totp
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import RefundRequest
from mailagent.domain.refunds.policy import KeepOffers
from mailagent.store import schema
from mailagent.store.refunds.ledger import LedgerGateway
from mailagent.web.guard import open_to_all
from tests.browser.eyes import Eyes
from tests.browser.people import PHONE, log_in
from tests.cast import ADA, MALLORY, MONA, OLGA, TESS
from tests.harness import Harness, post_form, wait_until
from tests.hostile import HOSTILE, ORDER, bounce, write_everywhere
from tests.sample import sample
from tests.web.doors import Case, doors, furnish, record_comparison, token_of
from tests.web.page_source import crawl

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MORE_PAGES = (
    "/ops/nowhere",
    "/ops/tasks?state=ended",
    "/ops/comparisons?source=shadow",
    "/ops/settlements?state=failed",
    "/ops/report?days=365",
)

# What is fetched by a page, saved, or leads on; and the login, which has a test of its own.
NO_PAGES = ("/live", "/decide", "/export", "/<number>", ":number>", "/login/<secret>")


@pytest.fixture
def full(served: Harness) -> Harness:
    """The hostile customer's shop, with one incident of somebody else's."""
    write_everywhere(served)
    bounce(served)
    furnish(served)
    record_comparison(served, HOSTILE)
    chosen = Money(900, "USD")
    request = RefundRequest("s_credit", "refund_W2001", "W2001", "pay_1", chosen, credit=chosen)
    LedgerGateway(served.live.database, served.live.now).refund(request)
    return served


# German words are long.
LANGUAGES = ("en-US", "de-DE")


def one_of_each(app: Flask, paths: list[str]) -> dict[str, str]:
    """Return one address for each page of the console, by the page's route."""
    router = app.url_map.bind("localhost")
    found: dict[str, str] = {}
    for path in paths:
        route = str(router.match(path.partition("?")[0], return_rule=True)[0].rule)
        found.setdefault(f"{route}?" if "?" in path else route, path)
    return found


def test_every_page_of_the_console(
    full: Harness, browser: Browser, request: pytest.FixtureRequest
) -> None:
    routes = {
        door.rule.rule
        for door in doors(full)
        if door.method == "GET" and door.rule.rule.startswith("/ops")
    }
    starts = [route for route in sorted(routes) if "<" not in route]
    starts += [f"/ops/search?q={ORDER}", f"/ops/customers/{HOSTILE}", f"/ops/customers/{ADA}"]
    (thread,) = full.rows("SELECT conversation_id FROM refunds WHERE order_id = 'W2001'")
    starts += [f"/ops/conversations/{thread.conversation_id}/refund/W2001"]
    pages = one_of_each(full.app, list(crawl(full.log_in(OLGA), starts)))
    unseen = {route for route in routes if route not in pages and f"{route}?" not in pages}
    assert {route for route in unseen if not route.endswith(NO_PAGES)} == set()
    pages |= {path: path for path in MORE_PAGES}
    chosen = sample(pages, LANGUAGES, request.config.getoption("whole"))
    for language in LANGUAGES:
        context = log_in(full, browser, OLGA, viewport=PHONE, locale=language)
        opened = context.new_page()
        eyes = Eyes(opened)
        for route, path in pages.items():
            if language in chosen[route]:
                eyes.look(full.live.shop.public_url + path, route)
        assert eyes.problems == {}, language
        opened.goto(f"{full.live.shop.public_url}/ops/settlements")  # with a store credit to give
        expect(opened.locator("input[required][name=reference]")).to_have_count(1)
        context.close()


def test_the_pages_of_the_login(full: Harness, browser: Browser) -> None:
    url = full.live.shop.public_url
    context = browser.new_context()
    opened = context.new_page()
    eyes = Eyes(opened)
    eyes.look(f"{url}/ops/login", "asked")
    opened.get_by_label("Your address in the shop").fill(OLGA)
    opened.get_by_role("button", name="Mail me a link").click()
    eyes.look_on("sent")
    eyes.look(f"{url}/ops/login/{furnish(full, MALLORY, 'W7').values['secret']}", "to confirm")
    eyes.look(f"{url}/ops/login/nothing", "too late")
    opened.goto(f"{url}/ops/login")
    opened.evaluate("document.querySelector('[name=csrf_token]').value = 'x'")
    opened.get_by_label("Your address in the shop").fill(OLGA)
    opened.get_by_role("button", name="Mail me a link").click()
    eyes.look_on("a form without its token")
    assert eyes.problems == {}
    context.close()


def test_every_state_of_the_second_step_of_a_login(served: Harness, browser: Browser) -> None:
    served.live = replace(served.live, totp=Totp(["a key for tests only"], "Shop"))
    services.bind(served.live)
    url = served.live.shop.public_url
    context = browser.new_context()
    opened = context.new_page()
    eyes = Eyes(opened)
    opened.goto(f"{url}/ops/login/{furnish(served).values['secret']}")
    opened.get_by_role("button", name=f"Log in as {TESS}").click()
    eyes.look_on("to enrol")
    opened.set_viewport_size({"width": 320, "height": 640})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 320
    for _ in range(6):
        opened.get_by_label("Code of six digits").fill("no code")
        opened.get_by_role("button", name="Log in").click()
    eyes.look_on("locked")
    expect(opened.get_by_text("There were 5 wrong codes")).to_be_visible()
    assert eyes.problems == {}
    context.close()


def test_every_state_of_an_approval(full: Harness, browser: Browser) -> None:
    context = browser.new_context()
    eyes = Eyes(context.new_page())
    url = full.live.shop.public_url
    for name, path in approvals(full).items():
        eyes.look(url + path, name)
    rules = replace(services.current().policy, keep_offers=KeepOffers({}))
    services.bind(replace(services.current(), policy=rules))
    waiting = url + link(furnish(full, "typo@example.com", "W8"))
    opened = context.pages[0]
    opened.goto(waiting)
    for folded in opened.locator("summary").all():
        folded.click()
    eyes.look_on("all of it open")
    opened.get_by_label("Approve a lower amount").fill("a lot")
    opened.get_by_role("button", name="Approve the refund").click()
    eyes.look_on("a problem")
    opened.goto(waiting)
    opened.get_by_text("Offer part of the price instead").click()
    opened.get_by_label("Percent of the price of the chosen items").fill("all")
    opened.get_by_role("button", name="Offer it").click()
    expect(opened.get_by_text("Please offer from 1 to 99 percent").first).to_be_visible()
    eyes.look_on("a problem with an offer")
    opened.get_by_label("Percent of the price of the chosen items").fill("30")
    opened.get_by_role("button", name="Offer it").click()
    expect(opened.get_by_text("Offered instead: 30 % of the price")).to_be_visible()
    eyes.look_on("offered")
    opened.goto(url + link(furnish(full, "clicks@example.com", "W9")))
    opened.get_by_role("button", name="Approve the refund").dblclick()
    opened.get_by_role("button", name="Take it back").click()
    eyes.look_on("taken back")
    assert eyes.problems == {}
    context.close()


def test_every_error(served: Harness, browser: Browser) -> None:
    served.app.add_url_rule("/test-error/<int:code>", "error", open_to_all(abort))
    context = browser.new_context(timezone_id="Asia/Kolkata")
    opened = context.new_page()
    eyes = Eyes(opened)
    for code in (400, 403, 404, 405, 413, 418, 429, 500, 503):
        eyes.look(f"{served.live.shop.public_url}/test-error/{code}", str(code))
        expect(opened.locator("time")).to_have_text(re.compile(r"\d\d:\d\d GMT\+5:30$"))
        expect(opened.locator("time")).to_have_attribute("title", re.compile(" UTC$"))
    opened.goto(f"{served.live.shop.public_url}/refunds/W1001")
    expect(opened.get_by_role("heading", name="There is no such page")).to_be_visible()
    opened.get_by_role("link", name="To the console").click()
    expect(opened.get_by_label("Your address in the shop")).to_be_visible()
    problems = {  # without the browser's own words for the status
        code: [each for each in found if f"status of {code}" not in each]
        for code, found in eyes.problems.items()
    }
    assert not any(problems.values()), problems
    context.close()


def link(case: Case) -> str:
    return f"/approvals/{case.values['token']}"


def approvals(harness: Harness) -> dict[str, str]:
    """Return an address for each state of an approval, by what is so."""
    states = ("decided", "second awaited", "expired", "withdrawn", "file gone", "to take back")
    cases = {
        name: furnish(harness, f"c{number}@example.com", f"W1{number}")
        for number, name in enumerate(states)
    }
    (theirs,) = harness.rows(
        "SELECT approval_id FROM approvals JOIN refunds USING (refund_id) WHERE order_id = :order",
        order=ORDER,
    )
    refunds, asked, raw = schema.refunds, schema.approvals, schema.raw_mails
    long_ago = harness.live.now() - timedelta(days=1)
    changes = (
        refunds.update()
        .where(refunds.c.refund_id == cases["second awaited"].values["refund_id"])
        .values(four_eyes=True),
        asked.update()
        .where(asked.c.approval_id == cases["expired"].approval_id)
        .values(expires_at=long_ago),
        refunds.update()
        .where(refunds.c.refund_id == cases["withdrawn"].values["refund_id"])
        .values(status="withdrawn", decided_at=long_ago),
        raw.delete().where(raw.c.mail_id == cases["file gone"].values["mail_id"]),
    )
    for change in changes:
        with harness.live.database.transaction() as connection:
            connection.execute(change)
    post_form(harness.client, link(cases["decided"]), decision="reject", note="No, sorry")
    post_form(harness.client, link(cases["second awaited"]), decision="approve")
    wait_until(harness.at_rest, 30, "an end of it")
    waits = replace(harness.live.waits, approval_undo_seconds=3600)
    services.bind(replace(harness.live, waits=waits))
    post_form(harness.client, link(cases["to take back"]), decision="approve", note="A known fault")
    return {
        **{name: link(case) for name, case in cases.items()},
        "waiting": f"/approvals/{token_of(harness, theirs.approval_id)}",
        "file gone": link(cases["file gone"])
        + f"/attachments/{cases['file gone'].values['mail_id']}/0",
        "no manager": f"/approvals/{token_of(harness, theirs.approval_id, MALLORY)}",
        "forged": f"/approvals/{token_of(harness, 'approval_none', MONA)}",
    }
