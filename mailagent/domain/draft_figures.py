"""What people made of drafts, in figures, and what a shop could stop drafting by them.

Pure. Nothing is turned off by itself: somebody reads the advice and changes a setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mailagent.domain.draft import MONEY, DraftReplies, DraftState
from mailagent.domain.money import Money
from mailagent.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class Count:
    """How many drafts of the same topics ended in the same state, lately."""

    topics: tuple[str, ...]
    state: DraftState
    in_7_days: int
    in_30_days: int
    in_90_days: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of drafts."""

    sent: int = 0
    edited: int = 0
    discarded: int = 0
    superseded: int = 0

    @property
    def decided(self) -> int:
        return self.sent + self.edited + self.discarded

    @property
    def changed(self) -> int:
        return self.edited + self.discarded

    @property
    def changed_percent(self) -> int | None:
        """The share that somebody changed or threw away, in whole percent; None before there is any."""
        return round(100 * self.changed / self.decided) if self.decided else None


def tally(counts: Iterable[Count], window: str, topic: str | None = None) -> Tally:
    """Add up what became of drafts in a window (a field of Count), of one topic or of all."""
    sums = dict.fromkeys(("sent", "edited", "discarded", "superseded"), 0)
    for count in counts:
        if count.state.value in sums and (topic is None or topic in count.topics):
            sums[count.state.value] += getattr(count, window)
    return Tally(**sums)


@dataclass(frozen=True, slots=True)
class DraftedRefund:
    """A refund that waited only because of draft mode. `outcome`: approved, lowered, rejected, expired,
    withdrawn or waiting."""

    reason: str
    currency: str
    minor: int
    outcome: str


# So often people must have agreed before we say that they need not be asked.
ANSWERS_ENOUGH = 20
REFUNDS_ENOUGH = 10
CHANGED_MOST_PERCENT = 5


def advise(
    setting: DraftReplies,
    counts: Sequence[Count],
    policy: Policy,
    refunds: Sequence[DraftedRefund],
) -> Iterator[str]:
    """Return what could be turned off next, a sentence each; one that says why not, if nothing could."""
    found = [*_on_replies(setting, counts)]
    if policy.drafts_refunds:
        found += [*_on_reasons(policy, refunds), *_on_amounts(policy, refunds)]
    if not found and (setting is not DraftReplies.NONE or policy.drafts_refunds):
        found.append(
            f"Nothing yet: it takes {ANSWERS_ENOUGH} answers in 30 days of which at most"
            f" {CHANGED_MOST_PERCENT} % were changed, or {REFUNDS_ENOUGH} refunds that were all approved"
            " in full."
        )
    yield from found


def may_stop_replies(setting: DraftReplies, counts: Sequence[Count]) -> DraftReplies | None:
    """Return to what DRAFT_REPLIES could be set next, by the last 30 days; None: leave it.

    First the answers without money go unasked, then the others.
    """
    money = [count for count in counts if not MONEY.isdisjoint(count.topics)]
    other = [count for count in counts if MONEY.isdisjoint(count.topics)]
    if setting is DraftReplies.ALL and _are_trusted(other):
        return DraftReplies.NONE if _are_trusted(money) else DraftReplies.REFUNDS
    if setting is DraftReplies.REFUNDS and _are_trusted(money):
        return DraftReplies.NONE
    return None


def _are_trusted(counts: Sequence[Count]) -> bool:
    found = tally(counts, "in_30_days")
    percent = found.changed_percent
    return (
        found.decided >= ANSWERS_ENOUGH and percent is not None and percent <= CHANGED_MOST_PERCENT
    )


def _on_replies(setting: DraftReplies, counts: Sequence[Count]) -> Iterator[str]:
    following = may_stop_replies(setting, counts)
    if following is DraftReplies.REFUNDS:
        yield (
            "Answers without money hardly needed a change: with DRAFT_REPLIES=refunds they go out at"
            " once, and only those about refunds and discounts wait."
        )
    if following is DraftReplies.NONE:
        yield "Answers hardly needed a change: with DRAFT_REPLIES=none they all go out at once."


def _on_reasons(policy: Policy, refunds: Sequence[DraftedRefund]) -> Iterator[str]:
    for reason in reasons_to_trust(refunds):
        if reason not in policy.unasked.reasons:
            yield (
                f"Refunds for the reason {reason} were all approved in full: add it to unasked_reasons"
                " under [draft] in the policy."
            )


def _on_amounts(policy: Policy, refunds: Sequence[DraftedRefund]) -> Iterator[str]:
    for currency, minor in amounts_to_trust(refunds).items():
        if minor > policy.unasked.refunds_above.get(currency, 0):
            yield (
                f"Refunds up to {Money(minor, currency)} were all approved in full: write that amount"
                " to refunds_above under [draft] in the policy."
            )


def reasons_to_trust(refunds: Sequence[DraftedRefund]) -> tuple[str, ...]:
    """Return the refund reasons under which managers agreed every time, and often enough."""
    names = sorted({each.reason for each in refunds})
    return tuple(
        name for name in names if _agreed([each for each in refunds if each.reason == name])
    )


def _agreed(refunds: Sequence[DraftedRefund]) -> bool:
    outcomes = [each.outcome for each in refunds]
    return outcomes.count("approved") >= REFUNDS_ENOUGH and not set(outcomes) & _OBJECTED


_OBJECTED = frozenset({"lowered", "rejected"})


def amounts_to_trust(refunds: Sequence[DraftedRefund]) -> dict[str, int]:
    """Return by currency up to which amount, in minor units, managers agreed every time, and often
    enough."""
    found: dict[str, int] = {}
    for currency in sorted({each.currency for each in refunds}):
        of_it = [each for each in refunds if each.currency == currency]
        least = min((each.minor for each in of_it if each.outcome in _OBJECTED), default=None)
        below = [
            each.minor
            for each in of_it
            if each.outcome == "approved" and (least is None or each.minor < least)
        ]
        if len(below) >= REFUNDS_ENOUGH:
            found[currency] = max(below)
    return found
