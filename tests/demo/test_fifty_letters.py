"""Fifty letters to the demo's shop, and what its model makes of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mailagent.demo.scripted_model import Say, ToolResult, next_turn, read_request

ORDER: dict[str, Any] = {
    "order_id": "W1001",
    "status": "delivered",
    "items": [
        {"item_id": "kettle", "name": "Kettle", "quantity": 1, "refundable": 1},
        {"item_id": "mug", "name": "Coffee mug", "quantity": 3, "refundable": 3},
        {"item_id": "phones", "name": "Headphones", "quantity": 1, "refundable": 1},
    ],
    "refunds": [],
}
OUTPUTS: dict[str, Any] = {
    "propose_refund": {"outcome": "approved", "facts": {"refund/W1001": "…"}},
    "request_change": {"outcome": "task", "facts": {"remedy/W1001": "…"}},
    "cancel_order": {"outcome": "task", "facts": {"remedy/W1001": "…", "refund/W1001": "…"}},
    "withdraw_refund": {"outcome": "withdrawn", "facts": {"withdrawn/W1001": "…"}},
    "find_my_orders": {"orders": [{"order_id": "W1001", "items": ["Kettle", "Coffee mug"]}]},
}
PASSAGES = {
    "knowledge/returns/1": "How to return an item",
    "knowledge/returns/2": "When a refund arrives",
    "knowledge/returns/3": "Who pays for the return",
    "knowledge/returns/4": "Items that cannot be returned",
    "knowledge/shipping/1": "What shipping costs",
    "knowledge/orders/1": "Where to find the invoice",
    "knowledge/orders/2": "Warranty",
}


def outcome(text: str, subject: str = "", order: dict[str, Any] = ORDER) -> str:
    """Return in a few words what the model does in the end."""
    mail = {"subject": subject, "text": text}
    case = json.dumps({"sender_verified": True, "history": [], "mails": [mail]})
    request, results = read_request(case), list[ToolResult]()
    for _ in range(8):
        turn = next_turn(request, results, passages=PASSAGES)
        if isinstance(turn, Say):
            parts = json.loads(turn.text)["parts"]
            said = [next(iter(part.values())) for part in parts]
            return done(results) or " ".join(each for each in said if each in TOLD or "/" in each)
        if turn.name == "hand_over":
            return f"person: {turn.arguments['summary'].partition('.')[0]}"
        outputs = {**OUTPUTS, "look_at_order": order}
        results.append(ToolResult(turn.name, turn.arguments, outputs[turn.name]))
    raise AssertionError("the model goes round in circles")


TOLD = {"welcome", "ask_which_items", "ask_which_order", "ask_new_address"}


def done(results: list[ToolResult]) -> str:
    for result in results:
        if result.name in ("propose_refund", "request_change"):
            items = result.arguments["items"]
            wanted = [f"{each['quantity'] or 'all'} {each['item_id']}" for each in items]
            wish = result.arguments.get("wish")
            kind = result.arguments.get("kind", "refund")
            return f"{kind} {repr(wish) if wish else ', '.join(wanted)}"
        if result.name == "cancel_order":
            items = [each["item_id"] for each in result.arguments["items"]]
            return " ".join(["cancel", *items])
        if result.name == "withdraw_refund":
            return "withdraw"
    return ""


LEGAL = "person: The customer speaks of a lawyer, a court or the bank"
CANCEL = "cancel"
INVOICE = "person: The customer asks for an invoice"
REPAIR = "person: The customer asks for a repair"
PART = "person: The customer asks for a part of the money"
WHOLE = "refund all kettle, all mug, all phones"
SHOWN = "order/W1001"
ASKED = "ask_which_items order/W1001"

LETTERS = [
    # how many
    ("One mug of W1001 is broken, please refund it.", "refund 1 mug"),
    ("Please refund one of the three mugs of W1001.", "refund 1 mug"),
    ("Please refund two mugs from order W1001", "refund 2 mug"),
    ("2 of my coffee mugs (W1001) arrived cracked.", "refund 2 mug"),
    ("The mug of W1001 leaks.", "refund 1 mug"),
    ("A broken mug was in W1001, money back please", "refund 1 mug"),
    ("All mugs of W1001 are damaged", "refund all mug"),
    ("I want a refund of the mugs from W1001", "refund all mug"),
    ("Please refund three mugs of W1001", "refund all mug"),
    ("Please refund 9 mugs of W1001", "refund all mug"),
    ("Refund the kettle and one mug of W1001", "refund all kettle, 1 mug"),
    ("Refund order W1001 please", WHOLE),
    ("I want my money back for the whole order W1001", WHOLE),
    ("Please refund 2x mug of W1001", "refund 2 mug"),
    ("Please refund 2 x coffee mug and 1x kettle of W1001", "refund all kettle, 2 mug"),
    ("Please refund: coffee mug (2), W1001", "refund 2 mug"),
    ("Please refund mugs x2 of W1001", "refund 2 mug"),
    ("Beide Mugs aus W1001 sind kaputt, bitte Geld zurück", "refund 2 mug"),
    # more came than are broken
    ("I got two mugs with W1001, one is cracked. Refund, please", "refund 1 mug"),
    ("Both mugs of W1001 came, one of them is broken. Please refund it.", "refund 1 mug"),
    ("The mugs of W1001 arrived, but one was broken. Refund, please.", "refund 1 mug"),
    ("I got two mugs, one mug of W1001 is cracked. Refund, please", "refund 1 mug"),
    ("I ordered three mugs (W1001). One was fine, two are broken. Refund!", "refund 2 mug"),
    ("Von den drei Mugs aus W1001 ist einer kaputt, bitte Geld zurück", "refund 1 mug"),
    ("Beide Mugs aus W1001 kamen, einer davon ist kaputt. Geld zurück!", "refund 1 mug"),
    ("Two mugs of W1001 are broken. One of you said I get a refund.", "refund 2 mug"),
    ("The mugs of W1001 are broken, this one is a disgrace. Refund!", "refund all mug"),
    ("I ordered two mugs and a kettle (W1001). The kettle is broken.", "refund all kettle"),
    # typos and numbers
    ("pls refnd the kettel of w1001", "refund all kettle"),
    ("refudn my ketle, order w1001", "refund all kettle"),
    ("Kettle from order no. 1001 arived brokn", "refund all kettle"),
    ("I want my moeny back for the kettle of W1001", "refund all kettle"),
    ("the headfones of W 1001 stopped working", "refund all phones"),
    ("kettle, WlO01, damged", "refund all kettle"),
    ("my kettle is broken, oder 1001", "refund all kettle"),
    ("Die Bestelung 1001 ist kapput, bitte Geld zurück", WHOLE),
    # a thing that was not ordered
    ("Please refund the toaster of W1001.", ASKED),
    ("My scarf from W1001 has a hole. Refund, please!", ASKED),
    ("I want to return the laptop, order W1001", ASKED),
    ("Please refund the kettle and the toaster of W1001", ASKED),
    ("I want a refund for the toaster and the kettle, W1001", ASKED),
    ("Bitte den Kettle und den Toaster aus W1001 erstatten", ASKED),
    ("Please refund the old kettle and the broken mug of W1001", "refund all kettle, 1 mug"),
    ("Refund the kettle and the shipping costs of W1001", "refund all kettle"),
    (
        "Bitte erstatten Sie den Kettle und die Headphones aus W1001",
        "refund all kettle, all phones",
    ),
    # no refund
    ("I would like to exchange the kettle of W1001 for a bigger one.", "exchange all kettle"),
    ("Can you send a replacement for the broken mug of W1001?", "replacement 1 mug"),
    (
        "I don't want a refund for W1001, I want a replacement.",
        "replacement all kettle, all mug, all phones",
    ),
    ("Ich möchte den Kettle aus W1001 umtauschen", "exchange all kettle"),
    ("No replacement, please. Refund the kettle of W1001.", "refund all kettle"),
    ("How long does a refund take?", "knowledge/returns/2"),
    ("How do I return an item?", "knowledge/returns/1"),
    ("Who pays for the return?", "knowledge/returns/3"),
    ("Do you refund shipping costs?", "knowledge/shipping/1"),
    ("If I return the kettle of W1001, do I get my money back?", SHOWN),
    ("Can the kettle of W1001 leak?", SHOWN),
    ("When will I get my refund for W1001?", SHOWN),
    ("Where is my order W1001?", SHOWN),
    ("Has my money for W1001 been sent?", SHOWN),
    # may I return it
    ("The kettle of W1001: can I return it?", SHOWN),
    ("Can I send the kettle of W1001 back?", SHOWN),
    ("I want to know whether I can return the kettle of W1001.", SHOWN),
    ("Could I return the kettle of W1001 if it does not fit?", SHOWN),
    ("Kann ich den Kettle aus W1001 zurückgeben?", SHOWN),
    ("Ich möchte wissen, ob ich den Kettle aus W1001 zurückgeben kann.", SHOWN),
    ("Could I return the lamp if it does not fit?", "knowledge/returns/1"),
    ("My kettle of W1001 is broken. Can I return it?", "refund all kettle"),
    ("Can I return the kettle of W1001, please?", "refund all kettle"),
    ("Could I get my money back for the kettle of W1001?", "refund all kettle"),
    ("Can I cancel W1001?", CANCEL),
    # other wishes
    ("Please cancel order W1001", CANCEL),
    ("Bitte stornieren Sie die Bestellung W1001", CANCEL),
    ("plese cancle my order W1001", CANCEL),
    ("I cancelled order W1001, I want my money back", WHOLE),
    ("Please cancel my refund request for W1001", "withdraw"),
    ("Never mind, I keep the kettle of W1001", "withdraw"),
    ("Please send me an invoice for W1001", INVOICE),
    ("I need the invoice of W1001, with VAT number", INVOICE),
    ("Where do I find my invoice?", "knowledge/orders/1"),
    ("Refund W1001 or you will hear from my lawyer!", LEGAL),
    ("I will start a chargeback for W1001.", LEGAL),
    ("Mein Anwalt meldet sich bei Ihnen. W1001", LEGAL),
    (
        "Please change my delivery address, W1001",
        "ask_new_address",
    ),
    (
        "Please change the address of W1001 to: 12 New Road, Springfield",
        "change_address '12 New Road, Springfield'",
    ),
    (
        "Please change the address of W1001 to:\nAda\n 12  New Road\n\nThanks",
        "change_address 'Ada\\n12 New Road'",
    ),
    (
        "Please change the address of W1001. I moved to Berlin last year. "
        "Please send it to 12 New Street, Oxford OX1 2AB. Thanks, Ada",
        "change_address '12 New Street, Oxford OX1 2AB'",
    ),
    (
        "I want to change the address of order 1001 to 12 St. James Street, Oxford. "
        "It has to arrive by 5 December.",
        "change_address '12 St. James Street, Oxford'",
    ),
    (
        "My new address for W1001 is 12 New Road, Springfield. Please change the address.",
        "change_address '12 New Road, Springfield'",
    ),
    (
        "Bitte die Adresse ändern, W1001. Neue Lieferadresse: Hauptstr. 5, 10115 Berlin",
        "change_address 'Hauptstr. 5, 10115 Berlin'",
    ),
    (
        "Change of address for W1001. Can you send it to 5 Elm Street, Troy instead?",
        "change_address '5 Elm Street, Troy'",
    ),
    ("I need to change my address for W1001", "ask_new_address"),
    # what else people write
    ("Please send me a new kettle, the one in W1001 broke. No refund.", "replacement all kettle"),
    ("The mug of W1001 broke. Can you send another one?", "replacement 1 mug"),
    ("If I don't like the headphones from w1001, can I send them back?", SHOWN),
    ("Would I get my money back if the kettle of W1001 broke next year?", SHOWN),
    ("Return 2 of 3 mugs from W1001", "refund 2 mug"),
    ("Please send me a new invoice for W1001", INVOICE),
    ("Please do not send me a new kettle, refund the kettle of W1001", "refund all kettle"),
    ("You did not stop the order in time. Refund the kettle of W1001.", "refund all kettle"),
    (
        "I want my money back for the kettle of W1001. If I send it back, who pays?",
        "refund all kettle",
    ),
    ("Please refund my order of the lamp, W1001", ASKED),
    ("Please stop order w1001, I don't want it any more.", CANCEL),
    ("I'll see you in court. Refund W1001 now!", LEGAL),
    ("Can you send me a receipt with VAT for W1001?", INVOICE),
    ("thx, got the money", "welcome"),
    ("My solicitors will write to you about W1001", LEGAL),
    ("I will sue. Refund W1001!", LEGAL),
    ("I am taking legal advice about W1001", LEGAL),
    ("I am suing you over W1001", LEGAL),
    ("The kettle of W1001 broke, refund it\nSue", "refund all kettle"),
    ("Please send me the bill for W1001", INVOICE),
    ("I need a copy of the recipt, W1001", INVOICE),
    ("Can I get a receipt for W1001?", INVOICE),
    ("You wrote that you get a receipt by mail. Refund the kettle of W1001!", "refund all kettle"),
    ("I paid the bill. The kettle of W1001 broke, refund it\nBill", "refund all kettle"),
    # not, only, how
    ("Please don't refund W1001, the kettle is fine", "withdraw"),
    ("Bitte KEINE Erstattung für W1001, ich behalte den Kettle", "withdraw"),
    ("No refund needed, thanks! W1001", "withdraw"),
    ("Stop the refund of W1001", "withdraw"),
    ("Please don't cancel W1001!", "withdraw"),
    ("If you do not refund W1001, I tell everybody", WHOLE),
    ("Why was my refund for W1001 denied?", SHOWN),
    ("Why was W1001 refunded?", SHOWN),
    ("You refunded me twice for W1001", SHOWN),
    ("How can I cancel W1001?", SHOWN),
    ("Is it too late to cancel order W1001?", SHOWN),
    ("Do I get my money back if I cancel order W1001?", SHOWN),
    ("Is it too late? Please cancel order W1001.", CANCEL),
    ("Can you cancel order W1001?", CANCEL),
    ("Can I get a refund for the kettle of W1001?", "refund all kettle"),
    ("Is there a way to fix it? The kettle of W1001 is broken.", "refund all kettle"),
    ("Only refund the kettle of W1001, not the mugs", "refund all kettle"),
    ("Refund W1001, all but the mugs", "refund all kettle, all phones"),
    ("Refund the whole order W1001 except for the mugs", "refund all kettle, all phones"),
    ("Refund W1001 except the mugs, please", "refund all kettle, all phones"),
    ("Refund the kettle of W1001 but not the mugs", "refund all kettle"),
    ("Not the mugs but the kettle of W1001 is broken, refund it", "refund all kettle"),
    ("Bitte W1001 erstatten, alles außer den Mugs", "refund all kettle, all phones"),
    ("Bitte den Kettle aus W1001 erstatten, aber nicht die Mugs", "refund all kettle"),
    ("Refund everything in W1001 but the mugs", "refund all kettle, all phones"),
    ("This is not the kettle I ordered. W1001, refund please", "refund all kettle"),
    # an item that is well, beside the broken one
    (
        "The mugs of W1001 are great, but the kettle does not work, I want my money back",
        "refund all kettle",
    ),
    ("I like the mugs, but my kettle of W1001 is broken. Refund, please", "refund all kettle"),
    ("Refund the kettle of W1001, I'll keep the mugs", "refund all kettle"),
    ("I'd like to return the kettle of W1001 but keep the mugs", "refund all kettle"),
    ("Ich möchte die Mugs behalten, aber den Kettle aus W1001 zurückgeben", "refund all kettle"),
    ("My headphones (W1001) work fine. I want my money back for the kettle.", "refund all kettle"),
    ("I want to return 1 mug and the kettle of W1001", "refund all kettle, 1 mug"),
    ("Everything is fine but the kettle of W1001 leaks", "refund all kettle"),
    ("Nothing but the kettle of W1001 is broken. Refund, please", "refund all kettle"),
    ("The kettle of W1001 is fine, but I want to return it", "refund all kettle"),
    (
        "Der Mug ist gut, aber der Kettle aus W1001 ist kaputt, bitte Geld zurück",
        "refund all kettle",
    ),
    ("A couple of mugs of W1001 broke", "refund 2 mug"),
    ("I'll dispute this with my credit card company. W1001", LEGAL),
    # an item that is left out, kept or only told of
    ("I want everything of order W1001 refunded, except the kettle.", "refund all mug, all phones"),
    ("Everything is broken except the kettle of W1001. Refund.", "refund all mug, all phones"),
    ("Refund W1001 without the kettle", "refund all mug, all phones"),
    ("Refund W1001 except for one mug.", "refund all kettle, 2 mug, all phones"),
    (
        "Alles aus W1001 ist kaputt außer dem Kettle. Bitte Geld zurück.",
        "refund all mug, all phones",
    ),
    ("Please refund the kettle and one of the mugs of W1001.", "refund all kettle, 1 mug"),
    ("Bitte erstatten Sie den Kettle und die beiden Mugs aus W1001", "refund all kettle, 2 mug"),
    (
        "Ich möchte den Kettle und die kaputten Mugs aus W1001 zurückgeben",
        "refund all kettle, all mug",
    ),
    (
        "Both mugs of W1001 are broken: one has a crack, one has no handle. Refund both please.",
        "refund 2 mug",
    ),
    (
        "The mugs of W1001 arrived well packed but broken. The kettle too. Refund everything.",
        "refund all kettle, all mug, all phones",
    ),
    (
        "The kettle of W1001 is great but too heavy, I want to return it. The headphones are broken too.",
        "refund all kettle, all phones",
    ),
    ("I won't keep the mugs of W1001, please refund them. I'll keep the kettle.", "refund all mug"),
    ("Please refund the kettle of W1001. I am keeping the mugs.", "refund all kettle"),
    ("Ich möchte den Kettle aus W1001 zurückgeben, die Mugs behalte ich.", "refund all kettle"),
    ("Please refund the kettle. I don't want to return the mugs. W1001", "refund all kettle"),
    (
        "No problem with the mugs, but the kettle of W1001 is broken, refund please.",
        "refund all kettle",
    ),
    ("I'd like to keep the mugs of W1001 but they leak. Can I get my money back?", ASKED),
    ("Please refund the toaster. The mugs of W1001 are fine.", ASKED),
    ("The mugs of W1001 are lovely. Please refund W1001.", ASKED),
    ("I'll keep one mug of W1001 and return the other.", "refund 1 mug"),
    ("I like everything in W1001 except the mugs. I want to return them.", "refund all mug"),
    (
        "I'll keep both mugs and the headphones of W1001, refund the rest",
        "refund all kettle, 1 mug",
    ),
    ("Cancel everything except the mugs, W1001", "cancel kettle phones"),
    ("Cancel W1001, but I keep the mugs", "cancel kettle phones"),
    ("Cancel it, W1001, but I like the mugs", ASKED),
    ("It was not the mug that broke but the kettle, W1001. Refund please", "refund all kettle"),
    ("The kettle of W1001 leaks. The mugs are fine. Please refund it.", "refund all kettle"),
    (
        "I don't want to keep the mugs of W1001. Please refund them. The kettle is lovely.",
        "refund all mug",
    ),
    (
        "Both mugs of W1001 are broken, one has a crack and the other no handle. Refund.",
        "refund 2 mug",
    ),
    ("I'm keeping the kettle but want to return the mugs, W1001", "refund all mug"),
    ("Please refund the kettle of W1001. The mugs can stay.", "refund all kettle"),
    ("Refund W1001 minus the mugs", "refund all kettle, all phones"),
    ("Bitte W1001 ohne den Kettle erstatten", "refund all mug, all phones"),
    (
        "I ordered a kettle and a mug (W1001). Both are broken. The mug leaks. Refund.",
        "refund all kettle, 1 mug",
    ),
    (
        "Der Kettle aus W1001 ist gut, aber zu klein. Ich möchte ihn zurückgeben. Die Mugs behalte ich.",
        "refund all kettle",
    ),
    # a wish that the letter says no to, or only asks about
    ("I do not want to return the kettle W1001", SHOWN),
    ("Ich möchte den Kettle aus W1001 nicht zurückgeben.", SHOWN),
    ("Ich will die Erstattung für W1001 nicht mehr", "withdraw"),
    ("Ich möchte kein Geld zurück, sondern einen neuen Kettle. W1001", "replacement all kettle"),
    ("Meine Erstattung für W1001 ist noch nicht da.", SHOWN),
    ("I have not received my refund for W1001", SHOWN),
    ("Ich will keinen Umtausch, sondern mein Geld zurück. Kettle W1001", "refund all kettle"),
    ("Der Kettle W1001 ist kaputt, kein Ersatz, bitte Geld zurück.", "refund all kettle"),
    (
        "Don't bother with a replacement, just give me my money back for the kettle W1001",
        "refund all kettle",
    ),
    ("My kettle W1001 is under warranty and broken. I want my money back.", "refund all kettle"),
    ("I don't want to return W1001, I only ask how to clean it.", SHOWN),
    ("I do not want my money back, I want the kettle of W1001 repaired.", REPAIR),
    (
        "I wanted to return the kettle W1001 but it works now, please ignore my last mail.",
        "withdraw",
    ),
    ("Der Kettle W1001 funktioniert jetzt doch. Bitte nichts erstatten.", "withdraw"),
    ("Ich will keine Erstattung für W1001 mehr.", "withdraw"),
    ("My refund for W1001 has not arrived yet", SHOWN),
    ("I got no refund for W1001 yet", SHOWN),
    ("I want to know where my refund for W1001 is", SHOWN),
    ("Wo bleibt meine Erstattung für W1001?", SHOWN),
    ("Ich habe noch keine Erstattung für W1001 bekommen.", SHOWN),
    ("Mein Geld zurück bitte, der Kettle W1001 ist nicht angekommen.", "refund all kettle"),
    ("Please tell me how to return my kettle W1001", SHOWN),
    ("Ich würde gerne wissen, wie ich den Kettle W1001 zurückschicken kann.", SHOWN),
    ("Wohin soll ich den Kettle W1001 zurückschicken?", SHOWN),
    ("The kettle of W1001 leaks. Please tell me how to return it.", "refund all kettle"),
    ("I would rather have a refund than a replacement for the kettle W1001", "refund all kettle"),
    ("Der Kettle W1001 ist kaputt. Ich möchte einen neuen.", "replacement all kettle"),
    ("Do I need my receipt to return the kettle of W1001?", SHOWN),
    # about a passage of the shop's knowledge, or not
    ("When will my kettle arrive?", SHOWN),
    ("When does my order arrive?", SHOWN),
    ("How long until my kettle arrives?", SHOWN),
    ("When does a refund arrive?", "knowledge/returns/2"),
    ("Can I return opened tea?", "knowledge/returns/4"),
    ("Is there a warranty on the kettle?", "knowledge/orders/2"),
    # where the new address is
    (
        "I moved to 5 Elm Street last year. My address for W1001 is 12 New Road, Springfield. "
        "Please change the address.",
        "change_address '12 New Road, Springfield'",
    ),
    (
        "Wrong address! I need to change it by 3 pm. W1001 should go to 12 New Road",
        "change_address '12 New Road'",
    ),
    (
        "Bitte ändern Sie meine Lieferadresse für W1001: Hauptstraße 5, 10115 Berlin",
        "change_address 'Hauptstraße 5, 10115 Berlin'",
    ),
    (
        "Ich ziehe um. Neue Adresse für W1001: Hauptstr. 5, 10115 Berlin",
        "change_address 'Hauptstr. 5, 10115 Berlin'",
    ),
    ("Please deliver W1001 to 12 New Road instead.", "change_address '12 New Road'"),
    (
        "Can you change the address of W1001? My new address is 12 New Road.",
        "change_address '12 New Road'",
    ),
    (
        "My address is wrong on W1001. It should go to 12 New Road, please.",
        "change_address '12 New Road'",
    ),
    (
        "Please send my kettle to a different address: 55 Main Street, Springfield. W1001",
        "change_address '55 Main Street, Springfield. W1001'",
    ),
    ("Can you ship W1001 to my office instead?", "ask_new_address"),
    ("Können Sie die Lieferadresse von W1001 ändern?", "ask_new_address"),
    (
        "Können Sie die Lieferadresse von W1001 ändern? Neue Adresse: Hauptstr. 5, 10115 Berlin",
        "change_address 'Hauptstr. 5, 10115 Berlin'",
    ),
    ("I want to change the address of W1001, I need to get it by 3 December.", "ask_new_address"),
    # got, left or happy with
    ("I received the kettle but not the headphones of W1001. Please refund.", "refund all phones"),
    (
        "Ich habe den Kettle aus W1001 erhalten, aber nicht die Headphones. Geld zurück.",
        "refund all phones",
    ),
    ("Please refund the kettle and leave the mugs, W1001.", "refund all kettle"),
    ("I'm returning the headphones of W1001; the mugs stay with me.", "refund all phones"),
    (
        "The kettle of W1001 leaks. I am very happy with the mugs. Please refund it.",
        "refund all kettle",
    ),
    (
        "Mit den Mugs bin ich zufrieden, der Kettle aus W1001 ist undicht. Geld zurück.",
        "refund all kettle",
    ),
    ("I'd like to return the mugs of W1001 because the kettle is enough for me.", "refund all mug"),
    ("I'd like to return everything from W1001.", WHOLE),
    # an exchange, a repair or a kind word is no refund
    ("Mein Wasserkocher W1001 (Kettle) ist defekt, bitte austauschen.", "replacement all kettle"),
    ("Der Kettle aus W1001 ist kaputt. Kann ich ihn tauschen?", "exchange all kettle"),
    ("Kettle W1001 ist defekt, ich hätte ihn gern umgetauscht.", "exchange all kettle"),
    ("Den Kettle aus W1001 bitte gegen die Headphones tauschen", "exchange all kettle"),
    ("Bitte schicken Sie mir einen neuen Kettle, W1001 kam kaputt an.", "replacement all kettle"),
    ("Kettle W1001 ist kaputt. Können Sie einen neuen schicken?", "replacement all kettle"),
    ("The kettle of W1001 came broken. Could I get a working one?", "replacement all kettle"),
    ("The kettle of W1001 is broken. Can I trade it for the mug?", "exchange all kettle"),
    ("Can you fix my kettle from W1001, it is damaged", REPAIR),
    ("I don't want my money back, just repair the kettle of W1001", REPAIR),
    ("Können Sie den Kettle aus W1001 reparieren? Er ist defekt.", REPAIR),
    ("Kettle W1001 leaks. Is there a warranty?", "knowledge/orders/2"),
    ("The kettle of W1001 is not broken, just wanted to say I love it", SHOWN),
    ("Der Kettle aus W1001 ist nicht kaputt, alles gut", SHOWN),
    ("Is the kettle of W1001 heavy? I do not need a refund for the mug.", SHOWN),
    ("I don't want a refund for W1001 any more", "withdraw"),
    ("Bitte schicken Sie mir eine neue Rechnung für W1001", INVOICE),
    ("I got the wrong colour of mugs in W1001, please send me the black ones", "exchange all mug"),
    ("Kettle of W1001: wrong size, I want the bigger ones instead", "exchange all kettle"),
    ("You sent the wrong kettle (W1001), please send me the right one", "exchange all kettle"),
    ("Falsche Farbe, bitte schicken Sie mir die schwarzen. Mugs, W1001", "exchange all mug"),
    ("I want my money back instead of a bigger one, kettle of W1001", "refund all kettle"),
    ("I don't want an exchange, I want my money back. Kettle of W1001", "refund all kettle"),
    ("Please send me the money back for the kettle of W1001", "refund all kettle"),
    # thanks
    ("Thank you very much!", "welcome"),
    ("Thanks for the quick refund!", "welcome"),
    ("Danke für die Erstattung", "welcome"),
    ("Thanks\nfor the refund!", "welcome"),
    ("Hello, thank you\nfor the refund of W1001.\nAda", "welcome"),
    ("Thank you so\nmuch for \r\nthe refund\nof the broken kettle, W1001.\nAda", "welcome"),
    ("Danke\nfür die Erstattung", "welcome"),
    ("Thanks in advance for a refund of the kettle, W1001", "refund all kettle"),
    ("I got my refund, thanks!", "welcome"),
    ("Hi, I've received the refund for the mug of W1001. Thank you very much!", "welcome"),
    ("Ich habe meine Erstattung erhalten, danke!", "welcome"),
    ("I got my refund, thanks!\n\nAda", "welcome"),
    ("I got my refund, thanks!\nBest regards, Ada", "welcome"),
    ("Hello team\nI got my\nrefund of W1001\nThanks\nAda", "welcome"),
    ("Hallo\nMeine Erstattung ist da, danke!\n\nMit freundlichen Grüßen\nAda", "welcome"),
    ("Thank you, the refund of W1001 has arrived.", "welcome"),
    ("Thanks for refunding W1001!", "welcome"),
    ("Thank you so much for refunding the kettle of W1001.", "welcome"),
    ("Thanks for quickly refunding the kettle and the mug of W1001", "welcome"),
    ("Danke, die Erstattung für W1001 ist angekommen.", "welcome"),
    ("Danke, dass Sie W1001 erstattet haben!", "welcome"),
    ("Vielen Dank für die Erstattung von W1001", "welcome"),
    ("Die Erstattung von W1001 ist heute angekommen, vielen Dank!", "welcome"),
    ("Just wanted to say thanks, the refund of W1001 came through", "welcome"),
    (
        "I just want to let you know that the refund for the kettle of W1001 arrived today. Thanks!",
        "welcome",
    ),
    ("The refund of two mugs of W1001 is here, thanks", "welcome"),
    ("I got the refund for the coffee mug of W1001, thanks", "welcome"),
    # thanks, and something new
    ("Thanks in advance for refunding W1001!", WHOLE),
    ("Thanks for refunding the kettle of W1001 as soon as possible", "refund all kettle"),
    (
        "Thanks for refunding the mug, and please refund the kettle of W1001",
        "refund all kettle, 1 mug",
    ),
    ("Thanks for refunding W1001. Now the kettle is broken.", "refund all kettle"),
    ("The kettle of W1001 is broken. Thanks for refunding it!", "refund all kettle"),
    (
        "Thank you, the refund of W1001 has arrived. Please refund the kettle too",
        "refund all kettle",
    ),
    ("Thank you, the refund of W1001 has arrived but the kettle is broken", "refund all kettle"),
    ("I got my refund for W1001 and want the kettle refunded", "refund all kettle"),
    ("I got my refund, thanks! Please refund the kettle of W1001 too.", "refund all kettle"),
    ("I got my refund, thanks!\nPlease refund the kettle of W1001 too.\nAda", "refund all kettle"),
    ("I got my refund, thanks. The kettle of W1001 is broken.", "refund all kettle"),
    ("I got my refund, thanks, and now the kettle of W1001 leaks\n\nAda", "refund all kettle"),
    ("I got my refund, thanks! What about the kettle of W1001?\nAda", SHOWN),
    ("I got my refund, thanks. But not for the kettle of W1001.\nAda", SHOWN),
    ("I got my refund, thanks, and now the kettle of W1001 leaks", "refund all kettle"),
    ("Thanks, I got the refund and want to return the kettle of W1001", "refund all kettle"),
    ("Thanks for the refund! Now the kettle of W1001 is broken.", "refund all kettle"),
    ("Thanks\nfor the refund! Now the kettle of W1001 is broken.", "refund all kettle"),
    ("Thanks\n\nPlease arrange for the refund of the kettle of W1001", "refund all kettle"),
    ("Thank you for the refund. Where is order W1001?", SHOWN),
    ("Thanks for the refund of W1001.\nBest regards, Ada", "welcome"),
    # what can be refunded
    ("Which items of W1001 can be refunded?", SHOWN),
    ("Which items can be refunded?", "knowledge/returns/2"),
    ("Welche Artikel aus W1001 können erstattet werden?", SHOWN),
    ("Which items can be refunded? Please refund the kettle of W1001.", "refund all kettle"),
    # would it be paid, was it paid
    ("Hello, would you refund the kettle of W1001 if it breaks?", SHOWN),
    ("Would you refund the kettle of W1001 if I send it back?", SHOWN),
    ("Will you refund W1001 if it breaks?", SHOWN),
    ("If the kettle of W1001 breaks, will you refund it?", SHOWN),
    ("Can you refund the kettle of W1001 if it breaks?", SHOWN),
    ("Würden Sie den Kettle aus W1001 erstatten, wenn er kaputtgeht?", SHOWN),
    ("Werden Sie W1001 erstatten, falls es nicht passt?", SHOWN),
    ("Please confirm the refund of W1001.", SHOWN),
    ("Can you confirm the refund for W1001 was sent?", SHOWN),
    ("Could you please confirm that W1001 was refunded?", SHOWN),
    ("Bitte bestätigen Sie die Erstattung für W1001.", SHOWN),
    ("Können Sie bestätigen, dass W1001 erstattet wurde?", SHOWN),
    ("Have you refunded the kettle of W1001?", SHOWN),
    ("Have you already sent the refund for W1001?", SHOWN),
    ("Haben Sie den Kettle aus W1001 erstattet?", SHOWN),
    ("Wurde der Kettle aus W1001 schon erstattet?", SHOWN),
    ("Can the kettle of W1001 be refunded?", SHOWN),
    ("Can W1001 still be refunded?", SHOWN),
    ("Kann der Kettle aus W1001 erstattet werden?", SHOWN),
    ("The refund for the kettle of my order W1001 has not arrived", SHOWN),
    ("Die Erstattung für den Kettle aus W1001 ist immer noch nicht eingegangen", SHOWN),
    # asked politely, or with a word of the above: it is paid
    ("Can you refund the kettle of W1001?", "refund all kettle"),
    ("Could the kettle of W1001 be refunded please, it is broken", "refund all kettle"),
    ("Could the kettle of W1001 be refunded please?", "refund all kettle"),
    ("Can the kettle of W1001 be refunded? It is broken.", "refund all kettle"),
    ("Would you refund the kettle of W1001? It is broken", "refund all kettle"),
    ("Would you refund the kettle of W1001 if possible?", "refund all kettle"),
    ("Would you please refund the kettle of W1001 if it is not too late?", "refund all kettle"),
    ("Would you mind refunding the kettle of W1001?", "refund all kettle"),
    ("Please refund W1001 and confirm it", WHOLE),
    ("Please refund W1001 and confirm the refund by mail", WHOLE),
    ("Please refund W1001. Please confirm the refund.", WHOLE),
    ("Please confirm and refund W1001", WHOLE),
    ("I confirm the refund of W1001", WHOLE),
    ("I can confirm that the kettle of W1001 is broken, please refund it", "refund all kettle"),
    ("I'd like to have you refund the kettle of W1001", "refund all kettle"),
    ("Have you seen the pictures? Please refund the kettle of W1001", "refund all kettle"),
    ("Können Sie den Kettle aus W1001 erstatten?", "refund all kettle"),
    ("Könnte der Kettle aus W1001 bitte erstattet werden, er ist kaputt", "refund all kettle"),
    ("Könnte der Kettle aus W1001 bitte erstattet werden?", "refund all kettle"),
    ("Würden Sie den Kettle aus W1001 erstatten? Er ist kaputt.", "refund all kettle"),
    ("Würden Sie bitte den Kettle aus W1001 erstatten, wenn möglich?", "refund all kettle"),
    ("Bitte erstatten Sie W1001 und bestätigen Sie es", WHOLE),
    ("Bitte erstatten Sie W1001 und bestätigen Sie die Erstattung", WHOLE),
    # the one that is missing
    ("I ordered three mugs in W1001 but only two arrived, refund the missing one", "refund 1 mug"),
    (
        "I ordered three mugs in W1001 but only two arrived. Please refund the third one.",
        "refund 1 mug",
    ),
    (
        "Ich habe drei Mugs in W1001 bestellt, aber nur zwei erhalten, bitte erstatten Sie den fehlenden.",
        "refund 1 mug",
    ),
    (
        "Drei Mugs in W1001 bestellt, nur zwei kamen an, bitte den fehlenden erstatten",
        "refund 1 mug",
    ),
    ("Please refund the missing mugs of W1001", "refund all mug"),
    ("Bitte die fehlenden Mugs aus W1001 erstatten", "refund all mug"),
    ("Refund the missing one, W1001", ASKED),
    # all of an order only if the letter says so
    ("I want my money back for W1001", WHOLE),
    ("Please refund my last order, W1001", WHOLE),
    ("I want to return order W1001", WHOLE),
    ("My order W1001 never arrived, I want a refund", WHOLE),
    ("I never received W1001. Please refund it.", WHOLE),
    ("I haven't received W1001, I want my money back", WHOLE),
    ("The parcel of W1001 never arrived. I want my money back.", WHOLE),
    ("They are all broken, please refund. W1001", WHOLE),
    ("I changed my mind about W1001, please refund", WHOLE),
    ("Ich brauche die Bestellung W1001 nicht mehr, bitte Geld zurück", WHOLE),
    ("Bitte erstatten Sie mir die Bestellung W1001", WHOLE),
    ("Bestellung W1001 kam nie an, bitte Geld zurück", WHOLE),
    ("Ich möchte W1001 zurückschicken.", WHOLE),
    ("Alles aus W1001 ist kaputt", WHOLE),
    ("It leaks, refund please. W1001", ASKED),
    ("Just one of them is broken. W1001", ASKED),
    ("Order W1001 came with a broken cup, refund", ASKED),
    ("Please refund the blue one from W1001", ASKED),
    ("Please refund everything except the toaster, W1001", ASKED),
    ("I want my money back. One thing of W1001 broke.", ASKED),
    ("Ich möchte eine Tasse aus W1001 zurückgeben", ASKED),
    ("Eine Tasse aus W1001 ist kaputt, bitte Geld zurück", ASKED),
    ("Eine davon ist kaputt. W1001", ASKED),
    ("One parcel of W1001 never arrived. I want my money back.", ASKED),
    ("Einer der drei Mugs (W1001) ist undicht. Bitte erstatten", "refund 1 mug"),
    ("Eine der Headphones aus W1001 ist kaputt, bitte Geld zurück", "refund all phones"),
    ("Ein Mug aus W1001 ist kaputt, bitte Geld zurück", "refund 1 mug"),
    # a defect of something that is no item
    ("My discount code does not work", "ask_which_order"),
    ("My discount code does not work. Order W1001", SHOWN),
    ("Your website does not work", "ask_which_order"),
    ("The link in your mail is broken", "ask_which_order"),
    ("The tracking link of W1001 does not work", SHOWN),
    ("Mein Gutscheincode funktioniert nicht, Bestellung W1001", SHOWN),
    ("Your website is broken. My kettle of W1001 is broken, too", "refund all kettle"),
    ("The return form does not work. Please refund the kettle of W1001", "refund all kettle"),
    ("My account says delivered but the kettle of W1001 never arrived", "refund all kettle"),
    # part of the money
    ("Please refund half of the mugs W1001", PART),
    ("Please refund 20 dollars of the kettle W1001", PART),
    ("Bitte erstatten Sie mir 20 Euro für den Kettle aus W1001", PART),
    ("Please refund the difference, the kettle of W1001 is cheaper now", PART),
    ("Please refund the $49.99 for the kettle of W1001", "refund all kettle"),
    ("Refund the kettle of W1001, I want my 49.99 dollars back", "refund all kettle"),
    ("I paid 49.99 dollars for the kettle of W1001. It leaks, refund it", "refund all kettle"),
    # another one instead of a refund, or the other way round
    ("No refund please, just send a new kettle W1001", "replacement all kettle"),
    ("I'd rather have a new kettle than a refund. W1001", "replacement all kettle"),
    ("Please send another mug, one was broken W1001", "replacement 1 mug"),
    ("The mug handle broke off. Can you send a new one? W1001", "replacement 1 mug"),
    ("I want a new mug, one arrived broken. W1001", "replacement 1 mug"),
    ("Lieber einen neuen Kettle als eine Erstattung, W1001", "replacement all kettle"),
    ("Statt einer Erstattung hätte ich gern einen neuen Kettle. W1001", "replacement all kettle"),
    ("I'd rather have my money back than a new kettle. W1001", "refund all kettle"),
    ("Please don't send another mug, refund the broken one. W1001", "refund 1 mug"),
    ("I don't just want a new kettle, I want my money back. W1001", "refund all kettle"),
    ("Can you send a new tracking link for W1001?", SHOWN),
    # no wish for a refund any more, or not yet
    ("Am I eligible for a refund on W1001?", SHOWN),
    ("Would I be eligible for a refund for the kettle W1001?", SHOWN),
    ("Habe ich Anspruch auf eine Erstattung für W1001?", SHOWN),
    ("The kettle of W1001 is broken. Am I eligible for a refund?", "refund all kettle"),
    ("I already got the refund for W1001, thanks", "welcome"),
    ("Ich habe die Erstattung für W1001 schon bekommen, danke", "welcome"),
    ("I already got a new kettle, please refund the one of W1001", "refund all kettle"),
    ("Still no refund for W1001!", SHOWN),
    ("No refund please. W1001", "withdraw"),
    ("I changed my mind, I want to keep the kettle. W1001", "withdraw"),
    ("I changed my mind about the refund for W1001, keep it", "withdraw"),
    ("I changed my mind about returning the kettle of W1001", "withdraw"),
    ("I was going to ask for a refund of the kettle W1001 but it's fine now", "withdraw"),
    ("Ich habe es mir anders überlegt, ich behalte den Kettle. W1001", "withdraw"),
    ("I changed my mind, W1001. I keep the mugs but return the kettle", "refund all kettle"),
    ("I changed my mind about the kettle. Please refund it. W1001", "refund all kettle"),
]

# The order has nothing but three mugs.
OF_ONE_ITEM = [
    ("They leak. W1001", "refund all mug"),
    ("I want my money back. Order W1001.", "refund all mug"),
    ("Sie sind kaputt, bitte Geld zurück. Bestellung W1001", "refund all mug"),
    ("Just one of them is broken. W1001", "refund 1 mug"),
    ("Eine Tasse aus W1001 ist kaputt, bitte Geld zurück", ASKED),
    ("The toaster of W1001 is broken. It leaks, refund it please", ASKED),
    ("My discount code does not work. Order W1001", SHOWN),
    ("I don't like your website. W1001", SHOWN),
    ("I can't open the link, it doesn't work. W1001", SHOWN),
    ("Your driver damaged my fence. W1001", ASKED),
    ("No need for a refund, one mug of W1001 just lost its colour", SHOWN),
    ("I didn't ask for a refund for W1001", SHOWN),
]


@pytest.mark.parametrize(("text", "expected"), LETTERS)
def test_a_letter_is_understood(text: str, expected: str) -> None:
    assert outcome(text) == expected


@pytest.mark.parametrize(("text", "expected"), OF_ONE_ITEM)
def test_what_an_order_of_one_item_leaves_open_is_that_item(text: str, expected: str) -> None:
    assert outcome(text, order={**ORDER, "items": ORDER["items"][1:2]}) == expected


@pytest.mark.parametrize("subject", ["Re: Your refund of W1001", "W1001", "Refund the kettle"])
def test_thanks_for_a_refund_ask_for_nothing_whatever_the_subject(subject: str) -> None:
    assert outcome("I got my refund, thanks!\n\nAda", subject) == "welcome"
    assert outcome("Thanks for the refund!\nBest regards, Ada", subject) == "welcome"
    asking = "I got my refund, thanks!\nThe mug of W1001 is broken, too."
    assert outcome(asking, subject) in ("refund 1 mug", "refund all kettle, 1 mug")


def test_there_are_fifty() -> None:
    assert len(LETTERS) >= 50
