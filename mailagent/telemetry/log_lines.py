"""The lines of the log: for people, or for machines, one JSON object a line. Either way to standard error."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from mailagent.telemetry import log_ids, spans

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

# One greets in every command, one tells of every request.
_CHATTY = ("dbos", "httpx2")

_current = [TEXT]


class JsonLine(JsonFormatter):
    """One record as one JSON object: nothing but what is named here, whatever else a record carries."""

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            log_data["exception"] = self.formatException(record.exc_info)
        # DBOS says in its own records, outside of any step, which run they are about.
        run_id = getattr(record, "operationUUID", None)
        log_data |= ({"run_id": run_id} if run_id else {}) | log_ids.known()
        if trace_id := spans.trace_id():
            log_data["trace_id"] = trace_id


def make_formatter() -> logging.Formatter:
    """Return what makes lines in this process's format."""
    if _current[0] == JSON:
        return JsonLine()
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def configure(log_format: str) -> None:
    """Log to standard error in one of FORMATS, DBOS's lines, too."""
    _current[0] = log_format
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # It brings a handler of its own with lines of its own, unless there is one.
    theirs = logging.getLogger("dbos")
    theirs.handlers, theirs.propagate = [handler], False
