"""A Shopify store on this machine: it runs the queries that it gets against Shopify's own schema."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLResolveInfo,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    build_schema,
    graphql_sync,
    parse,
)
from graphql.execution.values import get_directive_values

from mailagent.adapters.shopify.client import VERSION
from mailagent.adapters.shopify.orders import gid_of, is_manual, payment_id_of
from mailagent.demo.fakes.http_server import Answer, LineCut, LocalServer, Request
from mailagent.domain.money import Money, parse_money
from mailagent.domain.refunds.order import Order, OrderStatus

SCHEMA = build_schema(
    Path(__file__).with_name(f"shopify_{VERSION}.graphql").read_text("utf-8"),
)
Info = GraphQLResolveInfo[Any]
TOKEN = "shpat_17"
APP = "client-17:secret-17"
MOST_COST = 1000
# Shopify's manual payment methods. It records a refund of one, and moves no money.
MANUAL = frozenset({"Bank Deposit", "Money Order", "Cash on Delivery (COD)", "manual"})
PLACE = {"__typename": "Location", "id": "gid://shopify/Location/1"}

Create = Callable[[], Answer]
Fault = Callable[[Create], Answer]

# Of all servers, so that no two have the same ids.
_NUMBERS = itertools.count(1)


@dataclass
class ShopifyServer:
    """Orders by id, in the shape of the schema. `faults`: what it answers next, instead of the truth. A fault
    of `refund_faults` is given the real call of a refund and may make it. `statuses` are what the next refunds
    begin as; `refusal` is why every refund is refused. `in_stock`: how many units of an item were put in stock
    again, as `CANCEL` or `RETURN`; what `untracked` names is not kept in stock. `denies_locations`: we lack
    the scope that shows them. `endless`: every page of orders has all of them, and says that more follow.
    `before`: called with each query; `after_update` with each order whose address was changed."""

    faults: list[Answer] = field(default_factory=list)
    refund_faults: list[Fault] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    refusal: str | None = None
    page_size: int = 250
    endless: bool = False
    scopes: list[str] = field(
        default_factory=lambda: ["write_orders", "read_fulfillments", "read_locations"]
    )
    cancels_after_looks: int = 0
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    keys_used: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=lambda: [TOKEN])
    in_stock: Counter[tuple[str, str]] = field(default_factory=Counter)
    untracked: set[str] = field(default_factory=set)
    denies_locations: bool = False
    before: Callable[[str], None] = lambda _query: None
    after_update: Callable[[dict[str, Any]], None] = lambda _order: None

    def __post_init__(self) -> None:
        self._made: dict[str, tuple[Any, dict[str, Any]]] = {}  # by idempotency key
        self._lock = threading.Lock()
        self._server = LocalServer({"POST /admin/oauth/access_token": self._log_in}, self._answer)
        self.url = self._server.url
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    close = stop

    # --- the store ----------------------------------------------------------------------------------

    def stock(self, *orders: Order) -> None:
        for order in orders:
            fields = self._order(order)
            same = [gid for gid, each in self.orders.items() if each["name"] == order.order_id]
            fields["id"] = same[0] if same else fields["id"]
            self.orders[fields["id"]] = fields

    def named(self, name: str) -> dict[str, Any]:
        """Return the order with a name."""
        return next(each for each in self.orders.values() if each["name"] == name)

    def payment_ids(self, name: str) -> list[str]:
        """Return our names of the payments of an order."""
        paid = ("SALE", "CAPTURE")
        return [
            payment_id_of(x["id"], manual=is_manual(x))
            for x in self.named(name)["transactions"].all
            if x["kind"] in paid
        ]

    @property
    def refunds(self) -> list[dict[str, Any]]:
        """All refunds, of all orders."""
        return [refund for each in self.orders.values() for refund in each["refunds"].all]

    def moved(self) -> list[dict[str, Any]]:
        """Return the transactions of refunds that moved money, or may yet do so."""
        made = [x for refund in self.refunds for x in refund["transactions"].all]
        return [x for x in made if x["status"] not in ("FAILURE", "ERROR")]

    def settle(self, status: str) -> None:
        """Give every refund that is pending another status."""
        for each in self.moved():
            if each["status"] == "PENDING":
                each["status"] = status

    def forget_keys(self) -> None:
        """Forget every idempotency key, as Shopify does after a day."""
        self._made.clear()

    def refund_in_admin(self, name: str, minor: int, note: str | None = None) -> dict[str, Any]:
        """Refund as a person in Shopify's admin would; return the refund."""
        order = self.named(name)
        paid = next(x for x in order["transactions"].all if x["kind"] == "SALE")
        return self.refund_of(paid, Money(minor, order["presentmentCurrencyCode"]), note)

    def refund_of(
        self, paid: dict[str, Any], amount: Money, note: str | None = None
    ) -> dict[str, Any]:
        """Refund a payment, whoever asks; return the refund."""
        return self._make(paid["order"], paid, amount, note)

    def node(self, payment_id: str) -> dict[str, Any]:
        """Return a payment by our name of it."""
        found = self._node(gid_of(payment_id))
        assert found
        return found

    def _gid(self, kind: str) -> str:
        return f"gid://shopify/{kind}/{next(_NUMBERS)}"

    def _order(self, order: Order) -> dict[str, Any]:
        currency = order.currency
        sent = order.status in (OrderStatus.SHIPPED, OrderStatus.DELIVERED)
        cancelled = order.status is OrderStatus.CANCELLED
        lines = [self._line(each) for each in order.lines]
        zero = bag(0, currency)
        shipping, tax = bag(order.shipping_minor, currency), bag(order.tax_minor, currency)
        fields: dict[str, Any] = {
            "__typename": "Order",
            "id": self._gid("Order"),
            "name": order.order_id,
            "email": order.customer_email,
            "billingAddress": {"name": order.customer_name},
            "shippingAddress": address_of(order.customer_name),
            "processedAt": order.placed_at.isoformat(),
            "cancelledAt": order.placed_at.isoformat() if cancelled else None,
            "displayFulfillmentStatus": "FULFILLED" if sent else "UNFULFILLED",
            "presentmentCurrencyCode": currency,
            "taxesIncluded": not order.tax_minor,
            "dutiesIncluded": False,
            "disputes": [],
            **dict.fromkeys(("totalShippingPriceSet", "currentShippingPriceSet"), shipping),
            **dict.fromkeys(("totalTaxSet", "currentTotalTaxSet"), tax),
            "currentTotalPriceSet": bag(order.paid.minor, currency),
            **dict.fromkeys(("originalTotalDutiesSet", "currentTotalDutiesSet"), zero),
            "lineItems": Listed(lines, self),
            "fulfillments": Listed([self._parcel(order, lines)] if sent else [], self, False),
            "refunds": Listed([], self, False),
            "suggestedRefund": lambda _info, **asked: self._suggest(fields, **asked),
        }
        paid = [
            {
                "__typename": "OrderTransaction",
                "id": self._gid("OrderTransaction"),
                "kind": "SALE",
                "status": "SUCCESS",
                "gateway": each.method,
                "manualPaymentGateway": each.method in MANUAL,
                "amountSet": bag(each.amount.minor, currency),
                "parentTransaction": None,
                "order": fields,
            }
            for each in order.payments
        ]
        fields["transactions"] = Listed(paid, self, False)
        return fields

    def _line(self, line: Any) -> dict[str, Any]:
        discount = bag(line.discount_minor, line.unit_price.currency)
        return {
            "id": self._gid("LineItem"),
            "sku": line.item_id,
            "name": line.name,
            "quantity": line.quantity,
            "currentQuantity": line.quantity,
            "isGiftCard": False,
            "originalUnitPriceSet": bag(line.unit_price.minor, line.unit_price.currency),
            "discountAllocations": [{"allocatedAmountSet": discount}] if line.discount_minor else [],
        }  # fmt: skip

    def _parcel(self, order: Order, lines: list[dict[str, Any]]) -> dict[str, Any]:
        delivered_at = order.delivered_at.isoformat() if order.delivered_at else None
        sent = order.placed_at.isoformat()
        contents = [{"quantity": each["quantity"], "lineItem": each} for each in lines]
        return {
            "id": self._gid("Fulfillment"),
            "status": "SUCCESS",
            "displayStatus": "DELIVERED" if delivered_at else "IN_TRANSIT",
            "requiresShipping": True,
            "createdAt": sent,
            "inTransitAt": sent,
            "estimatedDeliveryAt": None,
            "deliveredAt": delivered_at,
            "trackingInfo": [{"company": "DHL", "number": "D17", "url": "https://dhl.example/D17"}],
            "events": Listed([{"happenedAt": delivered_at or sent}], self),
            "fulfillmentLineItems": Listed(contents, self),
        }

    # --- HTTP -----------------------------------------------------------------------------------------

    def _log_in(self, request: Request) -> Answer:
        asked = json.loads(request.body)
        given = f"{asked['client_id']}:{asked['client_secret']}"
        if given != APP or asked["grant_type"] != "client_credentials":
            return Answer(400, {"error": "invalid_client"})
        self.tokens.append(f"token-{next(_NUMBERS)}")
        return Answer(200, {"access_token": self.tokens[-1], "scope": "", "expires_in": 86399})

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if self.faults:
            return self.faults.pop(0)
        if request.headers["X-Shopify-Access-Token"] not in self.tokens:
            return Answer(401, {"errors": "[API] Invalid API key or access token"})
        if request.path != f"/admin/api/{VERSION}/graphql.json":
            return Answer(404, {"errors": "Not Found"})
        asked = json.loads(request.body)
        if "refundCreate" in asked["query"]:
            with self._lock:
                self.keys_used.append(asked["variables"]["key"])
                fault = self.refund_faults.pop(0) if self.refund_faults else None
            return fault(lambda: self._run(asked)) if fault else self._run(asked)
        return self._run(asked)

    def _run(self, asked: dict[str, Any]) -> Answer:
        query, variables = asked["query"], asked["variables"]
        self.before(query)
        cost = cost_of(query, variables)
        if cost > MOST_COST:
            return error("MAX_COST_EXCEEDED", f"Query cost is {cost}, which exceeds the limit")
        with self._lock:
            done = graphql_sync(SCHEMA, query, self._root(), variable_values=variables)
        if done.errors:
            return Answer(200, {"data": done.data, "errors": [x.formatted for x in done.errors]})
        return Answer(200, {"data": done.data})

    def _root(self) -> dict[str, Any]:
        return {
            "orders": self._find,
            "order": lambda _info, id: self.orders.get(id),
            "node": lambda _info, id: self._node(id),
            "currentAppInstallation": {"accessScopes": [{"handle": x} for x in self.scopes]},
            "orderCancel": self._cancel,
            "orderUpdate": self._update,
            "refundCreate": self._refund,
        }

    def _find(self, info: Info, query: str, **pages: Any) -> Any:
        name, _, quoted = query.partition(":")
        text = json.loads(quoted).casefold()
        found = [x for x in self.orders.values() if text in x[name].casefold()]
        found.sort(key=lambda each: str(each["processedAt"]), reverse=pages.pop("reverse"))
        pages.pop("sortKey")
        if self.endless:
            return {"nodes": found, "pageInfo": {"hasNextPage": True, "endCursor": "1"}}
        return Listed(found, self)(info, **pages)

    def _node(self, gid: str) -> dict[str, Any] | None:
        made = (x for order in self.orders.values() for x in order["transactions"].all)
        return next((each for each in made if each["id"] == gid), None)

    def _cancel(self, _info: Info, **asked: Any) -> dict[str, Any]:
        order = self.orders[asked["orderId"]]
        if order["displayFulfillmentStatus"] != "UNFULFILLED":
            wrong = {"code": "INVALID", "message": "Cannot cancel a fulfilled order"}
            return {"orderCancelUserErrors": [wrong]}
        looks = itertools.count()
        late, now = self.cancels_after_looks, order["processedAt"]
        order["cancelledAt"] = lambda _info: now if next(looks) >= late else None
        return {"orderCancelUserErrors": []}

    def _update(self, _info: Info, input: dict[str, Any]) -> dict[str, Any]:
        """Overwrite the address, as Shopify does whatever the order's status is."""
        if self.refusal:
            return {"userErrors": [{"field": ["shippingAddress", "zip"], "message": self.refusal}]}
        order, new = self.orders[input["id"]], dict(input["shippingAddress"])
        current, country = order["shippingAddress"], new.pop("countryCode")
        assert country == current["countryCodeV2"]
        blank = dict.fromkeys(current, None)
        names = {name: current[name] for name in ("name", "country", "countryCodeV2", "province")}
        order["shippingAddress"] = blank | names | new
        self.after_update(order)
        return {"userErrors": []}

    # --- refunds --------------------------------------------------------------------------------------

    def _refund(self, info: Info, input: dict[str, Any]) -> dict[str, Any]:
        directive = SCHEMA.get_directive("idempotent")
        assert directive
        given = get_directive_values(directive, info.field_nodes[0], info.variable_values)
        if not given:
            raise GraphQLError("An idempotency key is required", extensions={"code": "BAD_REQUEST"})
        key = given["key"]
        if key in self._made:
            first, made = self._made[key]
            if first != input:
                return refused(
                    "The same idempotency key cannot be used with different operation parameters."
                )
            return {"refund": made, "userErrors": []}
        order, wanted = self.orders[input["orderId"]], input.get("refundLineItems", [])
        refusal = self.refusal or self._why_not_back(order, wanted)
        if refusal:
            return refused(refusal)
        done = self._make_asked(order, input)
        if isinstance(done, str):
            return refused(done)
        self._take_back(order, wanted)
        self._made[key] = (input, done)
        return {"refund": done, "userErrors": []}

    def _make_asked(self, order: dict[str, Any], input: dict[str, Any]) -> dict[str, Any] | str:
        """Make the refund, of one payment or of none; or return why not."""
        if not input.get("transactions"):
            refund = {"id": self._gid("Refund"), "note": input["note"]}
            order["refunds"].all.append(refund | {"transactions": Listed([], self)})
            return refund | {"transactions": Listed([], self)}
        (asked,) = input["transactions"]
        paid = self._node(asked["parentId"])
        if paid is None:
            return "Parent transaction is not found"
        amount = self._asked(order, paid, asked, input)
        return amount if isinstance(amount, str) else self._make(order, paid, amount, input["note"])

    # --- units that are taken back --------------------------------------------------------------------

    def _suggest(self, order: dict[str, Any], refundLineItems: list[Any]) -> dict[str, Any]:  # noqa: N803 - Shopify's name
        if self.denies_locations:
            words = "Access denied for location field."
            raise GraphQLError(words, extensions={"code": "ACCESS_DENIED"})
        lines = {each["id"]: each for each in order["lineItems"].all}
        suggested = [
            {
                "lineItem": lines[each["lineItemId"]],
                "quantity": each["quantity"],
                "restockType": each["restockType"],
                "location": None if self._is_untracked(lines[each["lineItemId"]]) else PLACE,
            }
            for each in refundLineItems
        ]
        return {"refundLineItems": suggested}

    def _is_untracked(self, line: dict[str, Any]) -> bool:
        return line["sku"] in self.untracked

    def _why_not_back(self, order: dict[str, Any], wanted: list[dict[str, Any]]) -> str | None:
        lines = {each["id"]: each for each in order["lineItems"].all}
        for each in wanted:
            line, kind = lines[each["lineItemId"]], each["restockType"]
            if each["quantity"] > line["currentQuantity"]:
                return "Quantity cannot refund more items than were purchased"
            if kind != "NO_RESTOCK" and each.get("locationId") != PLACE["id"]:
                return "Location must be given"
            if kind == "CANCEL" and order["displayFulfillmentStatus"] != "UNFULFILLED":
                return "Cannot cancel fulfilled items"
        return None

    def _take_back(self, order: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
        lines = {each["id"]: each for each in order["lineItems"].all}
        for each in wanted:
            line = lines[each["lineItemId"]]
            line["currentQuantity"] -= each["quantity"]
            if each["restockType"] != "NO_RESTOCK":
                self.in_stock[line["sku"], each["restockType"]] += each["quantity"]

    def _asked(
        self, order: Any, paid: Any, asked: dict[str, Any], input: dict[str, Any]
    ) -> Money | str:
        currency = order["presentmentCurrencyCode"]
        if input["currency"] != currency:
            return f"Currency must be {currency}"
        if (asked["kind"], asked["gateway"]) != ("REFUND", paid["gateway"]):
            return "Transaction kind or gateway is wrong"
        amount = parse_money(asked["amount"], currency)
        if amount.minor > self.left(paid):
            return "Refund amount is greater than net payment received"
        return amount

    def left(self, paid: dict[str, Any]) -> int:
        """Return what a payment has left, in minor units."""
        given = (x for x in self.moved() if x["parentTransaction"]["id"] == paid["id"])
        return minor_of(paid) - sum(map(minor_of, given))

    def _make(
        self, order: dict[str, Any], paid: dict[str, Any], amount: Money, note: str | None
    ) -> dict[str, Any]:
        made = {
            **paid,
            "id": self._gid("OrderTransaction"),
            "kind": "REFUND",
            "status": self.statuses.pop(0) if self.statuses else "SUCCESS",
            "amountSet": bag(amount.minor, amount.currency),
            "parentTransaction": paid,
        }
        refund = {"id": self._gid("Refund"), "note": note, "transactions": Listed([made], self)}
        order["refunds"].all.append(refund)
        order["transactions"].all.append(made)
        return refund


class Listed:
    """A list or a connection of the schema, by its arguments."""

    def __init__(
        self, found: Sequence[dict[str, Any]], server: ShopifyServer, paged: bool = True
    ) -> None:
        self.all, self._server, self._paged = list(found), server, paged

    def __call__(self, _info: Info, first: int, after: str | None = None, **_sorted: Any) -> Any:
        if not self._paged:
            return self.all[:first]
        begin = int(after or 0)
        end = begin + min(first, self._server.page_size)
        info = {"hasNextPage": end < len(self.all), "endCursor": str(end)}
        return {"nodes": self.all[begin:end], "pageInfo": info}


def address_of(name: str) -> dict[str, Any]:
    """Return a MailingAddress."""
    first, _, last = name.partition(" ")
    known = {"name": name, "firstName": first, "lastName": last, "address1": "1 Old Road"}
    known |= {"zip": "10115", "city": "Berlin", "country": "Germany", "countryCodeV2": "DE"}
    nothing = ("company", "address2", "phone", "province", "provinceCode")
    return {**dict.fromkeys(nothing), **known}


def bag(minor: int, currency: str) -> dict[str, Any]:
    """Return a MoneyBag."""
    amount = {"amount": Money(minor, currency).decimal(), "currencyCode": currency}
    return {"presentmentMoney": amount}


def minor_of(transaction: dict[str, Any]) -> int:
    money = transaction["amountSet"]["presentmentMoney"]
    return int(money["amount"].replace(".", ""))


def cost_of(query: str, variables: dict[str, Any]) -> int:
    """Return the most objects that a query may return: an upper bound of its cost."""
    document = parse(query)
    fragments = {
        each.name.value: each.selection_set
        for each in document.definitions
        if isinstance(each, FragmentDefinitionNode)
    }

    def first_of(node: FieldNode) -> int:
        for argument in node.arguments or ():
            if argument.name.value == "first" and isinstance(argument.value, IntValueNode):
                return int(argument.value.value)
            if argument.name.value == "first" and isinstance(argument.value, VariableNode):
                return int(variables[argument.value.name.value])
        return 1

    def cost(selected: SelectionSetNode, times: int) -> int:
        total = 0
        for each in selected.selections:
            if isinstance(each, FieldNode) and each.selection_set:
                total += times + cost(each.selection_set, times * first_of(each))
            elif not isinstance(each, FieldNode):
                inner = getattr(each, "selection_set", None) or fragments[each.name.value]  # type: ignore[attr-defined]  # a spread has a name
                total += cost(inner, times)
        return total

    operations = (x for x in document.definitions if isinstance(x, OperationDefinitionNode))
    return sum(cost(each.selection_set, 1) for each in operations)


# --- answers --------------------------------------------------------------------------------------


def refused(why: str) -> dict[str, Any]:
    return {"refund": None, "userErrors": [{"field": ["input"], "message": why}]}


def error(code: str, message: str, **more: Any) -> Answer:
    """Return an error in Shopify's form: in the body of a 200."""
    body = {"errors": [{"message": message, "extensions": {"code": code}, **more}]}
    return Answer(200, body)


def throttled(_create: Create) -> Answer:
    found = error("THROTTLED", "Throttled").value
    assert isinstance(found, dict)
    status = {"maximumAvailable": 2000.0, "currentlyAvailable": 100, "restoreRate": 100.0}
    cost = {"requestedQueryCost": 800, "actualQueryCost": None, "throttleStatus": status}
    return Answer(200, found | {"extensions": {"cost": cost}})


def lost_before(_create: Create) -> Answer:
    raise LineCut


def lost_after(create: Create) -> Answer:
    create()
    raise LineCut


def made_but_500(create: Create) -> Answer:
    create()
    return Answer(500, {"errors": "Internal Server Error"})


def made_but_error(create: Create) -> Answer:
    create()
    return error("INTERNAL_SERVER_ERROR", "Internal error. Looks like something went wrong")


def denied(_create: Create) -> Answer:
    return error("ACCESS_DENIED", "Access denied for refundCreate field.", path=["refundCreate"])


def in_use(_create: Create) -> Answer:
    words = "This request is currently in progress, please try again."
    return Answer(200, {"data": {"refundCreate": refused(words)}})


def no_key(_create: Create) -> Answer:
    return Answer(401, {"errors": "[API] Invalid API key or access token"})


def moved_away(_create: Create) -> Answer:
    return Answer(302, None, {"Location": "/elsewhere"})
