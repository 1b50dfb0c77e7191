"""Lines of the inbox and the search: one row of a table for each entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.draft import DRAFT_TOPICS
from mailagent.domain.operations.access import Permission
from mailagent.engine.run import Run, tell_failure
from mailagent.store.console import inbox, run_subjects
from mailagent.store.console.inbox import Entry
from mailagent.store.console.run_subjects import Subject
from mailagent.web.console.labels import (
    FAILED_WORKFLOWS,
    LINE_STATES,
    PURPOSES,
    REASONS,
    RUN_STATES,
    STATES,
    STOPPED_RUN_OF_MAIL,
    Badge,
    money,
    run_path,
)
from mailagent.web.console.page import redact_line
from mailagent.web.guard import current_person
from mailagent.web.language import _, sentence, translate, upper_first


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table. `note`: more about the state, such as who was asked. `state_path`: the page that the
    state links to, such as the failed run's."""

    entry: Entry
    what: str
    amount: str
    state: Badge
    note: str
    path: str | None
    state_path: str | None
    may_dismiss: bool


def lines_of(connection: sa.Connection, entries: Iterable[Entry]) -> list[Line]:
    """Return entries as lines, in their order."""
    entries = tuple(entries)
    waiting = [each.row_id for each in entries if each.state == "awaiting_approval"]
    managers = inbox.list_asked(connection, waiting)
    client = services.current().workflow_client
    runs = {
        **client.runs.find_latest([each.run_id for each in entries if each.run_id]),
        **client.runs.find_runs([each.row_id for each in entries if each.kind == "run"]),
    }
    subjects = {runs[each.row_id].subject for each in entries if each.row_id in runs}
    named = run_subjects.list_subjects(connection, subjects)
    lines = []
    for each in entries:
        run = runs.get((each.row_id if each.kind == "run" else each.run_id) or "")
        about = named.get(run.subject) if run else None
        entry = _with_subject(each, about) if each.kind == "run" else each
        line = _line(entry, managers.get(entry.row_id, ()), run)
        if each.kind == "run" and run and is_answered(run, about):
            line = replace(line, state=run_state(run, about), may_dismiss=False)
        lines.append(line)
    return lines


def is_answered(run: Run, about: Subject | None) -> bool:
    """Return whether a run has failed and a person has answered its customer since."""
    return run.has_failed and about is not None and about.was_answered_since(run.updated_at)


def run_state(run: Run, about: Subject | None) -> Badge:
    """Return the badge of a run."""
    if is_answered(run, about):
        return LINE_STATES["answered_by_person"]
    if run.was_put_off:
        return LINE_STATES["put_off"]
    return RUN_STATES.get(run.status, (run.status, ""))


def _with_subject(entry: Entry, subject: Subject | None) -> Entry:
    what = translate(FAILED_WORKFLOWS.get(entry.what, entry.what))
    if subject is None:
        return replace(entry, what=what)
    return replace(
        entry,
        who=subject.who,
        what=f"{what}: {what_of(entry.what, subject)}",
        amount=subject.amount,
        conversation_id=subject.about.conversation_id,
        refund_id=subject.about.refund_id,
    )


def what_of(workflow: str, facts: Subject) -> str:
    """Return what a run of a workflow is about: an order, the kind of a mail, or a subject."""
    about = {
        "refund": _("order %(order_id)s", order_id=facts.what),
        "delivery": translate(PURPOSES.get(facts.what, facts.what)),
    }
    what = about.get(workflow, facts.what) or _("(no subject)")
    if workflow == "refund" or facts.order_id is None:
        return what
    return f"{what}, {_('order %(order_id)s', order_id=facts.order_id)}"


def _line(entry: Entry, managers: Sequence[str], run: Run | None) -> Line:
    may_see_runs = Permission.RUNS in current_person().permissions
    stopped = STOPPED_RUN_OF_MAIL.get(run.status) if run and entry.run_id else None
    return Line(
        entry=entry,
        what=_what(entry),
        amount=money(entry.amount.minor, entry.amount.currency) if entry.amount else "",
        state=_state(entry, stopped),
        note=_note(entry, managers, run if may_see_runs else None),
        path=_path(entry, current_person().permissions),
        state_path=run_path(run.run_id) if run and stopped and may_see_runs else None,
        may_dismiss=entry.kind in ("run", "outbound")
        or (entry.kind, entry.state) == ("refund", "failed"),
    )


def _what(entry: Entry) -> str:
    if entry.kind == "refund":
        reason = translate(REASONS.get(entry.what, entry.what))
        return _("Order %(order_id)s: %(reason)s", order_id=entry.order_id, reason=reason)
    if entry.kind == "outbound":
        return upper_first(translate(PURPOSES.get(entry.what, entry.what)))
    return redact_line(entry.what) or _("(no subject)")


def _state(entry: Entry, stopped: Badge | None) -> Badge:
    if entry.run_id and not entry.state:
        return stopped or (_("with the agent"), "")
    label, colour = LINE_STATES.get(entry.state, (entry.state, "waiting" if entry.state else ""))
    return (STATES.get(entry.state, label) if entry.kind == "refund" else label), colour


def _note(entry: Entry, managers: Sequence[str], run: Run | None) -> str:
    if entry.state == "awaiting_approval":
        return _approval_note(entry, managers)
    if entry.kind == "draft" and entry.topics:
        topics = ", ".join(translate(DRAFT_TOPICS.get(each, each)) for each in entry.topics)
        return _("about %(topics)s", topics=topics)
    if entry.kind == "conversation" and entry.owner:
        return _("taken by %(owner)s", owner=entry.owner)
    # Errors may name settings and servers, so only people who may see runs get them.
    if entry.kind == "run" and run and run.has_failed:
        return tell_failure(run, _)
    return ""


def _approval_note(entry: Entry, managers: Sequence[str]) -> str:
    """Return who decided, or whose decision is awaited."""
    owner, until = entry.owner, entry.undo_until
    if until and (not entry.awaits_second or services.current().now() < until):
        if entry.decision == "approve":
            return sentence(
                "approved by %(owner)s, can be taken back until %(until)s", owner=owner, until=until
            )
        return sentence(
            "rejected by %(owner)s, can be taken back until %(until)s", owner=owner, until=until
        )
    others = ", ".join(each for each in managers if each != owner)
    first = (
        _("approved by %(owner)s, a second person is needed", owner=owner)
        if entry.awaits_second
        else ""
    )
    return "; ".join(filter(None, (first, others and _("asked: %(managers)s", managers=others))))


def _path(entry: Entry, permissions: frozenset[Permission]) -> str | None:
    if entry.kind == "run" and Permission.RUNS in permissions:
        return run_path(entry.row_id)
    if entry.kind == "draft" and Permission.ANSWER in permissions:
        return f"/ops/drafts/{entry.row_id}"
    if entry.refund_id:
        return f"/ops/refunds/{entry.refund_id}"
    return f"/ops/conversations/{entry.conversation_id}" if entry.conversation_id else None
