"""The pictures of the console, and docs/screens.md that shows them: `python -m tests.programs.screens`
takes them anew from a running demo, each page light and dark, on a phone and on a desk.

With names of pages, only those. Needs Chromium on the PATH. Nothing here is a test; pytest does not
collect it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

from playwright.sync_api import Browser, StorageState

from mailagent.demo import shop as demo_shop
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor
from tests.cast import GRACE, MAX, MONA, OLGA, TESS
from tests.harness import wait_until
from tests.programs.screenshots import PICTURES, demo_running, opened, save, studio, write

LARGEST_BYTES = 100_000
DOCUMENT = PICTURES.parent / "screens.md"

# (how it is called, width, height, how much of it: a phone shows what fits, a desk the whole page)
WINDOWS = (("phone", 390, 844), ("desktop", 1200, 800))
TALLEST = 1500  # of a page that is longer, the beginning is shown

# What is shown, in this order, and what to see on it.
CAPTIONS: Mapping[str, tuple[str, str]] = {
    "login": (
        "Log in",
        "An address is asked for, never a password. The answer is the same for everybody.",
    ),
    "inbox": ("Inbox", "What waits for people, the oldest first."),
    "search": ("Search", "By order, address, or words of a mail."),
    "drafts": (
        "Drafts",
        "Answers of the agent that wait until a person sends them.",
    ),
    "draft": (
        "One draft",
        "Send it as it is, change it, discard it, or take the conversation over.",
    ),
    "conversation": ("Conversation", "Everything that happened, in one line of time."),
    "refund": ("Refund", "What was asked, decided, paid and told, and when."),
    "customer": ("Customer", "All of theirs, on one page."),
    "erase": ("Erase", "What is forgotten and what is kept, before the button."),
    "runs": ("Runs", "What the engine recorded, beside what the rows say."),
    "run": ("A run that failed", "Its steps, what each gave back, and the error."),
    "replay": (
        "Before a replay",
        "Which steps are kept, which run again, and whether mail or money is among them.",
    ),
    "audit": ("Audit", "Who did what, and when."),
}


def main() -> None:
    """Take every picture and write the document. Raises SystemExit when a picture is too large."""
    with studio() as (browser, path), demo_running(path / "console") as (providers, supervisor):
        live_through(providers, supervisor)
        people = log_in(browser, providers)
        places = find_places(browser, people, providers.app_url)
        assert places.keys() == CAPTIONS.keys(), places
        for name, url in places.items():
            if name not in (sys.argv[1:] or CAPTIONS):
                continue
            picture(browser, None if name == "login" else people, name, url)
    DOCUMENT.write_text(document(), "utf-8")


def live_through(providers: Providers, supervisor: Supervisor) -> None:
    """Let a week of a shop happen: paid, waiting, handed over, drafted, failed."""
    letters = {letter.name: letter for letter in demo_shop.READY_MAILS}
    write(providers, letters["small"], "ada@example.com", 2)
    write(providers, letters["expensive"], MONA, 1)
    write(providers, letters["angry"], TESS, 1)
    write(providers, letters["german"], "juergen@example.net", 2)
    restart(supervisor, DRAFT_REPLIES="all", DRAFT_REFUNDS="all")
    before = len(providers.mailboxes.sent(MONA)) + len(providers.mailboxes.sent(MAX))
    write(providers, letters["no_number"], MONA, before + 1)
    restart(supervisor, OPENAI_BASE_URL=f"{providers.sendgrid.url}/v1")
    write(providers, letters["nonsense"], OLGA, 1)


def restart(supervisor: Supervisor, **settings: str) -> None:
    """Let the app go on under other settings."""
    supervisor.environment.update(settings)
    supervisor.crash()
    supervisor.wait_until_ready()


def log_in(browser: Browser, providers: Providers) -> StorageState:
    """Log Olga in as she does it herself; return what her browser then knows."""
    before = len(providers.mailboxes.sent(OLGA))
    with_context = browser.new_context()
    page = with_context.new_page()
    page.goto(f"{providers.app_url}/ops")
    page.get_by_label("Your address in the shop").fill(OLGA)
    page.get_by_role("button", name="Mail me a link").click()
    wait_until(lambda: len(providers.mailboxes.sent(OLGA)) > before, 30, "a link to log in")
    found = re.search(r"\S+/ops/login/\S+", providers.mailboxes.sent(OLGA)[-1].text)
    assert found is not None
    page.goto(found[0])
    page.get_by_role("button", name="Log in as").click()
    state = with_context.storage_state()
    with_context.close()
    return state


def find_places(browser: Browser, people: StorageState, url: str) -> dict[str, str]:
    """Return the address of each page that is pictured, found as people find it: by links."""
    context = browser.new_context(storage_state=people)
    page = context.new_page()

    def first(start: str, pattern: str) -> str:
        page.goto(url + start)
        links = page.locator("main a").evaluate_all("all => all.map(each => each.href)")
        found = [str(link) for link in links if re.search(pattern, link)]
        if not found:
            sys.exit(f"{start} leads nowhere like {pattern}, but to {links}")
        return found[0]

    conversation = first(f"/ops/customers/{GRACE}", r"/ops/conversations/[^/?#]+$")
    failed = first("/ops/runs?status=failed", r"/ops/runs/[^?]+$")
    places = {
        "login": f"{url}/ops/login",
        "inbox": f"{url}/ops",
        "search": f"{url}/ops/search?q=laptop",
        "drafts": f"{url}/ops?waiting=drafts",
        "draft": first("/ops?waiting=drafts", r"/ops/drafts/[^/?#]+$"),
        "conversation": conversation,
        "refund": first(conversation.removeprefix(url), r"/ops/refunds/[^/?#]+$"),
        "customer": f"{url}/ops/customers/{GRACE}",
        "erase": f"{url}/ops/customers/{GRACE}/erase",
        "runs": f"{url}/ops/runs",
        "run": failed,
        "replay": first(failed.removeprefix(url), r"/replay"),
        "audit": f"{url}/ops/audit",
    }
    context.close()
    return places


def picture(browser: Browser, people: StorageState | None, name: str, url: str) -> None:
    """Take a page in every window and scheme. Raises SystemExit for one that is too large."""
    for window, width, height in WINDOWS:
        for scheme in ("light", "dark"):
            with opened(browser, url, (width, height), scheme, people) as page:
                place, whole = f"{name}-{window}-{scheme}", window == "desktop"
                save(page, place, whole, TALLEST, LARGEST_BYTES, palette=True)


def document() -> str:
    """Return docs/screens.md."""
    return "\n".join([OPENING, *_sections()]) + "\n"


OPENING = """\
# Screens

Every page that people of the shop see, light or dark as the reader's own screen is.
The pictures are taken from a running demo, by `python -m tests.programs.screens` and \
`python -m tests.programs.screenshots`.
To try the pages, start `flask demo` and log in at `/ops` as olga@shop.example.
Her mailbox is on the demo's page.

## Approve

From the link in the manager's mail, without a login and without JavaScript.
"""

APPROVALS = ("approval-phone", "approval-desktop")


def _sections() -> Iterator[str]:
    yield " ".join(
        shown(name, "The manager's page", 260 if "phone" in name else 520) for name in APPROVALS
    )
    for name, (title, words) in CAPTIONS.items():
        yield f"\n## {title}\n\n{words}\n"
        yield " ".join(
            shown(f"{name}-{window}", f"{title}, on a {window}", 220 if window == "phone" else 560)
            for window, _, _ in WINDOWS
        )


def shown(name: str, words: str, width: int) -> str:
    """Return a picture in the reader's own scheme."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="pictures/{name}-dark.png">'
        f'<img src="pictures/{name}-light.png" width="{width}" alt="{words}"></picture>'
    )


if __name__ == "__main__":
    main()
