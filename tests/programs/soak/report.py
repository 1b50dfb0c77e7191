"""The figures of a soak, as JSON for programs and as a table for docs/reliability.md."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from tests.programs.run_record import told
from tests.programs.soak.damage import Damage, Finding
from tests.programs.soak.evidence import Evidence

BEGIN = "<!-- soak: the figures of its last run go here -->"
END = "<!-- end of soak -->"


@dataclass(frozen=True)
class Soak:
    """What was done and how it went; times in seconds."""

    minutes: float
    seed: int
    mails: dict[str, int]
    posted_again: int
    posted_twice: int
    clicks: int
    process_faults: dict[str, int]
    provider_faults: dict[str, int]
    takeovers: int
    slowest_take_over_seconds: float
    slowest_end_seconds: float
    slowest_answer_seconds: float
    median_answer_seconds: float
    settled_after_seconds: float
    postgresql: str


def figures(
    soak: Soak, seen: Evidence, findings: Sequence[Finding], shortage: Sequence[str]
) -> dict[str, Any]:
    """Return everything as plain JSON data."""
    broken = Counter(finding.damage for finding in findings)
    states = Counter(mail.status for mail in seen.inbound)
    return {
        **asdict(soak),
        "accepted": len(seen.story.accepted),
        "answered": states["answered"],
        "left to people or withdrawn": states["no_answer"],
        "refunds": dict(Counter(refund.status for refund in seen.refunds)),
        "our mails": dict(Counter(mail.status for mail in seen.ours)),
        "runs": dict(Counter(run.status for run in seen.runs)),
        **{damage.value: broken[damage] for damage in Damage},
        "findings": [f"{finding.damage}: {finding.what}" for finding in findings],
        "shortage": list(shortage),
        "machine": {
            "cores": os.cpu_count(),
            # How many wanted to run at once, of late: far above the cores, being slow says nothing.
            "load": round(os.getloadavg()[1]),
            "Python": platform.python_version(),
            "PostgreSQL": soak.postgresql,
            **{name: version(name) for name in ("dbos", "sqlalchemy", "psycopg", "gunicorn")},
        },
    }


def render(data: dict[str, Any]) -> str:
    """Return the table for the documentation."""
    faults = {**data["process_faults"], **data["provider_faults"]}
    mails = sum(data["mails"].values())
    rows = [
        ("length", f"{data['minutes']:g} minutes, then {data['settled_after_seconds']:.0f} s to rest"),
        ("mails written", f"{mails} ({_list(data['mails'])})"),
        ("posted again after 503 or no answer", data["posted_again"]),
        ("posted once too often", data["posted_twice"]),
        ("stored and thanked for", data["accepted"]),
        ("answered", data["answered"]),
        ("without an answer of the agent's, with the reason", data["left to people or withdrawn"]),
        ("refunds", _list(data["refunds"])),
        ("mails of ours", _list(data["our mails"])),
        ("clicks of managers", data["clicks"]),
        ("faults of processes and the database", _list(data["process_faults"])),
        ("faults of providers", _list(data["provider_faults"])),
        ("faults in all", sum(faults.values())),
        ("runs taken over from workers that had vanished", data["takeovers"]),
        ("slowest take-over after a kill", f"{data['slowest_take_over_seconds']:.0f} s"),
        ("slowest end after SIGTERM", f"{data['slowest_end_seconds']:.1f} s"),
        ("answer: median, slowest",
         f"{data['median_answer_seconds']:.1f} s, {data['slowest_answer_seconds']:.0f} s"),
        ("lost", data["lost"]),
        ("doubled", data["doubled"]),
        ("unexplained", data["unexplained"]),
        ("machine", _list(data["machine"])),
        ("program", told([data])),
    ]  # fmt: skip
    return "\n".join(
        ["| what | figure |", "|---|---|", *(f"| {name} | {it} |" for name, it in rows)]
    )


def _list(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
