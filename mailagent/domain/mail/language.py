"""Finds out in which of the eight languages of our mails a customer writes.

It counts common words: customers' mails are short and say much the same in every shop. Libraries that know a
hundred languages need 100 MB in every process.
"""

from __future__ import annotations

import re

# The words that make up about half of any text in the language, and what customers write about.
_WORDS = {
    "en": "the of and to a in is it you that for on are with as this be at have from or by not but what all"
    " were we when your can there an which their if will has about hello please thank thanks was been our"
    " us my i any would could kind regards do don t s ll ve re no yet nothing hi dear am did does hasn isn"
    " like d haven only now more how who out up than its they she he because after never still where want need"
    " refund money broken damaged return item items received arrived back delivery parcel wrong too order",
    "de": "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden"
    " aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder"
    " aber vor zur bis mehr durch wir ihre ihr ihnen ich uns unser bitte guten tag grüßen grüße vielen dank"
    " hallo diese dieser dieses wurde kann kein keine hier nichts schon sehr möchte möchten können gern"
    " leider mein meine meinen meiner wo warum nie danke bestellung bestellt kaputt defekt beschädigt geld"
    " zurück heute rückerstattung erstattung erstatten paket lieferung angekommen erhalten bekommen gekauft",
    "fr": "le la les de des du un une et à en est que qui dans pour pas sur au avec ce il sont vous nous votre"
    " vos notre plus par je ne se aux mais ou où si leur été être cette bonjour merci a cela cordialement"
    " commande madame monsieur avons ai avez d l n c j qu sera y rien me suis peux pouvez souhaitez très"
    " bien malheureusement tout m donc mon ma mes remboursement rembourser remboursé colis livraison reçu"
    " cassé cassée endommagé argent retour article jamais voudrais arrivé arrivée acheté",
    "es": "el la los las de del y en que un una es por con para no se su sus lo al como más pero le ha me si"
    " sobre este esta ya todo cuando muy sin son hay hola gracias usted nos nuestro está saludo saludos hemos"
    " he sido pedido les esto estamos nada puede puedo desea qué cómo dónde mi mis quiero quisiera nunca"
    " reembolso devolución devolver dinero paquete envío roto rota dañado llegado llegó recibido artículo"
    " comprado compré tienda ¿ ¡",
    "it": "il lo la i gli le di del della dei delle e è che un una per con non sono si da nel nella al alla mi"
    " mio mia miei ho ha hanno ma come più questo questa ordine buongiorno grazie salve cordiali saluti vorrei"
    " posso potete dove dov quando ancora anche molto perché rimborso rimborsare soldi denaro pacco reso rotto"
    " rotta arrivato arrivata ricevuto spedizione consegna articolo comprato indietro mai vostro"
    " vostra restituire arriva avete",
    "nl": "de het een en van ik is dat op te in voor met zijn niet aan er om ook als bij maar dan nog wel naar"
    " heb heeft hebben wij we uw u jullie mijn deze dit was wordt geen hallo beste bedankt dank je graag"
    " alstublieft vriendelijke groeten groet waar wanneer nooit bestelling pakket geld terug terugbetaling"
    " kapot beschadigd ontvangen aangekomen artikel gekocht retour bezorgd levering hoi kan wil al toch",
    "pt": "o a os as de do da dos das e que em um uma para com não por mais se ao na no foi meu minha meus"
    " minhas seu sua eu você vocês mas como já muito quando onde olá obrigado obrigada bom dia boa tarde por"
    " favor gostaria quero queria ainda nunca está estou tenho encomenda pedido reembolso dinheiro devolver"
    " devolução volta partido partida quebrado quebrada danificado chegou recebi produto comprei entrega isso",
    "pl": "w i na z że się nie do to jest o jak po ale od za ja mi mój moja moje mam czy co już tylko bardzo"
    " dzień dobry proszę dziękuję pozdrawiam gdzie kiedy nigdy jeszcze państwo państwa zamówienie zamówienia"
    " zamówieniu zwrot zwrotu pieniądze pieniędzy paczka paczki przesyłka uszkodzony uszkodzona zepsuty"
    " zepsuta dotarła dotarło otrzymałem otrzymałam chcę chciałbym chciałabym kupiłem kupiłam zwrócić",
}
# Words of other languages that look like one of ours. A mail with more of them is in none of our languages.
_OTHER = (
    "och att det är inte jag på som av för med den har hej tack min mitt vill ikke og jeg til hvor kan mig"
    " og der ve bir için bu ne çok dobrý den prosím vraťte peníze mi že jsem není a se na je si nem hogy és"
    " az egy köszönöm este și nu mi am să pentru pengarna pengene"
)
_WORD = re.compile(r"\b[^\W\d_]+\b|[¿¡]")  # a word with digits, such as W1001, does not count
_SETS: dict[str | None, frozenset[str]] = {
    language: frozenset(words.split()) for language, words in _WORDS.items()
}
_SETS[None] = frozenset(_OTHER.split())
_READ_LENGTH = 5_000
_LEAST_SCORE = 1.5
_AHEAD = 1.4


def find_language(text: str, surely: bool = False) -> str | None:
    """Return the language in which a customer wrote `text`, such as `de`; None if it is in none of ours, in
    several, or too short to tell.

    A word that n languages share counts 1/n for each. `surely`: ask for twice the score that is needed
    otherwise.
    """
    scores = dict.fromkeys(_SETS, 0.0)
    for word in _WORD.findall(text[:_READ_LENGTH].lower()):
        having = [language for language, words in _SETS.items() if word in words]
        for language in having:
            scores[language] += 1 / len(having)
    first, second = sorted(scores, key=lambda language: -scores[language])[:2]
    needed = max(_LEAST_SCORE, _AHEAD * scores[second])
    if scores[first] < (2 * needed if surely else needed):
        return None
    return first
