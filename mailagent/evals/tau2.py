"""Reads tasks files in tau2's format (sierra-research/tau2-bench), from a path: none of them is in here.

Only tasks whose gold actions this agent has: money back for items, and a person. Orders are those of the file's
own shop, so these tasks need `state` of their own: what the calls lead to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mailagent.evals.task import Task, TaskProblem

HANDED_OVER = "transfer_to_human_agents"
RETURNED = "return_delivered_order_items"
# Actions that only look something up.
LOOKS = ("find_user", "get_", "list_", "calculate", "think")


def read_file(path: Path) -> Iterator[Task]:
    """Yield the tasks that can be played here. Raises TaskProblem."""
    try:
        records = json.loads(path.read_text("utf-8"))
        found = [_task(record) for record in records]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise TaskProblem(f"{path}: {type(problem).__name__}: {problem}") from None
    yield from (task for task in found if task is not None)


def _task(record: Mapping[str, Any]) -> Task | None:
    actions = (record.get("evaluation_criteria") or {}).get("actions") or []
    acts = [_act(each) for each in actions if not str(each["name"]).startswith(LOOKS)]
    if not acts or None in acts:
        return None
    told = record["user_scenario"]["instructions"]
    card = told if isinstance(told, str) else "\n".join(str(each) for each in told.values() if each)
    turn = {"mail": _opening(told), "acts": acts}
    email = record.get("email") or "customer@example.com"
    values = {"id": f"tau2-{record['id']}", "suite": "tau2", "sender": email, "card": card}
    return Task.model_validate({**values, "turns": [turn]})


def _opening(told: object) -> str:
    reason = told.get("reason_for_call") if isinstance(told, Mapping) else told
    return f"Hello,\n\n{reason}"


def _act(action: Mapping[str, Any]) -> dict[str, Any] | None:
    arguments = action.get("arguments") or {}
    if action["name"] == HANDED_OVER:
        summary = str(arguments.get("summary") or "Asks for a person.")
        return {"tool": "hand_over", "reason": "cannot_help", "summary": summary}
    if action["name"] == RETURNED:
        items: Sequence[str] = arguments["item_ids"]
        order_id = str(arguments["order_id"]).removeprefix("#")
        wanted = [{"item_id": each, "quantity": items.count(each)} for each in dict.fromkeys(items)]
        return {
            "tool": "propose_refund",
            "order_id": order_id,
            "items": wanted,
            "reason": "changed_mind",
        }
    return None
