"""Whether each part of the benchmark runs and has its figures. What it measures is never tested: machines
differ. Of the parts beside the costs all run with `--whole`, else one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.programs.bench.__main__ import open_ground
from tests.programs.bench.document import DOCUMENT, fill_in, within
from tests.programs.bench.ground import HANDFUL, Ground
from tests.programs.bench.report import PARTS, Report, measure

OTHERS = [name for name in PARTS if name != "costs"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        parts = OTHERS if metafunc.config.getoption("whole") else OTHERS[:1]
        metafunc.parametrize("part", parts)


@pytest.fixture
def ground(postgres_url: str, migrated_postgres: str) -> Iterator[Ground]:
    with open_ground(postgres_url, migrated_postgres, HANDFUL) as opened:
        yield opened


def test_the_costs_have_all_rows_and_every_mail_is_answered(ground: Ground) -> None:
    report = measure(ground, ["costs"])
    figures = report.parts["costs"].figures
    names = [row["name"].strip() for row in figures["rows"]]
    assert names == [
        "question about an order",
        "small refund",
        "approved refund",
        "receive",
        "run",
    ]
    assert figures["answered"] == figures["received"] == 12  # three flows, and a worker alone
    assert report.wrong == []
    _check_document(report)


def test_each_other_part_runs_and_tells_how_far_its_aims_are_met(ground: Ground, part: str) -> None:
    report = measure(ground, [part])
    assert report.parts[part].aims
    assert report.wrong == []
    _check_document(report)


def _check_document(report: Report) -> None:
    """The document must have a place for each part, and take the same figures twice."""
    measured = json.loads(json.dumps(report.data()))
    filled = fill_in(DOCUMENT.read_text("utf-8"), measured)
    for part in report.parts.values():
        assert part.table.splitlines()[-1].rstrip() in filled
        assert all(aim.line() in filled for aim in part.aims)
    assert fill_in(filled, measured) == filled


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_on_record_with_its_day_and_its_aims(name: str) -> None:
    block = within(DOCUMENT.read_text("utf-8"), name)
    assert re.match(r"```\n20\d\d-\d\d-\d\d, commit [0-9a-f]{7,}; cores \d", block)
    assert re.search(r"aim [≥≤] .*: (met|missed)$", block, re.MULTILINE)
