"""What a story is: what people do, what must come of it, and which steps it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mailagent.demo.scripted_model import CustomerRequest, ToolResult, Turn
from tests.programs.crash_sweep.shop import SweptShop

# How many mails somebody gets: exactly, or at least and at most, where time decides.
Count = int | tuple[int, int]

INBOUND, EVENTS = "POST /webhooks/sendgrid/inbound", "POST /webhooks/sendgrid/events"
WEBHOOKS = frozenset({INBOUND, EVENTS})

# What the model says instead of what is scripted; None: as scripted.
Script = Callable[[CustomerRequest, list[ToolResult], bool], Turn | None]


def fewest(count: Count) -> int:
    return count[0] if isinstance(count, tuple) else count


def most_of(count: Count) -> int:
    return count[1] if isinstance(count, tuple) else count


@dataclass(frozen=True)
class Story:
    """One story of a shop.

    `prepare` is played first, with an app that lives. Then `play`, with the app that is killed; afterwards all
    `mails`, counted by person, have to come. `reaches` are the steps that `play` comes to, `posts` the rules of
    its POSTs. `passes_by` are points of those steps, as `<step>:<point>`, that it does not come to: their
    effect is there already. `refunds` are the states that refunds end in, `deciders` the people who decided.
    """

    name: str
    play: Callable[[SweptShop], None]
    mails: Mapping[str, Count]
    reaches: frozenset[str]
    posts: frozenset[str] = WEBHOOKS
    passes_by: frozenset[str] = frozenset()
    refunds: tuple[str, ...] = ()
    deciders: tuple[str, ...] = ()
    prepare: Callable[[SweptShop], None] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    script: Script | None = None
    stripe: bool = False
    order_server: bool = False
    shopify: bool = False
    raw_mails_purged: int = 0

    @property
    def wakes_sweep(self) -> bool:
        """Whether the sweep has to see to something, which it has not after a mere crash."""
        return "enqueue_mail" in self.reaches

    def __str__(self) -> str:
        return self.name


def steps(words: str) -> frozenset[str]:
    """Return the names of steps in a line of words."""
    return frozenset(words.split())
