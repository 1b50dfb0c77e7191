"""Compares what was done with what another configuration would have done, and sums it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mailagent import services
from mailagent.backtest.asking import Answer, Configuration
from mailagent.backtest.past import Decided, Past
from mailagent.store.operations.comparisons import Comparison, Differs, Side, Source


def compare(past: Past, answer: Answer, source: Source, configuration: Configuration) -> Comparison:
    """Return what differs between the past and an answer."""
    return Comparison(
        source=source,
        mail_id=past.batch["mail_ids"][-1],
        conversation_id=past.batch["conversation_id"],
        at=services.current().now(),
        model=configuration.name,
        differs=_differs(past.decided, answer.decided),
        draft=past.draft,
        past=_side(past.decided),
        now=_side(answer.decided) if answer.decided else Side(),
        error=answer.error,
        tokens=answer.tokens,
        cost_micro_usd=answer.cost_micro_usd,
        milliseconds=round(answer.seconds * 1000),
    )


def _differs(then: Decided, now: Decided | None) -> Differs:
    if now is None:
        return Differs.UNKNOWN
    if then.acts != now.acts:
        return Differs.ACTS
    return Differs.FACTS if then.facts != now.facts else Differs.NOTHING


def _side(decided: Decided) -> Side:
    return Side(decided.acts, decided.parts)


def sum_up(found: Sequence[Comparison]) -> Iterator[str]:
    """Return the figures of some comparisons, a line each."""
    acts = [each for each in found if each.differs is Differs.ACTS]
    facts = sum(each.differs is Differs.FACTS for each in found)
    yield f"{len(found)} answers: {len(acts)} decide otherwise, {facts} more name other facts."
    by_people = [each for each in found if each.draft is not None]
    if by_people:
        other = sum(each.differs in (Differs.ACTS, Differs.FACTS) for each in by_people)
        yield f"People edited or discarded {len(by_people)} of the old answers; {other} of these differ."
    yield f"{sum(each.differs is Differs.UNKNOWN for each in found)} without an answer."
    cost = sum(each.cost_micro_usd for each in found) / 1e6
    seconds = sum(each.milliseconds for each in found) / 1000
    yield f"{sum(each.tokens for each in found):,} tokens, ${cost:.2f}, {seconds:.0f} s."
