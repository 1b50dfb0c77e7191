"""The policy file: what every key becomes, and how what is wrong is told with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mailagent.adapters.policy_files.policy_file import PolicyFileProblem, load_policy, parse_policy
from mailagent.domain.refunds.policy import Cap, Caps, Goodwill, Named, Policy, Unasked
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
        category_windows={"shoes": 60, "electronics": 14},
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
            customer=Cap({"USD": 500_00, "EUR": 500_00, "JPY": 75_000}, 5),
            customer_days=90,
            day=Cap({"USD": 5_000_00, "EUR": 5_000_00, "JPY": 750_000}, 200),
        ),
        refund_shipping=True,
        expected_days={"card": 10, "gift_card": 1},
        unasked=Unasked({"USD": 50_00, "EUR": 50_00}, frozenset({RefundReason.WRONG_ITEM})),
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
        ("\nreturn_window_days = 3651", "line 2: return_window_days is 3651; give whole days from 0"),
        ("return_window_days = true", "line 1: return_window_days is True"),
        ("\n\nwindow = 3", "line 3: unknown key 'window'; known are always_ask, "),
        ("[caps]\n[caps.week]\ncount = 1", "line 2: unknown key 'week' in caps; known are customer"),
        ("caps.order.amount = 3", "line 1: unknown key 'amount' in caps.order"),
        ("[caps.order]", "line 1: caps.order caps nothing; write money or count"),
        ("[caps.day]\nmoney = {}", "line 2: caps.day.money caps nothing; write an amount into it"),
        ("[caps.day]\ncount = 1\nmoney = {}", "line 3: caps.day.money caps nothing"),
        ("caps.day.count = -1", "line 1: caps.day.count is -1; give a whole number from 0"),
        ("[caps.customer]\ncount = 2\ndays = 0", "line 3: caps.customer.days is 0; give whole days from 1"),
        (
            '[limits]\nUSD = "1"\nEUR = "1"\n[caps.day]\n\nmoney = { USD = "9" }',
            "line 6: caps.day.money does not say EUR, which is refunded without asking; add it",
        ),
        ('[limits]\nUSD = "1"\nJPY = "9.5"', "line 3: limits.JPY: '9.5' has more decimals than JPY has (0)"),
        ("[limits]\nUSD = 1000", 'line 2: limits.USD: 1000 is not an amount; write it as a decimal string'),
        ('[limits]\nUSD = "-1"', "line 2: limits.USD: '-1' is not an amount"),
        ('[limits]\nUDS = "1"', "line 2: limits.UDS: UDS is no currency of ISO 4217"),
        ("limits = 3", "line 1: limits is 3; it must be a table of currencies"),
        ('[four_eyes_above]\nUSD = "999.99"', "line 2: four_eyes_above.USD is below the limit"),
        ("photo_reasons = 'damaged'", "line 1: photo_reasons is 'damaged'; write a list like"),
        (
            'photo_reasons = [\n  "damaged",\n  "brokn",\n]',
            "line 3: photo_reasons[2] is 'brokn'; the reasons are damaged, wrong_item, ",
        ),
        ('photo_reasons = ["not_delivered"]', "line 1: photo_reasons has not_delivered, of which nobody"),
        (
            '[always_ask]\nreasons = ["other",\n"other"]',
            "line 3: always_ask.reasons[2] is 'other' again; leave one out",
        ),
        ('[final_sale]\nreasons = ["other"]', "line 2: unknown key 'reasons' in final_sale; known are"),
        ('[final_sale]\nitem_ids = [7]', "line 2: final_sale.item_ids[1] is 7; write a text of one line"),
        (
            '[return_window_days_by_category]\nshoes = 3\n"Shoes " = 4',
            "line 3: 'Shoes ' stands here in two ways of writing; leave it out",
        ),
        ("[expected_days]\ncard = 91", "line 2: expected_days.card is 91; give whole days from 0 to 90"),
        (
            '[limits]\nEUR = "5"\n[draft]\nrefunds_above = { EUR = "5.01" }',
            "line 4: draft.refunds_above.EUR is above the limit of what is refunded without asking",
        ),
        ('[draft]\nrefunds_above = { CHF = "5" }', "line 2: draft.refunds_above.CHF is above the limit"),
        ('[draft]\nunasked_reasons = ["brokn"]', "line 2: draft.unasked_reasons[1] is 'brokn'; the"),
        ("[draft]\nreasons = []", "line 2: unknown key 'reasons' in draft; known are refunds_above, "),
        ("[goodwill]\nvalid_days = 9", "line 1: goodwill has no most_percent"),
        ("[goodwill]\nmost_percent = 101", "line 2: goodwill.most_percent is 101; give a whole percentage"),
        ("refund_shipping = 1", "line 1: refund_shipping is 1; write true or false"),
        ("version = ''", "line 1: version is ''; write a text of one line"),
        ("a = 1\n[limits", "line 2: "),
        ("a = 1\na = 2", "line 2: Cannot overwrite a value"),
        ('a = """\n\n', "line 1: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(PolicyFileProblem) as raised:
        parse_policy(text)
    (problem,) = raised.value.problems
    assert problem.startswith(complaint)


def test_every_problem_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("window = 1\nrefund_shipping = 0\n[limits]\nusd = '1'\n", "utf-8")
    with pytest.raises(PolicyFileProblem) as raised:
        load_policy(path)
    heads = [problem.partition(": ")[0] for problem in raised.value.problems]
    assert heads == [f"{path}, line {number}" for number in (1, 2, 4)]


def test_a_file_from_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b'\xef\xbb\xbfreturn_window_days = 14\r\n[limits]\r\nEUR = "250.00"\r\n')
    policy = load_policy(path)
    assert (policy.return_window_days, dict(policy.limits)) == (14, {"EUR": 250_00})
