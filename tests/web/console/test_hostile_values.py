"""Values that no form of ours sends: whatever stands in an address, no page of the console breaks."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cast import OLGA
from tests.harness import Harness
from tests.sample import SEED
from tests.web.doors import Case, Door, doors, furnish, open_fullest, visit

# Percent-encoded as they go over the wire: what is no UTF-8 cannot be written otherwise.
VALUES = {
    "dashes": "-" * 3_000,
    "dashes apart": quote("- " * 1_500),
    "quotes": quote('"' * 3_001),
    "alternatives": quote("or " * 1_000),
    "operators": quote("-\"'&|!():*<->\\%_" * 100),
    "long": "a" * 100_000,
    "nothing": "",
    "blanks": "%20%09%0a",
    "nul": "a%00b",
    "nul alone": "%00",
    "surrogate": "%ed%a0%80",
    "no utf-8": "%ff%fe",
    "four bytes": "%f4%8f%bf%bf",
    "right to left": "%e2%80%ae",
    "negative": "-1",
    "large": "9" * 19,
    "larger": "9" * 400,
    "digits of another script": quote("٣٤²"),
    "not a number": "NaN",
    "moment": "9999999999999999~mail_1",
    "moment beyond the calendar": "99999999999999999999~mail_1",
    "moment with nul": "1~%00",
    "moment with letters": quote("1~" + "ÿ" * 199),
    "position": quote("1|run|2"),
    "date": "2026-02-30",
    "first day": "0001-01-01",
    "last day": "9999-12-31",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "id with nul": "mail_%00",
    "id": "conversation_" + "9" * 300,
    "template": quote("{{7*7}}{%"),
    "path": quote("/../../etc/passwd"),
    "elsewhere": quote("//evil.example"),
    "line": "%0d%0aSet-Cookie:%20a=b",
}


def names_read_by(harness: Harness, door: Door) -> list[str]:
    """Return every name that the module of a page reads from an address, as its source says."""
    path = inspect.getsourcefile(inspect.unwrap(harness.app.view_functions[door.rule.endpoint]))
    assert path is not None
    source = Path(path).read_text("utf-8")
    names = set(re.findall(r"""(?:request\.args\.get|typed|_page)\(\s*"(\w+)\"""", source))
    if "typed(name)" in source:
        names |= {"from", "to", "actor", "action", "subject", "status", "queue", "name"}
    if "read_window" in source:
        names |= {"order", "newer", "older"}
    return sorted(names)


@pytest.fixture
def console(tmp_path: Path, database_url: str) -> Iterator[tuple[Harness, Case]]:
    with open_fullest(tmp_path, database_url) as harness:
        yield harness, furnish(harness)


def pages(harness: Harness) -> list[Door]:
    found = [door for door in doors(harness) if door.rule.rule.startswith("/ops")]
    return [door for door in found if door.method == "GET" and "static" not in door.rule.rule]


def values_for(door: Door, whole: bool) -> list[str]:
    """Return what to try on a page: a third, chosen by the page's name and the seed, or with `whole` all."""
    if whole:
        return list(VALUES.values())
    return random.Random(f"{SEED} {door.name}").sample(list(VALUES.values()), len(VALUES) // 3)


def test_no_value_in_an_address_breaks_a_page(
    console: tuple[Harness, Case], request: pytest.FixtureRequest
) -> None:
    harness, case = console
    whole = request.config.getoption("whole")
    client, broken, read = harness.log_in(OLGA), [], set()
    for door in pages(harness):
        names = names_read_by(harness, door)
        read.update(names)
        for value in values_for(door, whole) if names else ():
            # A long one in each field would be longer than a server takes.
            query = "&".join(f"{each}={value[: 60_000 // len(names)]}" for each in names)
            answer, _text = visit(client, f"{door.path(case.values)}?{query}")
            if answer.status_code >= 500:
                broken.append((door.name, value[:50], answer.status_code))
    assert broken == []
    assert {"q", "kind", "state", "older", "after", "from_step", "since", "from"} <= read
