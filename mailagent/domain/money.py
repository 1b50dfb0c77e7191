"""Money: whole minor units of one currency. `adapters.templates` formats it for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

# ISO 4217, table A.1, as of 2026, without funds (CLF), metals (XAU) and test codes (XTS). Replaced currencies
# (HRK, BGN, ANG) are in table A.3.
CURRENCIES = frozenset(
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF"
    " CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ"
    " GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP"
    " LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR"
    " PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC"
    " SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF"
    " XPF YER ZAR ZMW ZWG".split()
)
# The currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF".split(), 0),
    **dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3),
}

# The signs before amounts in English (Unicode CLDR). Other currencies have their code and a space.
_SIGNS = {
    "AUD": "A$", "BRL": "R$", "CAD": "CA$", "CNY": "CN¥", "EUR": "€", "GBP": "£", "HKD": "HK$", "ILS": "₪",
    "INR": "₹", "JPY": "¥", "KRW": "₩", "MXN": "MX$", "NZD": "NZ$", "PHP": "₱", "TWD": "NT$", "USD": "$",
    "VND": "₫", "XAF": "FCFA\u00a0", "XCD": "EC$", "XCG": "Cg.", "XOF": "F\u00a0CFA\u00a0",
    "XPF": "CFPF\u00a0",
}  # fmt: skip

_CODE = re.compile(r"[A-Z]{3}")
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?")


# The smallest amount that a card can pay or give back, in minor units (https://docs.stripe.com/currencies).
_STEPS = {**dict.fromkeys("BHD JOD KWD OMR TND".split(), 10), "MGA": 100}


def round_down(minor: int, currency: str, *paid: int) -> int:
    """Return an amount in minor units, rounded down to an amount that a card can give back.

    It is not rounded if one of the `paid` amounts has a finer unit: then the customer did not pay by card.
    """
    step = step_of(currency).minor
    return minor if any(each % step for each in paid) else minor // step * step


def step_of(currency: str) -> Money:
    """Return the smallest amount that a card can give back."""
    return Money(_STEPS.get(currency, 1), currency)


def exponent(currency: str) -> int:
    """Return how many decimals amounts of `currency` (ISO 4217 code) have."""
    return _EXPONENTS.get(currency, 2)


@dataclass(frozen=True, slots=True, order=True)
class Money:
    """An amount in minor units (cents for USD, whole yen for JPY)."""

    minor: int
    currency: str

    def __add__(self, other: Money) -> Money:
        self._require_same_currency(other)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other: Money) -> Money:
        self._require_same_currency(other)
        return Money(self.minor - other.minor, self.currency)

    def part(self, number: int, of: int) -> Money:
        """Return `number`/`of` of the amount, rounded down as `round_down` does."""
        minor = self.minor * number // of
        return Money(round_down(minor, self.currency, self.minor), self.currency)

    def _require_same_currency(self, other: Money) -> None:
        if self.currency != other.currency:
            raise ValueError(f"{self.currency} and {other.currency} cannot be added up")

    def decimal(self) -> str:
        """Return the amount as a decimal string with the currency's own number of decimals."""
        return f"{Decimal(self.minor).scaleb(-exponent(self.currency)):f}"

    def __str__(self) -> str:
        return f"{self.decimal()} {self.currency}"

    def tell(self) -> str:
        """Return the amount for people of the shop, as their pages write it: $1,499.00."""
        whole, point, rest = self.decimal().partition(".")
        sign = _SIGNS.get(self.currency, f"{self.currency}\u00a0")
        return f"{sign}{int(whole):,}{point}{rest}"


def parse_currency(text: object) -> str:
    """Return the ISO 4217 code in `text`.

    Raises ValueError for anything that is not the code of a currency in use.
    """
    if not isinstance(text, str) or not _CODE.fullmatch(text):
        raise ValueError(f"{text!r} is not a currency code such as USD")
    if text not in CURRENCIES:
        raise ValueError(f"{text} is no currency of ISO 4217; write one like EUR")
    return text


def read_money(text: str) -> Money:
    """Return the amount in a text that `str(money)` made, such as "49.99 EUR". Raises ValueError."""
    amount, _, currency = text.partition(" ")
    return parse_money(amount, currency)


def parse_money(text: object, currency: str) -> Money:
    """Return the decimal string `text`, such as "49.99", as an amount of `currency`.

    Raises ValueError for anything but digits with at most the currency's number of decimals, and for a float,
    which cannot hold cents exactly.
    """
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise ValueError(f'{text!r} is not an amount; write it as a decimal string like "49.99"')
    decimals = exponent(currency)
    if len(text.partition(".")[2]) > decimals:
        raise ValueError(f"{text!r} has more decimals than {currency} has ({decimals})")
    return Money(int(Decimal(text).scaleb(decimals)), currency)
