"""Whether a soak tried enough for its findings to mean anything. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.programs.soak.chaos import SHARES as PROCESS_FAULTS
from tests.programs.soak.providers import KINDS
from tests.programs.soak.story import Kind

# A run of so many minutes has time for each fault of processes twice, a shorter one for each once.
LONG_MINUTES = 5.0
ENDS = ("paid", "rejected", "withdrawn")


def find_shortage(
    minutes: float,
    mails_per_second: float,
    mails: Mapping[str, int],
    refunds: Mapping[str, int],
    faults: Mapping[str, int],
) -> list[str]:
    """Return what there was too little of; nothing if it was enough.

    `mails` written by kind, `refunds` by how they ended, `faults` by class, of processes and providers.
    """
    return [
        f"too few: {what}: {count} of at least {least}"
        for what, count, least in _demands(minutes, mails_per_second, mails, refunds, faults)
        if count < least
    ]


def _demands(
    minutes: float,
    mails_per_second: float,
    mails: Mapping[str, int],
    refunds: Mapping[str, int],
    faults: Mapping[str, int],
) -> Iterator[tuple[str, int, int]]:
    # Half of what is asked for: on a slow machine people write more slowly.
    yield "mails", sum(mails.values()), max(1, int(minutes * 60 * mails_per_second / 2))
    for kind in Kind:
        yield f"mails, {kind}", mails.get(kind.value, 0), 1
    for end in ENDS:
        yield f"refunds that were {end}", refunds.get(end, 0), 1
    for fault in PROCESS_FAULTS:
        yield fault, faults.get(fault, 0), 2 if minutes >= LONG_MINUTES else 1
    for provider, kinds in KINDS.items():
        for each in kinds:
            yield f"{provider} {each}", faults.get(f"{provider} {each}", 0), 1
