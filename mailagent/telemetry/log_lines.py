"""The format of log lines: text for people, or one JSON object a line. Both go to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from mailagent.telemetry import log_ids, spans

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

# These log a line for every command or every request.
_VERBOSE = ("dbos", "httpx2")

_current = [TEXT]


class JsonLine(JsonFormatter):
    """One record as one JSON object, with the fields named here and no others."""

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
        # DBOS puts the id of the run into its own records.
        run_id = getattr(record, "operationUUID", None)
        log_data |= ({"run_id": run_id} if run_id else {}) | log_ids.known()
        if trace_id := spans.trace_id():
            log_data["trace_id"] = trace_id


def format_of(environ: Mapping[str, str]) -> str:
    """Return the log format. It is needed to log that other settings are wrong, so it never raises."""
    log_format = environ.get("LOG_FORMAT", "").strip()
    default = FORMATS[environ.get("MAILAGENT_ENV", "").strip() == "production"]
    return log_format if log_format in FORMATS else default


def make_formatter() -> logging.Formatter:
    """Return the formatter for this process."""
    if _current[0] == JSON:
        return JsonLine()
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def configure(log_format: str) -> None:
    """Log to standard error in one of FORMATS, DBOS's lines, too."""
    _current[0] = log_format
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in _VERBOSE:
        logging.getLogger(name).setLevel(logging.WARNING)
    # DBOS adds its own handler unless its logger has one.
    theirs = logging.getLogger("dbos")
    theirs.handlers, theirs.propagate = [handler], False
