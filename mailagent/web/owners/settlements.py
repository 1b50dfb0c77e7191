"""The page of settlements: refunds that the ledger recorded and the shop pays. People report what they paid one
by one or by a file."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from mailagent import services
from mailagent.adapters.csv_file import BYTE_ORDER_MARK
from mailagent.adapters.settlement_file import read_outcomes, write_settlements
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.settlement import (
    Outcome,
    SettlementFileProblem,
    SettlementProblem,
    SettlementState,
)
from mailagent.settling import reports_of, settle, settle_all
from mailagent.store.refunds import settlements, stops
from mailagent.web.console.labels import money
from mailagent.web.console.page import go_to, page, pages_beside, read_window, typed
from mailagent.web.guard import current_person, needs
from mailagent.web.language import _

blueprint = Blueprint("ops_settlements", __name__)

PATH = "/ops/settlements"
PROBLEMS_SHOWN = 50


@blueprint.get("/ops/settlements")
@needs(Permission.SETTLE)
def show() -> Response:
    """Show the open settlements, oldest first; or the settled, or the failed ones."""
    return _page()


def _page(problems: list[str] | None = None, refused: str = "") -> Response:
    """Return the page. `refused`: the settlement whose form is refused."""
    wanted = request.args.get("state", "")
    state = SettlementState(wanted) if wanted in list(SettlementState) else SettlementState.OPEN
    is_open = state is SettlementState.OPEN
    live, facts = services.current(), {"state": "" if is_open else state.value}
    with live.database.snapshot() as connection:
        part = settlements.read(connection, state, read_window(newest_first=not is_open))
        sums = settlements.sum_open(connection) if is_open else ()
        stopped = stops.find_stops(connection, [x.refund_id for x in part.rows if is_open])
    has_form = state is not SettlementState.FAILED and refused in [
        each.idempotency_key for each in part.rows
    ]
    words = "\n".join(filter(None, map(request.form.get, ("reference", "reason"))))
    return page(
        "ops/settlements.html",
        422 if problems else 200,
        settlements=part.rows,
        state=state.value,
        stops={refund_id: _(why) for refund_id, why in stopped.items()},
        sums=[
            (row.number, money(int(row.minor), row.currency), bool(row.is_credit)) for row in sums
        ],
        problems=(problems or [])[:PROBLEMS_SHOWN],
        more_problems=max(0, len(problems or []) - PROBLEMS_SHOWN),
        unsent={refused: request.form},
        lost="" if has_form else words,
        imported=typed("imported"),
        money=money,
        now=live.now(),
        **pages_beside(part, PATH, facts),
    )


@blueprint.post("/ops/settlements/<settlement>")
@needs(Permission.SETTLE)
def decide(settlement: str) -> Response:
    """Record that a payment was made, could not be, or came back, as the pressed button says."""
    has_failed = "fail" in request.form
    if has_failed == ("settle" in request.form):
        # The customer is told the outcome, so a form without one of the buttons does nothing.
        abort(400)
    reference, reason = (typed(name, request.form) or None for name in ("reference", "reason"))
    outcome = Outcome(
        settlement,
        SettlementState.FAILED if has_failed else SettlementState.SETTLED,
        reference,
        reason if has_failed else None,
        paid_before="paid_before" in request.form,
        came_back="came_back" in request.form,
    )
    try:
        with reports_of(person := current_person().email) as connection:
            settle(connection, outcome, person, _)
    except SettlementProblem as problem:
        return _page([f"{settlement}: {problem}"], settlement)
    return go_to(PATH)


@blueprint.get("/ops/settlements/export")
@needs(Permission.SETTLE)
def export() -> Response:
    """Send the open settlements as CSV."""
    live = services.current()
    with live.database.snapshot() as connection:
        found = settlements.list_open(connection)
        stopped = stops.find_stops(connection, (each.refund_id for each in found))
    return csv_response(write_settlements(found, stopped), f"settlements-{live.now():%Y-%m-%d}.csv")


def csv_response(text: str, name: str) -> Response:
    """Return a response with a CSV file that browsers save."""
    return Response(
        BYTE_ORDER_MARK + text,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@blueprint.post("/ops/settlements/import")
@needs(Permission.SETTLE)
def import_file() -> Response:
    """Record the outcomes in a file: all of its lines or none."""
    file = request.files.get("file")
    try:
        outcomes = read_outcomes(file.read() if file else b"", _)
        if not outcomes:
            none = _("no line has an outcome; choose a file with some")
            raise SettlementFileProblem([(1, none)], _)
        with reports_of(person := current_person().email) as connection:
            news = settle_all(connection, outcomes, person, _)
    except SettlementFileProblem as problem:
        return _page([*problem.lines, _("Nothing was imported.")])
    return go_to(f"{PATH}?imported={news}-{len(outcomes) - news}")
