"""`python -m tests.programs.trace_picture`: draws docs/pictures/trace-approved-refund.svg from the
spans of a real run, with a web process, a worker and PostgreSQL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from mailagent.demo.process import ROOT
from tests.databases import fresh_databases
from tests.harness import open_shop
from tests.telemetry.collector import Collector, Seen
from tests.telemetry.story import processes_of, tell

PICTURE = ROOT / "docs" / "pictures" / "trace-approved-refund.svg"
WEBHOOK = "POST /webhooks/sendgrid/inbound"
LINE, NAMES, BARS, MARGIN = 18, 350, 540, 16
COLOURS = {"web": "#2563eb", "worker": "#15803d"}
PROVIDER = "#c2410c"

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2937 }
  .small { font-size: 10px; fill: #6b7280 } .ground { fill: #ffffff } .grid { stroke: #e5e7eb }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .small { fill: #9ca3af } .ground { fill: #111827 } .grid { stroke: #374151 }
  }
"""


def record() -> list[Seen]:
    """Let one refund be asked for and approved; return all that was sent to a collector."""
    collector = Collector()
    collector.start()
    folder = Path(tempfile.mkdtemp(prefix="mailagent-trace-"))
    try:
        with fresh_databases("postgresql") as new, open_shop(folder, new()) as shop:
            tell(shop, *processes_of(shop, folder, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url))
    finally:
        collector.stop()
    return collector.spans


def in_order(spans: list[Seen]) -> list[tuple[int, Seen]]:
    """Return the spans of the mail's trace as a tree, each with its depth."""
    (root,) = (each for each in spans if each.name == WEBHOOK)
    trace = [each for each in spans if each.trace_id == root.trace_id]

    def walk(seen: Seen, depth: int) -> Iterator[tuple[int, Seen]]:
        yield depth, seen
        inner = [each for each in trace if each.parent_id == seen.span_id]
        for each in sorted(inner, key=lambda each: each.span.start_time_unix_nano):
            yield from walk(each, depth + 1)

    return list(walk(root, 0))


def draw(rows: list[tuple[int, Seen]]) -> str:
    """Return the tree as a picture: a bar for each span, on one scale of time."""
    begin = min(seen.span.start_time_unix_nano for _, seen in rows)
    whole = max(seen.span.end_time_unix_nano for _, seen in rows) - begin
    width, height = NAMES + BARS + 2 * MARGIN + 60, LINE * (len(rows) + 3) + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
        ' aria-label="The trace of one approved refund">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    for quarter in range(5):
        x = MARGIN + NAMES + BARS * quarter / 4
        milliseconds = whole * quarter / 4 / 1e6
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{MARGIN + 12}" y2="{height}"/>')
        parts.append(f'<text class="small" x="{x}" y="{MARGIN + 8}">{milliseconds:.0f} ms</text>')
    for number, (depth, seen) in enumerate(rows, 2):
        parts += _row(seen, depth, MARGIN + LINE * number, begin, whole)
    legend = {**COLOURS, "a provider's call": PROVIDER}
    for number, (words, colour) in enumerate(legend.items()):
        x, y = MARGIN + number * 90, height - MARGIN
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text class="small" x="{x + 14}" y="{y}">{escape(words)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _row(seen: Seen, depth: int, y: int, begin: int, whole: int) -> list[str]:
    span = seen.span
    x = MARGIN + NAMES + BARS * (span.start_time_unix_nano - begin) / whole
    taken = span.end_time_unix_nano - span.start_time_unix_nano
    length = max(BARS * taken / whole, 2)
    role = seen.resource["mailagent.role"]
    colour = PROVIDER if "peer.service" in seen.facts else COLOURS[role]
    linked = " (linked to the manager's request)" if span.links else ""
    return [
        f'<text x="{MARGIN + depth * 14}" y="{y}">{escape(span.name + linked)}</text>',
        f'<rect x="{x:.1f}" y="{y - 10}" width="{length:.1f}" height="11" rx="2" fill="{colour}"/>',
        f'<text class="small" x="{x + length + 4:.1f}" y="{y - 1}">{taken / 1e6:.1f} ms</text>',
    ]


def main() -> None:
    """Draw the picture anew."""
    rows = in_order(record())
    PICTURE.write_text(draw(rows), "utf-8")
    for depth, seen in rows:
        print("  " * depth + seen.name)
    print(f"{len(rows)} spans: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
