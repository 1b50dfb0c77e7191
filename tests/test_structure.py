"""How the code is kept small enough to live in: limits that CI holds.

The limits are in `pyproject.toml` under `[tool.mailagent]`. Raise one only on purpose, in the same commit as
the code that needs it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMITS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mailagent"]
MODULES = sorted((ROOT / "mailagent").rglob("*.py"))
PACKAGES = sorted({module.parent for module in MODULES})
REFUSED = re.compile(rf"\b(?:{'|'.join(LIMITS['refused_words'])})\b", re.IGNORECASE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def texts() -> Iterator[Path]:
    """Return what people read: code, tests, templates, documentation and the words of its drawings."""
    yield from MODULES
    yield from sorted((ROOT / "tests").rglob("*.py"))
    yield from (
        each for kind in ("js", "css") for each in sorted((ROOT / "mailagent").rglob(f"*.{kind}"))
    )
    yield from (path for path in (ROOT / "templates").rglob("*") if path.is_file())
    # The glossary says what the refused words have become.
    yield from (path for path in (ROOT / "docs").rglob("*.md") if path.name != "glossary.md")
    yield from (ROOT / "docs" / "pictures").glob("*.svg")
    yield ROOT / "README.md"


def test_no_package_has_more_modules_than_one_can_oversee() -> None:
    counts = {name(each): len([*each.glob("[!_]*.py")]) for each in PACKAGES}
    assert {each: n for each, n in counts.items() if n > LIMITS["modules_per_package"]} == {}


def test_no_module_is_longer_than_one_can_read() -> None:
    allowed = LIMITS["longer_modules"]
    found = {name(each): lines(each) for each in MODULES}
    limit = LIMITS["lines_per_module"]
    assert {each: n for each, n in found.items() if n > allowed.get(each, limit)} == {}
    assert {each: n for each, n in allowed.items() if found.get(each, 0) <= limit} == {}


def functions() -> Iterator[tuple[str, int]]:
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                yield f"{name(module)}::{node.name}", length


def test_no_function_is_longer_than_a_screen() -> None:
    allowed = LIMITS["longer_functions"]
    limit = LIMITS["lines_per_function"]
    assert {each: n for each, n in functions() if n > allowed.get(each, limit)} == {}
    assert allowed.keys() <= {each for each, n in functions() if n > limit}


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_grows_on_purpose_only(package: Path) -> None:
    # A package that is no longer than a module needs no line in the table.
    limit = LIMITS["lines_of_packages"].get(name(package), LIMITS["lines_per_module"])
    found = sum(lines(each) for each in package.glob("*.py"))
    assert found <= limit


def test_every_package_with_a_limit_is_there() -> None:
    assert set(LIMITS["lines_of_packages"]) <= {name(each) for each in PACKAGES}


@pytest.mark.parametrize("text", list(texts()), ids=name)
def test_words_of_our_own_do_not_come_back(text: Path) -> None:
    found = {
        number: line.strip()
        for number, line in enumerate(text.read_text("utf-8").splitlines(), 1)
        if REFUSED.search(line)
    }
    assert not REFUSED.search(text.stem)
    assert found == {}, "use the term of docs/glossary.md"


LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
# Such as "mail=%s event=not_renewed: it is sent as it was written".
LOG_LINE = re.compile(r"(?:\w+=\S+ )*event=\w+: \S")


def logger_calls(module: Path) -> Iterator[ast.Call]:
    """Return the calls of `logger.warning` and its like."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            receiver = ast.unparse(node.func.value)
            is_logger = receiver.split("(")[0].rpartition(".")[2] in {
                "log",
                "logger",
                "getLogger",
                "logging",
            }
            if is_logger and node.func.attr in LEVELS:
                yield node


def test_a_log_line_says_event_and_consequence() -> None:
    found = {
        name(module): [
            each.lineno
            for each in logger_calls(module)
            if not any(
                isinstance(arg, ast.Constant) and LOG_LINE.match(str(arg.value))
                for arg in each.args
            )
        ]
        for module in MODULES
    }
    assert {each: at for each, at in found.items() if at} == {}


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def test_there_are_few_decisions_and_their_numbers_have_no_gaps() -> None:
    assert len(DECISIONS) <= 30
    assert [int(each.name[:4]) for each in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("decision", DECISIONS, ids=name)
def test_a_decision_is_one_page_with_date_and_status(decision: Path) -> None:
    text = decision.read_text("utf-8")
    status = r"Date: \d{4}-\d\d-\d\d\. Status: (accepted|superseded by \d+)\."
    assert re.match(rf"# {int(decision.name[:4])}\. .+\n\n{status}\n\n## Context\n", text)
    assert text.count("\n## Decision\n") == text.count("\n## Consequences\n") == 1
    assert len(text.split()) <= 400


def test_the_readme_stays_short() -> None:
    assert lines(ROOT / "README.md") <= LIMITS["lines_of_readme"]


# Pages that programs write.
NO_GUIDES = {"reference.md", "screens.md"}
WRITTEN_BY_PROGRAMS = re.compile(r"<!-- (?!end)[^>]*-->.*?<!-- end of [^>]*-->", re.DOTALL)


def test_the_guides_do_not_grow() -> None:
    guides = (path for path in (ROOT / "docs").glob("*.md") if path.name not in NO_GUIDES)
    texts = (WRITTEN_BY_PROGRAMS.sub("", path.read_text("utf-8")) for path in guides)
    assert sum(len(text.split()) for text in texts) <= LIMITS["words_of_guides"]


IMPORT_OF_A_TEST = re.compile(
    r"^\s*(?:from tests\S*\.test_\w+ import|from tests\S* import .*\btest_)", re.M
)


def test_nothing_imports_from_a_test_module() -> None:
    modules = (ROOT / "tests").rglob("*.py")
    assert [
        name(each) for each in modules if IMPORT_OF_A_TEST.search(each.read_text("utf-8"))
    ] == []
