"""`flask worker` of the release to come: `python -m tests.upgrades.new_worker NAME`, with that body of
`changed_refund` in place of ours."""

from __future__ import annotations

import sys

from dbos import DBOS
from flask.cli import main

from mailagent import engine
from tests.upgrades import changed_refund

if __name__ == "__main__":
    body = getattr(changed_refund, sys.argv[1])
    DBOS.workflow(name=engine.REFUND, max_recovery_attempts=500)(body)
    # Whoever loads the workflows from now on gets this one; ours was never loaded here.
    assert "mailagent.workflows.refund" not in sys.modules
    sys.modules["mailagent.workflows.refund"] = changed_refund
    sys.argv = ["flask", "--app", "wsgi", "worker"]
    main()
