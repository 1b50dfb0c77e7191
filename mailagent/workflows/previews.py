"""Once a minute: pictures of the photos that came in. Apart from everything that answers or pays, which must
not wait for a photo."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.maintenance.photo_previews import make_previews

EVERY_MINUTE = "* * * * *"


@DBOS.workflow(name=engine.PREVIEWS)
def previews(_scheduled_at: datetime, _context: Any) -> None:
    """Make previews of new photos; the step records how many."""
    make_previews()
