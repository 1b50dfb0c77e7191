"""Whether each part of the benchmark runs and has its figures. What it measures is never tested: machines
differ. All parts run with `--whole`, else the shortest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from mailagent import services
from tests.databases import postgres_copy
from tests.programs.bench.ground import HANDFUL, Ground, open_ground
from tests.programs.bench.measured import Aim
from tests.programs.bench.parts import PARTS, list_wrong, measure, table
from tests.programs.console.__main__ import console
from tests.programs.console.fill import Size, fill
from tests.programs.console.pages import pages
from tests.programs.proof import Rows


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        whole = metafunc.config.getoption("whole")
        metafunc.parametrize("part", PARTS if whole else ["roles"])


@pytest.fixture
def ground(postgres_url: str, migrated_postgres: str) -> Iterator[Ground]:
    with open_ground(postgres_url, migrated_postgres, HANDFUL) as opened:
        yield opened


def test_each_part_runs_and_tells_how_far_its_aims_are_met(ground: Ground, part: str) -> None:
    measured = measure(ground, [part])
    _check(measured)
    if part == "costs":
        _check_costs(measured[0]["table"])


def _check_costs(text: str) -> None:
    """All rows are there, and every mail was answered."""
    for name in ("question about an order", "small refund", "approved refund", "receive", "run"):
        assert re.search(rf"^ *{name} +\|", text, re.MULTILINE)
    assert "12 of 12 mails answered" in text  # three flows, and a worker alone


def _check(rows: Rows) -> None:
    """Nothing was wrong, and the table has the figures and the aims; also after a file of JSON."""
    assert list_wrong(rows) == []
    (row,) = json.loads(json.dumps(rows))
    block = table([row])
    assert row["aims"]
    assert row["table"].splitlines()[-1].rstrip() in block
    assert all(Aim(**aim).line() in block for aim in row["aims"])


# Files of one mail, and of the app itself: they are read by their key.
NOT_MEASURED = ("/attachments/", "/photos/", "/static/")
NO_SUCH_PAGE = {"/ops/nothing": 404, "/approvals/nothing": 404}


def test_every_page_is_measured_and_is_there(postgres_url: str, migrated_postgres: str) -> None:
    size = Size(600, 120, 24)
    with postgres_copy(postgres_url, migrated_postgres) as url, console(url) as client:
        fill(services.current().database.engine, size)
        measured = pages(size, client).values()
        app, answers = client.application, {path: client.get(path) for path in measured}
    statuses = {path: answer.status_code for path, answer in answers.items()}
    wrong = {path: code for path, code in statuses.items() if code not in (200, 302, 303)}
    assert wrong == NO_SUCH_PAGE
    router = app.url_map.bind("localhost")
    seen = {
        router.match(path.partition("?")[0], return_rule=True)[0].rule
        for path in measured
        if path not in NO_SUCH_PAGE
    }
    routes = {each.rule for each in app.url_map.iter_rules() if "GET" in (each.methods or ())}
    assert {each for each in routes - seen if not any(no in each for no in NOT_MEASURED)} == set()
