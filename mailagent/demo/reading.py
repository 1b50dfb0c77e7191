"""How the demo's scripted model reads a mail: its language, the request, the order, the reason.

It matches word lists, which cover the ready-made mails and variations of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from mailagent.domain.refunds.refund import RefundReason


class Language(StrEnum):
    ENGLISH = "en"
    GERMAN = "de"
    FRENCH = "fr"
    SPANISH = "es"


class Wish(StrEnum):
    """What a mail asks for."""

    PERSON = "person"
    WITHDRAW = "withdraw"  # does not want the refund any more
    REFUND = "refund"
    NEWS = "news"  # where is my parcel, where is my money
    YES = "yes"  # answers a question of ours
    THANKS = "thanks"
    UNCLEAR = "unclear"


_COMMON_WORDS = {
    Language.ENGLISH: "the and is my was it i you have please would not with this to me can hello",
    Language.GERMAN: "der die das und ist ich mein meine nicht bitte mit war habe eine ein hallo "
    "guten wurde geld zurück für sehr kaputt bestellung",
    Language.FRENCH: "le la les et est je mon ma pas une vous avec dans bonjour commande merci "
    "mais était reçu cassé cassée remboursement",
    Language.SPANISH: "el los y es mi no una con hola pedido gracias pero quiero está por favor "
    "llegó dinero reembolso roto rota",
}
_VOCABULARY = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}

# The first row that matches wins: "you never sent it" before "it is broken".
_REASONS: tuple[tuple[RefundReason, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern))
    for reason, pattern in (
        (
            RefundReason.NOT_DELIVERED,
            r"never (arrived|came|got|received)|not (arrived|been delivered)|did(n't| not) arrive"
            r"|nie angekommen|nicht angekommen|jamais (arriv|reçu)|pas arriv|nunca llegó|no ha llegado",
        ),
        (
            RefundReason.WRONG_ITEM,
            r"\bwrong (item|one|size|colou?r|model|thing|product)"
            r"|\b(sent|got|received|delivered)\b[^.!?]{0,30}\bwrong\b|falsche|mauvais|équivocad|equivocad",
        ),
        (
            RefundReason.DAMAGED,
            r"broke|damag|crack|defect|faulty|does(n't| not) work|stopped working|won't turn on|leak"
            r"|kaputt|defekt|beschädigt|funktioniert nicht|cassé|abîmé|ne marche pas|en panne"
            r"|\brot[oa]s?\b|dañad|no funciona|averiad",
        ),
        (
            RefundReason.NOT_AS_DESCRIBED,
            r"not (as|what) (described|advertised|shown|i expected|the picture)|nicht wie beschrieben"
            r"|pas conforme|no es como",
        ),
        (
            RefundReason.CHANGED_MIND,
            r"changed my mind|do(n't| not) (like|need|want)|no longer (need|want)|too (small|big|large)"
            r"|anders überlegt|gefällt mir nicht|brauche .{0,30}nicht mehr|zu (klein|groß)"
            r"|changé d'avis|n'en ai plus besoin|ne me plaît pas|cambiado de (idea|opinión)"
            r"|no me gusta|ya no (lo|la) necesito",
        ),
    )
)

# The first row that matches wins. A person is asked for only near a verb of speaking: "your manager
# approved it" asks for nobody.
_WISHES: tuple[tuple[Wish, re.Pattern[str]], ...] = tuple(
    (wish, re.compile(pattern))
    for wish, pattern in (
        (
            Wish.PERSON,
            r"\b(talk|speak|put me through|connect me)\b[^.!?]{0,60}"
            r"\b(human|person|people|someone|manager|supervisor|agent)\b"
            r"|\b(real|actual) (human|person)\b|\bhuman being\b"
            r"|\b(sprechen|reden|verbinden)\b[^.!?]{0,60}\b(mensch|mitarbeiter|person|chef)"
            r"|\b(mensch|mitarbeiter|person|chef)\w*[^.!?]{0,60}\b(sprechen|reden|verbinden)\b"
            r"|\bparler\b[^.!?]{0,60}\b(humain|personne|quelqu|responsable)"
            r"|\bhablar\b[^.!?]{0,60}\b(humano|persona|alguien|encargado|responsable)",
        ),
        (
            Wish.WITHDRAW,
            r"\bnever ?mind\b|\bforget (?:about )?(?:it|my (?:refund|request)|the (?:refund|request))\b"
            r"|\b(?:withdraw|cancel|take back) (?:my|the) (?:refund|request)|\b(?:don't|do not|no longer)"
            r" (?:want|need) (?:a|the|my) (?:refund|money)"
            r"|\bhat sich erledigt\b|\bschon erledigt\b|\bvergessen sie (?:es|die|meine)\b"
            r"|\b(?:ziehe|nehme)\b[^.!?]{0,60}\bzurück\b|\bkeine (?:erstattung|rückzahlung) mehr\b"
            r"|\blaissez tomber\b|\boubliez\b|\bje (?:retire|renonce)\b|\bannulez ma demande\b"
            r"|\bdéjelo\b|\bolvíde(?:lo|se)\b|\bretiro mi\b|\bya no (?:hace falta|quiero el reembolso)",
        ),
        (
            Wish.REFUND,
            r"\brefund|\bmoney back\b|\breturn (it|them|this|the|my)\b|\bsend (it|them) back\b|\breimburs"
            r"|erstatt|\bgeld zurück|zurückgeben|zurückschicken|\brembours|\brendre\b|\breembols"
            r"|\bdevol(v|uci)|\bdevuelv|\bdinero de vuelta",
        ),
        (
            Wish.NEWS,
            r"\bwhere('s| is| are)\b|\bwhen (will|do|does|is)\b|\bstatus\b|\btrack|\bany news\b|\bmy orders?\?"
            r"|\bwo (ist|sind|bleibt)\b|\bwann\b|\boù (est|sont|en est)\b|\bquand\b"
            r"|\bdónde\b|\bcuándo\b|\bestado\b",
        ),
        (Wish.REFUND, "|".join(pattern.pattern for _, pattern in _REASONS)),
        (
            Wish.YES,
            r"^\W*(yes|yep|ja|jawohl|oui|sí|si)\b|\b(it is|it's|this is) (really )?me\b|\bi confirm\b"
            r"|\bich bin es\b|\bbestätige\b|\bc'est (bien )?moi\b|\bje confirme\b|\bsoy yo\b|\bconfirmo\b",
        ),
        (Wish.THANKS, r"\bthank|\bcheers\b|\bdanke|\bvielen dank\b|\bmerci\b|\bgracias\b"),
    )
)

_ORDER_ID = re.compile(r"\bw[\s-]?(\d{4,10})\b", re.IGNORECASE)
_BARE_NUMBER = re.compile(
    r"\b(?:order|bestellung|commande|pedido)\s*(?:no\.?|number|nr\.?|nummer|n°|número)?\s*[:#]?\s*"
    r"(\d{4,10})\b",
    re.IGNORECASE,
)


def guess_language(*texts: str) -> Language:
    """Return the language of the first text that has common words of one; English when none has."""
    for text in texts:
        words = re.findall(r"[^\W\d_]+", text.lower())
        counts = {
            language: sum(word in vocabulary for word in words)
            for language, vocabulary in _VOCABULARY.items()
        }
        best = max(counts, key=lambda language: counts[language])
        if counts[best]:
            return best
    return Language.ENGLISH


def find_order_ids(text: str) -> tuple[str, ...]:
    """Return the order numbers that `text` names, each once, in their order."""
    numbers = [match[1] for match in _ORDER_ID.finditer(text)]
    numbers += [match[1] for match in _BARE_NUMBER.finditer(text)]
    return tuple(dict.fromkeys(f"W{number}" for number in numbers))


def find_wish(text: str) -> Wish:
    """Return what `text` asks for; asking for a person goes before everything else."""
    return next((wish for wish, pattern in _WISHES if pattern.search(_plain(text))), Wish.UNCLEAR)


def pick_reason(text: str) -> RefundReason:
    """Return why the customer wants the money back, as far as the words tell."""
    found = (reason for reason, pattern in _REASONS if pattern.search(_plain(text)))
    return next(found, RefundReason.OTHER)


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")


def names_item(text: str, name: str) -> bool:
    """Return whether `text` has a word of the item's name, in the singular or the plural."""
    said = set(re.findall(r"\w+", text.lower())).difference(*_VOCABULARY.values())
    wanted = [word for word in re.findall(r"\w+", name.lower()) if len(word) > 2]
    return any({word, f"{word}s", f"{word}en"} & said for word in wanted)


def choose_items(text: str, items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the items that `text` names; if it names none, of all that can be refunded."""
    listed = list(items)
    named = [item for item in listed if names_item(text, str(item.get("name", "")))]
    refundable = [item for item in listed if item.get("refundable")]
    return list(dict.fromkeys(str(item["item_id"]) for item in named or refundable or listed))
