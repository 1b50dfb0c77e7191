"""Kills the app with SIGKILL at every point of every step, and checks the promises afterwards.

`python -m tests.crash_sweep` tries all of them on SQLite and PostgreSQL and prints a table; the test
in `tests/journeys/test_crashes.py` tries a sample. Steps and points are found in the code: a new one
is swept without being listed here.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path

import sqlalchemy as sa

from mailagent.demo.app_process import AppProcess
from mailagent.demo.mailboxes import Mailboxes
from mailagent.demo.openai_server import OpenAIServer
from mailagent.demo.postman import Postman
from mailagent.demo.sendgrid_server import SendGridServer
from mailagent.demo.show import find_port
from mailagent.demo.webhook_key import WebhookKey
from mailagent.store import orders
from mailagent.store.database import Database, open_database
from mailagent.workflows import launch
from mailagent.workflows.steps.recording import CRASH_POINTS
from tests.cast import ADA, GRACE, MAX, MONA, SUPPORT, TESS, big_order, order
from tests.stage import letter, wait_until

PATIENCE_SECONDS = 45.0  # less than the sweep takes to notice: the runs must do it themselves

assert launch.WORKFLOWS  # loading it is what makes the steps known


@dataclass(frozen=True)
class Flow:
    """One story: what Ada writes, what must come of it, and how many mails each person gets.

    `decision` is made by each of `managers` after the other; `then` is what Ada writes once the first
    was asked; `policy` is the shop's, where it is not the built-in one.
    """

    name: str
    text: str
    decision: str | None
    refund_status: str | None
    mails: dict[str, int]
    managers: tuple[str, ...] = (MONA,)
    then: str | None = None
    policy: str | None = None


FLOWS = (
    Flow("small refund", "My kettle from order W1001 arrived broken. I want my money back.",
         None, "paid", {ADA: 2}),
    Flow("approved refund", "The standing desk of order W2001 is damaged, please refund it.",
         "approve", "paid", {ADA: 2, MONA: 1}),
    Flow("rejected refund", "The standing desk of order W2001 is damaged, please refund it.",
         "reject", "rejected", {ADA: 2, MONA: 1}),
    Flow("countersigned refund", "The standing desk of order W2001 is damaged, please refund it.",
         "approve", "paid", {ADA: 2, MONA: 1, MAX: 1}, (MONA, MAX), None,
         'four_eyes_above = { USD = "1000.00" }'),
    Flow("withdrawn refund", "The standing desk of order W2001 is damaged, please refund it.",
         None, "withdrawn", {ADA: 2, MONA: 1}, (),
         "Never mind, I do not want a refund for order W2001 any more."),
    Flow("hand-over", "This is outrageous! I want to talk to a human being, now!",
         None, None, {ADA: 1, TESS: 1}),
    Flow("question", "Which orders of mine do you have? I forgot the number.", None, None, {ADA: 1}),
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    flow: Flow
    step: str
    at: str

    def __str__(self) -> str:
        return f"{self.flow.name}: {self.step}, {self.at}"


def find_points(fresh: Callable[[], str]) -> list[Point]:
    """Return every point that the flows come to: each is played once, and its recorded steps are read."""
    points = []
    for flow in FLOWS:
        steps = _play_whole(flow, fresh())
        points += [
            Point(flow, step, at)
            for step in sorted(CRASH_POINTS.keys() & steps)
            for at in CRASH_POINTS[step]
        ]
    return points


class PromiseBroken(AssertionError):
    """A promise did not hold after a crash; the text says which."""


class Sweep:
    """One app on one fresh database, with providers that outlive its crash."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._database_url = database_url
        self.database: Database = open_database(database_url)
        self.mailboxes = Mailboxes(folder / "mailboxes.jsonl")
        self._openai = OpenAIServer()
        self._sendgrid = SendGridServer(self.mailboxes, SUPPORT)
        self._port = find_port(0)
        self._inbound, self._events = (
            WebhookKey(folder / "inbound.pem"), WebhookKey(folder / "events.pem"),
        )  # fmt: skip
        self._postman = Postman(
            self.mailboxes, f"http://127.0.0.1:{self._port}", self._inbound, self._events
        )
        self.marker = folder / "crashed"
        self._traded = False

    @contextmanager
    def app(self, flow: Flow, crash_at: str | None) -> Iterator[None]:
        """Run the app, which is to die at `crash_at`; gunicorn starts a new worker when it does."""
        servers = (self._openai, self._sendgrid, self._postman)
        for server in servers:
            server.start()
        app = AppProcess(self._port, self._environment(flow, crash_at), self._folder / "app.log")
        try:
            yield
        finally:
            app.stop()
            for server in servers:
                server.stop()
            self.database.close()

    def _environment(self, flow: Flow, crash_at: str | None) -> dict[str, str]:
        policy = self._folder / "policy.toml"
        policy.write_text(flow.policy or "")
        crash = {"MAILAGENT_CRASH_AT": crash_at, "MAILAGENT_CRASH_ONCE": str(self.marker)}
        return {
            "PATH": "/usr/bin:/bin",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "DATABASE_URL": self._database_url,
            "SECRET_KEY": "a key for tests only",
            "WORKER_ID": "sweep",
            "PUBLIC_URL": f"http://127.0.0.1:{self._port}",
            "SUPPORT_ADDRESS": SUPPORT,
            "MANAGER_EMAILS": f"{MONA},{MAX}",
            "REFUND_POLICY": str(policy),
            "TEAM_EMAILS": TESS,
            "OPENAI_BASE_URL": f"{self._openai.url}/v1",
            "OPENAI_API_KEY": "test",
            "SENDGRID_BASE_URL": self._sendgrid.url,
            "SENDGRID_API_KEY": "test",
            "SENDGRID_INBOUND_PUBLIC_KEY": self._inbound.public_text(),
            "SENDGRID_EVENTS_PUBLIC_KEY": self._events.public_text(),
            "MAIL_OUTCOME_SECONDS": "6",
            **({key: value for key, value in crash.items() if value} if crash_at else {}),
        }

    def play(self, flow: Flow) -> None:
        """Play a flow to its end, through whatever crash comes."""
        with self.database.transaction() as connection:
            for stocked in (order(), big_order()):
                orders.save(connection, stocked, stocked.placed_at)
        self.mailboxes.record_letter(letter(flow.text))
        if flow.then:
            for person in (MONA, ADA):
                self._wait(lambda: bool(self.mailboxes.sent(person)), f"mail to {person}")  # noqa: B023 - called at once
            self.mailboxes.record_letter(letter(flow.then))
        if flow.decision:
            for count, manager in enumerate(flow.managers, start=1):
                self._wait(lambda: bool(self.mailboxes.sent(manager)), f"{manager} to be asked")  # noqa: B023 - called at once
                self._decide(flow.decision, manager, count)
        for person, count in flow.mails.items():
            self._wait(lambda: len(self.mailboxes.sent(person)) >= count, f"mail to {person}")  # noqa: B023 - called at once
        self._wait(self._is_quiet, "every run to end")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def has_come() -> bool:
            self._go_on_trading()
            return condition()

        wait_until(has_come, PATIENCE_SECONDS, what)

    def _go_on_trading(self) -> None:
        """Let somebody else write after the crash: that later mail is told of, and one that was lost is
        not, shows that it was lost."""
        if self._traded or not self.marker.exists():
            return
        self._traded = True
        question = "Which orders of mine do you have? I forgot the number."
        self.mailboxes.record_letter(letter(question, from_address=GRACE))

    def _is_quiet(self) -> bool:
        table = f"{self._dbos}workflow_status"
        active = self._scalar(
            f"SELECT count(*) FROM {table} WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
            " AND name <> 'sweep'"
        )
        unsent = self._scalar("SELECT count(*) FROM outbound_mails WHERE status <> 'sent'")
        return not active and not unsent

    def _decide(self, decision: str, manager: str, count: int) -> None:
        """Press a button on the manager's page until the app has lived long enough to record it."""
        link = re.search(
            r"http://127\.0\.0\.1:\d+/approvals/\S+", self.mailboxes.sent(manager)[0].text
        )
        assert link is not None
        self._wait(lambda: self._press(link[0], decision, count), "the decision to be recorded")

    def _press(self, link: str, decision: str, count: int) -> bool:
        browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        try:
            page = browser.open(link, timeout=10).read().decode()
            token = re.search(r'name="csrf_token" value="([^"]+)"', page)
            if token is not None:
                form = urllib.parse.urlencode({"decision": decision, "csrf_token": token[1]})
                browser.open(link, form.encode(), timeout=10).read()
        except (OSError, http.client.HTTPException):
            return False
        recorded = self._scalar("SELECT count(*) FROM decisions")
        return recorded + self._scalar("SELECT count(*) FROM countersignatures") == count

    def _scalar(self, statement: str) -> int:
        with self.database.snapshot() as connection:
            return int(connection.scalar(sa.text(statement)) or 0)

    def check(self, flow: Flow) -> None:
        """Raise PromiseBroken unless everything is as if nothing had happened."""
        failed = self._failed_runs()
        if failed:
            raise PromiseBroken(f"a run failed: {failed}")
        for person in (ADA, MONA, MAX, TESS):
            ids = Counter(mail.custom_args["outbound_id"] for mail in self.mailboxes.sent(person))
            if [count for count in ids.values() if count > 1]:
                raise PromiseBroken(f"{person} got a mail twice")
            if len(ids) != flow.mails.get(person, 0):
                subjects = [mail.subject for mail in self.mailboxes.sent(person)]
                raise PromiseBroken(
                    f"{person} got {len(ids)} mails, not {flow.mails.get(person, 0)}: {subjects}"
                )
        self._check_money(flow)
        if self._scalar("SELECT count(*) FROM inbound_mails WHERE status = 'unanswered'"):
            raise PromiseBroken("a mail is unanswered")

    def recorded_steps(self) -> set[str]:
        """Return the names of all steps that DBOS has recorded."""
        with self.database.snapshot() as connection:
            names = connection.scalars(
                sa.text(f"SELECT DISTINCT function_name FROM {self._dbos}operation_outputs")
            )
            return set(names)

    @property
    def _dbos(self) -> str:
        return "" if self.database.engine.dialect.name == "sqlite" else "dbos."

    def _failed_runs(self) -> list[str]:
        table = f"{self._dbos}workflow_status"
        with self.database.snapshot() as connection:
            rows = connection.execute(
                sa.text(f"SELECT workflow_uuid, error FROM {table} WHERE status NOT IN"
                        " ('SUCCESS', 'ENQUEUED', 'PENDING', 'DELAYED')")
            ).all()  # fmt: skip
        return [f"{row[0]}: {row[1]}" for row in rows]

    def _check_money(self, flow: Flow) -> None:
        with self.database.snapshot() as connection:
            refunds = connection.execute(sa.text("SELECT * FROM refunds")).all()
            entries = connection.execute(sa.text("SELECT * FROM ledger_entries")).all()
            held = connection.execute(sa.text("SELECT sum(held_minor) FROM orders")).scalar()
        if [refund.status for refund in refunds] != (
            [flow.refund_status] if flow.refund_status else []
        ):
            raise PromiseBroken(f"the refunds are {[refund.status for refund in refunds]}")
        paid = [refund for refund in refunds if refund.status == "paid"]
        if [entry.amount_minor for entry in entries] != [refund.amount_minor for refund in paid]:
            raise PromiseBroken(
                f"the ledger has {len(entries)} entries for {len(paid)} paid refunds"
            )
        if held != sum(refund.amount_minor for refund in paid):
            raise PromiseBroken(f"the orders hold {held}")


def _play_whole(flow: Flow, database_url: str) -> set[str]:
    """Play a flow without a crash, and return the names of the steps that DBOS recorded."""
    with _sweep(database_url, flow.name) as sweep, sweep.app(flow, None):
        sweep.play(flow)
        sweep.check(flow)
        return sweep.recorded_steps()


@contextmanager
def _sweep(database_url: str, what: object) -> Iterator[Sweep]:
    folder = Path(tempfile.mkdtemp(prefix="mailagent-sweep-"))
    try:
        yield Sweep(folder, database_url)
    except AssertionError as problem:
        log = (folder / "app.log").read_text(errors="replace")[-3000:]
        raise PromiseBroken(f"{what}: {problem}\n--- the app's log ends:\n{log}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_point(point: Point, database_url: str) -> bool:
    """Crash at a point and check; return whether the process really died there.

    Raises PromiseBroken, or AssertionError when something never happened.
    """
    with _sweep(database_url, point) as sweep:
        with sweep.app(point.flow, f"{point.step}:{point.at}"):
            sweep.play(point.flow)
            sweep.check(point.flow)
        return sweep.marker.exists()


def main() -> int:
    """Sweep; exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sample", type=int, help="only so many points of each database, by chance"
    )
    parser.add_argument("--only", default="", help="only points whose name has this in it")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    options = parser.parse_args()
    from tests.databases import fresh_databases

    results = []
    for kind in options.database or ("sqlite", "postgresql"):
        with fresh_databases(kind) as fresh:
            points = [point for point in find_points(fresh) if options.only in str(point)]
            if options.sample:
                points = random.Random(options.seed).sample(points, options.sample)
            for point in points:
                results.append((kind, point, _outcome(point, fresh)))
                print(f"{kind:10}  {results[-1][2]:12.60}  {point}", flush=True)
    return _report(results, options.json, options.seed)


def _outcome(point: Point, fresh: Callable[[], str]) -> str:
    try:
        return "held" if try_point(point, fresh()) else "not reached"
    except AssertionError as problem:
        print(problem, file=sys.stderr)
        return "BROKEN"


def _report(results: list[tuple[str, Point, str]], path: Path | None, seed: int) -> int:
    counts = Counter((kind, outcome) for kind, _, outcome in results)
    print(f"\nseed {seed}")
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:10}  {outcome:12}  {count}")
    if path:
        rows = [
            {"database": kind, "point": str(point), "outcome": outcome}
            for kind, point, outcome in results
        ]
        path.write_text(json.dumps(rows, indent=1))
    return 1 if any(outcome == "BROKEN" for _, _, outcome in results) else 0


if __name__ == "__main__":
    sys.exit(main())
