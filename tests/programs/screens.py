"""Take the pictures of the demo, of approvals and of the console anew from a running demo, and write
docs/screens.md that shows them: `python -m tests.programs.screens [NAME …]`.

With names of the console's pages, only those. It needs Chromium on the PATH.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import click
import httpx2
from PIL import Image
from playwright.sync_api import Browser, Page, StorageState, sync_playwright

from mailagent.app import ROOT
from mailagent.demo import shop as demo_shop
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor, run_command
from mailagent.demo.show import find_port
from mailagent.demo.story import find_link
from tests.cast import ADA, GRACE, JUERGEN, MAX, MONA, OLGA, TESS
from tests.harness import wait_until

PICTURES = ROOT / "docs" / "pictures"
DOCUMENT = PICTURES.parent / "screens.md"
LARGEST_BYTES = 200_000
COLOURS = 128  # with 64, the red of a single button is lost

DESKTOP, WHOLE_DEMO = (1400, 860), (1400, 1500)
PHONE = (390, 844)
# Of the console: the name of a window and its size. A phone shows what fits, a desk the page down to here.
WINDOWS = {"phone": PHONE, "desktop": (1200, 800)}
TALLEST, TALLEST_OF_CONSOLE = 1500, 1200

CHROMIUM = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-lcd-text",  # coloured edges of letters take twice the space
]

# Two items, of which a manager may choose.
TWO_ITEMS = demo_shop.ReadyMail(
    "two items",
    "Two items",
    "Grace Sample <grace@example.org>",
    "My camera",
    "Hello,\n\nthe camera and the lens of my order W1010 arrived damaged. Please refund both.\n\nGrace",
)

# What is shown, in this order, and what to see on it.
CAPTIONS: Mapping[str, tuple[str, str]] = {
    "login": (
        "Log in",
        "An address is asked for, and no password. The answer is the same for everybody.",
    ),
    "inbox": ("Inbox", "What waits for people, the oldest first."),
    "german": ("In German", "The console speaks the languages of the mails."),
    "search": ("Search", "By order, address, or words of a mail."),
    "drafts": (
        "Drafts",
        "Answers of the agent that wait until a person sends them.",
    ),
    "draft": (
        "One draft",
        "Send it as it is, change it, discard it, or take the conversation over.",
    ),
    "conversation": (
        "Conversation",
        "What the customer last wrote, and the answer beside it; what machines did is folded.",
    ),
    "organised": (
        "Tags and a note",
        "What people of the shop tell each other; the customer reads none of it.",
    ),
    "conversations": ("Conversations", "Open, waiting, snoozed and closed, with tags and owners."),
    "snoozed": ("Snoozed", "They come back at their time, or when the customer writes."),
    "closed": ("Closed", "They open again when the customer writes."),
    "refunding": (
        "A refund by the team",
        "Item by item, through the same policy and the same managers.",
    ),
    "saved-replies": ("Saved replies", "Texts with places for the customer's facts."),
    "shortcuts": ("Shortcuts", "What the keys do, by pressing `?`."),
    "tasks": ("Tasks", "What customers asked for that people of the shop do."),
    "refund": ("Refund", "What was asked, decided, paid and told, and when."),
    "customer": ("Customer", "All of theirs, on one page."),
    "erase": ("Erase", "What is forgotten and what is kept, before the button."),
    "knowledge": (
        "Knowledge",
        "Questions of customers that no passage answers, and the passages that replies quoted.",
    ),
    "settlements": ("Settlements", "Refunds in the ledger that the shop has to pay."),
    "report": ("Report", "How the shop's support does, in charts and tables."),
    "model": ("Model", "What the model used, day by day."),
    "comparisons": (
        "Comparisons",
        "What another model, prompt or policy would have done about the same mail.",
    ),
    "runs": ("Runs", "What the engine recorded, beside what the rows say."),
    "alert": ("Alert", "The mail to operators when the model's provider refuses us."),
    "replays": ("Replay together", "What failed, by reason."),
    "plan": (
        "The plan of a replay together",
        "Which runs, what is kept, what happens again, and the rows as they are now.",
    ),
    "progress": ("Its progress", "What is done, under way, or has failed again."),
    "run": ("A run that failed", "Its steps, what each gave back, and the error."),
    "replay": (
        "Before a replay",
        "Which steps are kept, which run again, and whether mail or money is among them.",
    ),
    "audit": ("Audit", "Who did what, and when."),
    "helped": ("Did this help?", "What a customer sees who says so by the link in an answer."),
    "error": ("An error", "What is wrong, and where to go on."),
}


OPENING = """\
# Screens

The pages that people of the shop use most, light or dark as the reader's own screen is.
The pictures are taken from a running demo, by `python -m tests.programs.screens`.
To try the pages, start `flask demo` and log in at `/ops` as olga@shop.example.
Her mailbox is on the demo's page.

## Approve

From the link in the manager's mail, without a login and without JavaScript.
"""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(CAPTIONS)))
def main(names: tuple[str, ...]) -> None:
    """Take every picture, or those of some pages of the console, and write docs/screens.md.

    Exits with 1 if a picture is too large to be kept.
    """
    with studio() as (browser, path):
        if not names:
            picture_demo(browser, path / "demo")
        picture_console(browser, path / "console", names or tuple(CAPTIONS))
    DOCUMENT.write_text("\n".join([OPENING, *_sections()]) + "\n", "utf-8")


def picture_console(browser: Browser, path: Path, names: tuple[str, ...]) -> None:
    """Picture these pages in every window, light and dark."""
    with demo_running(path, ASK_IF_HELPED="yes") as (providers, supervisor):
        live_through(providers, supervisor)
        people = log_in(browser, providers)
        places = find_places(browser, people, providers.app_url)
        places["alert"] = save_alert(providers, path)
        places["helped"] = find_question(providers)
        places["organised"] = organise(browser, people, providers.app_url)
        places["plan"] = fail_together(browser, people, providers.app_url, supervisor)
        for name in names:
            if name == "progress":
                places[name] = replay_together(browser, people, places["plan"])
            logged_in = None if name in ("login", "helped") else people
            for window, size in WINDOWS.items():
                for scheme in ("light", "dark"):
                    with opened(browser, places[name], size, scheme, logged_in) as page:
                        prepare(page, name)
                        tallest = 0 if window == "phone" else TALLEST_OF_CONSOLE
                        save(page, f"{name}-{window}-{scheme}", tallest)


@contextmanager
def studio() -> Iterator[tuple[Browser, Path]]:
    """Give a browser, and a folder for demos. Raises SystemExit without Chromium."""
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    os.environ.pop("OPENAI_API_KEY", None)  # the pictures show the scripted model
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not on the PATH: install it (Debian: apt-get install chromium)")
    with (
        tempfile.TemporaryDirectory(prefix="mailagent-pictures-") as path,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM)
        yield browser, Path(path)
        browser.close()


def picture_demo(browser: Browser, path: Path) -> None:
    """Picture the demo's page, and the approval that its expensive letter leads to."""
    with demo_running(path, APPROVAL_UNDO_SECONDS="300") as (providers, _):
        write(providers, demo_shop.SMALL_REFUND, mails_to=ADA, count=2)
        write(providers, demo_shop.EXPENSIVE_REFUND, mails_to=MONA, count=1)
        link = find_link(providers.mailboxes.sent(MONA)[0]) or ""
        for scheme in ("light", "dark"):
            with opened(browser, link, PHONE, scheme, scale=2) as page:
                save(page, f"approval-phone-{scheme}")
            with opened(browser, link, DESKTOP, scheme) as page:
                save(page, f"approval-desktop-{scheme}", TALLEST)
            with opened(browser, f"{providers.app_url}/demo/", WHOLE_DEMO, scheme) as page:
                page.locator(f"[data-role][data-address='{MONA}']").click()
                page.get_by_text("Refund $1,499.00?").first.wait_for()
                page.frame_locator("iframe").get_by_text("Why you are asked").first.wait_for()
                page.mouse.move(0, 0)
                save(page, f"demo-{scheme}")
            with opened(browser, f"{providers.app_url}/demo/", PHONE, scheme) as page:
                save(page, f"demo-phone-{scheme}")
        write(providers, TWO_ITEMS, mails_to=MONA, count=2)
        of_two = find_link(providers.mailboxes.sent(MONA)[1]) or ""
        for scheme in ("light", "dark"):
            with opened(browser, of_two, PHONE, scheme) as page:
                for folded in ("Approve less", "Offer part of the price"):
                    page.get_by_text(folded).click()
                save(page, f"items-phone-{scheme}", TALLEST)
        with opened(browser, link, PHONE, "light") as page:
            page.get_by_role("button", name="Approve the refund").click()
        for scheme in ("light", "dark"):
            with opened(browser, link, PHONE, scheme) as page:
                save(page, f"undo-phone-{scheme}")


@contextmanager
def demo_running(path: Path, **settings: str) -> Iterator[tuple[Providers, Supervisor]]:
    """Run the demo's app and providers in a folder of their own."""
    path.mkdir()
    port = find_port(0)
    providers = Providers(path, port, os.environ)
    supervisor = Supervisor(path, port, providers.environment() | settings, print)
    providers.start()
    try:
        supervisor.prepare()
        supervisor.start()
        yield providers, supervisor
    finally:
        supervisor.stop()
        providers.stop()


def write(providers: Providers, letter: demo_shop.ReadyMail, mails_to: str, count: int) -> None:
    """Send a ready-made letter and wait for what it leads to."""
    fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
    httpx2.post(f"{providers.sendgrid.url}/demo/letters", json=fields, trust_env=False)
    boxes = providers.mailboxes
    wait_until(lambda: len(boxes.sent(mails_to)) >= count, 30, f"{count} mails to {mails_to}")


@contextmanager
def opened(
    browser: Browser,
    url: str,
    size: tuple[int, int],
    scheme: str,
    people: StorageState | None = None,
    scale: int = 1,
) -> Iterator[Page]:
    """Open a page in a window of `size`, light or dark; `people`: who is logged in."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=scale,
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        storage_state=people,
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("load")
    try:
        yield page
    finally:
        context.close()


def prepare(page: Page, name: str) -> None:
    """Bring a page into the state that its picture shows."""
    if name == "organised":
        page.locator("#organise").evaluate("title => title.scrollIntoView()")
    if name == "shortcuts":
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
    if name == "german":
        page.get_by_label("Language").select_option("de")
        press(page, "Change")


def save(page: Page, name: str, tallest: int = 0, colours: int = COLOURS) -> None:
    """Write what the window shows, or the whole page down to `tallest`, in so many colours.

    Raises SystemExit when the picture is too large to be kept.
    """
    size = page.viewport_size
    assert size is not None
    whole = page.evaluate("document.documentElement.scrollHeight")
    height = min(whole, tallest) if tallest else size["height"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
    data = page.screenshot(animations="disabled", full_page=bool(tallest), clip=clip)  # type: ignore[arg-type]  # its own TypedDict
    path = PICTURES / f"{name}.png"
    picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(colours)
    picture.save(path, "PNG", optimize=True)
    written = path.stat().st_size
    print(f"{path.name}: {written // 1000} kB")
    if written > LARGEST_BYTES:
        sys.exit(f"{path.name} has {written} bytes; at most {LARGEST_BYTES} are kept")


def live_through(providers: Providers, supervisor: Supervisor) -> None:
    """Let a week of a shop happen: paid, waiting, handed over, drafted, failed."""
    letters = {letter.name: letter for letter in demo_shop.READY_MAILS}
    write(providers, letters["small"], ADA, 2)
    write(providers, letters["expensive"], MONA, 1)
    write(providers, letters["angry"], TESS, 1)
    write(providers, letters["german"], JUERGEN, 2)
    write(providers, letters["address"], ADA, 3)
    restart(supervisor, MAILAGENT_SETTLES="")
    write(providers, letters["one_mug"], ADA, 4)
    compare(supervisor)
    restart(supervisor, DRAFT_REPLIES="all", DRAFT_REFUNDS="all")
    before = len(providers.mailboxes.sent(MONA)) + len(providers.mailboxes.sent(MAX))
    write(providers, letters["no_number"], MONA, before + 1)
    restart(supervisor, OPENAI_BASE_URL=f"{providers.sendgrid.url}/v1")
    write(providers, letters["nonsense"], OLGA, 1)


def compare(supervisor: Supervisor) -> None:
    """Ask what another policy would have done about the mail so far."""
    policy = supervisor.log.with_name("careful.toml")
    policy.write_text('version = "careful"\n[limits]\nUSD = "10.00"\nEUR = "10.00"\n')
    environment = supervisor.environment | {"REFUND_POLICY": str(policy)}
    run_command(["flask", "--app", "wsgi", "backtest"], environment)


def save_alert(providers: Providers, path: Path) -> str:
    """Write the alert as a mail program shows it; return its address."""
    alert = next(mail for mail in providers.mailboxes.sent(OLGA) if "/ops/login" not in mail.text)
    page = path / "alert.html"
    page.write_text(alert.html or "", "utf-8")
    return page.as_uri()


def find_question(providers: Providers) -> str:
    """Return the link by which a customer says that an answer helped."""
    text = "".join(mail.text for mail in providers.mailboxes.sent(ADA))
    found = re.search(r"\S+/helped/\S+", text)
    if found is None:
        sys.exit(f"no link to say that it helped: {text}")
    return found[0]


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


def organise(browser: Browser, people: StorageState, url: str) -> str:
    """Tag, snooze and close conversations, and write a note, as the team does; return the address of the one
    with the note."""
    with at_work(browser, people) as page:
        for subject in ("My kettle is broken", "W1015"):
            open_conversation(page, url, ADA, subject)
            tag(page, "kettle" if "kettle" in subject else "furniture")
            press(page, "Close")
        open_conversation(page, url, JUERGEN, "Wasserkocher kaputt")
        tag(page, "kettle")
        page.get_by_label("Snooze for").select_option("1 day")
        press(page, "Snooze")
        open_conversation(page, url, GRACE, "This is ridiculous")
        tag(page, "complaint")
        tag(page, "call back")
        page.get_by_text("Write an internal note").click()
        page.get_by_label("Note", exact=True).fill(
            "She rang at noon. Please call her back by Friday."
        )
        press(page, "Save the note")
        return page.url.partition("#")[0]


def open_conversation(page: Page, url: str, customer: str, subject: str) -> None:
    page.goto(f"{url}/ops/customers/{customer}")
    page.get_by_role("link", name=subject).click()
    page.wait_for_url("**/ops/conversations/*")


def tag(page: Page, name: str) -> None:
    page.get_by_label("New tag").fill(name)
    press(page, "Add tag")


def press(page: Page, name: str) -> None:
    """Press the button whose name begins so, and wait for the page that follows."""
    with page.expect_navigation():
        page.get_by_role("button", name=re.compile(f"^{name}")).click()


def fail_together(browser: Browser, people: StorageState, url: str, supervisor: Supervisor) -> str:
    """Let two refunds of the team fail for one reason; return the address of the plan of their replay."""
    restart(supervisor, DRAFT_REFUNDS="none")
    with (
        ledger_closed(supervisor.log.with_name("mailagent.db")),
        at_work(browser, people) as page,
    ):
        for customer, subject, order, item in (
            (ADA, "A broken mug", "W1002", "Tea tin"),
            (JUERGEN, "Wasserkocher kaputt", "W1012", "Trinkflasche"),
        ):
            open_conversation(page, url, customer, subject)
            page.goto(f"{page.url}/refund/{order}")
            page.get_by_label(item).fill("1")
            press(page, "Work out the amount")
            press(page, "Refund ")
        failed = page.locator("main a[href*='/ops/runs/refund-']")

        def have_failed() -> bool:
            page.goto(f"{url}/ops/runs?status=failed")
            return failed.count() == 2

        wait_until(have_failed, 30, "two refunds to fail")
        return first_link(page, f"{url}/ops/replays", "reason=")


@contextmanager
def ledger_closed(database: Path) -> Iterator[None]:
    """Let every payment fail as long as this lasts."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(
            "CREATE TRIGGER closed BEFORE INSERT ON ledger_entries"
            " BEGIN SELECT RAISE(ABORT, 'the ledger is closed'); END"
        )
        yield
        connection.execute("DROP TRIGGER closed")


def replay_together(browser: Browser, people: StorageState, plan: str) -> str:
    """Press the button of a plan; return the address of the progress."""
    with at_work(browser, people) as page:
        page.goto(plan)
        press(page, "Run these 2 again")
        return page.url


@contextmanager
def at_work(browser: Browser, people: StorageState) -> Iterator[Page]:
    """Open a window of somebody who is logged in."""
    context = browser.new_context(storage_state=people)
    yield context.new_page()
    context.close()


def first_link(page: Page, start: str, pattern: str) -> str:
    """Return where the first link like `pattern` on the page `start` leads. Raises SystemExit without one."""
    page.goto(start)
    links = page.locator("main a").evaluate_all("all => all.map(each => each.href)")
    found = [str(link) for link in links if re.search(pattern, link)]
    if not found:
        sys.exit(f"{start} leads nowhere like {pattern}, but to {links}")
    return found[0]


def find_places(browser: Browser, people: StorageState, url: str) -> dict[str, str]:
    """Return the address of each page that is pictured, found as people find it: by links."""
    with at_work(browser, people) as page:
        return _find_places(page, url)


def _find_places(page: Page, url: str) -> dict[str, str]:
    def first(start: str, pattern: str) -> str:
        return first_link(page, url + start, pattern)

    conversation = first(f"/ops/customers/{GRACE}", r"/ops/conversations/[^/?#]+$")
    failed = first("/ops/runs?status=failed", r"/ops/runs/[^?]+$")
    order = first(conversation.removeprefix(url), r"/refund/[^/?#]+$")
    return {
        "login": f"{url}/ops/login",
        "inbox": f"{url}/ops",
        "search": f"{url}/ops/search?q=laptop",
        "german": f"{url}/ops",
        "drafts": f"{url}/ops?waiting=drafts",
        "draft": first("/ops?waiting=drafts", r"/ops/drafts/[^/?#]+$"),
        "conversation": conversation,
        "refund": first(conversation.removeprefix(url), r"/ops/refunds/[^/?#]+$"),
        "customer": f"{url}/ops/customers/{GRACE}",
        "erase": f"{url}/ops/customers/{GRACE}/erase",
        "knowledge": f"{url}/ops/knowledge",
        "conversations": f"{url}/ops/conversations",
        "snoozed": f"{url}/ops/conversations?view=snoozed",
        "closed": f"{url}/ops/conversations?view=closed",
        "refunding": order,
        "saved-replies": f"{url}/ops/saved-replies",
        "shortcuts": f"{url}/ops",
        "error": f"{url}/ops/refunds/nothing",
        "tasks": f"{url}/ops/tasks",
        "settlements": f"{url}/ops/settlements",
        "report": f"{url}/ops/report?days=7",
        "model": f"{url}/ops/model",
        "comparisons": f"{url}/ops/comparisons",
        "runs": f"{url}/ops/runs",
        "replays": f"{url}/ops/replays",
        "run": failed,
        "replay": first(failed.removeprefix(url), r"/ops/runs/[^?]+/replay"),
        "audit": f"{url}/ops/audit",
    }


APPROVALS = ("approval-phone", "items-phone", "undo-phone", "demo-phone", "approval-desktop")


def _sections() -> Iterator[str]:
    yield " ".join(
        shown(name, "The manager's page", 260 if "phone" in name else 520) for name in APPROVALS
    )
    for name, (title, words) in CAPTIONS.items():
        yield f"\n## {title}\n\n{words}\n"
        yield " ".join(
            shown(f"{name}-{window}", f"{title}, on a {window}", 220 if window == "phone" else 560)
            for window in WINDOWS
        )


def shown(name: str, words: str, width: int) -> str:
    """Return a picture in the reader's own scheme."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="pictures/{name}-dark.png">'
        f'<img src="pictures/{name}-light.png" width="{width}" alt="{words}"></picture>'
    )


if __name__ == "__main__":
    main()
