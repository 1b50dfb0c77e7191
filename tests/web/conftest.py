"""A shop with every route that there can be, as it stands on the internet: behind HTTPS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Harness
from tests.web.doors import HTTPS, open_fullest
from tests.web.questions import dear, question

__all__ = ["dear", "question"]


@pytest.fixture
def fullest(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Harness]:
    path = tmp_path / "test.db"
    shutil.copy(migrated_sqlite, path)
    with open_fullest(tmp_path, f"sqlite:///{path}", PUBLIC_URL=HTTPS) as harness:
        yield harness
