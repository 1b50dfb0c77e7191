"""Is what a sentence says of a discount true? It may tell of one that was given, and of nothing else.

The words of the discount are taken out; what is left must give nothing, and the percentages be right.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from mailagent.agent.reply.assertion import Kind
from mailagent.agent.reply.claims import find_claims

# Of how many percent, in digits or otherwise: "ten percent" cannot be compared, so it is not right.
_PERCENT = re.compile(
    r"([^\s(]+) ?(?:%|percent\b|per cent\b|prozent\b|pour ?cent\b|por ciento\b)", re.IGNORECASE
)
_DISCOUNT = re.compile(
    r"\d+ ?(?:%|percent|per cent|prozent|pour ?cent|por ciento)(?: off\b)?"
    r"|\b(?:discount(?:s| codes?)?|codes?|coupons?(?: codes?)?|courtesy|gesture of goodwill|goodwill"
    r"|rabatt\w*|nachlass|gutscheincodes?|kulanz\w*"
    r"|codes? promo|remises?|réductions?|geste commercial"
    r"|descuentos?|códigos?|cupón|gesto comercial)\b",
    re.IGNORECASE,
)


def is_true_discount(sentence: str, percents: Collection[int]) -> bool:
    """Say whether `sentence`, which gives something, gives only a discount of one of `percents`."""
    said = [match[1] for match in _PERCENT.finditer(sentence)]
    if not percents or any(each not in map(str, percents) for each in said):
        return False
    rest = _DISCOUNT.sub(" ", sentence)
    return all(claim.kind is not Kind.GIFT for claim in find_claims(rest))
