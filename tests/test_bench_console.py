"""Whether the console's benchmark has pages to measure. How fast they are is never tested."""

from __future__ import annotations

from mailagent import services
from tests.databases import postgres_copy
from tests.programs.bench.console import console, pages
from tests.programs.bench.console_fill import Size, fill
from tests.programs.bench.console_receipt import measure_receipt


def test_every_page_that_is_measured_is_there(postgres_url: str, migrated_postgres: str) -> None:
    size = Size(600, 120, 24)
    with postgres_copy(postgres_url, migrated_postgres) as url, console(url) as client:
        engine = services.current().database.engine
        fill(engine, size)
        answers = {name: client.get(path).status_code for name, path in pages(size).items()}
        assert set(answers.values()) == {200}, answers
        assert min(measure_receipt(engine)) > 0
