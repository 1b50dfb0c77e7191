"""Let anything happen to a shop's money, for as long as you like: `python -m tests.programs.money`.

Prints how much happened. A broken promise ends it with the shortest story that breaks it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from tests.databases import fresh_databases
from tests.harness import open_shop
from tests.programs.money.live_source import SourceMachine
from tests.programs.money.machine import MoneyMachine
from tests.programs.money.platforms import BANKS
from tests.programs.proof import DATABASES

MACHINES = {"imported": MoneyMachine, "http": SourceMachine}


def must_happen(source: str, gateway: str) -> Iterator[str]:
    """Yield what happens in every run that is long enough to say something."""
    yield from ("refunds of lost parcels", "exchange done", "replacement done")
    yield from ("cancel paid", "return paid")
    yield from ("offers of the policy accepted", "offers of managers accepted")
    if source == "http":
        yield from ("payments asked for again", "cancelled by the shop's system")
    else:
        yield from ("cancel done", "change_address done", "store credit paid")
    if gateway != "bank":  # a bank has no stock
        yield "units restocked"


def main() -> int:
    """Run the machine on each database."""
    parser = argparse.ArgumentParser("python -m tests.programs.money", description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="stories for each database")
    parser.add_argument("--steps", type=int, default=60, help="steps of a story, at most")
    parser.add_argument("--database", choices=DATABASES, action="append")
    parser.add_argument("--gateway", choices=BANKS, default="bank", help="who moves the money")
    parser.add_argument("--source", choices=MACHINES, default="imported", help="who has the orders")
    parser.add_argument("--seed", type=int, help="play the same stories again")
    options = parser.parse_args()
    if options.source == "http" and options.gateway != "bank":
        parser.error(
            f"{options.gateway} pays only for its own orders: --source http needs --gateway bank"
        )
    machine = MACHINES[options.source]
    if options.seed is not None:
        hypothesis.seed(options.seed)(machine)
    settings = hypothesis.settings(
        max_examples=options.examples,
        stateful_step_count=options.steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    MoneyMachine.open_bank = BANKS[options.gateway]
    for kind in options.database or DATABASES:
        MoneyMachine.seen.clear()
        with (
            fresh_databases(kind) as fresh,
            tempfile.TemporaryDirectory() as folder,
            open_shop(Path(folder), fresh()) as shop,
        ):
            MoneyMachine.harness = shop
            run_state_machine_as_test(machine, settings=settings)
        seen = ", ".join(f"{count} {what}" for what, count in sorted(MoneyMachine.seen.items()))
        print(f"{kind}, source {options.source}, gateway {options.gateway}: {seen}", flush=True)
        for what in must_happen(options.source, options.gateway):
            assert MoneyMachine.seen[what], f"no {what}: play more --examples"
    return 0


if __name__ == "__main__":
    sys.exit(main())
