"""Reads retail tasks in tau2's format (sierra-research/tau2-bench), from a path: none of them is in here.

Actions that change something become calls of this agent's tools, and what it has no tool for is handed over.
The orders come from `db.json` beside the tasks. It has no dates, so everything was delivered a few days ago.
What `communicate_info` wants to be said is not compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from mailagent.evals.task import Task, TaskProblem
from mailagent.evals.world import START

Plain = Mapping[str, Any]

# Actions that only look something up.
LOOKS = ("find_user", "get_", "list_", "calculate", "think")
# No tool of this agent does these, so a person must.
BY_PEOPLE = ("transfer_to_human_agents", "modify_user_address", "modify_pending_order_payment")
EXCHANGES = ("exchange_delivered_order_items", "modify_pending_order_items")
_ADDRESS = ("address1", "address2", "city", "state", "zip", "country")
_STATUS = {"pending": "pending", "processed": "shipped", "cancelled": "cancelled"}
_METHODS = {"credit": "card", "gift": "gift_card", "paypal": "paypal"}


def read_file(path: Path) -> Iterator[Task]:
    """Yield the tasks of a file. Raises TaskProblem."""
    beside = path.with_name("db.json")
    try:
        shop = json.loads(beside.read_text("utf-8")) if beside.exists() else {}
        for record in json.loads(path.read_text("utf-8")):
            yield _task(record, shop)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise TaskProblem(f"{path}: {type(problem).__name__}: {problem}") from None


def _task(record: Plain, shop: Plain) -> Task:
    actions = (record.get("evaluation_criteria") or {}).get("actions") or []
    changes = [each for each in actions if not str(each["name"]).startswith(LOOKS)]
    handed = [each for each in changes if each["name"] in BY_PEOPLE]
    acts = [_act(each) for each in changes if each not in handed]
    told = record["user_scenario"]["instructions"]
    card = told if isinstance(told, str) else "\n".join(str(each) for each in told.values() if each)
    user_id = _find_user([*changes, *actions], shop)
    orders = [] if user_id is None else list(_orders(user_id, shop))
    return Task.model_validate(
        {
            "id": f"tau2-{record['id']}",
            "suite": "tau2",
            "sender": shop["users"][user_id]["email"] if user_id else _address_of(actions),
            "name": orders[0]["customer"]["name"] if orders else "",
            "card": card,
            "orders": orders,
            # Everybody does what they are asked.
            "managers": ["approve"] * len(acts),
            "people": ["done"] * len(acts),
            "turns": [
                {"mail": _opening(told, acts), "acts": [*acts, *map(_hand_over, handed[:1])]}
            ],
        }
    )


def _opening(told: object, acts: Sequence[Plain]) -> str:
    """Return the first mail. It has the new addresses, which the agent must quote."""
    reason = told.get("reason_for_call") if isinstance(told, Mapping) else told
    wishes = [f"The new address: {act['wish']}" for act in acts if act.get("wish")]
    return "\n\n".join(["Hello,", str(reason), *wishes])


# --- actions ----------------------------------------------------------------------------------------


def _act(action: Plain) -> dict[str, Any]:
    name, given = action["name"], action.get("arguments") or {}
    order = {"order_id": str(given.get("order_id", "")).removeprefix("#")}
    if name == "cancel_pending_order":
        return {"tool": "cancel_order", **order}
    if name == "return_delivered_order_items":
        items = _items(given["item_ids"])
        return {"tool": "propose_refund", **order, "items": items, "reason": "changed_mind"}
    if name in EXCHANGES:
        items = _items(given["item_ids"])
        return {"tool": "request_change", **order, "kind": "exchange", "items": items}
    if name == "modify_pending_order_address":
        wish = ", ".join(str(given[part]) for part in _ADDRESS if given.get(part))
        return {"tool": "request_change", **order, "kind": "change_address", "wish": wish}
    raise ValueError(f"{name} is no action of tau2's retail domain")


def _items(item_ids: Sequence[str]) -> list[dict[str, Any]]:
    return [{"item_id": each, "quantity": count} for each, count in Counter(item_ids).items()]


def _hand_over(action: Plain) -> dict[str, Any]:
    summary = (action.get("arguments") or {}).get("summary")
    told = str(summary or "Asks for what a person must do.")
    return {"tool": "hand_over", "reason": "cannot_help", "summary": told}


# --- orders -----------------------------------------------------------------------------------------


def _find_user(actions: Sequence[Plain], shop: Plain) -> str | None:
    """Return whom the actions are about, those first that change something; None without a shop.

    Whose order it is counts more than whom a look-up finds: some have the name of another customer.
    """
    users, orders = shop.get("users", {}), shop.get("orders", {})
    arguments = [each.get("arguments") or {} for each in actions]
    named = [orders.get(given.get("order_id"), {}).get("user_id") for given in arguments]
    named += [given.get("user_id") for given in arguments]
    named += [
        user_id for given in arguments for user_id in users if _is_meant(users[user_id], given)
    ]
    return next((str(each) for each in named if each in users), None)


def _is_meant(user: Plain, given: Plain) -> bool:
    """Whether a look-up by address, or by name and ZIP code, finds a user."""
    names = {"first_name": given.get("first_name"), "last_name": given.get("last_name")}
    lives_at = (user.get("address") or {}).get("zip")
    return given.get("email") == user["email"] or (
        user["name"] == names and given.get("zip") == lives_at
    )


def _address_of(actions: Sequence[Plain]) -> str:
    given = [(each.get("arguments") or {}).get("email") for each in actions]
    return str(next(filter(None, given), "customer@example.com"))


def _orders(user_id: str, shop: Plain) -> Iterator[dict[str, Any]]:
    """Yield a customer's orders as an orders file has them."""
    user = shop["users"][user_id]
    name = " ".join((user["name"]["first_name"], user["name"]["last_name"]))
    for order in (shop["orders"][each] for each in user["orders"]):
        status = _STATUS.get(str(order["status"]).partition(" ")[0], "delivered")
        yield {
            "order_id": order["order_id"].removeprefix("#"),
            "customer": {"email": user["email"], "name": name},
            "currency": "USD",
            "placed_at": (START - timedelta(days=9)).isoformat(),
            "delivered_at": (START - timedelta(days=5)).isoformat()
            if status == "delivered"
            else None,
            "status": status,
            "items": list(_lines(order["items"])),
            "payments": list(_payments(order)),
        }


def _lines(items: Sequence[Plain]) -> Iterator[dict[str, Any]]:
    counts = Counter(each["item_id"] for each in items)
    for item in {each["item_id"]: each for each in items}.values():
        yield {
            "item_id": item["item_id"],
            "name": item["name"],
            "quantity": counts[item["item_id"]],
            "unit_price": f"{item['price']:.2f}",
        }


def _payments(order: Plain) -> Iterator[dict[str, Any]]:
    paid = [each for each in order["payment_history"] if each["transaction_type"] == "payment"]
    for number, each in enumerate(paid, start=1):
        method = str(each["payment_method_id"]).partition("_")[0]
        yield {
            "payment_id": f"{order['order_id'].removeprefix('#')}-{number}",
            "method": _METHODS.get(method, method),
            "amount": f"{each['amount']:.2f}",
        }
