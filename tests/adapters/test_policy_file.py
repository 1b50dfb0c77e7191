"""The policy file: what every key becomes, and how what is wrong is told with its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mailagent.adapters.policy_file import PolicyFileProblem, load_policy, parse_policy
from mailagent.domain.refunds.policy import (
    Cap,
    Caps,
    CustomerCap,
    Draft,
    Goodwill,
    KeepOffers,
    LateParcels,
    Named,
    Policy,
    Remedies,
    ReturnFirst,
    StoreCredit,
)
from mailagent.domain.refunds.refund import RefundReason

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "policy.md"


def example() -> str:
    """Return the example that the document shows."""
    found = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_document_has_every_key() -> None:
    text = example()
    assert parse_policy(text) == Policy(
        limits={"USD": 200_00, "EUR": 200_00, "JPY": 30_000},
        return_window_days=30,
        four_eyes_above={"USD": 2_000_00, "EUR": 2_000_00},
        goodwill=Goodwill(most_percent=15, valid_days=60),
        version="2026-11",
        source=text,
        return_window_days_by_category={"shoes": 60, "electronics": 14},
        final_sale=Named(frozenset({"GIFT-25"}), frozenset({"underwear"})),
        photo_reasons=frozenset({RefundReason.DAMAGED, RefundReason.WRONG_ITEM}),
        always_ask=Named(
            frozenset({"PIANO-1"}),
            frozenset({"furniture"}),
            frozenset({RefundReason.NOT_DELIVERED}),
            frozenset({"gift_card"}),
        ),
        caps=Caps(
            order=Cap({"USD": 200_00, "EUR": 200_00, "JPY": 30_000}, 3),
            customer=CustomerCap({"USD": 500_00, "EUR": 500_00, "JPY": 75_000}, 5, days=90),
            day=Cap({"USD": 5_000_00, "EUR": 5_000_00, "JPY": 750_000}, 200),
        ),
        refund_shipping=True,
        expected_days={"card": 10, "gift_card": 1},
        draft=Draft({"USD": 50_00, "EUR": 50_00}, frozenset({RefundReason.WRONG_ITEM})),
        keep_offers=KeepOffers(
            {RefundReason.DAMAGED: 30, RefundReason.NOT_AS_DESCRIBED: 20}, {"furniture": 40}
        ),
        store_credit=StoreCredit(10),
        remedies=Remedies(change_address_by_source=True),
        late_parcels=LateParcels(ask_after_days=5, refund_after_days=14),
        return_first=ReturnFirst(
            frozenset({RefundReason.CHANGED_MIND, RefundReason.OTHER}),
            "Send it to 1 Shop Street.",
            14,
            frozenset({RefundReason.CHANGED_MIND}),
        ),
    )


def test_what_is_left_out_is_as_it_is_built_in() -> None:
    built_in, read = Policy(), parse_policy("")
    for name in Policy.__slots__:
        if name != "version":
            assert getattr(read, name) == getattr(built_in, name), name


def test_without_a_name_the_text_names_the_version() -> None:
    one, other = parse_policy(""), parse_policy("# changed\n")
    assert one.version != other.version
    assert one.version == parse_policy("").version
    assert re.fullmatch(r"sha256-[0-9a-f]{16}", one.version)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("return_window_days = 3651", "return_window_days: 3651 is refused; it should be less"),
        ("return_window_days = true", "return_window_days: True is refused; it should be a valid int"),
        ("return_window_days = nan", "return_window_days: nan is refused"),
        ("return_window_days = 30.0", "return_window_days: 30.0 is refused"),
        ("return_window_days = '30'", "return_window_days: '30' is refused"),
        (f"return_window_days = 0x{'f' * 5000}", "return_window_days: what stands there is refused"),
        (f"return_window_days = {'9' * 5000}", "is not TOML: "),
        ("window = 3", "the file: unknown key 'window'; known are always_ask, "),
        ("[caps]\n[caps.week]\ncount = 1", "caps: unknown key 'week'; known are customer, day"),
        ("caps.order.amount = 3", "caps.order: unknown key 'amount'; known are count, money"),
        ("caps.customer.amount = 3", "caps.customer: unknown key 'amount'; known are count, days"),
        ("[caps.order]", "caps.order: has neither money nor count"),
        ("[caps.customer]\ndays = 9", "caps.customer: has neither money nor count"),
        ("[caps.day]\nmoney = {}", "caps.day: has neither money nor count"),
        ("caps.day.count = -1", "caps.day.count: -1 is refused; it should be greater than or equal to 0"),
        ("[caps.customer]\ncount = 2\ndays = 0", "caps.customer.days: 0 is refused; it should be greater"),
        (
            '[limits]\nUSD = "1"\nEUR = "1"\n[caps.day]\n\nmoney = { USD = "9" }',
            "caps.day.money: has no EUR, which is refunded without a manager; add it",
        ),
        ('[limits]\nUSD = "1"\nJPY = "9.5"', "limits.JPY: '9.5' has more decimals than JPY has (0)"),
        ("[limits]\nUSD = 1000", "limits.USD: 1000 is not an amount; write it as a decimal string"),
        ('[limits]\nUSD = "-1"', "limits.USD: '-1' is not an amount"),
        ('[limits]\nUSD = "1e3"', "limits.USD: '1e3' is not an amount"),
        ('[limits]\nUDS = "1"', "limits.UDS: UDS is no currency of ISO 4217"),
        ('[limits]\n"U\\nS" = "1"', r"limits.'U\nS': 'U\nS' is not a currency"),
        ("limits = 3", "limits: is not an object with keys: 3"),
        ("caps = 3", "caps: is not an object with keys: 3"),
        ('[four_eyes_above]\nUSD = "999.99"', "four_eyes_above.USD: is below the limit"),
        ("photo_reasons = 'damaged'", "photo_reasons: 'damaged' is refused; it should be a valid list"),
        (
            'photo_reasons = [\n  "damaged",\n  "brokn",\n]',
            "photo_reasons[2]: 'brokn' is refused; it should be 'damaged', 'wrong_item', ",
        ),
        ('photo_reasons = ["not_delivered"]', "photo_reasons: not_delivered can have no photo"),
        (
            '[always_ask]\nreasons = ["other",\n"other"]',
            "always_ask.reasons: has other more than once; remove one",
        ),
        (
            '[always_ask]\ncategories = ["Shoes", "shoes "]',
            "always_ask.categories: has shoes more than once; remove one",
        ),
        ('[final_sale]\nreasons = ["other"]', "final_sale: unknown key 'reasons'; known are"),
        ("[final_sale]\nitem_ids = [7]", "final_sale.item_ids[1]: 7 is refused; it should be a valid str"),
        ('[final_sale]\nitem_ids = ["A\\u0007"]', r"final_sale.item_ids[1]: 'A\x07' is not a text of one"),
        (f"[final_sale]\nitem_ids = ['{'A' * 501}']", "final_sale.item_ids[1]: 'AAAAA"),
        (
            '[return_window_days_by_category]\nshoes = 3\n"Shoes " = 4',
            "return_window_days_by_category: the key 'Shoes ' is empty or a duplicate",
        ),
        ('[return_window_days_by_category]\n" " = 4', "return_window_days_by_category: the key ' ' is"),
        ("[expected_days]\ncard = 91", "expected_days.card: 91 is refused; it should be less than"),
        (
            '[limits]\nEUR = "5"\n[draft]\nrefunds_above = { EUR = "5.01" }',
            "draft.refunds_above.EUR: is above the limit for refunds without a manager",
        ),
        ('[draft]\nrefunds_above = { CHF = "5" }', "draft.refunds_above.CHF: is above the limit"),
        ('[draft]\nunasked_reasons = ["brokn"]', "draft.unasked_reasons[1]: 'brokn' is refused; it"),
        ("[draft]\nreasons = []", "draft: unknown key 'reasons'; known are refunds_above, "),
        ("[remedies]\noffered = ['cake']", "remedies.offered[1]: 'cake' is refused"),
        ("[remedies]\noffered = ['return']", "remedies.offered[1]: 'return' is set by the table"),
        ("[return_first]\nreasons = []", "return_first: 'instructions' is missing"),
        (
            '[return_first]\nreasons = ["not_delivered"]\ninstructions = "x"',
            "return_first.reasons: not_delivered cannot come back",
        ),
        (
            '[return_first]\nreasons = ["other"]\ninstructions = "x"\nrestock_reasons = ["damaged"]',
            "return_first.restock_reasons: damaged is not in its reasons",
        ),
        (
            "[remedies]\nchange_address_by_source = 1",
            "remedies.change_address_by_source: 1 is neither true nor false",
        ),
        ("[remedies]\ntask_days = 0", "remedies.task_days: 0 is refused"),
        ("[goodwill]\nvalid_days = 9", "goodwill: 'most_percent' is missing"),
        ("[goodwill]\nmost_percent = 101", "goodwill.most_percent: 101 is refused; it should be less"),
        ("[store_credit]\nbonus_percent = 101", "store_credit.bonus_percent: 101 is"),
        ("[store_credit]\nbonus = 10", "store_credit: unknown key 'bonus'"),
        ("[keep_offers.percent_by_reason]\ndamaged = 100",
            "keep_offers.percent_by_reason.damaged: 100 is"),
        ("[keep_offers.percent_by_reason]\ndamaged = 0",
            "keep_offers.percent_by_reason.damaged: 0 is refused"),
        ("[keep_offers.percent_by_reason]\nnot_delivered = 9",
            "keep_offers.percent_by_reason: not_delivered has"),
        ("[late_parcels]\nask_after_days = -1", "late_parcels.ask_after_days: -1 is refused"),
        ("[late_parcels]\nask_after_days = 5\nrefund_after_days = 4",
            "late_parcels.refund_after_days: is below ask_after_days; write at least that"),
        ("[goodwill]\nmost_percent = true", "goodwill.most_percent: True is refused"),
        ("refund_shipping = 1", "refund_shipping: 1 is neither true nor false"),
        ("version = ''", "version: '' is not a text of one line"),
        (f"version = '{'v' * 81}'", "version: 'vvvvv"),
        ("a = 1\n[limits", "is not TOML: Expected ']'"),
        ("a = 1\na = 2", "is not TOML: Cannot overwrite a value"),
        ('a = """\n\n', "is not TOML: Unterminated string"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_key(text: str, complaint: str) -> None:
    with pytest.raises(PolicyFileProblem) as raised:
        parse_policy(text)
    (problem,) = raised.value.problems
    assert problem.startswith(complaint)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("window = 1\nrefund_shipping = 0\n[limits]\nusd = '1'\nEUR = 5\n", "utf-8")
    with pytest.raises(PolicyFileProblem) as raised:
        load_policy(path)
    heads = [problem.partition(": ")[0] for problem in raised.value.problems]
    keys = ("refund_shipping", "limits.usd", "limits.EUR", "the file")
    assert heads == [f"{path}, {key}" for key in keys]


def test_a_file_from_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b'\xef\xbb\xbfreturn_window_days = 14\r\n[limits]\r\nEUR = "250.00"\r\n')
    policy = load_policy(path)
    assert (policy.return_window_days, dict(policy.limits)) == (14, {"EUR": 250_00})
