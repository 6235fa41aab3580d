"""What is expected of any good command line: version, help, completion, stdin, a statement to pipe."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import typer

import duckanon
from duckanon.cli.main import app, main
from duckanon.statements.tokens import split
from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUP = typer.main.get_command(app)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"duckanon {wanted}\n")
    assert duckanon.__version__ == wanted


@pytest.mark.parametrize("name", GROUP.commands)
def test_a_command_is_listed_with_what_its_function_says(name: str) -> None:
    """Lists are written without loading the function."""
    command = GROUP.commands[name]
    first, _, _ = command.whole.help.partition("\n\n")
    assert " ".join(first.split()) == command.help
    assert command.whole.name == name


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_commands_are_listed_without_loading_them_or_the_database(arguments: list[str]) -> None:
    program = (
        f"import sys; from duckanon.cli.main import main\ntry: main({arguments})\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "anonymize" in done.stdout + done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "typer" in loaded
    assert not loaded & {
        "duckdb",
        "numpy",
        "pyarrow",
        "jinja2",
        "duckanon.cli.anonymize",
        "duckanon.database",
    }


@pytest.mark.parametrize("name", [None, *GROUP.commands])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_on_stdout_with_exit_code_0(
    capsys: pytest.CaptureFixture[str], name: str | None, flag: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main([flag] if name is None else [name, flag])
    told, error = capsys.readouterr()
    assert (left.value.code, error) == (0, "")
    assert told.startswith(f"Usage: duckanon {'[OPTIONS]' if name is None else name}")
    assert "-h, --help" in told


def test_duckanon_alone_shows_its_help_and_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """A job whose command came to nothing must not pass."""
    with pytest.raises(SystemExit) as left:
        main([])
    told, error = capsys.readouterr()
    assert (left.value.code, told) == (2, "")
    assert error.startswith("Usage: duckanon [OPTIONS] COMMAND")
    assert all(name in error for name in GROUP.commands)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Give exit code, stdout and stderr of the command line in this process."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code, *capsys.readouterr()


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("duckanon anon", {"anonymize"}),
        ("duckanon audit --s", {"--sensitive", "--suppressed"}),
        ("duckanon audit f.csv -k 5 --q", {"--qi", "--quasi-identifiers", "--quiet"}),
    ],
)
def test_a_shell_completes_commands_and_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, expected: set[str]
) -> None:
    """As bash asks: the words so far in COMP_WORDS, the place of the cursor in COMP_CWORD."""
    monkeypatch.setenv("_DUCKANON_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    code, told, _ = run(capsys)
    assert (code, set(told.split())) == (0, expected)


def test_completion_is_shown_for_a_known_shell_and_an_error_for_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    code, told, _ = run(capsys, "--show-completion")
    assert code == 0
    assert told.endswith("complete -o default -F _duckanon_completion duckanon\n")
    # What asks is no shell: an error is 2, since 1 is a violation.
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "nushell")
    assert run(capsys, "--show-completion")[:2] == (2, "")


def test_a_policy_and_queries_come_from_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], piped: Callable[[str], None]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("age,charge\n" + "".join(f"{i % 2},{i}\n" for i in range(10)))
    piped('\ufeffquasi_identifiers = ["age"]\nk = 6\n')
    code, told, error = run(capsys, "audit", table, "--policy", "-")
    assert (code, "k_anonymity" in told) == (1, True), error
    crlf = tmp_path / "crlf.sql"
    crlf.write_bytes(b"\xef\xbb\xbfSELECT length('a\r\nb')\r\n    AS letters;\r\n")
    code, told, error = run(capsys, "run", crlf)
    assert (code, "letters" in told, "3" in told) == (0, True, True), error
    piped("SELECT sum(charge) AS total FROM data")
    code, told, error = run(capsys, "compare", table, table, "--queries", "-")
    assert (code, "total" in told) == (0, True), error


def test_suggest_prints_the_statement_alone_and_run_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], piped: Callable[[str], None]
) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{i},{20 + i % 7},{'abc'[i % 3]},{i * 37 % 11}" for i in range(40)]
    table.write_text("\n".join(["id,age,plan,charge", *rows]) + "\n")
    code, whole, _ = run(capsys, "suggest", table)
    alone, statement, error = run(capsys, "suggest", table, "--sql")
    assert (code, alone) == (0, 0)
    assert statement.startswith("CREATE ANONYMIZED VIEW t_anon AS")
    assert whole.endswith(statement)
    assert len(split(statement)) == 1
    told = re.findall(r"^warning: .*$", whole, re.MULTILINE)
    assert all(warning in error for warning in told)
    assert "Check every role" in error
    piped(statement)
    code, told_rows, error = run(capsys, "run", "-")
    assert (code, "k_anonymity" in told_rows) == (0, True), error


def test_suggest_without_a_statement_is_an_error_where_it_alone_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("age\n30\n")
    code, told, error = run(capsys, "suggest", table, "--sql")
    assert (code, told) == (2, "")
    assert "there is no statement" in error.splitlines()[-1]
    code, told, error = run(capsys, "suggest", table, "--sql", "--format", "json")
    assert (code, told, error.count("\n")) == (2, "", 1)


def test_json_has_the_texts_of_the_stock_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """By the stock duckdb 1.5.6 with -json; a BLOB was Python's b'..', and 3 months were 90 days."""
    query = (
        r"SELECT '\xAA\x00a\x22'::BLOB AS b, [blob '\xAA'] AS bs, {'a': blob 'q\x01'} AS s, INTERVAL 3 MONTH AS i, "
        "TIMESTAMPTZ '2020-01-01 10:00:00+00' AS z, UUID '00000000-0000-0000-0000-000000000001' AS u, "
        "'101'::BIT AS f, NULL::BLOB AS n, 1 AS k"
    )
    code, told, _ = run(capsys, "sql", "SET TimeZone = 'UTC'; " + query, "--format", "json")
    expected = {
        "b": r"\xAA\x00a\x22", "bs": [r"\xAA"], "s": {"a": r"q\x01"}, "i": "3 months",
        "z": "2020-01-01 10:00:00+00", "u": "00000000-0000-0000-0000-000000000001", "f": "101", "n": None,
        "k": 1,
    }  # fmt: skip
    assert (code, json.loads(told)) == (0, {"rows": [expected]})
