"""A sample of a cross product: each case in one of its ways, chosen by a seed; with `--whole`, in all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Way = TypeVar("Way")

SEED = int(os.environ.get("MAILAGENT_SWEEP_SEED", "1"))


def sample(
    cases: Iterable[str], ways: Sequence[Way], whole: bool, seed: int = SEED
) -> Mapping[str, Sequence[Way]]:
    """Return the ways to try each case in, and print what was chosen. The choice for one case does not depend
    on the others."""
    if whole:
        return dict.fromkeys(cases, ways)
    chosen = {case: [random.Random(f"{seed} {case}").choice(ways)] for case in cases}
    for case, (way,) in chosen.items():
        print(f"seed {seed}: {case} as {way}")  # noqa: T201 - says what was sampled
    return chosen
