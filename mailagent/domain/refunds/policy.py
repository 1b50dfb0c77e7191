"""The shop's refund policy and its possible decisions. `policy_rules` decides.

Amounts are minor units of their currency. Categories are the shop's own words, compared by `same_word`;
payment methods are as `order.method_word` returns them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from mailagent.domain.deadline import end_of_day
from mailagent.domain.refunds.order import method_labels, with_wider
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.remedy import ASKED_FOR, RemedyKind

_NOTHING: Mapping[str, int] = MappingProxyType({})


class DeclineReason(StrEnum):
    """Why the policy declines a refund. The reply may tell the customer the reason."""

    ORDER_CANCELLED = "order_cancelled"
    CHARGED_BACK = "charged_back"
    NOTHING_LEFT = "nothing_left_to_refund"
    ABOVE_BALANCE = "more_than_is_left_of_the_payment"
    FINAL_SALE = "final_sale"
    WINDOW_CLOSED = "return_window_closed"
    PARCEL_ON_ITS_WAY = "parcel_on_its_way"
    PHOTO_NEEDED = "photo_needed"
    TOO_LATE = "too_late"  # of a remedy: the order is shipped or cancelled


# The reasons about goods that come back. They do not apply if the customer keeps the goods.
ABOUT_GOODS = frozenset(
    {
        DeclineReason.FINAL_SALE,
        DeclineReason.WINDOW_CLOSED,
        DeclineReason.PARCEL_ON_ITS_WAY,
        DeclineReason.PHOTO_NEEDED,
    }
)


class ManagerReason(StrEnum):
    """Why a manager must decide. The manager sees it."""

    ABOVE_LIMIT = "above_limit"
    ABOVE_LIMIT_TOGETHER = "above_limit_with_earlier_refunds"
    NO_LIMIT_FOR_CURRENCY = "no_limit_for_currency"
    NOT_DELIVERED = "order_not_delivered"
    PARCEL_DELIVERED = "parcel_delivered"
    CANCELLED = "order_cancelled_with_money_left"
    REJECTED_BEFORE = "rejected_before"
    EXPIRED_BEFORE = "expired_before"
    CAME_BACK = "came_back_before"
    LEFT_OUT = "left_out_before"
    NOT_SENT_AGAIN = "not_sent_again_before"
    DECLINED_OTHERWISE = "declined_for_another_reason"
    WITHDRAWN_LATER = "withdrawn_later"
    ITEM_AGAIN = "same_item_refunded_before"
    REMAINDER = "part_refunded_elsewhere"
    PAYMENT_SHARED = "payment_of_several_orders"
    FINAL_SALE = "final_sale_at_fault"
    PHOTO_UNSURE = "photo_may_be_logo"
    REASON = "reason_always_asked"
    CATEGORY = "category_always_asked"
    ITEM = "item_always_asked"
    METHOD = "method_always_asked"
    ORDER_CAP = "above_cap_of_order"
    CUSTOMER_CAP = "above_cap_of_customer"
    DAY_CAP = "above_cap_of_day"
    FOUR_EYES = "above_four_eyes"
    DRAFT_MODE = "draft_mode"


# Some of the items were refused before, or a later mail withdrew the request.
REFUSED_BEFORE = (
    ManagerReason.REJECTED_BEFORE,
    ManagerReason.EXPIRED_BEFORE,
    ManagerReason.CAME_BACK,
    ManagerReason.LEFT_OUT,
    ManagerReason.NOT_SENT_AGAIN,
    ManagerReason.DECLINED_OTHERWISE,
    ManagerReason.WITHDRAWN_LATER,
)

# For these reasons the shop is at fault, and a manager decides even on a final sale.
SHOP_AT_FAULT = frozenset(
    {
        RefundReason.DAMAGED,
        RefundReason.WRONG_ITEM,
        RefundReason.NOT_AS_DESCRIBED,
        RefundReason.NOT_DELIVERED,
    }
)


def same_word(word: str) -> str:
    """Return a category in the form that we compare: without capitals and double spaces."""
    return " ".join(word.casefold().split())


@dataclass(frozen=True, slots=True)
class Goodwill:
    """A discount on a later order, which the agent may give once for each order: at most `most_percent`, by a
    code that is valid for `valid_days`."""

    most_percent: int
    valid_days: int = 90


@dataclass(frozen=True, slots=True)
class KeepOffers:
    """Part of the price that the policy offers before a refund, if the customer keeps the items: in percent, by
    reason. A category may have another percentage. The policy makes no offer for a reason that is not listed;
    managers may offer it for any reason."""

    percent_by_reason: Mapping[RefundReason, int]
    percent_by_category: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    valid_days: int = 7

    def percent_for(self, reason: RefundReason, categories: Iterable[str | None]) -> int | None:
        """Return the lowest percentage for items of these categories (None: without a category); None for no
        offer."""
        usual = self.percent_by_reason.get(reason)
        if usual is None:
            return None
        named = self.percent_by_category
        return min(
            (usual if each is None else named.get(same_word(each), usual) for each in categories),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class LateParcels:
    """How the policy decides about a parcel that did not arrive, by days since `Shipment.due_since`. Before
    `ask_after_days` a refund is declined; after it a manager decides; after `refund_after_days` no manager is
    needed. Without `ask_after_days` nothing is declined; without `refund_after_days` a manager always
    decides."""

    ask_after_days: int | None = None
    refund_after_days: int | None = None


@dataclass(frozen=True, slots=True)
class Remedies:
    """What customers may ask for beside refunds. `task_days`: within how many days people of the shop do it.
    `change_address_by_source`: ask the shop's system to change an address before a person does it."""

    offered: frozenset[RemedyKind] = ASKED_FOR
    task_days: int = 3
    change_address_by_source: bool = False

    @property
    def changes_addresses(self) -> bool:
        """Whether we may ask the shop's system to change an address."""
        return self.change_address_by_source and RemedyKind.CHANGE_ADDRESS in self.offered


@dataclass(frozen=True, slots=True)
class ReturnFirst:
    """Refunds for these reasons are paid only when the goods are back. `instructions` tell the customer how to
    send them. They must be back within `days` of the approval, until the end of that day (UTC). For
    `restock_reasons` the shop's platform puts them in stock again."""

    reasons: frozenset[RefundReason]
    instructions: str
    days: int = 14
    restock_reasons: frozenset[RefundReason] = frozenset()


@dataclass(frozen=True, slots=True)
class StoreCredit:
    """Customers may choose store credit instead of money. It is worth `bonus_percent` more."""

    bonus_percent: int = 0


@dataclass(frozen=True, slots=True)
class Cap:
    """How much may be refunded without a manager. `money`: minor units by currency; a currency that it does not
    list has no cap. `count`: how many refunds; None for no cap."""

    money: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    count: int | None = None

    def __bool__(self) -> bool:
        return bool(self.money) or self.count is not None


@dataclass(frozen=True, slots=True)
class CustomerCap(Cap):
    """A cap for what one customer gets within `days`."""

    days: int = 30


@dataclass(frozen=True, slots=True)
class Caps:
    """Above these caps a manager decides: for one order, for one customer, and for the whole shop within 24
    hours."""

    order: Cap = Cap()
    customer: CustomerCap = CustomerCap()
    day: Cap = Cap()


@dataclass(frozen=True, slots=True)
class Draft:
    """What is refunded without a manager in draft mode: up to `unasked_up_to` by currency for one order, and
    for these reasons."""

    unasked_up_to: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    unasked_reasons: frozenset[RefundReason] = frozenset()


@dataclass(frozen=True, slots=True)
class Named:
    """Items that a rule names by id or by category. Only `always_ask` also uses `reasons` and `methods`.
    Categories are as `same_word` returns them, methods as `method_word` does."""

    item_ids: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    reasons: frozenset[RefundReason] = frozenset()
    methods: frozenset[str] = frozenset()

    def has_category(self, category: str | None) -> bool:
        return category is not None and same_word(category) in self.categories

    def has_method(self, method: str) -> bool:
        """Return whether the rule names one of the methods of a payment, or its wider kind."""
        return any(not self.methods.isdisjoint(with_wider(each)) for each in method_labels(method))


@dataclass(frozen=True, slots=True)
class Policy:
    """The shop's rules. `limits`: the largest amount that is refunded without a manager, by currency; a
    currency that is not listed always needs one. Above `four_eyes_above` a second manager must approve after
    the first.

    `return_window_days_by_category`: categories with another return window than `return_window_days`.
    `expected_days`: how many business days a refund takes to arrive, by payment method. `drafts_refunds`: draft
    mode, in which a manager decides on all refunds except those that `draft` lists. Every decision records the
    `version`; `source` is the text of the policy file.
    """

    limits: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            {"USD": 1_000_00, "EUR": 1_000_00, "GBP": 1_000_00}
        )
    )
    return_window_days: int = 30
    four_eyes_above: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    goodwill: Goodwill | None = None
    version: str = "built-in"
    source: str = ""
    return_window_days_by_category: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    final_sale: Named = Named()
    photo_reasons: frozenset[RefundReason] = frozenset()
    always_ask: Named = Named()
    caps: Caps = Caps()
    late_parcels: LateParcels = LateParcels()
    keep_offers: KeepOffers | None = None
    refund_shipping: bool = True
    expected_days: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            # Of cards Stripe says at most ten business days. A gift card can be used again at once.
            {"card": 10, "paypal": 5, "bank_transfer": 5, "gift_card": 0}
        )
    )
    drafts_refunds: bool = False
    draft: Draft = Draft()
    remedies: Remedies = Remedies()
    return_first: ReturnFirst | None = None
    store_credit: StoreCredit | None = None

    def window_days(self, categories: Iterable[str | None] = ()) -> int:
        """Return the shortest return window, in days, of items of these categories (None: without a
        category)."""
        usual = self.return_window_days
        return min(
            (
                usual
                if each is None
                else self.return_window_days_by_category.get(same_word(each), usual)
                for each in categories
            ),
            default=usual,
        )

    def is_final(self, item_id: str, category: str | None) -> bool:
        """Return whether the policy names an item as final sale. Its order line may say so, too: see
        `OrderLine.final_sale`."""
        return item_id in self.final_sale.item_ids or self.final_sale.has_category(category)

    def days_until_arrival(self, method: str) -> int | None:
        """Return in how many business days a refund to these payment methods (see `method_labels`) arrives: the
        slowest counts. None if the policy does not know all of them."""
        days = [self._days(each) for each in method_labels(method)]
        known = [each for each in days if each is not None]
        return max(known) if known and len(known) == len(days) else None

    def _days(self, word: str) -> int | None:
        set_for = [each for each in with_wider(word) if each in self.expected_days]
        return self.expected_days[set_for[0]] if set_for else None


@dataclass(frozen=True, slots=True)
class Approved:
    """Paid without a manager."""


@dataclass(frozen=True, slots=True)
class NeedsManager:
    """A manager decides; with `four_eyes`, a second one after the first."""

    reasons: tuple[ManagerReason, ...]
    four_eyes: bool = False


@dataclass(frozen=True, slots=True)
class Declined:
    """The policy refunds nothing. `ended_at`: when the return window ended, if that is the reason."""

    reason: DeclineReason
    ended_at: datetime | None = None


Decision = Approved | NeedsManager | Declined


def needs_two(reasons: Collection[str]) -> bool:
    """Return whether these reasons of the policy, of a refund or a task, ask for two managers."""
    return ManagerReason.FOUR_EYES in reasons


def return_by(
    delivered_at: datetime, policy: Policy, categories: Iterable[str | None] = ()
) -> datetime:
    """Return until when items of these categories may be returned: the end of a day (UTC); the shortest return
    window counts."""
    try:
        return end_of_day(delivered_at + timedelta(days=policy.window_days(categories)))
    except OverflowError:  # beyond the year 9999, in which some systems write "never"
        return datetime.max.replace(tzinfo=UTC)
