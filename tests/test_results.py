"""The tables of measurements in the documents: from docs/results.json, at commits that exist, and marked when
what they measure has changed since."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mailagent.app import ROOT
from tests.programs.full_run import __main__ as program
from tests.programs.full_run import history, pieces
from tests.programs.full_run.parts import PRODUCT, Part, load_parts, module_of
from tests.programs.full_run.results import OLD, block_of, fill_in, read_results
from tests.programs.proof import part_of

PARTS, RESULTS = load_parts(), read_results()
DOCUMENTS = {part.document for part in PARTS.values() if part.document}


def git(folder: Path, *arguments: str) -> str:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    done = subprocess.run(["git", *named, *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.py").write_text('"""Why."""\n\nx = 1  # one\n')
    (tmp_path / "b.html").write_text("<p>")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "Begin")
    return tmp_path


# --- what stands in the documents -----------------------------------------------------------------


def test_each_result_is_of_a_part_that_there_is() -> None:
    assert RESULTS.keys() <= PARTS.keys()


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_is_of_a_commit_before_this_one_and_held(name: str) -> None:
    result = RESULTS[name]
    assert history.is_in_history(result["commit"]), "run it again at a commit of this history"
    assert result["outcome"] == "held"
    assert not re.search("BROKEN|differs|not reached|survived", result["table"])


def test_the_tables_are_those_of_the_results() -> None:
    wanted = fill_in(PARTS.values(), RESULTS)
    assert wanted.keys() == DOCUMENTS
    wrong = [each.name for each in DOCUMENTS if each.read_text("utf-8") != wanted[each]]
    assert wrong == [], "write them again: python -m tests.programs.full_run --tables"


@pytest.mark.parametrize("name", PARTS)
def test_each_part_can_be_run(name: str) -> None:
    part = PARTS[name]
    assert all((ROOT / path).exists() for path in (*PRODUCT, *part.measures))
    assert all(any(ROOT.glob(path)) for path in part.leaves_out)
    for program_name, *_ in part.pieces:
        assert find_spec(module_of(program_name))
    if part.document:
        part_of(part.document.read_text("utf-8"), name)


def test_every_table_of_the_benchmarks_has_its_part() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert set(re.findall(r"<!-- end of (.+?) -->", text)) <= PARTS.keys()


# --- what changed since a commit ------------------------------------------------------------------


def test_other_comments_are_no_change(repository: Path) -> None:
    (repository / "a.py").write_text('"""Another reason."""\n# more\nx = 1\n')
    (repository / "b.html").write_text("{# Of two\nlines. #}<p>")
    assert not history.has_changed("HEAD", ["a.py", "b.html"], repository)


@pytest.mark.parametrize(("file", "text"), [("a.py", '"""Why."""\n\nx = 2\n'), ("b.html", "<b>")])
def test_another_line_of_code_is_a_change(repository: Path, file: str, text: str) -> None:
    (repository / file).write_text(text)
    assert history.has_changed("HEAD", [file], repository)
    others = [name for name in ("a.py", "b.html") if name != file]
    assert not history.has_changed("HEAD", others, repository)


def test_what_a_part_leaves_out_does_not_make_it_old(repository: Path) -> None:
    (repository / "b.html").write_text("<b>")
    part = Part("a", ((),), 1, measures=("a.py", "b.html"), leaves_out=("b.html",))
    assert history.has_changed("HEAD", part.measures, repository)
    assert not history.has_changed("HEAD", part.paths, repository)
    (repository / "a.py").write_text("x = 2\n")
    assert history.has_changed("HEAD", part.paths, repository)


def test_a_file_that_went_or_came_is_a_change(repository: Path) -> None:
    (repository / "a.py").unlink()
    (repository / "c.py").write_text("")
    git(repository, "add", ".")
    assert history.has_changed("HEAD", ["a.py"], repository)
    assert history.has_changed("HEAD", ["c.py"], repository)


def test_a_commit_of_another_history_is_none_of_ours(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert history.is_in_history(head, repository)
    git(repository, "checkout", "--quiet", "--orphan", "other")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "Another beginning")
    assert not history.is_in_history(head, repository)
    assert not history.is_in_history("0" * 40, repository)
    with pytest.raises(ValueError, match="0000000"):
        history.has_changed("0" * 40, ["."], repository)


def test_a_table_says_that_it_is_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"commit": "c0ffee1", "date": "2026-11-25", "machine": {}, "seconds": 61}
    result |= {"outcome": "held", "table": "| 1 |\n"}
    monkeypatch.setattr(history, "has_changed", lambda *_: False)
    assert "c0ffee1, 2026-11-25, 1 minute;" in block_of(PARTS["money"], result)
    assert OLD not in block_of(PARTS["money"], result)
    monkeypatch.setattr(history, "has_changed", lambda *_: True)
    assert OLD in block_of(PARTS["money"], result)


# --- a run ----------------------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let pieces of parts print a line instead; return `count` of these, their exit `code` and the `kept`
    results."""
    state: dict[str, Any] = {"count": 0, "code": 0, "kept": {}}
    real = subprocess.run

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if command[0] == "git":
            return real(command, **options)
        state["count"] += 1
        script = f"print('12 held'); raise SystemExit({state['code']})"
        return real([sys.executable, "-c", script], **options)

    head = history._git(ROOT, "rev-parse", "HEAD").stdout.decode().strip()
    monkeypatch.setattr(program, "FOLDER", tmp_path / "raw")
    monkeypatch.setattr(program, "this_run", lambda: {"commit": head, "date": "2026-11-25"})
    monkeypatch.setattr(pieces, "has_changed", lambda *_: False)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(program, "read_results", lambda: state["kept"])
    monkeypatch.setattr(program, "write_results", state["kept"].update)
    return state


def test_a_piece_that_held_is_not_run_again(ran: dict[str, Any]) -> None:
    assert program._run(PARTS["restore"], again=False)
    assert program._run(PARTS["restore"], again=False)
    assert ran["count"] == 1
    assert program._run(PARTS["restore"], again=True)
    assert ran["count"] == 2
    assert "12 held" in json.dumps(ran["kept"]["restore"])


def test_a_piece_that_failed_is_run_again(ran: dict[str, Any]) -> None:
    ran["code"] = 1
    assert not program._run(PARTS["restore"], again=False)
    ran["code"] = 0
    assert program._run(PARTS["restore"], again=False)
    assert ran["count"] == 2


def test_a_piece_is_run_again_if_what_it_measures_has_changed(
    ran: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program._run(PARTS["restore"], again=False)
    monkeypatch.setattr(pieces, "has_changed", lambda *_: True)
    assert program._run(PARTS["restore"], again=False)
    assert ran["count"] == 2


def test_an_unknown_part_is_named() -> None:
    command = [sys.executable, "-m", "tests.programs.full_run", "--only", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "crash sweep" in done.stderr
