"""The words of what no tool can give or change: gifts, exceptions, services, orders and addresses.

Patterns over one clause, one line a language, as in `assertion_words`.
"""

from __future__ import annotations

import re

from mailagent.agent.reply.assertion_words import any_of

# What no tool can give ...
GIFT = any_of(
    r"replacements?|vouchers?|coupons?|discounts?|discount code|promo code|gift card|store credit"
    r"|exceptions?"
    r"|(?:a |another |brand )?new \w+|another(?: \w+|$)|spare \w+|free of charge|free gift|(?:the|your"
    r"|this) code"
    r"|courtesy",
    r"ersatz\w*|gutschein\w*|rabatt\w*|\w*code|ausnahme|ausnahmsweise|neue[nrs]? \w+|geschenkt|kulanz"
    r"|(?:einen|eine|ein) (?:andere|weitere)[nrs]?$",
    r"remplacement|bon d achat|remise|réduction|code|exception|(?:nouvelle|nouveau) \w+|\w+ neuve?|cadeau"
    r"|une? autre$"
    r"|offerte?",
    r"reemplazo|sustitución|vale|cupón|descuento|código|excepción|\w+ nuev[oa]|otr[oa]$|regalo"
    r"|sin coste|gratis",
)
# ... so surely that no word for giving is needed: an "Adjuntamos un vale" says it all.
TOKEN = any_of(
    r"vouchers?|replacements?|substitute|coupons?|gift cards?|store credit|bend the rules|blind eye",
    r"gutscheine?|ersatz(?:kocher|gerät|lieferung|artikel|ware)?|auge zu|rabattcode",
    r"de re(?:change|mplacement)|bon (?:d achat|de)|fermons les yeux|code promo",
    r"de repuesto|reemplazo|sustitución|vale|cupón|vista gorda",
)
# ... said to be given.
GIVEN = any_of(
    r"ship(?:ped|ping|s)?|dispatch\w*|sent|send(?:ing)?|mailed|post|put|made|make|making|gave|give|giving"
    r"|add(?:ed)?|use|get|on its way|travels|coming|going|apply|applied|extend\w*|arranged|offer(?:ed"
    r"|ing)?"
    r"|receive|code is|here is|here s|free of charge",
    r"verschick\w*|versandt|unterwegs|geht|kommt|schick\w*|senden|sende|geschickt|lautet|mache[n]?"
    r"|gemacht|bekommen"
    r"|erhalten|geben|gewähren|verlänger\w*|sparen|gegeben|spendier\w*",
    r"expédiée?|part(?! of)|envoyée?|envoyons|enverrons|code(?: \w+)* est|voici|fer(?:ai|ons)|faire"
    r"|faisons"
    r"|recevrez|offrons|accord\w+"
    r"|prolong\w+|expédions",
    r"enviado|sale|mandado|envi(?:amos|aremos)|código(?: \w+)* es|hacer|haremos|hacemos|recibirá|damos"
    r"|daremos|ampli\w+|aplicado",
)
SERVICE = any_of(
    r"(?:call|wake|phone) you|return label|courier|pick up|pickup|(?:repair|exchange|swap|replace"
    r"|collect)"
    r"(?:ing|ed)? (?:it|them|the|your)"
    r"|(?:cover|bear|pay)(?:ing|s)?(?: \w+){0,2} (?:return|shipping|postage|carriage)"
    r"|(?:warranty|guarantee)(?: \w+)? covers?|covered by (?:the|your|our) (?:warranty|guarantee)",
    r"rufen sie(?: \w+)* an|rücksendeetikett|retourenlabel|abholen|abgeholt|reparieren|austausch|umtausch"
    r"|tauschen(?: \w+)* (?:um|aus)|garantie(?: \w+){0,2} (?:gilt|deckt|greift|umfasst)"
    r"|(?:übernehmen|tragen|zahlen)(?: \w+){0,2} (?:porto|versand\w*|rück\w*(?:kosten|porto|versand))"
    r"|(?:porto|versandkosten|rück\w*(?:kosten|porto|versand)) (?:übernehmen|tragen|zahlen) wir",
    r"échange(?:ons|rons)|étiquette|(?:appellerons|appellerai)|réparerons|enlèvement|viendra chercher"
    r"|(?:payons|paierons|offrons)(?: \w+){0,2} (?:retour|port|livraison)|retour(?: \w+)? à nos frais"
    r"|garantie(?: \w+){0,2} (?:couvre|prend)",
    r"(?:cambia(?:mos|remos))|etiqueta|llamar(?:emos|é)|reparar(?:emos|é)|recoger(?:emos|án?)"
    r"|(?:pagamos|pagaremos|cubrimos|cubriremos|asumimos)(?: \w+){0,4} (?:envío|devolución|portes)"
    r"|garantía(?: \w+){0,2} (?:cubre|incluye)",
)
SAVED = re.compile(
    r"(?:percent|per cent) (?:off|discount)|prozent (?:rabatt|nachlass|weniger)"
    r"|pour cent de (?:remise|réduction|rabais)|por ciento de (?:descuento|rebaja)|"
    r"\d ?%.{0,60}(?:next|purchase|less|nächst|einkauf|weniger|prochain|achat|moins|próxim|compra)"
    r"|(?:next|nächst|prochain|próxim).{0,60}\d ?%|"
    r"\d ?% (?:off|discount|de (?:réduction|remise|descuento|rabais)|rabatt|nachlass|menos)"
    r"|(?:save|sparen sie|économisez|ahorre) (?:\d+ ?%|¤)"
)
# ... or made: nobody but the shop's people changes an order, an address or a deadline.
CHANGED = any_of(
    r"(?:waive|ignore|forget|extend)\w*(?: \w+){0,2} (?:deadline|window|period|fee)",
    r"verzichte\w*(?: \w+)* frist",
    r"renonçons(?: \w+)* délai",
    r"renunciamos(?: \w+)* plazo",
    r"(?:i|we)(?: (?:ve|have|just|already|also|now))* (?:cancell?ed|changed|moved|redirected|updated"
    r"|extended"
    r"|corrected|stopped|prolonged|amended|rerouted) (?:your|the|this|it|order)|cancell?ed by (?:me|us)",
    r"(?:ich|wir) (?:habe|haben)(?: \w+){1,6} (?:storniert|geändert|verlängert|aktualisiert|korrigiert"
    r"|umgeleitet)|verlängern wir|wir verlängern",
    r"(?:j ai|nous avons)(?: \w+)? (?:annulé|modifié|changé|prolongé|corrigé)",
    r"(?:^|yo |ya |le |les )(?:he|hemos) (?:cancelado|cambiado|modificado|ampliado|prorrogado|corregido)",
)
