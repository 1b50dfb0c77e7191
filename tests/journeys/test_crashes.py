"""A sample of the crash sweep: `python -m tests.crash_sweep` tries every point on both databases.

The seed is printed; set MAILAGENT_SWEEP_SEED to try the same points again.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.crash_sweep import FLOWS, Point, try_point

SEED = int(os.environ.get("MAILAGENT_SWEEP_SEED", str(int(time.time()) // 86_400)))

# Points that every flow comes to, and those around money and mail.
STEPS = {
    "small refund": [
        ("propose_refund", "after"),
        ("pay_refund", "intended"),
        ("pay_refund", "asked"),
    ],
    "approved refund": [
        ("look_at_decision", "recorded"),
        ("pay_refund", "after"),
        ("tell_customer", "after"),
    ],
    "question": [("write_reply", "after"), ("send_mail", "claimed"), ("send_mail", "handed over")],
    "hand-over": [("hand_over", "after"), ("send_mail", "before")],
}


def sampled() -> list[Point]:
    """Return one point of each flow, another one each day."""
    chance = random.Random(SEED)
    return [Point(flow, *chance.choice(STEPS[flow.name])) for flow in FLOWS if flow.name in STEPS]


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_the_promises_hold_after_a_crash(number: int, database_url: str) -> None:
    point = sampled()[number]
    print(f"seed {SEED}: {point}")  # noqa: T201 - says what was sampled
    assert try_point(point, database_url), f"{point}: the process did not die there"
