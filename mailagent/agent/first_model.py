"""A cheaper model that works on a mail first, and when the main one takes over. Pure: what has happened
decides, and that is on record.

The first one looks things up and answers. As soon as money is at stake, as it would hand over, calls
badly, gives no answer or may not be asked, or has written a reply that is not true, the main one begins
with the case anew: it neither reads what the first one made of it, nor reasoning that only that one can read.
"""

from __future__ import annotations

from dataclasses import replace

from mailagent.agent import loop, tools

# What the first model does itself; it changes nothing.
_LOOKS = (tools.FindMyOrders, tools.LookAtOrder)


def begun(spent: loop.Spent, has_begun: bool, there_is_one: bool, items: int) -> loop.Spent:
    """Return `spent` with who works on the mail now; `items` is how many there are by now."""
    if not has_begun and there_is_one:
        return replace(spent, first_model=1)
    if spent.first_model and (spent.unusable_replies or not there_is_one):
        return escalated(spent, items)
    return spent


def escalated(spent: loop.Spent, items: int) -> loop.Spent:
    """Return `spent` with the main model at work, to which none of the items so far is told."""
    return replace(spent, first_model=0, left_items=items, unusable_replies=0)


def is_left_to_main(move: loop.Move, has_answered: bool, has_goodwill: bool) -> bool:
    """Say whether what the first model wants is for the main one to decide. `has_answered`: its server is
    well, whatever the answer is worth."""
    match move:
        case loop.CallTool():
            call = tools.parse_call(move.name, move.arguments, has_goodwill)
            return not isinstance(call, _LOOKS)
        case loop.AskPerson():
            return True
        case loop.AskAgain():
            return has_answered or is_its_own_trouble(move)
    return is_its_own_trouble(move)


def is_its_own_trouble(move: loop.Move) -> bool:
    """Say whether a model cannot be asked while others of the same provider can: it is not to be had, or its
    limits a minute, which it has for itself, are used up."""
    match move:
        case loop.AskAgain(limited=limited):
            return limited
        case loop.AskOperator(about_model=about_model):
            return about_model
    return False
