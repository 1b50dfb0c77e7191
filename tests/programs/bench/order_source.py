"""What an answer costs if the customer's orders are in a system of the shop that takes 300 ms, beside the same
with imported orders. The time that the source takes is its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.domain.refunds.order import Order
from tests.order_server import OrderServer, source_settings
from tests.programs.bench.answering import Answered, measure_flows
from tests.programs.bench.flows import QUESTION
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured, render_lines, unanswered
from tests.programs.bench.meter import Usage

LATENCY_SECONDS = 0.3
MOST_CPU_RATIO = 1.2
ROUNDS = 2


def measure(ground: Ground) -> Measured:
    """Measure a question with imported orders and with a slow source, in turn: the machine may be slower for a
    while."""
    server = OrderServer()
    server.always = _slow
    server.start()
    try:
        rounds = [(_measure(ground, None), _measure(ground, server)) for _ in range(ROUNDS)]
    finally:
        server.stop()
    imported, asked = (_Mean.of(ground, each) for each in zip(*rounds, strict=True))
    added_ms = asked.whole_ms - imported.whole_ms
    latency_ms = LATENCY_SECONDS * 1000
    look_ups = len(server.requests) / (ground.mails + ground.alone) / ROUNDS
    table = render_lines(
        [
            ("CPU of an answer, imported orders", f"{imported.cpu_ms:.1f} ms"),
            (f"CPU of an answer, a source of {latency_ms:g} ms", f"{asked.cpu_ms:.1f} ms"),
            ("p50 from mail to answer, imported orders", f"{imported.whole_ms:.0f} ms"),
            ("p50 from mail to answer, with the source", f"{asked.whole_ms:.0f} ms"),
            ("requests of the source for each mail", f"{look_ups:.2f}"),
        ]
    )
    aims = [
        Aim(
            "CPU with a source, beside imported orders",
            asked.cpu_ms / imported.cpu_ms,
            MOST_CPU_RATIO,
            "",
        ),
        Aim("added to the time of an answer", added_ms, latency_ms, "ms"),
    ]
    return Measured(table, aims, unanswered(imported.left + asked.left))


@dataclass(frozen=True)
class _Mean:
    """Of an answer in several rounds. `left`: how many mails got none."""

    cpu_ms: float
    whole_ms: float
    left: int

    @classmethod
    def of(cls, ground: Ground, rounds: Sequence[tuple[Answered, Usage]]) -> _Mean:
        return cls(
            mean(
                answered.used.without(idle).cpu_seconds * 1000 / ground.mails
                for answered, idle in rounds
            ),
            mean(answered.alone.whole_ms for answered, _ in rounds),
            sum(answered.records.received - answered.records.answered for answered, _ in rounds),
        )


def _slow(_request: Request) -> Answer | None:
    time.sleep(LATENCY_SECONDS)
    return None


def _measure(ground: Ground, server: OrderServer | None) -> tuple[Answered, Usage]:
    flow, settings = QUESTION, dict[str, str]()
    if server is not None:
        source = server

        def stock(orders: Sequence[Order]) -> None:
            source.stock(*orders)

        flow, settings = replace(QUESTION, stock=stock), source_settings(server)
    with ground.database() as url, ground.web(url, "all", **settings) as (app, webhook):
        answered, idle = measure_flows(ground, url, app, webhook, (flow,))
    return answered[flow.name], idle
