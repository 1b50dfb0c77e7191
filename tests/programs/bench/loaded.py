"""Which modules a process has loaded that serves HTTP only, after each kind of request that SendGrid, the
platform and a manager make. Imports nothing itself: it is called in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loaded:
    """`engine`: whether DBOS was started."""

    statuses: list[int]
    modules: list[str]
    engine: bool


def look(environment: Mapping[str, str], body: bytes, headers: Mapping[str, str]) -> Loaded:
    """Serve some requests, a signed mail among them, and look at what is loaded."""
    os.environ.clear()
    os.environ.update(environment)
    from wsgi import app

    client = app.test_client()
    statuses = [
        client.get("/readyz").status_code,
        client.post("/webhooks/sendgrid/inbound", data=body, headers=dict(headers)).status_code,
        client.get("/approvals/no-link-of-ours").status_code,
        client.get("/ops/login").status_code,
    ]
    import dbos._dbos

    engine = dbos._dbos._dbos_global_instance is not None
    return Loaded(statuses, sorted(sys.modules), engine)
