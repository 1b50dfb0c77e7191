"""A second try for tests that play whole stories in real processes: they wait for what a loaded machine may be
late with. Each that needs it is named, with what went wrong; more than a few fail the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

ROOMS = frozenset({"attacks", "browser", "demo", "round_trips", "upgrades", "workflows"})

# Of some two and a half thousand in a run.
MOST = 5


def give(item: pytest.Item) -> None:
    """Let a test be tried once more if it fails."""
    if not item.config.getoption("usepdb"):
        item.add_marker(pytest.mark.flaky(reruns=1))


def needed_by(config: pytest.Config) -> list[pytest.TestReport]:
    """Return the first tries that failed of tests that were tried again."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("rerun", [])) if reporter else []


def names(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return whose reports these are; a test that failed in its call and while it was cleared away has two."""
    return list(dict.fromkeys(report.nodeid for report in reports))


def is_too_many(again: Sequence[str]) -> bool:
    """Say whether a run fails because of the tests that were tried again."""
    return len(again) > MOST


def verdict(again: Sequence[str]) -> str:
    """Return what to say of tests that were tried again."""
    if is_too_many(again):
        return f"too many tests needed a second try: {len(again)}, and {MOST} may"
    return f"{len(again)} of at most {MOST} tests needed a second try: find out why"
