"""Opens and closes incidents. Operators are told once, however many mails an incident holds up.

If the mail provider refuses us, the notice waits like all other mail: the log, `flask check` and the console
show the incident at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.incident import IncidentKind, OpenIncident, tell_incident
from mailagent.domain.operations.provider import Provider
from mailagent.domain.text import tell_error, tell_moment
from mailagent.store.console import run_subjects
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.workflows.steps.conversation.rate_limit import why_alarmed, why_stopped
from mailagent.workflows.steps.notices import tell_operators

logger = logging.getLogger(__name__)

# The incident of loops closes when the loop guard has stopped no conversation for this long.
QUIET_AFTER = timedelta(hours=1)
# Rows that wait for a provider probe it every few minutes. If it was not probed for this long, nothing waits
# for it, and its circuit breaker is closed.
UNUSED_AFTER = timedelta(hours=1)
# The incident of wrong records closes after this time, even if some are still wrong: the next look-up that
# finds one opens it again.
RECORDS_TOLD_FOR = timedelta(days=1)
# Runs that met these incidents are replayed by a person.
_FAILS_RUNS = frozenset({IncidentKind.OPENAI, IncidentKind.GATEWAY})


def open_incident(
    connection: sa.Connection, incident: IncidentKind, why: str, met_by: str = ""
) -> bool:
    """Open an incident and tell the operators, unless it is open; return whether it is new. `met_by`: the id
    of the conversation or refund that met it first."""
    live = services.current()
    number = incidents.open_incident(connection, live.now(), incident, tell_error(why))
    if number is None:
        return False
    title = tell_incident(incident, live.providers).title
    logger.error(
        "incident=%s event=incident_opened: %s: %s", incident.value, title, tell_error(why)
    )
    words = tell_incident(incident, live.providers, mailed=True)
    since = f"Since {tell_moment(live.now())}: {tell_error(why)}"
    about = run_subjects.list_subjects(connection, [met_by]).get(met_by)
    runs = f"Its runs: {live.shop.public_url}/ops/runs?about={met_by}"
    lines = [*([f"{met_by}, {about.tell_masked()}", runs] if about else []), since, words.to_do]
    button = ("Open the inbox", f"{live.shop.public_url}/ops")
    if incident in _FAILS_RUNS:
        path = f"{live.shop.public_url}/ops/replays"
        button = ("When it works again, see what failed, and replay it", path)
    tell_operators(connection, words.title, lines, f"{incident.value}:{number}", button)
    return True


def update_incidents() -> None:
    """Open the incidents that only the sweep can see, and close those that are over."""
    live = services.current()
    with live.database.transaction() as connection:
        for incident, find_sign in _SIGNS.items():
            sign = find_sign(connection, live.now())
            if sign is not None:
                open_incident(connection, incident, sign)
        circuit_breakers.give_another_chance(connection, live.now(), live.now() - UNUSED_AFTER)
        for known in incidents.list_open(connection):
            if _is_over(connection, known, live.now()):
                incidents.close_incident(connection, live.now(), known.incident)
                title = tell_incident(known.incident, live.providers).title
                logger.warning(
                    "incident=%s event=incident_closed: over: %s", known.incident.value, title
                )


def _loops(connection: sa.Connection, now: datetime) -> str | None:
    count = incidents.count_loops(connection, now - QUIET_AFTER)
    return f"conversations in which it has tripped within the hour: {count}" if count else None


def _throttled_mail(connection: sa.Connection, _now: datetime) -> str | None:
    count = incidents.count_throttled(connection)
    return f"mails that are throttled: {count}" if count else None


# Incidents that no other step notices.
_SIGNS: Mapping[IncidentKind, Callable[[sa.Connection, datetime], str | None]] = {
    IncidentKind.LOOP_DETECTED: _loops,
    IncidentKind.THROTTLED: _throttled_mail,
    IncidentKind.BUDGET_NEAR: lambda _connection, _now: why_alarmed(),
    IncidentKind.BUDGET_SPENT: lambda _connection, _now: why_stopped(),
}


def _is_over(connection: sa.Connection, known: OpenIncident, now: datetime) -> bool:
    live = services.current()
    match known.incident:
        case IncidentKind.OPENAI:
            return incidents.has_model_answered(connection, known.since)
        case IncidentKind.MAIL_PROVIDER:
            return incidents.has_mail_gone_out(connection, known.since)
        case IncidentKind.ORDER_SOURCE:
            source = live.providers.orders
            return source is None or _works(connection, source)
        case IncidentKind.ORDER_RECORDS:
            return now - known.since >= RECORDS_TOLD_FOR
        case IncidentKind.GATEWAY:
            return _works(connection, live.providers.gateway)
    return _SIGNS[known.incident](connection, now) is None


def _works(connection: sa.Connection, provider: Provider) -> bool:
    # A provider that has replaced the one that refused us has no breaker, so it works, too.
    return circuit_breakers.find(connection, provider) is None
