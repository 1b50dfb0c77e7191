"""What all pages of the console share: how they are rendered, who reads them, and the way back."""

from __future__ import annotations

import re
from typing import Any

from flask import Response, g, make_response, render_template

from mailagent.web.console.concealed import conceal_line
from mailagent.web.guard import find_person

# A path of the console and nothing else: no other host, no scheme, no trick with slashes.
_OPS_PATH = re.compile(r"/ops(?:/[A-Za-z0-9._~%+@:-]+)*/?(?:\?[A-Za-z0-9._~%+@:=&-]*)?")
_LONGEST_PATH = 500


def page(template: str, status: int = 200, **facts: Any) -> Response:
    """Return a page of the console that no cache keeps. `person` is whoever is logged in;
    `subject_line` makes a subject fit to be shown."""
    # Where a guard has let somebody in, it has looked already.
    person = g.person if "person" in g else find_person()
    shared = {"person": person, "subject_line": conceal_line}
    response = make_response(render_template(template, **shared, **facts), status)
    response.headers["Cache-Control"] = "no-store"
    return response


def not_found(what: str) -> Response:
    """Return the page that says that there is no such thing; `what` is a noun, such as "refund"."""
    return page("ops/not_found.html", 404, what=what)


def safe_path(wanted: str | None) -> str:
    """Return `wanted` if it is a path of the console, else that of the inbox: a link must not lead
    anywhere else."""
    if wanted and len(wanted) <= _LONGEST_PATH and _OPS_PATH.fullmatch(wanted):
        climbs = ".." in wanted.partition("?")[0].split("/")
        return "/ops" if climbs else wanted
    return "/ops"
