"""Goes over what a soak left behind, names every promise that was broken, and says whether enough was tried.
Pure. The books and the processes here; mail in `mail_judge`, refunds in `refund_judge`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from mailagent.domain.mail.message import Purpose
from tests.programs.soak import mail_judge, refund_judge
from tests.programs.soak.chaos import SHARES as PROCESS_FAULTS
from tests.programs.soak.evidence import Evidence, OurMail
from tests.programs.soak.providers import FAULTS as PROVIDER_FAULTS
from tests.programs.soak.story import Damage, Finding, Found, Kind

_AT_REST = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}
TAKEN_OVER_SECONDS = 60.0
# A run of so many minutes has time for each fault of processes twice, a shorter one for each once.
LONG_MINUTES = 5.0


def find_damage(seen: Evidence) -> list[Finding]:
    """Return everything that the promises forbid; nothing if they held."""
    looks = (
        *(mail_judge.taken, mail_judge.stored, mail_judge.answered, mail_judge.addressed),
        *(refund_judge.asked_for, refund_judge.decided, refund_judge.ended, refund_judge.told),
        *(_sent, _paid, _at_rest, _went_down, _taken_over),
    )
    return [Finding(damage, what) for look in looks for damage, what in look(seen)]


def _sent(seen: Evidence) -> Found:
    arrivals = Counter(each.outbound_id for each in seen.arrived)
    for mail in seen.ours:
        arrived = arrivals[mail.outbound_id]
        if arrived > 1:
            yield Damage.DOUBLED, f"{mail.purpose} {mail.outbound_id} was sent {arrived} times"
        if mail.status in ("queued", "sending"):
            yield Damage.LOST, f"{mail.purpose} {mail.outbound_id} is still {mail.status}"
        elif mail.status == "sent" and not arrived:
            yield Damage.LOST, f"{mail.purpose} {mail.outbound_id} says sent and never arrived"
        elif mail.status != "sent" and not _is_known_of(seen, mail):
            yield Damage.UNEXPLAINED, f"{mail.purpose} {mail.outbound_id} is {mail.status}, untold"
    for outbound_id in sorted(arrivals.keys() - {mail.outbound_id for mail in seen.ours}):
        yield Damage.UNEXPLAINED, f"{outbound_id} was sent and is no mail of ours"


def _is_known_of(seen: Evidence, mail: OurMail) -> bool:
    """Whether somebody acts on a mail that may not have arrived: of a manager's request, another manager."""
    if mail.purpose == Purpose.APPROVAL_REQUEST and any(
        (each.purpose, each.refund_id) == (mail.purpose, mail.refund_id) and each.to != mail.to
        for each in seen.ours
    ):
        return True
    return mail.purpose == Purpose.NOTICE or mail.outbound_id in seen.told


def _paid(seen: Evidence) -> Found:
    amounts: dict[str, list[int]] = defaultdict(list)
    taken: Counter[str] = Counter()
    orders = {refund.refund_id: refund.order_id for refund in seen.refunds}
    for each in seen.moved:
        amounts[each.refund_id].append(each.amount_minor)
        taken[each.payment_id] += each.amount_minor
        order_id = orders.get(each.refund_id)
        if order_id and each.payment_id != f"pi_{order_id}":
            yield Damage.UNEXPLAINED, f"{each.payment_id} paid for a refund of order {order_id}"
    for payment_id, amount in taken.items():
        if amount > seen.paid.get(payment_id, 0):
            yield Damage.DOUBLED, f"of payment {payment_id} {amount} were given back"
    for refund in seen.refunds:
        moved = amounts.pop(refund.refund_id, [])
        if len(moved) > 1:
            yield Damage.DOUBLED, f"refund {refund.refund_id} was paid {len(moved)} times"
        elif refund.status == "paid" and sum(moved) != refund.amount_minor:
            yield (
                Damage.LOST,
                f"refund {refund.refund_id} says {refund.amount_minor}, moved {moved}",
            )
        if refund.status != "paid" and moved:
            yield Damage.UNEXPLAINED, f"refund {refund.refund_id} is {refund.status}, moved {moved}"
    for refund_id in amounts:
        yield Damage.UNEXPLAINED, f"money moved for {refund_id}, which is no refund of ours"


def _at_rest(seen: Evidence) -> Found:
    for run in seen.runs:
        # One may always be at work, and one that met a long outage is followed by the next.
        by_the_clock = run.workflow in ("sweep", "housekeeping", "previews")
        at_work = run.status not in _AT_REST
        if by_the_clock and (at_work or seen.story.was_away(run.began, run.ended)):
            continue
        if at_work:
            yield Damage.LOST, f"run {run.run_id} is still {run.status}"
        elif run.status != "SUCCESS":
            yield Damage.UNEXPLAINED, f"run {run.run_id} is {run.status}: {run.error[:200]}"


def _went_down(seen: Evidence) -> Found:
    """A process that is asked to end does so in time, unless the database was away."""
    for end in seen.story.ends:
        if end.killed and not seen.story.was_away(end.began, end.ended):
            took = end.ended - end.began
            yield Damage.UNEXPLAINED, f"{end.process} had not ended {took:.0f} s after SIGTERM"


def _taken_over(seen: Evidence) -> Found:
    """What a killed worker had goes on within a minute, unless the database was away."""
    for each in seen.story.take_overs:
        late = each.runs and each.seconds > TAKEN_OVER_SECONDS
        if late and not seen.story.was_away(each.killed, each.taken):
            yield Damage.UNEXPLAINED, f"runs of {each.process} waited {each.seconds:.0f} s"


def find_shortage(
    minutes: float, mails_per_second: float, seen: Evidence, faults: Mapping[str, int]
) -> list[str]:
    """Return what there was too little of for the findings to mean anything. `faults`: by class."""
    return [
        f"too few: {what}: {count} of at least {least}"
        for what, count, least in _demands(minutes, mails_per_second, seen, faults)
        if count < least
    ]


def _demands(
    minutes: float, mails_per_second: float, seen: Evidence, faults: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    # Half of what is asked for: on a slow machine people write more slowly.
    written = Counter(mail.kind for mail in seen.story.written)
    yield "mails", written.total(), max(1, int(minutes * 60 * mails_per_second / 2))
    for kind in Kind:
        yield f"mails, {kind}", written[kind], 1
    refunds = Counter(refund.status for refund in seen.refunds)
    for end in ("paid", "rejected", "withdrawn"):
        yield f"refunds that were {end}", refunds[end], 1
    for fault in PROCESS_FAULTS:
        yield fault, faults.get(fault, 0), 2 if minutes >= LONG_MINUTES else 1
    for provider, kinds in PROVIDER_FAULTS.items():
        for each in kinds:
            yield f"{provider} {each}", faults.get(f"{provider} {each}", 0), 1
