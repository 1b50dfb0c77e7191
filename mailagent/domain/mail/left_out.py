"""The lines of a mail that are not its author's new text: quotations, signatures, and what was copied."""

from __future__ import annotations

from collections import Counter


def left_out(body: str, new_text: str) -> str:
    """Return the lines of `body` that `new_text` leaves out, in their order: quotations and signatures."""
    kept = Counter(line.strip() for line in new_text.splitlines())
    rest = []
    for line in body.splitlines():
        if kept[line.strip()] > 0:
            kept[line.strip()] -= 1
        else:
            rest.append(line)
    return "\n".join(rest).strip()


def copied_lines(body: str, new_text: str) -> frozenset[str]:
    """Return the lines of `body` without a quote sign between the first and the last line of `new_text`. The
    author has perhaps copied those that are ours."""
    own = new_text.strip().split("\n")
    between, found, _ = body.partition(own[0])[2].partition(own[-1])
    lines = between.split("\n") if found else []
    return frozenset(line for line in lines if not line.lstrip().startswith((">", "\uff1e")))
