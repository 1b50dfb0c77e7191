"""The report for owners: the sums of some days' figures, in numbers, sentences and tables. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.operations.model_cost import format_usd
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.text import Fill, fill

DAY = timedelta(days=1)


class Figure(StrEnum):
    """What we count for each day, by a label. The label of REFUNDS, AMOUNTS and CREDITS is a state and a
    currency, such as `paid USD`; the label of a time is its seconds. AMOUNTS are money in minor units, CREDITS
    store credit."""

    MAILS = "mails"
    ANSWER_SECONDS = "answer_seconds"
    REFUNDS = "refunds"
    AMOUNTS = "amounts"
    CREDITS = "credits"
    APPROVALS = "approvals"
    DECISION_SECONDS = "decision_seconds"
    COST = "cost"
    QUESTIONS = "questions"
    VOTES = "votes"


# The labels of MAILS: who answered a customer's mail.
AGENT, PEOPLE, WAITING, NONE = "agent", "people", "waiting", "none"
HELPED, DID_NOT_HELP = "yes", "no"
# Of APPROVALS, what a manager decided; the other labels are states of the refund.
DECISIONS = {"approve": "approved", "reject": "rejected"}

Key = tuple[Figure, str]
# Its title, and its rows; the first has the names of the columns.
Table = tuple[str, Sequence[Sequence[str]]]


def coarse(duration: timedelta) -> int:
    """Return a duration in seconds, rounded to two digits, so that a day has few different labels."""
    seconds = max(0, round(duration.total_seconds()))
    return round(seconds, 2 - len(str(seconds)))


def percentile(times: Mapping[str, int], share: float) -> int | None:
    """Return the time in seconds within which this `share` (0 to 1) of the cases ended; None without cases.
    `times`: how many cases took how many seconds."""
    rank = math.ceil(sum(times.values()) * share)
    for seconds in sorted(map(int, times)):
        rank -= times[str(seconds)]
        if rank <= 0:
            return seconds
    return None


def tell_time(seconds: int | None, _: Fill = fill) -> str:
    """Return a time in words, such as `3 min`, translated by `_`."""
    if seconds is None:
        return "–"
    for size, message in (
        (86_400, "%(number)s days"),
        (3600, "%(number)s h"),
        (60, "%(number)s min"),
    ):
        if seconds >= 2 * size:
            return _(message, number=str(round(seconds / size)))
    return _("%(number)s s", number=str(seconds))


# The spans of a chart of times: up to how many seconds, and its name.
SPANS = (
    (60, "within 1 min"),
    (300, "within 5 min"),
    (3600, "within 1 h"),
    (14_400, "within 4 h"),
    (86_400, "within 1 day"),
)
LONGER = "longer"


def by_span(times: Mapping[str, int]) -> Counter[str]:
    """Return how many cases fall in each of SPANS or took LONGER, by name, the shortest first. `times`: how
    many cases took how many seconds."""
    found: Counter[str] = Counter({name: 0 for _, name in SPANS} | {LONGER: 0})
    for seconds, number in times.items():
        name = next((name for most, name in SPANS if int(seconds) <= most), LONGER)
        found[name] += number
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of the days from `since` to before `until`. `by_day`: those figures that a chart shows for
    each day."""

    since: datetime
    until: datetime
    totals: Counter[Key]
    by_day: Mapping[datetime, Counter[Key]]

    def of(self, figure: Figure) -> dict[str, int]:
        """Return the totals of a figure, by label."""
        return {label: value for (each, label), value in self.totals.items() if each is figure}

    @property
    def days(self) -> Sequence[datetime]:
        return [self.since + DAY * number for number in range((self.until - self.since) // DAY)]

    @property
    def cost(self) -> str | None:
        """What the model cost; None if no price was known."""
        cost = self.of(Figure.COST)
        return tell_cost(sum(cost.values())) if cost else None

    def amounts(self) -> Iterator[tuple[str, int, Money]]:
        """Yield the refunds of each state and currency: the state, how many, and how much."""
        amounts = self.of(Figure.AMOUNTS)
        for label, number in sorted(self.of(Figure.REFUNDS).items()):
            state, _, currency = label.partition(" ")
            yield state, number, Money(amounts.get(label, 0), currency)

    def credits(self) -> Iterator[tuple[str, Money]]:
        """Yield the store credit of each state and currency."""
        for label, minor in sorted(self.of(Figure.CREDITS).items()):
            state, _, currency = label.partition(" ")
            yield state, Money(minor, currency)

    def sentences(self, _: Fill = fill) -> Iterator[str]:
        """Yield the most important figures in sentences, translated by `_`."""
        mails, votes = self.of(Figure.MAILS), self.of(Figure.VOTES)
        yield _(
            "%(mails)s mails of customers: %(agent)s answered by the agent, %(people)s by people,"
            " %(waiting)s waiting.",
            mails=sum(mails.values()),
            agent=mails.get(AGENT, 0),
            people=mails.get(PEOPLE, 0),
            waiting=mails.get(WAITING, 0),
        )
        times = self.of(Figure.ANSWER_SECONDS)
        if times:
            half, most = (tell_time(percentile(times, share), _) for share in (0.5, 0.9))
            yield _(
                "First answer: half within %(half)s, nine of ten within %(most)s.",
                half=half,
                most=most,
            )
        for state, number, amount in self.amounts():
            label = _(REFUND_STATES.get(RefundStatus(state), state))
            yield _(
                "Refunds, %(state)s: %(number)s, %(amount)s.",
                state=label,
                number=number,
                amount=amount,
            )
        for state, credit in self.credits():
            label = _(REFUND_STATES.get(RefundStatus(state), state))
            yield _("Of these as store credit, %(state)s: %(credit)s.", state=label, credit=credit)
        decided = self.of(Figure.DECISION_SECONDS)
        if decided:
            half = tell_time(percentile(decided, 0.5), _)
            yield _(
                "Decided by managers: %(number)s, half within %(half)s.",
                number=sum(decided.values()),
                half=half,
            )
        if self.cost:
            yield _("The model cost %(cost)s.", cost=self.cost)
        if questions := self.totals[Figure.QUESTIONS, ""]:
            yield _("Questions that no passage answered: %(number)s.", number=questions)
        if votes:
            yield _(
                "Customers who were helped: %(helped)s of %(votes)s who said so.",
                helped=votes.get(HELPED, 0),
                votes=sum(votes.values()),
            )

    def tables(self) -> Iterator[Table]:
        """Yield tables for the weekly mail, in English. They have no words of customers: a mail in an owner's
        mailbox outlives an erasure."""
        names = ("Day", "Mails", "Agent", "People", "Waiting", "No answer needed", "Cost")
        rows = [_row(f"{day:%a %-d}", self.by_day.get(day, Counter())) for day in self.days]
        shown = len(names) if self.cost else len(names) - 1  # no price is known
        days = [row[:shown] for row in (names, *rows, _row("All", self.totals))]
        yield "Mails, and who answered them", days
        refunds = [
            (_label(state), f"{number:,}", amount.tell())
            for state, number, amount in self.amounts()
        ]
        if refunds:
            yield "Refunds", [("State", "Refunds", "Amount"), *refunds]
        asked = [
            (_label(state), f"{number:,}") for state, number in self.of(Figure.APPROVALS).items()
        ]
        if asked:
            yield "Requests to managers", [("Outcome", "Requests"), *sorted(asked)]


def tell_cost(micro: int) -> str:
    """Return a label's value of COST, millionths of a US dollar, for readers."""
    return format_usd(Decimal(micro).scaleb(-6))


def _row(name: str, figures: Counter[Key]) -> tuple[str, ...]:
    by = [figures[Figure.MAILS, each] for each in (AGENT, PEOPLE, WAITING, NONE)]
    return name, *(f"{number:,}" for number in (sum(by), *by)), tell_cost(figures[Figure.COST, ""])


def _label(state: str) -> str:
    label = DECISIONS.get(state) or REFUND_STATES.get(RefundStatus(state), state)
    return label[:1].upper() + label[1:]


def last_week(now: datetime) -> tuple[datetime, datetime]:
    """Return the beginning and the end of the last whole week (UTC), from Monday to Monday."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - DAY * today.weekday()
    return monday - 7 * DAY, monday
