"""What people really did in a soak: who wrote what, who clicked what, and how the webhook took it. The checker
judges by this, not by what the app's own rows say; what it finds broken is a `Finding`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    QUESTION = "question"
    SMALL = "small refund"
    BIG = "big refund"
    WITHDRAWAL = "withdrawal"  # a big refund that the customer then takes back
    HAND_OVER = "hand-over"
    NEVER_MIND = "never mind"  # by which they take it back
    TEAM_REPLY = "team reply"

    @property
    def wants_money(self) -> bool:
        return self in (Kind.SMALL, Kind.BIG, Kind.WITHDRAWAL)


SHARES = MappingProxyType(
    {Kind.QUESTION: 4, Kind.SMALL: 4, Kind.BIG: 2, Kind.WITHDRAWAL: 1, Kind.HAND_OVER: 1}
)

WORDS = {
    Kind.QUESTION: "What is the status of my order {0}? I would like to know whether it has arrived.",
    Kind.SMALL: "My kettle from order {0} arrived broken. I want my money back.",
    Kind.BIG: "The standing desk of order {0} is damaged, please refund it.",
    Kind.WITHDRAWAL: "The standing desk of order {0} is damaged, please refund it.",
    Kind.HAND_OVER: "This is outrageous! I want to talk to a human being, now!",
}
NEVER_MIND = "Never mind, I do not want a refund for order {0} any more."


@dataclass(frozen=True)
class Written:
    """One mail. `reader`: who is to get its answer; `price_minor`: of the order, in cents."""

    message_id: str
    kind: Kind
    sender: str
    reader: str
    order_id: str
    price_minor: int = 0


@dataclass(frozen=True)
class Click:
    """A manager's click on `decision`. `recorded`: the page then said that it is decided."""

    order_id: str
    manager: str
    decision: str
    recorded: bool


@dataclass(frozen=True)
class End:
    """A process that was asked to end, from when to when. `killed`: it outlived the time it had."""

    process: str
    began: float
    ended: float
    killed: bool = False


@dataclass(frozen=True)
class TakeOver:
    """A worker that was killed, and when the last of the `runs` that it had was queued again."""

    process: str
    killed: float
    taken: float
    runs: int

    @property
    def seconds(self) -> float:
        return self.taken - self.killed


@dataclass
class Story:
    """`accepted`: Message-IDs that the webhook thanked for; `refused`: those that it answered with 3xx or
    4xx; `outages`: from when to when the database was away."""

    written: list[Written] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)
    clicks: list[Click] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    take_overs: list[TakeOver] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)

    def was_away(self, since: float, until: float) -> bool:
        """Whether the database was away at some time between."""
        return any(since <= ended and began <= until for began, ended in self.outages)

    def clicks_on(self, order_id: str) -> list[Click]:
        return [click for click in self.clicks if click.order_id == order_id]


class Damage(StrEnum):
    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Finding:
    """What is broken, how, and what it is about."""

    damage: Damage
    what: str


Found = Iterator[tuple[Damage, str]]
