"""The calls by which `flask setup` checks an answer. Each returns what is wrong, or None."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

_ROOT = Path(__file__).resolve().parents[3]
_SECONDS = 20.0
Answers = Mapping[str, str]
# https://www.twilio.com/docs/sendgrid/data-residency/faq
SENDGRID_REGIONS = {"global": "https://api.sendgrid.com", "eu": "https://api.eu.sendgrid.com"}


def migrate(answers: Answers) -> str | None:
    """Connect to the database, and create or upgrade its tables."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # a newcomer reads the questions
    from alembic import command  # logs as it is imported
    from alembic.config import Config

    config = Config(toml_file=str(_ROOT / "pyproject.toml"))
    config.cmd_opts = type("Options", (), {"x": [f"url={answers['DATABASE_URL']}"]})()
    try:
        command.upgrade(config, "head")
    except SystemExit as problem:
        return str(problem)
    return None


def ask_model(answers: Answers) -> str | None:
    """Ask the model for a word."""
    from mailagent.adapters.openai.client import ChatModel
    from mailagent.cli.installation import round_trip

    url = answers.get("OPENAI_BASE_URL") or None
    return round_trip.ask_model(
        ChatModel(answers["OPENAI_API_KEY"], url, answers["OPENAI_MODEL"], _SECONDS)
    )


def reach_sendgrid(answers: Answers) -> str | None:
    """Ask SendGrid's API without a key, which it refuses."""
    url = answers["SENDGRID_BASE_URL"].rstrip("/")
    try:
        status = httpx2.get(f"{url}/v3/scopes", timeout=_SECONDS).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        return f"{url} could not be asked ({type(problem).__name__}): check it and the network"
    return None if status in (200, 401, 403) else f"{url} answered {status}: is it SendGrid's API?"


def read_scopes(answers: Answers) -> str | None:
    """Ask SendGrid what the key may do. https://www.twilio.com/docs/sendgrid/api-reference/api-key-permissions"""
    base = answers["SENDGRID_BASE_URL"].rstrip("/")
    headers = {"Authorization": f"Bearer {answers['SENDGRID_API_KEY']}"}
    found = _get("SendGrid", f"{base}/v3/scopes", headers=headers)
    if isinstance(found, str):
        return f"{found}. It was asked at {base}: if that is the wrong region, stop and begin again"
    if "mail.send" not in found.get("scopes", []):
        return "this key may not send mail: make one with the permission Mail Send"
    return None


def list_refunds(answers: Answers) -> str | None:
    """Ask Stripe for one refund."""
    base = answers.get("STRIPE_API_BASE") or "https://api.stripe.com"
    auth = (answers["STRIPE_API_KEY"], "")
    found = _get("Stripe", f"{base.rstrip('/')}/v1/refunds?limit=1", auth=auth)
    return found if isinstance(found, str) else None


def _get(title: str, url: str, **options: Any) -> dict[str, Any] | str:
    """Return the JSON object at a URL, or what is wrong."""
    try:
        answer = httpx2.get(url, timeout=_SECONDS, **options)
        found = answer.json() if answer.is_success else None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as problem:
        return f"{title} could not be asked ({type(problem).__name__}): check the network"
    if answer.status_code in (401, 403):
        return f"{title} refuses this key ({answer.status_code}): copy it again, or make a new one"
    if not isinstance(found, dict):
        return f"{title} answered {answer.status_code}: try again later"
    return found
