"""Writes our mails: from rows and templates to rows of outbound mail, in the transaction that records what a
mail tells.

Pages and workflows both write mail and must not import each other, so this package stands below both. What they
use is imported here.
"""

from mailagent.mailers.approval_routing import is_waited_for
from mailagent.mailers.compose import Notice, copy_notice, write_notice
from mailagent.mailers.facts import Reader
from mailagent.mailers.letter import Letter, letter_by_person, reader_of, write_letter
from mailagent.mailers.renewal import renew_if_late
from mailagent.mailers.to_customers import (
    write_handed_over,
    write_offer,
    write_person_reply,
    write_promise,
    write_receipt,
    write_refund_outcome,
    write_refund_returned,
    write_remedy,
    write_reply,
    write_team_reply,
)
from mailagent.mailers.to_managers import (
    answer_manager,
    ask_managers,
    ask_next_manager,
    ask_second_for_task,
    list_unsent_requests,
    write_expired,
)
from mailagent.mailers.to_team import hand_to_team, write_login_link, write_to_team
