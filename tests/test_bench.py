"""Whether each part of the benchmark runs and has its figures. What it measures is never tested: machines
differ. Of the parts beside the costs all run with `--whole`, else one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mailagent import services
from tests.databases import postgres_copy
from tests.programs.bench.ground import HANDFUL, Ground, open_ground
from tests.programs.bench.measured import Aim
from tests.programs.bench.parts import DOCUMENT, PARTS, fill_in, list_wrong, measure
from tests.programs.console.__main__ import console, pages
from tests.programs.console.fill import Size, fill
from tests.programs.proof import part_of

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
    measured = measure(ground, ["costs"])
    table = measured["parts"]["costs"]["table"]
    for name in ("question about an order", "small refund", "approved refund", "receive", "run"):
        assert re.search(rf"^ *{name} +\|", table, re.MULTILINE)
    assert "12 of 12 mails answered" in table  # three flows, and a worker alone
    _check(measured)


def test_each_other_part_runs_and_tells_how_far_its_aims_are_met(ground: Ground, part: str) -> None:
    _check(measure(ground, [part]))


def _check(measured: dict[str, Any]) -> None:
    """Nothing was wrong. The document must have a place for each part, and take the same figures twice."""
    assert list_wrong(measured) == []
    measured = json.loads(json.dumps(measured))
    filled = fill_in(DOCUMENT.read_text("utf-8"), measured)
    for part in measured["parts"].values():
        assert part["aims"]
        assert part["table"].splitlines()[-1].rstrip() in filled
        assert all(Aim(**aim).line() in filled for aim in part["aims"])
    assert fill_in(filled, measured) == filled


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_on_record_with_its_day_and_its_aims(name: str) -> None:
    block = part_of(DOCUMENT.read_text("utf-8"), name)
    assert re.match(r"```\n20\d\d-\d\d-\d\d, commit [0-9a-f]{7,}; cores \d", block)
    assert re.search(r"aim [≥≤] .*: (met|missed)$", block, re.MULTILINE)


def test_every_page_of_the_console_that_is_measured_is_there(
    postgres_url: str, migrated_postgres: str
) -> None:
    size = Size(600, 120, 24)
    with postgres_copy(postgres_url, migrated_postgres) as url, console(url) as client:
        fill(services.current().database.engine, size)
        answers = {name: client.get(path).status_code for name, path in pages(size).items()}
        assert set(answers.values()) == {200}, answers
