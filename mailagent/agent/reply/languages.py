"""Which language a text is in, of those whose claims can be checked: English, German, French, Spanish."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from mailagent.agent.reply.spelling import LETTERS, is_disguised

# The words that make up about half of any text in the language and little of one in another.
_COMMON = tuple(
    frozenset(words.split())
    for words in (
        "the of and to a in is it you that for on are with as this be at have from or by not but what"
        " all were we when your can there an which their if will has about hello please thank thanks"
        " was been our us me my i any would which could kind regards order do s t ll ve re no yet nothing"
        " hi dear am did does don hasn isn haven so only now more how who out up than its",
        "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an"
        " werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum"
        " war haben nur oder aber vor zur bis mehr durch wir ihre ihr ihnen ich uns unser bitte guten"
        " tag grüßen vielen dank hallo diese dieser wurde kann kein keine es ihrem ihren hier nichts"
        " schon damit welche sehr möchten können gern leider",
        "le la les de des du un une et à en est que qui dans pour pas sur au avec ce il sont vous nous"
        " votre vos notre plus par je ne se aux mais ou si leur été être cette bonjour merci a cela"
        " cordialement commande madame monsieur avons ai avez d l n s c j qu sera y rien me"
        " suis peux pouvez souhaitez très bien malheureusement tout m donc",
        "el la los las de del y en que un una es por con para no se su sus lo al como más pero le ha"
        " me si sobre este esta ya todo cuando muy sin son hay hola gracias usted nos nuestro está"
        " saludo saludos hemos he sido pedido les esto estamos"
        " nada hay puede puedo desea lamentablemente qué cómo ha",
    )
)
# Words that the neighbours of these four languages use all the time, and these four do not.
_FOREIGN = frozenset(
    "não você foi uma em com obrigado obrigada seu sua muito il che di per è sono della grazie gli"
    " nel het een wij uw niet voor zijn geen heeft bedankt och att det är inte jag og ikke på nie"
    " jest się że dla ve bir için".split()
)
# Some of those are also written in the four, if seldom: one of them in a short sentence tells nothing.
_TELLING = _FOREIGN - frozenset("il per com det em wij nie".split())
# What others call money that went back. One such word is too many, however short the sentence.
_FOREIGN_MONEY = frozenset(
    "terugbetaald terugbetaling terugbetalen teruggestort terugstorten terugstorting teruggave"
    " teruggeboekt overgemaakt gestort uitbetaald bedrag rimborso rimborsi rimborsato rimborsata"
    " rimborsati rimborsare rimborseremo rimborsiamo denaro soldi bonifico accreditato accreditata"
    " accredito pagato restituito importo storno stornato dinheiro devolvido devolvida devolvemos"
    " estorno estornado estornada pagamento zwrot zwrotu zwrócono zwrócone zwróciliśmy pieniądze"
    " przelew przelano wypłacono peníze vráceny vrácena vráceno vrácení refundace peniaze vrátené"
    " återbetalning återbetald återbetalda återbetalat pengar pengarna refusjon refundert refunderet"
    " tilbagebetalt tilbagebetaling tilbakebetalt penge pengene belopp beløp beløb hyvitys"
    " palautettu rahat maksettu visszatérítés visszatérítettük visszautaltuk kifizettük pénz pénzét"
    " pénze iade paranız ödendi rambursat rambursare rambursarea banii pengembalian uang"
    " dikembalikan povrat novac vraćen vračilo reemborsament reemborsat diners".split()
)
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE = re.compile(r"[.!?;:…\n]+")
_FEW_WORDS = 8
_SHARE_OF_TEXT = 0.22
_SHARE_OF_LINE = 0.15


def is_readable(text: str, names: Collection[str] = ()) -> bool:
    """Say whether claims in `text` can be recognised: in each sentence, each line, and on the whole.

    A line of few words is given the benefit, unless one of them tells of another language. `names` are
    lower-case words that count for no language: of items, and of the customer.
    """
    said = [word for word in _WORD.findall(text) if word.lower() not in names]
    lines = [_words(line, names) for line in text.splitlines()]
    whole = [word for line in lines for word in line]
    return (
        all(_is_spelled_here(word) for word in said)
        and _FOREIGN_MONEY.isdisjoint(whole)
        and _is_known(whole, _SHARE_OF_TEXT)
        and all(_is_known(line, _SHARE_OF_LINE) for line in lines)
        and not any(_is_foreign(_words(part, names)) for part in _SENTENCE.split(text))
    )


def _words(line: str, names: Collection[str]) -> list[str]:
    return [word for word in _WORD.findall(line.lower()) if word not in names]


def _is_known(words: Sequence[str], share: float) -> bool:
    if len(words) < _FEW_WORDS:
        return True
    own = _own(words)
    foreign = sum(word in _FOREIGN for word in words)
    return own >= share * len(words) and own > 2 * foreign


def _is_foreign(words: Sequence[str]) -> bool:
    foreign = sum(word in _TELLING for word in words)
    return len(words) > 2 and foreign > 0 and _own(words) <= 2 * foreign


def _own(words: Sequence[str]) -> int:
    return max(sum(word in common for word in words) for common in _COMMON)


def _is_spelled_here(word: str) -> bool:
    """Say whether a word has none but letters of the four languages, or may be somebody's name.

    Look-alikes of other scripts, and marks that none of the four has, hide claims.
    """
    if len(word) == 1 or LETTERS.issuperset(word.lower()):
        return True
    latin = all(letter < "\u0250" for letter in word)
    return latin and word.istitle() and not is_disguised(word.lower())
