"""The audit log: shown page by page, and exported as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from flask import Blueprint, Response, abort, request

from mailagent import services
from mailagent.adapters.csv_file import BYTE_ORDER_MARK, plain_cell
from mailagent.domain.operations.access import Permission
from mailagent.store import audit
from mailagent.store.audit import Act, Wanted
from mailagent.web.console.labels import action_label, detail_label, detail_name
from mailagent.web.console.page import (
    page,
    pages_beside,
    parse_days,
    read_window,
    record_act,
    typed,
)
from mailagent.web.guard import needs

blueprint = Blueprint("ops_audit", __name__)

FILTERS = ("actor", "action", "subject", "from", "to")

_CHUNK = 60_000  # characters per chunk of the response


@blueprint.get("/ops/audit")
@needs(Permission.AUDIT)
def show() -> Response:
    """Show the audit log, newest entry first."""
    facts = {name: typed(name) for name in FILTERS}
    window = read_window(newest_first=True)
    facts["order"] = "" if window.newest_first else "oldest"
    with services.current().database.snapshot() as connection:
        part = audit.read(connection, _wanted(facts), window)
    return page(
        "ops/audit.html",
        acts=part.rows,
        facts=facts,
        begun=window.cursor is not None,
        actions=sorted((action_label(each), each) for each in audit.ACTIONS),
        action_label=action_label,
        detail_label=detail_label,
        detail_name=detail_name,
        **pages_beside(part, "/ops/audit", facts),
    )


@blueprint.post("/ops/audit/export")
@needs(Permission.AUDIT)
def export() -> Response:
    """Send the audit log, whole or filtered, oldest entry first; record the export in the log."""
    live = services.current()
    kind = request.form.get("format")
    if kind not in ("csv", "jsonl"):
        abort(400)
    facts = {name: typed(name, request.form) for name in FILTERS}
    # Only the names of the filters: an address in a value could never be erased from the log.
    details = {"format": kind, "filters": [name for name, value in facts.items() if value]}
    with live.database.transaction() as connection:
        record_act(connection, "audit exported", "audit", details)
    acts = audit.stream(live.database, _wanted(facts))
    name = f"audit-{live.now():%Y-%m-%d}.{kind}"
    return Response(
        _as_csv(acts) if kind == "csv" else _as_json_lines(acts),
        content_type="text/csv; charset=utf-8" if kind == "csv" else "application/x-ndjson",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _wanted(facts: dict[str, str]) -> Wanted:
    named = {name: facts[name] or None for name in ("actor", "action", "subject")}
    since, until = parse_days(facts)
    return Wanted(**named, since=since, until=until)


def _as_csv(acts: Iterator[Act]) -> Iterator[str]:
    """Yield the log as CSV (RFC 4180), many lines at a time."""
    lines = io.StringIO()
    lines.write(BYTE_ORDER_MARK)
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL)
    writer.writerow(("audit_id", "at", "actor", "action", "subject", "details"))
    for act in acts:
        details = json.dumps(act.details, ensure_ascii=False, sort_keys=True)
        cells = (act.actor, act.action, act.subject, details)
        writer.writerow((act.audit_id, act.at.isoformat(), *map(plain_cell, cells)))
        if lines.tell() > _CHUNK:
            yield lines.getvalue()
            lines.seek(0)
            lines.truncate()
    yield lines.getvalue()


def _as_json_lines(acts: Iterator[Act]) -> Iterator[str]:
    for act in acts:
        yield json.dumps({**asdict(act), "at": act.at.isoformat()}, ensure_ascii=False) + "\n"
