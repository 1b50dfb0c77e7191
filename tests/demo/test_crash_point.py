"""Where a planned death stands: around every step, and around the commit of every POST."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mailagent.demo.crash_point import TRACE, plan
from tests.harness import Harness

INBOUND = "POST /webhooks/sendgrid/inbound"


@pytest.fixture
def traced(shop: Harness, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """Give what lists the points that were come to."""
    trace = tmp_path / "trace"
    call_off = plan(shop.app, TRACE, trace)
    yield lambda: trace.read_text().splitlines() if trace.exists() else []
    call_off()


def test_a_post_has_a_point_before_its_commit_and_one_after(
    shop: Harness, traced: Callable[[], list[str]]
) -> None:
    shop.write("Where are my orders?")
    assert traced() == [f"{INBOUND}:before commit", f"{INBOUND}:after commit"]


def test_a_page_that_only_reads_commits_nothing(
    shop: Harness, traced: Callable[[], list[str]]
) -> None:
    assert shop.client.get("/readyz").status_code == 200
    assert traced() == []


@pytest.mark.parametrize(
    "crash_at",
    ["pay_refund", "pay_refund:never", "no_such_step:after", "POST /nowhere:before commit",
     f"{INBOUND}:after", "GET /readyz:before commit"],
)  # fmt: skip
def test_a_point_that_does_not_exist_is_refused(shop: Harness, crash_at: str) -> None:
    with pytest.raises(ValueError, match="has the points"):
        plan(shop.app, crash_at, None)


def test_points_that_exist_are_taken(shop: Harness, tmp_path: Path) -> None:
    for crash_at in (
        "pay_refund:asked",
        "send_mail:after:2",
        "POST /approvals/<token>:after commit",
    ):
        plan(shop.app, crash_at, tmp_path / "marker")()
