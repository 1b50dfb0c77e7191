"""Picture a run's log in Inspect AI's viewer: `python -m tests.programs.inspect_log INSPECT FOLDER`.

INSPECT is the command `inspect` of a virtualenv with `mailagent/evals/requirements.txt`; FOLDER is the run's.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import click
import httpx2

from mailagent.app import ROOT
from tests.programs.screens import studio

PORT, SECONDS = 17_575, 60.0
PICTURE = ROOT / "docs" / "pictures" / "evals-log.png"
SIZE = {"width": 1200, "height": 620}
PATH_HEIGHT = 30  # the first line is the path of the folder


@click.command()
@click.argument("inspect")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(inspect: str, folder: Path) -> None:
    """Take the picture."""
    viewer = subprocess.Popen([inspect, "view", "--log-dir", str(folder), "--port", str(PORT)])
    try:
        _wait()
        with studio() as (browser, _):
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
            page.goto(f"http://127.0.0.1:{PORT}/")
            page.get_by_text("All scoring").wait_for()
            below = {"x": 0, "y": PATH_HEIGHT, "width": SIZE["width"]}
            clip = below | {"height": SIZE["height"] - PATH_HEIGHT}
            page.screenshot(path=PICTURE, clip=clip)  # type: ignore[arg-type]
    finally:
        viewer.terminate()
        viewer.wait()


def _wait() -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            httpx2.get(f"http://127.0.0.1:{PORT}/", trust_env=False)
            return
        except httpx2.HTTPError:
            time.sleep(0.5)
    raise click.ClickException("the viewer did not start")


if __name__ == "__main__":
    main()
