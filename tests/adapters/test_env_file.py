"""The file .env: what is read of it, and that writing it loses nothing and shows it to nobody."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mailagent.adapters import env_file
from tests.databases import ROOT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".env"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  export A = b  ", "b"),
        ("A=", ""),
        ("A='b c # d'", "b c # d"),
        ('A="b c"  # why', "b c"),
        ("A=b#c", "b#c"),
        ("A=b # why", "b"),
        ("A=# why", ""),
        ("A=b=c", "b=c"),
        ("#A=b", None),
        ("A b", None),
    ],
)
def test_a_line_is_read_as_python_dotenv_reads_it(file: Path, line: str, value: str | None) -> None:
    file.write_text(f"{line}\n")
    assert env_file.read(file).get("A") == value


def test_what_was_there_stays_and_only_the_owner_may_read_it(file: Path) -> None:
    file.write_text("# ours\nA=1\n#B=2\n\nC=3\n")
    file.chmod(0o644)
    env_file.write(file, {"C": "x y", "B": "postgresql+psycopg://a:b@c:5/d", "D": ""})
    assert file.read_text() == (
        "# ours\nA=1\n#B=2\n\nC='x y'\nB=postgresql+psycopg://a:b@c:5/d\nD=\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert env_file.read(file)["C"] == "x y"


@pytest.mark.parametrize("value", ["a\nB=c", "it's", "\x00"])
def test_a_value_that_no_line_holds_leaves_the_file_alone(file: Path, value: str) -> None:
    file.write_text("A=1\n")
    with pytest.raises(ValueError, match="A: a quote or a line break"):
        env_file.write(file, {"A": value})
    assert file.read_text() == "A=1\n"
    assert list(file.parent.iterdir()) == [file]


def test_a_link_to_the_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "secrets"
    target.write_text("A=1\n")
    file.symlink_to(target)
    env_file.write(file, {"A": "2"})
    assert file.is_symlink()
    assert target.read_text() == "A=2\n"


def test_gunicorn_and_alembic_read_it_below_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FROM_FILE=file\nFROM_BOTH=file\n")
    told = "import os; print(os.environ.get('FROM_FILE'), os.environ['FROM_BOTH'])"
    for skip, expected in (("", "file environment"), ("1", "None environment")):
        done = subprocess.run(
            [sys.executable, "-c", f"import mailagent.serving; {told}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
                 "FROM_BOTH": "environment", "FLASK_SKIP_DOTENV": skip},
            capture_output=True,
            text=True,
            check=True,
        )  # fmt: skip
        assert done.stdout.strip() == expected


def test_a_file_of_another_user_is_told_and_left_out(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise PermissionError(
            13, "Permission denied", str(file)
        )  # root, as which tests may run, may all

    monkeypatch.delenv("FLASK_SKIP_DOTENV")
    monkeypatch.setattr("flask.cli.load_dotenv", refuse)
    env_file.load()
    assert f"{file} is not read" in capsys.readouterr().err
