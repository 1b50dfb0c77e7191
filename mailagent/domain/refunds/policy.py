"""The shop's refund policy and its possible decisions. `policy_rules` decides.

Amounts are minor units of their currency. Categories are the shop's own words, compared without regard
to capitals; payment methods are as `order.method_word` returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from mailagent.domain.refunds.order import method_labels, with_wider
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.remedy import ASKED_FOR, RemedyKind

_NOTHING: Mapping[str, int] = MappingProxyType({})


class DeclineReason(StrEnum):
    """Why the policy declines a refund; the model may tell the customer."""

    ORDER_CANCELLED = "order_cancelled"
    CHARGED_BACK = "charged_back"
    NOTHING_LEFT = "nothing_left_to_refund"
    ABOVE_BALANCE = "more_than_is_left_of_the_payment"
    FINAL_SALE = "final_sale"
    WINDOW_CLOSED = "return_window_closed"
    PARCEL_ON_ITS_WAY = "parcel_on_its_way"
    PHOTO_NEEDED = "photo_needed"
    TOO_LATE = "too_late"  # of a remedy: the order is shipped or cancelled


# These concern goods that come back.
ABOUT_GOODS = frozenset(
    {
        DeclineReason.FINAL_SALE,
        DeclineReason.WINDOW_CLOSED,
        DeclineReason.PARCEL_ON_ITS_WAY,
        DeclineReason.PHOTO_NEEDED,
    }
)


class ManagerReason(StrEnum):
    """Why a manager must decide; shown to the manager."""

    ABOVE_LIMIT = "above_limit"
    ABOVE_LIMIT_TOGETHER = "above_limit_with_earlier_refunds"
    NO_LIMIT_FOR_CURRENCY = "no_limit_for_currency"
    NOT_DELIVERED = "order_not_delivered"
    PARCEL_DELIVERED = "parcel_delivered"
    CANCELLED = "order_cancelled_with_money_left"
    REFUSED_BEFORE = "refused_before"
    ITEM_AGAIN = "same_item_refunded_before"
    REMAINDER = "part_refunded_elsewhere"
    PAYMENT_SHARED = "payment_of_several_orders"
    FINAL_SALE = "final_sale_at_fault"
    REASON = "reason_always_asked"
    CATEGORY = "category_always_asked"
    ITEM = "item_always_asked"
    METHOD = "method_always_asked"
    ORDER_CAP = "above_cap_of_order"
    CUSTOMER_CAP = "above_cap_of_customer"
    DAY_CAP = "above_cap_of_day"
    FOUR_EYES = "above_four_eyes"
    DRAFT_MODE = "draft_mode"


# If the shop is at fault, a manager decides on a final sale.
SHOP_AT_FAULT = frozenset(
    {
        RefundReason.DAMAGED,
        RefundReason.WRONG_ITEM,
        RefundReason.NOT_AS_DESCRIBED,
        RefundReason.NOT_DELIVERED,
    }
)


def same_word(word: str) -> str:
    """Return a category as it is compared."""
    return " ".join(word.casefold().split())


@dataclass(frozen=True, slots=True)
class Goodwill:
    """A discount on the next order that the agent may give, once per order: at most `most_percent`, by a
    code that is valid for `valid_days`."""

    most_percent: int
    valid_days: int = 90


@dataclass(frozen=True, slots=True)
class KeepOffers:
    """Part of the price that is offered first, if the customer keeps the items: in percent by reason, and by
    category for items of one. A reason that is not listed has no offer. Managers may offer it in any case."""

    percent_by_reason: Mapping[RefundReason, int]
    percent_by_category: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    valid_days: int = 7

    def percent_for(self, reason: RefundReason, categories: Iterable[str | None]) -> int | None:
        """Return the lowest percentage of items of these categories; None for no offer."""
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
    """What is done about a parcel that did not arrive, in days since it was due (`Shipment.due_since`): the
    customer waits, after `ask_after_days` a manager decides, after `refund_after_days` it is refunded without
    asking. None for never: without `ask_after_days` the customer does not wait, without
    `refund_after_days` a manager always decides."""

    ask_after_days: int | None = None
    refund_after_days: int | None = None


@dataclass(frozen=True, slots=True)
class Remedies:
    """What customers may ask for beside refunds, and within how many days people of the shop do it.
    `change_address_by_source`: without a person, where the shop's system can."""

    offered: frozenset[RemedyKind] = ASKED_FOR
    task_days: int = 3
    change_address_by_source: bool = False

    @property
    def changes_addresses(self) -> bool:
        """Whether the shop's system may be asked to change an address."""
        return self.change_address_by_source and RemedyKind.CHANGE_ADDRESS in self.offered


@dataclass(frozen=True, slots=True)
class ReturnFirst:
    """Refunds for these reasons are paid when the goods are back. `instructions` tell the customer how to send
    them, within `days` of the approval. For `restock_reasons` they are put in stock again."""

    reasons: frozenset[RefundReason]
    instructions: str
    days: int = 14
    restock_reasons: frozenset[RefundReason] = frozenset()


@dataclass(frozen=True, slots=True)
class StoreCredit:
    """Customers may choose store credit instead of money; it is worth so many percent more."""

    bonus_percent: int = 0


@dataclass(frozen=True, slots=True)
class Cap:
    """How much may be refunded without a manager: `money` by currency, and the `count` of refunds. A currency
    that `money` does not list has no cap, nor has a `count` of None."""

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
    """Items that a rule names one by one or by category. The rule of what always needs a manager also names
    reasons and payment methods. `same_word` returns the categories, `method_word` the methods."""

    item_ids: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    reasons: frozenset[RefundReason] = frozenset()
    methods: frozenset[str] = frozenset()

    def has_category(self, category: str | None) -> bool:
        return category is not None and same_word(category) in self.categories

    def has_method(self, method: str) -> bool:
        """Return whether one of the methods of a payment is named, or its wider kind."""
        return any(not self.methods.isdisjoint(with_wider(each)) for each in method_labels(method))


@dataclass(frozen=True, slots=True)
class Policy:
    """The shop's rules. `limits` maps a currency to the largest amount that is refunded without a manager;
    a currency that is not listed always needs one. Above `four_eyes_above` a second manager must approve
    after the first.

    `return_window_days_by_category` are the return windows that differ; `expected_days` says by payment method
    how long money takes to arrive. Decisions record the `version`; `source` is the text of
    the policy. `drafts_refunds`: only `draft` is refunded without a manager.
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
        """Return the shortest return window of items of these categories, by default the usual one."""
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
        """Return whether the policy names an item as final sale; its order line may say so as well."""
        return item_id in self.final_sale.item_ids or self.final_sale.has_category(category)

    def days_until_arrival(self, method: str) -> int | None:
        """Return in how many days money refunded by a payment method arrives, if the policy says so. Of
        several methods, return the slowest, if the policy knows all of them."""
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
    """Nothing is refunded. `ended_at`: when the return window ended, if that is the reason."""

    reason: DeclineReason
    ended_at: datetime | None = None


Decision = Approved | NeedsManager | Declined


def return_by(
    delivered_at: datetime, policy: Policy, categories: Iterable[str | None] = ()
) -> datetime:
    """Return until when items of these categories may be returned, by the shortest of their windows."""
    try:
        return delivered_at + timedelta(days=policy.window_days(categories))
    except OverflowError:  # beyond the year 9999, in which some systems write "never"
        return datetime.max.replace(tzinfo=UTC)
