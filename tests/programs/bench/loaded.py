"""Which modules a process has loaded that serves HTTP only, after each kind of request that SendGrid, the
platform and a manager make.

`python -m tests.programs.bench.loaded` reads the environment and a signed mail, as JSON, on standard input.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def _look(job: Mapping[str, Any]) -> dict[str, Any]:
    os.environ.update(job["environment"])
    from wsgi import app

    client = app.test_client()
    statuses = [
        client.get("/readyz").status_code,
        client.post(
            "/webhooks/sendgrid/inbound",
            data=base64.b64decode(job["body"]),
            headers=job["headers"],
        ).status_code,
        client.get("/approvals/no-link-of-ours").status_code,
        client.get("/ops/login").status_code,
    ]
    import dbos._dbos

    return {
        "statuses": statuses,
        "modules": sorted(sys.modules),
        "engine": dbos._dbos._dbos_global_instance is not None,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_look(json.load(sys.stdin))) + "\n")
