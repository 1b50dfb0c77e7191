"""Fresh databases for many points: a migrated template for each kind, copied for each point and dropped."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.databases import (
    make_sqlite_template,
    postgres_copy,
    postgres_server,
    postgres_template,
)

Copy = Callable[[], AbstractContextManager[str]]


@contextmanager
def copies(kind: str) -> Iterator[Copy]:
    """Give a function whose context is the URL of a new database; threads may call it."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="mailagent-db-") as folder:
            yield _copies_of_file(make_sqlite_template(Path(folder)))
    else:
        with (
            postgres_server(durable=False) as server,
            postgres_template(server) as template,
        ):
            yield _copies_of_database(server, template)


def _copies_of_file(template: Path) -> Copy:
    @contextmanager
    def copy() -> Iterator[str]:
        folder = Path(tempfile.mkdtemp(dir=template.parent))
        try:
            shutil.copy(template, folder / "shop.db")
            yield f"sqlite:///{folder / 'shop.db'}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return copy


def _copies_of_database(server: str, template: str) -> Copy:
    one_at_a_time = threading.Lock()

    @contextmanager
    def copy() -> Iterator[str]:
        made = postgres_copy(server, template)
        with one_at_a_time:
            url = made.__enter__()
        try:
            yield url
        finally:
            with one_at_a_time:
                made.__exit__(None, None, None)

    return copy
