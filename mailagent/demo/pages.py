"""The demo's page: write as a customer, read all mail, watch the runs, kill the app.

Registered only where MAILAGENT_DEMO names the demo's providers; never in production.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
import sqlalchemy as sa
from flask import Blueprint, Response, current_app, jsonify, redirect, render_template, request
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import generate_csrf

from mailagent import services
from mailagent.demo import shop
from mailagent.demo.fakes.openai import MODEL_NAME
from mailagent.domain.mail.message import MailStatus
from mailagent.domain.money import Money, parse_money
from mailagent.domain.operations.replay import effect_of
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.engine.run import Run
from mailagent.settings import Settings
from mailagent.store import audit, schema
from mailagent.store.database import exists
from mailagent.store.refunds import refunds
from mailagent.web.guard import open_to_all

blueprint = Blueprint("demo", __name__, url_prefix="/demo", static_folder="static")

_STARTED_AT = time.time()


@blueprint.record
def _redirect_root(state: BlueprintSetupState) -> None:
    state.app.add_url_rule("/", "demo_root", open_to_all(lambda: redirect("/demo/")))


@blueprint.get("/")
@open_to_all
def page() -> Response:
    """Show the page. Its script fills it from `/demo/state`, once a second."""
    html = render_template(
        "demo/page.html",
        csrf_token=generate_csrf(),
        customers=shop.CUSTOMERS,
        managers=shop.MANAGERS,
        team=shop.TEAM,
        operators=shop.OPERATORS,
        letters=shop.READY_MAILS,
        tour=shop.TOUR,
        orders=shop.ORDERS,
        tell=_tell_price,
        model=_settings().openai_model,
        scripted=_settings().openai_model == MODEL_NAME,
        providers_url=_providers_url(),
    )
    response = Response(html)
    # The page asks the demo's providers itself while the app is dead. This policy also covers its
    # frames, which show mail: no script, nothing from outside, but mail has inline styles.
    response.headers["Content-Security-Policy"] = (
        f"default-src 'self'; img-src 'self' data:; connect-src 'self' {_providers_url()}; "
        "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def _tell_price(text: str, currency: str) -> str:
    return parse_money(text, currency).tell()


@blueprint.get("/state")
@open_to_all
def state() -> ResponseReturnValue:
    """Return everything the page shows, as JSON."""
    process = {"pid": os.getpid(), "started_at": _started_at().isoformat()}
    mail = _call_providers("GET", "/demo/mailboxes").json()
    return jsonify({"process": process, "mail": mail, **take_snapshot()})


@blueprint.post("/letters")
@open_to_all
def write() -> ResponseReturnValue:
    """Give a person's mail to the demo's SendGrid, which delivers it to the inbound webhook."""
    answer = _call_providers("POST", "/demo/letters", json=request.get_json())
    return jsonify(answer.json()), answer.status_code


@blueprint.post("/crash")
@open_to_all
def crash() -> ResponseReturnValue:
    """Kill the app with SIGKILL, a moment later: browsers repeat a request that gets no answer."""
    live = services.current()
    with live.database.transaction() as connection:
        audit.record(connection, live.now(), "the demo", CRASHED, "app")
    threading.Timer(0.1, _die).start()
    return jsonify({"pid": os.getpid()}), 202


def _die() -> None:
    # gunicorn would replace a killed worker, so kill its master too. The master leads the process group
    # that the supervisor made for both. Any other group may hold the developer's shell.
    if os.getpgid(0) == os.getppid():
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _settings() -> Settings:
    settings: Settings = current_app.config["MAILAGENT"]
    return settings


def _providers_url() -> str:
    return _settings().demo_url or ""


def _call_providers(method: str, path: str, **content: Any) -> httpx2.Response:
    # Without proxies of the environment: the providers run on this machine.
    return httpx2.request(
        method, f"{_providers_url()}{path}", timeout=5, trust_env=False, **content
    )


# --- snapshot -------------------------------------------------------------------------------------


CRASHED: Final = "app killed"
_RUNS = 12  # the latest; each costs a query


def take_snapshot() -> dict[str, Any]:
    """Return refunds, ledger and the latest runs as plain JSON data, newest first."""
    live = services.current()
    with live.database.snapshot() as connection:
        found = refunds.list_all(connection)
        ledger = connection.execute(sa.select(schema.ledger_entries)).all()
        tour = _tour(connection)
    runs = live.workflow_client.runs
    return {
        "tour": tour,
        "refunds": [
            {
                "refund_id": refund.refund_id,
                "order_id": refund.order_id,
                "amount": refund.amount.tell(),
                "status": refund.status.value,
                "decided_by": refund.decided_by,
                "requested_at": refund.requested_at.isoformat(),
            }
            for refund in reversed(found)
        ],
        "ledger": [
            {
                "reference": row.reference,
                "order_id": row.order_id,
                "amount": Money(row.amount_minor, row.currency).tell(),
                "recorded_at": row.recorded_at.isoformat(),
            }
            for row in reversed(ledger)
        ],
        "runs": [
            tell_run(runs.find_run(run.run_id, with_steps=True) or run)
            for run in runs.list_runs(limit=_RUNS)
        ],
    }


def _tour(connection: sa.Connection) -> dict[str, bool]:
    """Return which steps of the tour are done, by the rows."""
    mails, refunds_of, acts = schema.inbound_mails.c, schema.refunds.c, schema.audit.c
    paid = refunds_of.status == RefundStatus.PAID.value
    return {
        "ask": exists(connection, mails.status == MailStatus.ANSWERED.value),
        "refund": exists(connection, paid),
        "manager": exists(connection, schema.decisions.c.approval_id.is_not(None)),
        "crash": exists(connection, acts.action == CRASHED, acts.at < _started_at()),
        "replay": exists(connection, acts.action.in_(("run rewound", "run forked"))),
    }


def _started_at() -> datetime:
    return datetime.fromtimestamp(_STARTED_AT, UTC)


def tell_run(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "workflow": run.workflow,
        "status": run.status,
        "is_active": run.is_active,
        "created_at": run.created_at.isoformat(),
        "steps": [
            {
                "number": step.number,
                "name": step.name,
                "error": step.error,
                "told": effect_of(step.name),
                "json": json.dumps(step.output, ensure_ascii=False, default=str, indent=1),
                "at": step.started_at.isoformat() if step.started_at else None,
            }
            for step in run.steps
        ],
    }
