"""Who may knock where: every route stands in exactly one class, and every door is tried by those who may
not open it. The doors are taken from the app itself, so a new one is tried as soon as it is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from mailagent.adapters.links import Links
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, WebhookKey, build_body
from mailagent.domain.operations.access import PERMISSIONS, Permission, Role
from mailagent.web.guard import Guard, guard_of
from tests.cast import MALLORY, MONA, OLGA, TESS, order_record
from tests.harness import Harness, letter
from tests.web.doors import (
    METRICS_TOKEN,
    ORDERS_TOKEN,
    Case,
    Door,
    books,
    changed,
    csrf_token,
    doors,
    open_fullest,
    token_of,
    two_cases,
    visit,
)

PEOPLE = {OLGA: Role.OPERATOR, MONA: Role.MANAGER, TESS: Role.TEAM}
FORM_FIELDS = (
    "owner",
    "once",
    "reason",
    "address",
    "subject",
    "act",
    "back",
    "note",
    "amount",
    "mode",
    "email",
    "next",
)
READING = ("GET", "HEAD")
# A refusal: not logged in, no such thing, not allowed, a form without its token.
REFUSED = (303, 400, 401, 403, 404, 410, 422)
FORM_EXPIRED = "Please open the page again"
# What some form of ours might hear. It is never heard here; it only must not be missing.
FIELDS = {"decision": "approve", "action": "send", "text": "Sent by a stranger", "from_step": "1"}


@pytest.fixture
def fortress(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop with every route there can be, and two customers' matters in it."""
    with open_fullest(tmp_path, database_url) as harness:
        yield harness


@pytest.fixture
def cases(fortress: Harness) -> tuple[Case, Case]:
    return two_cases(fortress)


def of(harness: Harness, *guards: Guard) -> list[Door]:
    return [door for door in doors(harness) if door.guard in guards]


def logged_in(harness: Harness, email: str) -> tuple[FlaskClient, str]:
    client = harness.log_in(email)
    return client, csrf_token(client)


def test_every_route_stands_in_exactly_one_class(fortress: Harness) -> None:
    for endpoint, view in fortress.app.view_functions.items():
        if endpoint.rpartition(".")[2] == "static":
            continue
        assert isinstance(guard_of(view), Guard), endpoint
        assert (getattr(view, "permission", None) is not None) == (guard_of(view) is Guard.LOGIN)
        inner = getattr(view, "__wrapped__", None)
        assert guard_of(inner) is None, f"two guards stand at {endpoint}"
    assert {door.guard for door in doors(fortress)} == set(Guard)


def test_whatever_begins_with_ops_needs_a_login_but_for_the_login_itself(fortress: Harness) -> None:
    for door in doors(fortress):
        inside = door.rule.rule.startswith("/ops")
        login = door.rule.rule.startswith(("/ops/login", "/ops/logout"))
        assert (door.guard is Guard.LOGIN) == (inside and not login), door.name


def test_a_role_may_only_what_is_written_down() -> None:
    look, answer = Permission.VIEW, Permission.ANSWER
    assert PERMISSIONS[Role.OPERATOR] == set(Permission)
    tasks = Permission.TASKS
    assert PERMISSIONS[Role.MANAGER] == {look, Permission.SETTLE, tasks, Permission.REPORT}
    assert PERMISSIONS[Role.OWNER] == {look, Permission.REPORT}
    assert PERMISSIONS[Role.TEAM] == {look, answer, tasks}


def signatures(harness: Harness, folder: Path, data: bytes) -> dict[str, dict[str, str]]:
    """Return headers that prove nothing."""
    return {
        "nobody's": {},
        "made up": {
            "X-Twilio-Email-Event-Webhook-Signature": "MEUCIQDabc=",
            "X-Twilio-Email-Event-Webhook-Timestamp": "1790000000",
            "Stripe-Signature": "t=1790000000,v1=00",
        },
        "a stranger's": dict(WebhookKey(folder / "stranger.pem").sign(data)),
        "ours, for another body": dict(harness.inbound_key.sign(b"another")),
    }


def test_a_webhook_takes_nothing_that_is_not_signed(fortress: Harness, tmp_path: Path) -> None:
    event = {"id": "evt_1", "type": "refund.created", "data": {}, "object": "event"}
    posts = {
        CONTENT_TYPE: build_body(letter("My kettle is broken")),
        "application/json": json.dumps([event]).encode(),
    }
    before = books(fortress)
    for door, (kind, data) in product(of(fortress, Guard.WEBHOOK), posts.items()):
        for whose, headers in signatures(fortress, tmp_path, data).items():
            answer, _ = visit(
                fortress.client,
                door.path({}),
                door.method,
                data=data,
                content_type=kind,
                headers=headers,
            )
            assert answer.status_code in (400, 403, 503), (door.name, whose, answer.status)
    assert changed(before, books(fortress)) == []


def forgeries(harness: Harness, case: Case) -> dict[str, str]:
    """Return tokens that open nothing."""
    links, named = harness.live.links, [case.approval_id, MONA]
    good = case.values["token"]
    assert links._approvals.dumps(named) == good
    return {
        "nothing in it": ".",
        "chance": "Zm9vYmFy.c2lnbmF0dXJl",
        "no UTF-8": "\udcff",
        "a NUL": "\0",
        "very long": "a" * 3000,
        "one letter changed": good[:-2] + ("A" if good[-2] != "A" else "B") + good[-1],
        "signed for something else": str(links._votes.dumps(named)),
        "signed with a key of theirs": Links(["another key"], "").sign_approval(
            case.approval_id, MONA
        )[11:],
        "of an approval that is not": token_of(harness, "approval_none"),
        "for somebody who never decided": token_of(harness, case.approval_id, MALLORY),
    }


def test_a_link_that_we_did_not_sign_shows_nothing_and_does_nothing(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    case = cases[0]
    client = fortress.client
    form = {"csrf_token": csrf_token(client), **FIELDS}
    before = books(fortress)
    found = of(fortress, Guard.LINK)
    assert len(found) >= 6
    for door in found:
        for kind, token in forgeries(fortress, case).items():
            path = door.path({**case.values, "token": token, "secret": token, "vote": token})
            answer, text = visit(client, path, door.method, data=form)
            assert answer.status_code in REFUSED, (door.name, kind, answer.status)
            assert "Location" not in answer.headers, (door.name, kind)
            assert not [trace for trace in case.traces() if trace in text], (door.name, kind)
    assert changed(before, books(fortress)) == []


def test_a_link_of_one_kind_opens_no_door_of_another(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    case = cases[0]
    moved = {"token": "vote", "secret": "token", "vote": "secret"}
    swapped = {**case.values, **{name: case.values[other] for name, other in moved.items()}}
    client = fortress.client
    form = {"csrf_token": csrf_token(client), **FIELDS}
    before = books(fortress)
    for door in of(fortress, Guard.LINK):
        answer, text = visit(client, door.path(swapped), door.method, data=form)
        assert answer.status_code in REFUSED, door.name
        assert not [trace for trace in case.traces() if trace in text], door.name
    assert changed(before, books(fortress)) == []


def test_a_good_link_shows_nothing_of_anybody_elses_case(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    mine, theirs = cases
    mixed = {**theirs.values, "token": mine.values["token"], "secret": mine.values["secret"]}
    tried = [door for door in of(fortress, Guard.LINK) if len(door.rule.arguments) > 1]
    assert tried
    before = books(fortress)
    for door in tried:
        answer, text = visit(fortress.client, door.path(mixed), door.method)
        assert answer.status_code in REFUSED, door.name
        assert not [trace for trace in theirs.traces() if trace in text], door.name
    assert changed(before, books(fortress)) == []


def test_a_stranger_is_asked_to_log_in_and_changes_nothing(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    case = cases[0]
    stranger = fortress.client
    form = {"csrf_token": csrf_token(stranger), **FIELDS}
    before = books(fortress)
    for door in of(fortress, Guard.LOGIN):
        answer, text = visit(stranger, door.path(case.values), door.method, data=form)
        assert answer.status_code == 303, (door.name, answer.status)
        assert answer.headers["Location"].startswith("/ops/login"), door.name
        # An address that they knew is told them again: they come back to it.
        told = [trace for trace in case.traces() if trace not in door.path(case.values)]
        assert not [trace for trace in told if trace in text], door.name
    assert changed(before, books(fortress)) == []


def test_a_role_without_the_permission_is_refused_and_changes_nothing(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    case = cases[0]
    people = {email: logged_in(fortress, email) for email in PEOPLE}
    before = books(fortress)
    refused = 0
    for door, (email, role) in product(of(fortress, Guard.LOGIN), PEOPLE.items()):
        if door.permission in PERMISSIONS[role]:
            continue
        client, token = people[email]
        form = {"csrf_token": token, **FIELDS}
        answer, text = visit(client, door.path(case.values), door.method, data=form)
        assert answer.status_code == 403, (door.name, role, answer.status)
        assert not [trace for trace in case.traces() if trace in text], (door.name, role)
        refused += 1
    assert changed(before, books(fortress)) == []
    # Every permission that somebody lacks is asked for at some door.
    asked = {door.permission for door in of(fortress, Guard.LOGIN)}
    assert refused or asked == {Permission.VIEW}


WRONG_TOKENS: dict[str, dict[str, str]] = {
    "none": {},
    "another": {"Authorization": "Bearer another"},
    "empty": {"Authorization": "Bearer "},
    "the right one under another name": {"Authorization": f"Basic {ORDERS_TOKEN}"},
    "the right one cut short": {"Authorization": f"Bearer {ORDERS_TOKEN[:-1]}"},
    "in a cookie": {"Cookie": f"token={ORDERS_TOKEN}"},
}


def test_a_bearer_route_wants_its_token(fortress: Harness, cases: tuple[Case, Case]) -> None:
    case = cases[0]
    operator = fortress.log_in(OLGA)
    before = books(fortress)
    for door, (kind, headers) in product(of(fortress, Guard.BEARER), WRONG_TOKENS.items()):
        path = door.path(case.values) + f"?token={ORDERS_TOKEN}&access_token={ORDERS_TOKEN}"
        order = order_record(case.order_id)
        answer, _ = visit(operator, path, door.method, json=order, headers=headers)
        assert answer.status_code == 401, (door.name, kind, answer.status)
    assert changed(before, books(fortress)) == []


def read_everything(harness: Harness, client: FlaskClient, case: Case) -> dict[str, int]:
    """Open every door that is for reading; return what was answered."""
    reading = [door for door in doors(harness) if door.method in READING]
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    return {
        door.name: visit(client, door.path(case.values), door.method, headers=headers)[
            0
        ].status_code
        for door in reading
    }


def test_reading_changes_nothing_anywhere(fortress: Harness, cases: tuple[Case, Case]) -> None:
    clients = [fortress.log_in(email) for email in PEOPLE]
    before = books(fortress)
    answers = [read_everything(fortress, client, cases[0]) for client in clients]
    assert changed(before, books(fortress)) == []
    # It says something only where the pages were really shown, to one of them at least.
    best = {name: min(each[name] for each in answers) for name in answers[0]}
    pages = {name: status for name, status in best.items() if "filename" not in name}
    assert {name: status for name, status in pages.items() if status >= 400} == {}


def with_another_signature(token: str) -> str:
    """Return a token whose signature is another one. Of its last letter not every bit counts, so that
    one is left alone."""
    signed, dot, signature = token.rpartition(".")
    return f"{signed}{dot}{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def test_no_form_is_taken_without_the_token_of_its_own_browser(
    fortress: Harness, cases: tuple[Case, Case]
) -> None:
    client, token = logged_in(fortress, OLGA)
    wrong = {
        "none": {},
        "changed": {"csrf_token": with_another_signature(token)},
        "another browser's": {"csrf_token": csrf_token(fortress.client)},
    }
    guards = of(fortress, Guard.LINK, Guard.LOGIN, Guard.OPEN)
    forms = [door for door in guards if door.method not in READING]
    assert len(forms) >= 4
    before = books(fortress)
    for door, (kind, given) in product(forms, wrong.items()):
        form = {**FIELDS, "email": OLGA, **given}
        answer, _ = visit(client, door.path(cases[0].values), door.method, data=form)
        assert answer.status_code == 400, (door.name, kind, answer.status)
    assert changed(before, books(fortress)) == []


# What breaks databases, paths, numbers, dates and patterns.
ODD = ("\0", "\udcff", "'\"%_\\[(" + "a" * 3000, "9" * 30, "2026-13-99")
QUERY = (
    "q",
    "page",
    "after",
    "before",
    "since",
    "from",
    "to",
    "status",
    "waiting",
    "about",
    "who",
    "step",
    "kind",
)


def test_no_odd_address_or_field_breaks_a_page(fortress: Harness, cases: tuple[Case, Case]) -> None:
    broken = []
    for odd in ODD:
        client, token = logged_in(fortress, OLGA)
        form = {**dict.fromkeys((*FIELDS, *QUERY, *FORM_FIELDS), _typed(odd)), "csrf_token": token}
        for door, hit in product(doors(fortress), (True, False)):
            # Logging out would end the try, and the demo's buttons kill the app.
            if door.method == "HEAD" or door.rule.rule.startswith(("/demo", "/ops/logout")):
                continue
            values = dict.fromkeys(cases[0].values, odd) if hit else cases[0].values
            answer, _ = visit(
                client,
                door.path(values),
                door.method,
                query_string=dict.fromkeys(QUERY, _typed(odd)),
                data=form if door.method != "GET" else None,
                headers={"Authorization": f"Bearer {ORDERS_TOKEN}"},
            )
            # 503 is how a webhook asks for a mail to be delivered again.
            allowed = answer.status_code < 500 or door.guard is Guard.WEBHOOK
            broken += [] if allowed else [(door.name, odd[:20], hit)]
    assert broken == []


def _typed(odd: str) -> str:
    return odd.encode("utf-8", "replace").decode()


def test_only_signed_and_bearer_routes_do_without_the_token(fortress: Harness) -> None:
    for door in of(fortress, Guard.WEBHOOK, Guard.BEARER):
        if door.method not in READING:
            names = {"order_id": "W1", "code": "X", "return_id": "X"}
            _, text = visit(fortress.client, door.path(names), door.method)
            assert FORM_EXPIRED not in text, door.name
    _, told = visit(fortress.client, "/ops/login", "POST")
    assert FORM_EXPIRED in told
