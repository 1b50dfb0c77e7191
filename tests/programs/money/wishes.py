"""What a hostile model may say: any tool with any arguments, near the schema or far from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.tool_calls import CREDIT_SCHEMAS

GARBAGE = st.sampled_from(
    ["", "{", "null", "[]", '"W1"', "{}", '{"order_id": 7}', '{"order_id": "' + "W" * 9_999 + '"}']
)


def calls(order_ids: Sequence[str], item_ids: Sequence[str]) -> st.SearchStrategy[tuple[str, str]]:
    """Return names and arguments of calls, most of them with ids that exist somewhere."""
    fitting = [
        st.tuples(st.just(str(tool["name"])), _arguments(tool["parameters"], order_ids, item_ids))
        for tool in CREDIT_SCHEMAS
    ]
    names = st.sampled_from([*(str(tool["name"]) for tool in CREDIT_SCHEMAS), "pay_me", ""])
    wild = st.tuples(names, GARBAGE)
    return st.one_of(*fitting, *fitting, wild)


def items_of(ids: Sequence[str], quantity: int | None) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return wishes for some items of an order, `quantity` of each (None: all that are left)."""
    some = st.lists(st.sampled_from(ids), min_size=1, unique=True)
    return some.map(lambda wanted: [{"item_id": each, "quantity": quantity} for each in wanted])


def _arguments(
    schema: Mapping[str, Any], order_ids: Sequence[str], item_ids: Sequence[str]
) -> st.SearchStrategy[str]:
    ids = {"order_id": order_ids, "item_id": item_ids}
    return _value(schema, ids, "").map(json.dumps)


def _value(
    schema: Mapping[str, Any], ids: Mapping[str, Sequence[str]], name: str
) -> st.SearchStrategy[Any]:
    """Return values for a piece of JSON schema as tools use it; numbers also out of its bounds."""
    if name in ids:
        return st.sampled_from([*ids[name], "W0"])
    if "enum" in schema:
        return st.sampled_from(list(schema["enum"]))
    if "anyOf" in schema:
        return st.one_of(*(_value(each, ids, name) for each in schema["anyOf"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of(*(_of_kind(kind, schema, ids) for kind in kinds))


def _of_kind(
    kind: str, schema: Mapping[str, Any], ids: Mapping[str, Sequence[str]]
) -> st.SearchStrategy[Any]:
    match kind:
        case "object":
            parts = schema.get("properties", {})
            return st.fixed_dictionaries(
                {key: _value(each, ids, key) for key, each in parts.items()}
            )
        case "array":
            return st.lists(_value(schema["items"], ids, ""), min_size=1, max_size=3)
        case "integer" | "number":
            return st.one_of(st.integers(1, 5), st.integers(-1, 101))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return st.text(max_size=20)
