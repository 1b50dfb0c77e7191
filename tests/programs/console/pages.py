"""The pages that are measured: every one that a person of the shop or a customer can open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from flask.testing import FlaskClient

from mailagent import services
from mailagent.store.console import sessions
from tests.cast import MAX, MONA, TESS
from tests.programs.console.fill import COMMON, RARE, REPLAY, UNCOMMON, Size


def pages(size: Size, client: FlaskClient) -> Mapping[str, str]:
    """Return the address of each, by what it is. `client`: the browser of somebody who sees all of them."""
    some, failed = f"{size.conversations // 2:026}", f"conversation-{2:026}"
    customer = f"customer{size.conversations // 4}@mail.example"
    year = f"from={_day(365)}&to={_day(1)}"
    reason = re.search(r"reason=(\w+)", client.get("/ops/replays").text)
    assert reason is not None
    return (
        _inbox()
        | _searches(size)
        | _conversation(size, some)
        | _public(size)
        | {
            "a customer": f"/ops/customers/{customer}",
            "a customer, to erase": f"/ops/customers/{customer}/erase",
            "tasks": "/ops/tasks",
            "tasks, done": "/ops/tasks?state=ended",
            "tasks, done, far back": f"/ops/tasks?state=ended&older={_position(250)}",
            "settlements": "/ops/settlements",
            "settlements, paid": "/ops/settlements?state=settled",
            "settlements, file": "/ops/settlements/export",
            "report": "/ops/report?days=90",
            "report, a year": f"/ops/report?{year}",
            "report, a year, file": f"/ops/report/export?{year}",
            "knowledge": "/ops/knowledge",
            "comparisons": "/ops/comparisons?source=shadow",
            "model": "/ops/model",
            "runs": "/ops/runs",
            "runs that failed": "/ops/runs?status=failed",
            "runs about a conversation": f"/ops/runs?about=conversation_{some}",
            "replays": "/ops/replays",
            "replays: the plan": f"/ops/replays?reason={reason[1]}",
            "replays: progress": f"/ops/replays/{REPLAY}",
            "a run": f"/ops/runs/{failed}",
            "a run, to replay": f"/ops/runs/{failed}/replay",
            "saved replies": "/ops/saved-replies",
            "a saved reply": f"/ops/saved-replies/reply_{1:026}",
            "audit": "/ops/audit",
            "audit: of a person": f"/ops/audit?actor={TESS}",
            "audit: an act, from the beginning": "/ops/audit?action=dismissed&order=oldest",
            "audit: a row": f"/ops/audit?subject=mail_{some}",
            "no such page": "/ops/nothing",
            "live": f"/ops/live?since={_microseconds(180)}",
            "metrics, all counted again": "/metrics",
        }
    )


def _day(days_ago: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days_ago)).date().isoformat()


def _microseconds(days_ago: int) -> int:
    return int((datetime.now(UTC) - timedelta(days=days_ago)).timestamp()) * 10**6


def _position(days_ago: int) -> str:
    """Return a place in a list, as the addresses of its pages have it."""
    return f"{_microseconds(days_ago)}~x"


def _inbox() -> dict[str, str]:
    return {
        "inbox": "/ops",
        "waiting for a manager": "/ops?waiting=approvals",
        "waiting for Mona": f"/ops?waiting=approvals&manager={MONA}",
        "waiting for Max, newest first": f"/ops?waiting=approvals&manager={MAX}&order=newest",
        "waiting for a manager, last page": f"/ops?waiting=approvals&newer={_position(2)}",
        "drafts": "/ops?waiting=drafts",
        "drafts, by their short address": "/ops/drafts",
        "with the team": "/ops?waiting=people",
        "with the team, unassigned": "/ops?waiting=people&owner=nobody",
        "throttled": "/ops?waiting=throttled",
        "failed": "/ops?waiting=failed",
        "undelivered": "/ops?waiting=undelivered",
        "undelivered, with what was dismissed": "/ops?waiting=undelivered&shown=all",
        "without an answer": "/ops?waiting=unanswered",
        "conversations": "/ops/conversations",
        "conversations, far back": f"/ops/conversations?view=pending&older={_position(250)}",
        "conversations: mine": "/ops/conversations?view=pending&owner=mine",
        "conversations: unassigned, closed": "/ops/conversations?view=closed&owner=nobody",
        "conversations: a common tag": "/ops/conversations?view=pending&tag=parcel",
        "conversations: a rare tag": "/ops/conversations?view=closed&tag=tag+7",
        "conversations: snoozed": "/ops/conversations?view=snoozed",
    }


def _searches(size: Size) -> dict[str, str]:
    return {
        "search: nothing": "/ops/search",
        "search: nothing found": "/ops/search?q=nowhere%40nothing.example",
        "search: an address": f"/ops/search?q=customer{size.conversations // 4}%40mail.example",
        "search: the beginning of addresses": "/ops/search?q=customer1&kind=conversations",
        "search: a domain of half the shop": "/ops/search?q=%40mail.example",
        "search: a name": "/ops/search?q=Customer+77777&kind=conversations",
        "search: a name of everyone": "/ops/search?q=Customer&kind=conversations",
        "search: an order": f"/ops/search?q=W{size.approvals}",
        "search: a word in one mail": f"/ops/search?q={RARE}",
        "search: a word in some mails": "/ops/search?q=word19000",
        "search: two words": "/ops/search?q=word3000+word19000",
        "search: a word in every tenth": f"/ops/search?q={UNCOMMON}",
        "search: a word in every mail": f"/ops/search?q={COMMON}",
        "search: two in every mail": f"/ops/search?q={COMMON}+hello",
        "search: common and rare": f"/ops/search?q={COMMON}+{RARE}",
        "search: common, a month, oldest": (
            f"/ops/search?q={COMMON}&from={_day(240)}&to={_day(210)}&order=oldest"
        ),
        "search: all mail, far back": f"/ops/search?kind=mails&older={_position(250)}",
        "search: refunds that expired": "/ops/search?kind=refunds&state=expired",
    }


def _conversation(size: Size, some: str) -> dict[str, str]:
    """Return the pages of one conversation, and of its refund and its draft."""
    thread, waiting = f"/ops/conversations/conversation_{some}", f"{size.approvals // 5 * 5:026}"
    return {
        "a conversation": thread,
        "a conversation, sent, file": f"{thread}/sent-files/outbound_{some}/0",
        "refund by the team": f"{thread}/refund/W{size.conversations // 2}",
        "a refund": f"/ops/refunds/refund_{waiting}",
        "a refund, to decide": f"/ops/refunds/refund_{waiting}/decide",
        "a draft": f"/ops/drafts/draft_{1:026}",
    }


def _public(size: Size) -> dict[str, str]:
    """Return the pages that need no login."""
    live = services.current()
    secret, until = sessions.new_secret(), datetime.now(UTC) + timedelta(hours=1)
    with live.database.transaction() as connection:
        sessions.record_link(connection, secret, TESS, "/ops", datetime.now(UTC), until)
    return {
        "approval": _path(
            live.links.sign_approval(f"approval_{size.approvals // 5 * 5:026}", MONA)
        ),
        "approval, not valid": "/approvals/nothing",
        "did this help": _path(live.links.sign_votes(f"mail_{1:026}")["yes"]),
        "log in": "/ops/login",
        "log in, the second step": "/ops/login/second-factor",
        "log in, the link": f"/ops/login/{secret}",
        "health": "/healthz",
        "readiness": "/readyz",
    }


def _path(url: str) -> str:
    return urlsplit(url).path
