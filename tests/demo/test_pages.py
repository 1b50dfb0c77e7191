"""The demo's page: what it shows, and what it takes only from itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from mailagent.demo.fakes.mailboxes import Mailboxes
from mailagent.demo.fakes.openai import MODEL_NAME
from mailagent.demo.fakes.sendgrid import SendGridServer
from mailagent.demo.fakes.webhooks import build_body
from mailagent.demo.pages import tell_run
from mailagent.demo.shop import OPERATORS, ORDERS
from mailagent.domain.operations.replay import RecordedStep
from mailagent.engine.run import Run
from tests.cast import ADA, SUPPORT
from tests.harness import Harness, open_shop

NOW = datetime(2026, 11, 28, tzinfo=UTC)
A_RUN = Run("refund-1", "refund", "refund_1", "SUCCESS", NOW, NOW, "w1", None)
LETTER = {"from": f"Ada Example <{ADA}>", "subject": "Kettle", "text": "It is broken"}


@dataclass
class DemoPage:
    """A shop with the demo's page on it."""

    shop: Harness
    client: FlaskClient
    mailboxes: Mailboxes

    @property
    def token(self) -> str:
        found = re.search(r'name="csrf-token" content="([^"]+)"', self.client.get("/demo/").text)
        assert found
        return found[1]


@pytest.fixture(params=[MODEL_NAME, "gpt-5.4-mini"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def demo(tmp_path: Path, database_url: str) -> Iterator[DemoPage]:
    with _open(tmp_path, database_url, MODEL_NAME) as opened:
        yield opened


@pytest.fixture
def demo_with(tmp_path: Path, database_url: str, model: str) -> Iterator[DemoPage]:
    with _open(tmp_path, database_url, model) as opened:
        yield opened


@contextmanager
def _open(folder: Path, database_url: str, model: str) -> Iterator[DemoPage]:
    mailboxes = Mailboxes()
    server = SendGridServer(mailboxes, SUPPORT)
    server.start()
    settings = {"MAILAGENT_DEMO": server.url, "OPENAI_MODEL": model}
    with open_shop(folder, database_url, settings) as shop:
        yield DemoPage(shop, shop.client, mailboxes)
    server.stop()


def test_prices_are_told_as_everywhere(demo: DemoPage) -> None:
    html = demo.client.get("/demo/").text
    assert "Kettle, $49.99" in html
    assert "49.99 USD" not in html


def test_the_page_says_which_model_answers(demo_with: DemoPage, model: str) -> None:
    page = demo_with.client.get("/demo/").text
    assert ("model here is scripted" in page) == (model == MODEL_NAME)
    assert ("A real model answers: gpt-5.4-mini" in page) == (model != MODEL_NAME)


def test_the_page_leads_to_the_console_and_has_the_mailbox_of_who_may_log_in(
    demo: DemoPage,
) -> None:
    page = demo.client.get("/demo/").text
    assert 'href="/ops"' in page
    assert all(f'data-address="{address}"' in page for address in OPERATORS)


def test_the_bare_address_leads_to_the_demo(demo: DemoPage) -> None:
    assert demo.client.get("/").location == "/demo/"


def test_without_the_demo_there_is_no_such_page(shop: Harness) -> None:
    assert shop.client.get("/demo/").status_code == 404
    assert shop.client.post("/demo/crash").status_code == 404
    assert shop.client.get("/").status_code == 404


def test_everything_the_page_needs_comes_from_the_app(demo: DemoPage) -> None:
    response = demo.client.get("/demo/")
    addresses = re.findall(r'(?:src|href)="([^"#]+)"', response.text)
    local = [address for address in addresses if address.startswith("/")]
    assert set(addresses) - set(local) <= {"data:,"}
    for address in local:
        assert demo.client.get(address, follow_redirects=True).status_code == 200
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    assert "script-src" not in response.headers["Content-Security-Policy"]


def test_a_letter_goes_to_the_demos_sendgrid(demo: DemoPage) -> None:
    headers = {"X-CSRFToken": demo.token}
    assert demo.client.post("/demo/letters", json=LETTER, headers=headers).status_code == 202
    [letter] = demo.mailboxes.letters()
    assert (letter.from_address, letter.to) == (ADA, SUPPORT)


def test_what_is_wrong_with_a_letter_is_told(demo: DemoPage) -> None:
    answer = demo.client.post(
        "/demo/letters", json={**LETTER, "from": "nobody"}, headers={"X-CSRFToken": demo.token}
    )
    assert answer.status_code == 400
    assert "address" in answer.get_json()["error"]


@pytest.mark.parametrize("route", ["/demo/letters", "/demo/crash"])
def test_without_the_pages_token_nothing_is_done(demo: DemoPage, route: str) -> None:
    assert demo.client.post(route, json=LETTER).status_code == 400
    assert demo.mailboxes.letters() == []


def test_the_state_shows_mail_and_runs(demo: DemoPage) -> None:
    demo.shop.write("Please refund order W1001")
    state = demo.client.get("/demo/state").get_json()
    assert state["process"]["pid"] > 0
    assert state["mail"] == {"sent": [], "letters": []}
    assert (state["refunds"], state["ledger"]) == ([], [])
    assert [run["workflow"] for run in state["runs"]] == ["conversation"]
    assert state["runs"][0]["is_active"]


def test_a_step_is_told_in_a_sentence_and_not_by_its_record(demo: DemoPage) -> None:
    recorded = {"verified": True, "text_id": "text_1", "wait_seconds": 21600.0}
    step = RecordedStep(1, "claim_refund", recorded)
    (told,) = tell_run(replace(A_RUN, steps=(step,)))["steps"]
    assert told["told"].startswith("makes this run the refund's own")
    assert json.loads(told["json"]) == recorded


def test_the_tour_and_the_orders_are_on_the_page(demo: DemoPage) -> None:
    page = demo.client.get("/demo/").text
    assert re.findall(r'data-step="(\w+)"', page) == ["ask", "refund", "manager", "crash", "replay"]
    assert all(f'<th scope="row">{order["order_id"]}</th>' in page for order in ORDERS)
    tried = re.sub(r"(?s)<details.*?</details>", "", page)  # without what is folded
    assert "DRAFT_REPLIES=all flask demo" in tried
    assert 'href="/ops?waiting=drafts"' in tried
    names = set(re.findall(r'data-name="(\w+)"', page))
    assert set(re.findall(r'data-letter="(\w+)"', page)) == {"question", "small", "expensive"}
    assert {"question", "small", "expensive"} <= names
    assert demo.client.get("/demo/state").get_json()["tour"] == dict.fromkeys(
        ("ask", "refund", "manager", "crash", "replay"), False
    )


def test_a_letter_may_have_files_which_are_named_and_not_sent_back(demo: DemoPage) -> None:
    file = {"name": "a.txt", "type": "text/plain", "data": "aGVsbG8="}
    letter, headers = {**LETTER, "files": [file]}, {"X-CSRFToken": demo.token}
    assert demo.client.post("/demo/letters", json=letter, headers=headers).status_code == 202
    [written] = demo.mailboxes.letters()
    assert written.files[0].content == b"hello"
    demo.shop.post_inbound(build_body(written))
    (mail,) = demo.shop.rows("SELECT attachments FROM inbound_mails")
    assert "a.txt" in str(mail.attachments)
    state = demo.client.get("/demo/state").get_json()
    assert state["mail"]["letters"][0]["files"] == ["a.txt"]
    for wrong in ("no list", [1], [{"data": "?"}], [{"data": "A" * 1_000_000}]):
        answer = demo.client.post("/demo/letters", json={**LETTER, "files": wrong}, headers=headers)
        assert answer.status_code == 400
