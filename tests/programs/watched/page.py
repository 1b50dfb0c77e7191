"""The result of a loaded run in docs/loaded-run.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mailagent.app import ROOT
from tests.programs.proof import Rows
from tests.programs.watched.compare import Compared
from tests.programs.watched.results import Alert, Line, Result, Shown

PAGE = ROOT / "docs" / "loaded-run.md"
_MOST_SHOWN = 12
_PANEL = re.compile(r"^\| (.+?) \| `(.+?)` \| .+ \|$", re.MULTILINE)
_ALERT = re.compile(r"^\| `(\w+)` \| ", re.MULTILINE)


def table(rows: Rows) -> str:
    """Return what one run told, for the page."""
    return "\n".join(rows[0]["lines"])


def panels_in(text: str) -> list[tuple[str, str]]:
    """Return the title and the query of each row of the page's table of panels."""
    table = text.partition("| panel | query |")[2].partition("\n\n")[0]
    return [(title, query.replace(r"\|", "|")) for title, query in _PANEL.findall(table)]


def alerts_in(text: str) -> list[str]:
    """Return the names in the page's table of alerts."""
    return _ALERT.findall(text.partition("| alert |")[2].partition("\n\n")[0])


def recorded_in(text: str) -> list[str]:
    """Return the names in the page's table of what is recorded."""
    table = text.partition("| recorded |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([\w:]+)` \| \d", table, re.MULTILINE)


def block_of(result: Result) -> Iterator[str]:
    """Yield the lines of the result."""
    yield from _about(result)
    yield from ("", "### What each panel showed", "")
    yield from ("| panel | query | at the end (least to most) |", "|---|---|---|")
    yield from (_row(each) for each in result.panels)
    yield from ("", "### The same figures from the rows", "")
    yield from ("| asked of Prometheus | from | of | Prometheus | rows |", "|---|---|---|---|---|")
    for each in result.compared:
        yield from _compared(each)
    yield from ("", "### Alerts", "", "| alert | series that it looks at | was |", "|---|---|---|")
    yield from (_alert(each) for each in result.alerts)
    yield from ("", "### What is recorded", "", "| recorded | series |", "|---|---|")
    yield from (f"| `{name}` | {number} |" for name, number in result.recorded.items())


def _about(result: Result) -> Iterator[str]:
    names = ("cores", "Python", "PostgreSQL", "Prometheus")
    versions = ", ".join(f"{name} {result.facts[name]}" for name in names)
    load, (minutes, away_from, away_until) = result.load, result.minutes
    yield f"{versions}."
    yield ""
    yield (
        f"- {load['mails']:,} mails in {minutes:.1f} minutes, {load['mails'] / minutes / 60:.1f} a second,"
        " to one web process and two workers: of seven, four are questions, two small refunds, and one is a"
        " refund that a manager is asked about."
    )
    yield f"- Managers approved {load['decided']:,} of these; every third is left waiting."
    yield (
        f"- From minute {away_from:.1f} to {away_until:.1f} the model answered 503 and 429 by turns:"
        f" {load['refused']:,} times, beside {load['requests']:,} answers."
    )
    yield "- " + ("; ".join(result.wrong) if result.wrong else "Nothing was wrong.")


def _row(shown: Shown) -> str:
    moving = [line for line in shown.lines if any(line.values)]
    moving.sort(key=lambda line: -max(line.values))
    still = len(shown.lines) - len(moving)
    cells = [_line(line, shown.target.unit) for line in moving[:_MOST_SHOWN]]
    if len(moving) > _MOST_SHOWN:
        cells.append(f"{len(moving) - _MOST_SHOWN} smaller ones")
    if still:
        cells.append(f"{still} more: 0" if moving else (f"all {still}: 0" if still > 1 else "0"))
    query = shown.target.query.replace("|", r"\|")
    return f"| {shown.target.title} | `{query}` | {'<br>'.join(cells) or 'nothing'} |"


def _line(line: Line, unit: str) -> str:
    values = line.values
    last = "gone" if line.gone else told(values[-1], unit)
    name = f"{line.name}: " if line.name else ""
    return f"{name}**{last}** ({told(min(values), unit)} to {told(max(values), unit)})"


def _compared(each: Compared) -> Iterator[str]:
    query, source = f"`{each.query}`", each.source
    source = f"`{source}`" if source.startswith("SELECT") else source
    near = f" (within {each.near * 100:g} %)" if each.near else ""
    for name in sorted({*each.told, *each.truth}):
        first, second = (_exact(rows.get(name, 0)) for rows in (each.told, each.truth))
        yield f"| {query} | {source}{near} | {name or '–'} | {first} | {second} |"
        query = source = near = ""


def _exact(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}"


def _alert(alert: Alert) -> str:
    states = [f"{state} from minute {max(at, 0) / 60:.1f}" for state, at in alert.was.items()]
    was = f"{', '.join(states)}: {alert.expected or 'not expected'}" if states else "quiet"
    return f"| `{alert.name}` | {alert.looks_at} | {was} |"


def told(value: float, unit: str) -> str:
    """Return a value in the unit of its panel."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "currencyUSD":
        return f"${value:.2f}"
    number = f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
    return f"{number} s" if unit == "s" else number
