"""The demo's page: write as a customer, read everybody's mail, watch the runs, kill the app.

Registered only where MAILAGENT_DEMO names the demo's providers; never in production.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

from flask import (
    Blueprint,
    Response,
    current_app,
    jsonify,
    redirect,
    render_template,
    request,
)
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import generate_csrf

from mailagent.demo import shop
from mailagent.demo.openai_server import MODEL_NAME
from mailagent.demo.snapshot import take_snapshot
from mailagent.settings import Settings
from mailagent.web.guard import open_to_all

blueprint = Blueprint("demo", __name__, url_prefix="/demo", static_folder="static")

_STARTED_AT = time.time()


@blueprint.record
def _lead_the_way(state: BlueprintSetupState) -> None:
    """Make the app's bare address lead to the demo."""
    state.app.add_url_rule("/", "demo_door", open_to_all(lambda: redirect("/demo/")))


@blueprint.get("/")
@open_to_all
def page() -> Response:
    """Show the page; what is on it comes from `/demo/state`, again and again."""
    html = render_template(
        "demo/page.html",
        csrf_token=generate_csrf(),
        customers=shop.CUSTOMERS,
        managers=shop.MANAGERS,
        team=shop.TEAM,
        operators=shop.OPERATORS,
        letters=shop.READY_LETTERS,
        model=_settings().openai_model,
        scripted=_settings().openai_model == MODEL_NAME,
        providers_url=_providers_url(),
    )
    response = Response(html)
    # The page asks the demo's providers itself while the app is dead. Its frames, which show mail,
    # are under this policy too: no script, nothing from outside, but mail has its styles inline.
    response.headers["Content-Security-Policy"] = (
        f"default-src 'self'; img-src 'self' data:; connect-src 'self' {_providers_url()}; "
        "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.get("/state")
@open_to_all
def state() -> ResponseReturnValue:
    """Return everything the page shows, as JSON."""
    process = {
        "pid": os.getpid(),
        "started_at": datetime.fromtimestamp(_STARTED_AT, UTC).isoformat(),
    }
    return jsonify({"process": process, "mail": _ask_providers(), **take_snapshot()})


@blueprint.post("/letters")
@open_to_all
def write() -> ResponseReturnValue:
    """Hand a customer's letter to the demo's SendGrid, which delivers it to the inbound webhook."""
    letter = json.dumps(request.get_json()).encode()
    try:
        with _open(f"{_providers_url()}/demo/letters", letter) as answer:
            return jsonify(json.load(answer)), answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return jsonify(json.load(refusal)), refusal.code


@blueprint.post("/crash")
@open_to_all
def crash() -> ResponseReturnValue:
    """Kill the app with SIGKILL, a moment later: browsers repeat a request that gets no answer."""
    threading.Timer(0.1, _die).start()
    return jsonify({"pid": os.getpid()}), 202


def _die() -> None:
    # gunicorn would quietly replace a killed worker. Its master leads the group that the supervisor
    # made for the two; any other group may hold somebody's shell.
    if os.getpgid(0) == os.getppid():
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _settings() -> Settings:
    settings: Settings = current_app.config["MAILAGENT"]
    return settings


def _providers_url() -> str:
    return _settings().demo_url or ""


def _ask_providers() -> dict[str, Any]:
    with _open(f"{_providers_url()}/demo/mailboxes") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _open(url: str, body: bytes | None = None) -> Any:
    headers = {"Content-Type": "application/json"} if body else {}
    request_ = urllib.request.Request(url, body, headers)  # noqa: S310 - the demo's own server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(request_, timeout=5)
