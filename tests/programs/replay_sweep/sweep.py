"""One story on one database: played by many customers at once, replayed at each point, and checked.

Of runs that have ended well nothing may change: one customer goes through all the points of a way, the
last step first. Where a story goes on after a replay, each point has a customer of its own.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from mailagent import services
from mailagent.engine.run import Run
from tests.harness import Harness, open_shop, running
from tests.order_server import OrderServer, source_settings
from tests.platforms.shopify_server import TOKEN, ShopifyServer
from tests.programs.replay_sweep.acts import Act, Customer, stock
from tests.programs.replay_sweep.facts import check_end, find_change, find_stray, read_facts
from tests.programs.replay_sweep.points import Point, Result, points_of, runs_of
from tests.programs.replay_sweep.rest import settle
from tests.programs.replay_sweep.stories import Kind, Story
from tests.programs.replay_sweep.ways import Hands

AT_ONCE = 40
MOST_TRIES = 5  # of a point that time keeps a customer from
LANES_OF_A_WAY = 4

Choose = Callable[[list[Point]], list[Point]]


@contextmanager
def open_harness(story: Story, database_url: str) -> Iterator[Harness]:
    """Open a busy shop in which the sweep does not wait a minute before it wakes."""
    with (
        tempfile.TemporaryDirectory(prefix="mailagent-replay-") as folder,
        closing(ShopifyServer()) if story.shopify else nullcontext() as shopify,
        _order_server() if story.order_server else nullcontext() as server,
        open_shop(Path(folder), database_url, _settings(story, shopify, server)) as harness,
    ):
        harness.shopify, harness.order_server = shopify, server
        live = replace(harness.live, policy=story.policy or harness.live.policy)
        harness.live = replace(live, waits=replace(live.waits, sweep_after_seconds=1))
        services.bind(harness.live)
        with running(harness):
            yield harness


@contextmanager
def _order_server() -> Iterator[OrderServer]:
    server = OrderServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _settings(
    story: Story, shopify: ShopifyServer | None, server: OrderServer | None
) -> Mapping[str, str]:
    # Longer than a busy machine takes to send a mail: otherwise it may go out twice, as decision 3 says.
    settings = {"MAIL_OUTCOME_SECONDS": "12", **story.settings}
    if server is not None:
        return {**settings, **source_settings(server)}
    if shopify is None:
        return settings
    return {
        **settings,
        "PAYMENT_GATEWAY": "shopify",
        "ORDER_SOURCE": "shopify",
        "ORDER_SOURCE_URL": shopify.url,
        "ORDER_SOURCE_TOKEN": TOKEN,
    }


class Sweep:
    """A story on a harness, with as many customers as its points need."""

    def __init__(self, harness: Harness, story: Story) -> None:
        self._harness = harness
        self._story = story
        self._hands = Hands.of(harness)
        self._numbers = itertools.count()
        self._broken: dict[Customer, str] = {}

    def close(self) -> None:
        self._hands.client.destroy()

    def find_points(self) -> list[Point]:
        """Play the story for two customers, and return every point of the shorter one: a busy machine may have
        a run wait once more, which few others do."""
        customers = self._play(2)
        self._raise_if_broken()
        played = [runs_of(self._harness, customer) for customer in customers]
        shortest = min(played, key=lambda runs: sum(len(run.steps) for run in runs.values()))
        return list(points_of(self._story, shortest))

    def try_all(self, points: Sequence[Point]) -> list[Result]:
        """Replay at each of these points, and check.

        Time may keep the customers of a point from it: the refund's run or the delivery's may send a mail,
        whichever comes first. On a busy machine that happens twice in a row, but not each time.
        """
        results: list[Result] = []
        for _ in range(MOST_TRIES):
            tried = self._try(points)
            points = [result.point for result in tried if result.outcome == "not reached"]
            results = [result for result in results if result.outcome != "not reached"] + tried
            if not points:
                break
        return results

    def _try(self, points: Sequence[Point]) -> list[Result]:
        if self._story.kind is Kind.FINISHED:
            return self._try_in_lanes(points)
        return [
            result
            for start in range(0, len(points), AT_ONCE)
            for result in self._try_side_by_side(points[start : start + AT_ONCE])
        ]

    # --- the story ------------------------------------------------------------------------------

    def _play(self, count: int) -> list[Customer]:
        """Let so many customers come to the state in which runs are replayed."""
        customers = [Customer(next(self._numbers)) for _ in range(count)]
        self._stock(customers)
        with self._story.trouble(self._harness):
            self._act(self._story.acts, customers)
            if self._story.kind is Kind.FAILED:
                self._settle(customers)
        self._settle(customers)
        if self._story.kind is Kind.FINISHED:
            self._check(customers)
        return customers

    def _stock(self, customers: Sequence[Customer]) -> None:
        for customer in customers:
            stock(self._harness, customer, self._story.dear, self._story.order)

    def _act(self, acts: Sequence[Act], customers: Sequence[Customer]) -> None:
        for act in acts:
            for customer in customers:
                self._guarded(customer, act)

    def _guarded(self, customer: Customer, act: Act) -> None:
        if customer in self._broken:
            return
        try:
            act(self._harness, customer)
        except AssertionError as problem:
            self._broken[customer] = str(problem)

    def _check(self, customers: Sequence[Customer]) -> None:
        for customer in customers:
            self._guarded(customer, lambda harness, who: check_end(harness, self._story, who))

    def _settle(self, customers: Sequence[Customer]) -> None:
        """Wait until nothing is at work. Who still has a run at work then has a broken promise."""
        for run_id, conversation_id in settle(self._harness).items():
            rows = self._harness.rows(
                "SELECT customer_email FROM conversations WHERE conversation_id = :c",
                c=conversation_id,
            )
            theirs = {row.customer_email for row in rows}
            for customer in customers:
                if not theirs or customer.email in theirs:
                    self._broken.setdefault(customer, f"run {run_id} is still at work")

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise AssertionError(f"{self._story.name}, without a replay: {self._broken}")

    # --- replays --------------------------------------------------------------------------------

    def _try_in_lanes(self, points: Sequence[Point]) -> list[Result]:
        """Give each way some customers, who go through its points; all of them step by step."""
        lanes = [lane for lane in _lanes(points) if lane]
        customers = self._play(len(lanes))
        self._raise_if_broken()
        runs = [runs_of(self._harness, customer) for customer in customers]
        results = []
        for abreast in itertools.zip_longest(*lanes):
            here = [
                (customer, theirs, point)
                for customer, theirs, point in zip(customers, runs, abreast, strict=True)
                if point is not None
            ]
            results += self._try_abreast(here)
            self._broken.clear()
        return results

    def _try_side_by_side(self, points: Sequence[Point]) -> list[Result]:
        """Give each point a customer, whose story goes on to its end afterwards."""
        customers = self._play(len(points))
        here = [
            (customer, runs_of(self._harness, customer), point)
            for customer, point in zip(customers, points, strict=True)
        ]
        tried = self._try_abreast(here)
        self._bring_on(customers)
        self._act(self._story.then, customers)
        self._settle(customers)
        self._check(customers)
        results = [
            Result(result.point, "BROKEN", self._broken[customer])
            if customer in self._broken
            else result
            for customer, result in zip(customers, tried, strict=True)
        ]
        self._broken.clear()
        return results

    def _bring_on(self, customers: Sequence[Customer]) -> None:
        """Replay what has failed, or was cancelled, and was left so: as an operator would."""
        for customer in customers:
            for run in runs_of(self._harness, customer).values():
                if run.has_failed or run.status == "CANCELLED":
                    self._harness.live.workflow_client.replays.replay_run(run.run_id)
        self._settle(customers)

    def _try_abreast(self, here: Sequence[tuple[Customer, dict[str, Run], Point]]) -> list[Result]:
        """Replay once and look; then twice at once, and look again."""
        customers = [customer for customer, _, _ in here]
        before = read_facts(self._harness)
        done = [False] * len(here)
        for times in (1, 2):
            for number, (_, runs, point) in enumerate(here):
                run = runs.get(point.run)
                for _ in range(times):
                    if run is not None and _has(run, point):
                        done[number] |= point.way.try_on(self._hands, run, point.step)
            self._settle(customers)
            after = read_facts(self._harness)
            stray = find_stray(before, after)
            for customer in customers:
                change = stray or find_change(self._story, before, after, customer)
                if change is not None:
                    self._broken.setdefault(customer, change)
        return [
            self._result(customer, runs, point, replayed)
            for (customer, runs, point), replayed in zip(here, done, strict=True)
        ]

    def _result(
        self, customer: Customer, runs: dict[str, Run], point: Point, replayed: bool
    ) -> Result:
        if customer in self._broken:
            return Result(point, "BROKEN", self._broken[customer])
        run = runs.get(point.run)
        if run is None or not _has(run, point):
            return Result(point, "not reached")
        return Result(point, "held" if replayed else "refused")


def _lanes(points: Sequence[Point]) -> Iterator[list[Point]]:
    for name in dict.fromkeys(point.way.name for point in points):
        of_way = [point for point in points if point.way.name == name]
        for number in range(LANES_OF_A_WAY):
            yield of_way[number::LANES_OF_A_WAY]


def _has(run: Run, point: Point) -> bool:
    return any((step.number, step.name) == (point.step, point.step_name) for step in run.steps)


def sweep_story(story: Story, database_url: str, choose: Choose) -> list[Result]:
    """Replay a story at the points that `choose` leaves of all."""
    with open_harness(story, database_url) as harness:
        sweep = Sweep(harness, story)
        try:
            return sweep.try_all(choose(sweep.find_points()))
        finally:
            sweep.close()
