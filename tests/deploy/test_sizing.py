"""What docs/deploy.md and compose.yaml reckon with: connections are those that the processes may take, and what
a mail costs is what docs/benchmarks.md says."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from mailagent.demo.process import ROOT
from mailagent.store.database import open_database
from tests.deploy.files import compose, manifests

TEXT = (ROOT / "docs" / "deploy.md").read_text("utf-8")
# Mails a minute, web processes, workers, …, max_connections.
ROWS = re.findall(
    r"^\| ([\d,]+) \| (\d+)\b[^|]*\| (\d+)\b[^|]*\|.*\| ([\d,]+) \|$", TEXT, re.MULTILINE
)


def connections() -> tuple[int, int]:
    """Return the most that a web process and a worker take: the app's pool; and DBOS's, with its listener."""
    pool = open_database("postgresql+psycopg://nobody@db.test/nothing").engine.pool
    assert isinstance(pool, sa.QueuePool)
    one = pool.size() + pool._max_overflow
    return one, 2 * one + 1


def test_the_figures_are_those_of_the_pools() -> None:
    web, worker = connections()
    assert f"up to {web} connections" in TEXT
    assert f"up to {worker}" in TEXT
    assert f"eight of each come to {8 * (web + worker)}" in TEXT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_size_has_connections_for_an_upgrade_too(row: tuple[str, ...]) -> None:
    web, worker = connections()
    webs, workers, most = (int(each.replace(",", "")) for each in row[1:])
    assert most >= (webs + 1) * web + (workers + 1) * worker


def test_the_sizes_are_read() -> None:
    assert [row[0] for row in ROWS] == ["10", "100", "300", "1,000", "3,000"]


def test_compose_has_connections_for_a_third_worker() -> None:
    web, worker = connections()
    (most,) = re.findall(r"max_connections=(\d+)", str(compose()["services"]["db"]["command"]))
    assert int(most) >= web + 3 * worker


def test_compose_and_the_manifests_are_the_rows_that_are_named() -> None:
    by_mails = {row[0]: row[1:] for row in ROWS}
    services = compose()["services"]
    (most,) = re.findall(r"max_connections=(\d+)", str(services["db"]["command"]))
    (workers,) = re.findall(r":-(\d+)", services["worker"]["deploy"]["replicas"])
    (row,) = re.findall(r"compose\.yaml\) is the row with ([\d,]+):", TEXT)
    assert by_mails[row] == ("1", workers, most)
    assert services["db"]["deploy"]["resources"]["limits"] == {"cpus": "1", "memory": "1g"}
    assert re.search(rf"^\| {row} \|.*: 1 core, 1 GB \| {most} \|$", TEXT, re.MULTILINE)
    (row,) = re.findall(r"manifests start the processes of the row with ([\d,]+);", TEXT)
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"]
                for each in manifests() if each["kind"] == "Deployment"}  # fmt: skip
    web, worker = by_mails[row][:2]
    assert replicas == {"mailagent-web": int(web), "mailagent-worker": int(worker)}


def measured(name: str) -> tuple[float, float]:
    """Return the CPU ms and the SQL transactions of a kind of mail, by the table on record."""
    text = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    found = re.search(rf"^{name} *\|(.*)$", text, re.MULTILINE)
    assert found is not None
    cpu, _, transactions, *_ = (cell.split() for cell in found[1].split("|"))
    return float(cpu[0]), float(transactions[0])


def test_the_sizes_follow_from_what_was_measured() -> None:
    said = re.search(
        r"\((\d+) ms of CPU for a question, (\d+) ms for a small refund; ([\d.]+) and ([\d.]+) SQL "
        r"transactions\), for seven questions to three refunds: (\d+) ms and (\d+) transactions",
        TEXT,
    )
    assert said is not None
    question, refund = measured("question about an order"), measured("small refund")
    told = [float(each) for each in said.groups()]
    assert told[:4] == [round(question[0]), round(refund[0]), question[1], refund[1]]
    cpu, transactions = (0.7 * q + 0.3 * r for q, r in zip(question, refund, strict=True))
    assert told[4:] == [round(cpu), round(transactions)]
    sizes = re.findall(
        r"^\| ([\d,]+) \|.*\| ([\d.]+) cores \|.*?\| ([\d,]+)(?: transactions)?/s",
        TEXT,
        re.MULTILINE,
    )
    assert len(sizes) == len(ROWS)
    (roaming,) = re.findall(r"take a third more, (\d+) ms, and by that the table", TEXT)
    assert int(roaming) == round(cpu * 4 / 3)
    cpu = int(roaming)
    for mails, cores, commits in sizes:
        a_second = int(mails.replace(",", "")) / 60
        assert float(cores) == pytest.approx(a_second * cpu / 1000, abs=0.06, rel=0.1)
        assert int(commits.replace(",", "")) == pytest.approx(
            a_second * transactions, abs=5, rel=0.1
        )


def test_the_memory_is_more_than_the_processes_take_at_rest() -> None:
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    web, worker = (
        float(found[1])
        for name in ("web", "worker")
        if (found := re.search(rf"^{name} +[\d.]+ +([\d.]+)", benchmarks, re.MULTILINE))
    )
    sizes = re.findall(
        r"^\| [\d,]+ \| (\d+)\b[^|]*\| (\d+)\b[^|]*\|[^|]*\| ([\d.]+) GB", TEXT, re.MULTILINE
    )
    assert len(sizes) == len(ROWS)
    for webs, workers, gigabytes in sizes:
        assert float(gigabytes) * 1000 >= 1.4 * (int(webs) * web + int(workers) * worker)


def test_the_writes_of_ten_thousand_mails_follow_from_what_was_measured() -> None:
    scale = (ROOT / "docs" / "scale.md").read_text("utf-8")
    (said,) = re.findall(
        r"^\| 10,000 \|.*about ([\d,]+) transactions a second", scale, re.MULTILINE
    )
    a_mail = 0.7 * measured("question about an order")[1] + 0.3 * measured("small refund")[1]
    assert int(said.replace(",", "")) == pytest.approx(10_000 / 60 * a_mail, rel=0.05)
