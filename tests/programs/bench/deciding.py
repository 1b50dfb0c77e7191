"""Managers who press approve, from a process of its own with several threads: each follows a mailed link
and sends the form, as the demo's does.

`python -m tests.programs.bench.deciding` reads the job on standard input; `approve_all` is how its parent asks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2

from mailagent.demo.story import find_csrf_token
from tests.processes import ProcessFailed, run_script

THREADS = 8


def approve_all(webhook: str, links: Sequence[str]) -> None:
    """Approve each once. Raises ProcessFailed when the app does not take a decision."""
    job = {"links": _at(webhook, links)}
    run_script("tests.programs.bench.deciding", job)


def approve(webhook: str, link: str) -> float:
    """Approve one; return when the button was pressed (monotonic)."""
    return _approve(_at(webhook, [link])[0])


def _at(webhook: str, links: Sequence[str]) -> list[str]:
    """Return the links as they are where the app listens: mails have its public address."""
    served = urlsplit(webhook)
    return [
        urlsplit(link)._replace(scheme=served.scheme, netloc=served.netloc).geturl()
        for link in links
    ]


def _approve(link: str) -> float:
    with httpx2.Client(timeout=10, follow_redirects=True, trust_env=False) as browser:
        token = find_csrf_token(browser.get(link).text)
        if token is None:
            raise ProcessFailed("an approval's page has no form")
        fields = {"decision": "approve", "csrf_token": token}
        pressed_at = time.monotonic()
        answer = browser.post(link, data=fields, headers={"Referer": link})
    if answer.status_code != 200:
        raise ProcessFailed(f"a decision was not taken: {answer.status_code}")
    return pressed_at


def _run(job: Mapping[str, Any]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(_approve, job["links"]))


if __name__ == "__main__":
    _run(json.load(sys.stdin))
    sys.stdout.write("{}\n")
