"""Help of each command: what every option means, its choices, default and form; and examples that are read."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest
import typer
from typer.core import TyperOption

from duckanon.cli.flags import read_flags
from duckanon.cli.main import app
from duckanon.cli.options import CHOICES_LISTED, OF_POLICY, SHARED
from duckanon.cli.parsing import UNCOMPLETED_PART
from duckanon.database.templates import ident
from duckanon.policy.policy import AUDIT_OPTIONS, OPTIONS, Policy
from duckanon.streams.policy import stream_options
from tests.e2e.file_scene import run
from tests.e2e.scenes import CREATE, patients

if TYPE_CHECKING:
    from pathlib import Path

GROUP = typer.main.get_command(app)
SPARK = GROUP.commands["spark"].whole
COMMANDS = {
    **{name: one.whole for name, one in GROUP.commands.items() if name != "spark"},
    **{f"spark {name}": one for name, one in SPARK.commands.items()},
}
HELP = [
    pytest.param(option, id=f"{name} {option.opts[0]}")
    for name, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, TyperOption) and not option.is_eager
]


@pytest.mark.parametrize("option", HELP)
def test_an_option_says_what_it_means_its_default_and_its_form(option: TyperOption) -> None:
    if option.is_flag:
        assert option.help
        return
    assert "default: " in option.help or "; required" in option.help
    if option.metavar is not None and option.opts[0] != "--method":
        flags = (*option.opts, *option.secondary_opts)
        assert any(f"as in {flag} " in option.help for flag in flags), option.help


def test_every_option_of_a_policy_is_declared_and_lists_its_choices() -> None:
    """Two have no meaning from file to file: there is no earlier release, and refinement has --effort."""
    assert {*OPTIONS, *AUDIT_OPTIONS} - OF_POLICY.keys() == {"on_intersection", "refine"}
    for option in (*OF_POLICY.values(), *SHARED.values()):
        assert (" | ".join(option.choices) in option.help) is (len(option.choices) <= CHOICES_LISTED)


@pytest.mark.parametrize("name", [*COMMANDS, "spark"])
def test_the_help_ends_with_two_examples_that_the_command_reads(name: str) -> None:
    command = SPARK if name == "spark" else COMMANDS[name]
    shown = command.get_help(command.make_context(f"duckanon {name}", [], resilient_parsing=True))
    lines = shown.partition("\n  Examples:\n")[2].splitlines()
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line.replace("&&", "|").replace(" > ", " | ").replace(" < ", " | "))
        places = [at for at, word in enumerate(words) if word == "duckanon"]
        part = next(words[at:] for at in places if words[at + 1 :][: len(name.split())] == name.split())
        arguments = part[1 + len(name.split()) :]
        arguments = arguments[: arguments.index("|")] if "|" in arguments else arguments
        with GROUP.make_context("duckanon", ["methods"]) as parent:
            reader = SPARK.commands[arguments.pop(0)] if name == "spark" else command
            reader.make_context(name, arguments, parent=parent)


def test_the_help_of_a_stream_shows_a_t_that_a_stream_takes() -> None:
    (option,) = (one for one in COMMANDS["stream"].params if "-t" in one.opts)
    shown = re.findall(r"-t ([\w.,='()]+)", option.help)
    assert len(shown) == 2
    for text in shown:
        given = read_flags({"t": shlex.split(text), "sensitive": ["charge,age"]})
        stream_options({"quasi_identifiers": ["zip"], **given})


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    """Folder with sixty patients, as CSV and in a database with an anonymized view of them."""
    with patients(tmp_path / "hospital.duckdb") as con:
        con.sql(CREATE)
        con.execute(f"COPY patients TO '{tmp_path / 'patients.csv'}'")
    return tmp_path


COMPLETED = {
    "duckanon anonymize patients.csv out.csv --qi a": ["age"],
    "duckanon anonymize patients.csv out.csv --qi zip,a": ["zip,age"],
    "duckanon anonymize patients.csv out.csv -t c": ["charge="],
    "duckanon anonymize patients.csv out.csv --recode zip=set,age=m": ["mean", "median", "mode"],
    "duckanon anonymize patients.csv out.csv --recode=age=r": ["range"],
    "duckanon anonymize patients.csv out.csv --method mdav": ["mdav", "mdav1", "mdav2", "mdav_generic"],
    "duckanon audit patients.csv --format j": ["json", "junit"],
    "duckanon audit hospital.duckdb:": ["patients", "v"],
    "duckanon audit hospital.duckdb:patients --qi d": ["diagnosis"],
    "duckanon refresh hospital.duckdb:v": ["v"],
    "duckanon audit nowhere.csv --qi a": [],
    "duckanon audit nowhere.duckdb:": [],
}


def test_bash_completes_columns_words_and_tables(hospital: Path) -> None:
    """As bash asks: it splits words at : and =, and joins all words by line breaks."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash")
    for line, expected in COMPLETED.items():
        split = " ".join(line.replace(":", " : ").replace("=", " = ").split()).split(" ")
        cursor = len(split) - 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("_DUCKANON_COMPLETE", "complete_bash")
            patch.setenv("COMP_WORDS", "\n".join(split))
            patch.setenv("COMP_CWORD", str(cursor))
            code, told, _ = run(hospital)
        assert (line, code, told.split()) == (line, 0, expected)


def test_a_shell_without_split_words_gets_them_whole(hospital: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_DUCKANON_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "duckanon anonymize patients.csv o.csv --recode age=me")
    assert run(hospital)[1] == '_arguments \'*: :(("age=mean"\n"age=median"))\'\n'


HOSTILE = [
    "$(touch x)",
    r"\$(touch x)",
    "`touch x`",
    "a;touch x",
    "a|b",
    "a>b",
    "a\nb",
    "*",
    "~",
    "it's",
    '"',
    "-k",
    "a b",
]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("asked", ["hostile.duckdb:", "hostile.csv --qi "])
def test_a_name_that_a_shell_could_run_is_not_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, asked: str
) -> None:
    """Shells insert a proposal as it is, and that of typer for zsh evaluates it at once."""
    names = [*HOSTILE, "größe_2"]
    with duckdb.connect(str(tmp_path / "hostile.duckdb")) as con:
        for name in names:
            con.execute(f"CREATE TABLE {ident(name)} (x INTEGER)")
        columns = ", ".join(f"1 AS {ident(name)}" for name in names)
        con.execute(f"COPY (SELECT {columns}) TO '{tmp_path / 'hostile.csv'}'")
    words = f"duckanon audit {asked}"
    monkeypatch.setenv(UNCOMPLETED_PART, "")
    monkeypatch.setenv("_DUCKANON_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    split = words.replace(":", " : ").strip().split(" ") + ([""] if asked.endswith(" ") else [])
    monkeypatch.setenv("COMP_WORDS", "\n".join(split))
    monkeypatch.setenv("COMP_CWORD", str(len(split) - 1))
    told = run(tmp_path)[1]
    assert (told.count("größe_2"), told.count("touch"), len(told.splitlines())) == (1, 0, 1)


def test_list_and_refresh_are_commands(hospital: Path) -> None:
    code, told, _ = run(hospital, "list", "hospital.duckdb", "--format", "json")
    (release,) = json.loads(told)
    assert (code, release["view_name"], release["records"]) == (0, "v", 60)
    with duckdb.connect(str(hospital / "hospital.duckdb")) as con:
        con.execute("DELETE FROM patients WHERE id >= 50")
    assert run(hospital, "refresh", "hospital.duckdb:v")[0] == 0
    (release,) = json.loads(run(hospital, "list", "hospital.duckdb", "--format", "json")[1])
    assert release["records"] == 50
    code, told, _ = run(hospital, "refresh", "hospital.duckdb", "--format", "json")
    assert (code, json.loads(told)["title"]) == (0, "refreshed hospital.main.v")
    assert run(hospital, "list", "hospital.duckdb")[1].splitlines()[2].split()[:4] == [
        "hospital",
        "main",
        "v",
        "50",
    ]


def test_results_are_json_where_it_is_asked_for(hospital: Path) -> None:
    options = ["--qi", "age,zip", "--identifiers", "id", "--insensitive", "*", "-k", "3", "--effort", "fast"]
    command = ["anonymize", "patients.csv", "out.csv", *options, "--effect", "--format", "json"]
    written = json.loads(run(hospital, *command)[1])
    assert (written["title"], written["report"]["passed"]) == ("wrote out.csv", True)
    assert [one["column"] if "column" in one else one["quasi_identifier"] for one in written["effect"]] == [
        "age",
        "zip",
    ]
    planned = json.loads(run(hospital, *command[:2], "no.csv", *command[3:], "--dry-run")[1])
    assert planned["title"] == "plan"
    text = (
        "SELECT 1.5 AS a, 'nan'::DOUBLE AS b, DATE '2026-01-02' AS c, [1, NULL] AS d; SHOW ANONYMIZED VIEWS"
    )
    rows, views = run(hospital, "sql", text, "-d", "hospital.duckdb", "--format", "json")[1].splitlines()
    assert json.loads(rows) == {"rows": [{"a": 1.5, "b": "nan", "c": "2026-01-02", "d": [1, None]}]}
    assert [row["view_name"] for row in json.loads(views)["rows"]] == ["v"]
    assert json.loads(run(hospital, "methods", "--format", "json")[1])[0]["method"] == "auto"


def test_quiet_leaves_errors_and_the_exit_code(hospital: Path) -> None:
    audit = ["audit", "patients.csv", "--qi", "age,zip", "--quiet"]
    assert run(hospital, *audit, "-k", "5") == (1, "", "")
    assert run(hospital, *audit, "-k", "5", "-o", "a.txt") == (1, "", "")
    assert "k_anonymity" in (hospital / "a.txt").read_text()
    assert run(hospital, *audit, "-k", "1")[2].startswith("error: -k 1: ")
    assert run(hospital, "suggest", "patients.csv", "--sql", "-q", "-o", "s.sql") == (0, "", "")


def test_verbose_shows_the_seconds_of_each_step(hospital: Path) -> None:
    _, _, told = run(hospital, "refresh", "hospital.duckdb:v", "-v")
    steps = [line.partition(": ")[0] for line in told.splitlines() if line.endswith(" s")]
    assert {"stage", "partition", "recode", "audit", "publish"} <= set(steps)


def test_the_suggested_policy_is_one_that_anonymize_reads(hospital: Path) -> None:
    code, told, _ = run(hospital, "suggest", "patients.csv", "--format", "toml")
    assert code == 0
    policy = Policy.from_toml(told)
    assert (policy.identifiers, policy.k) == (("id",), 5)
    (hospital / "p.toml").write_text(told)
    assert run(hospital, "anonymize", "patients.csv", "out.csv", "--policy", "p.toml")[0] == 0
    assert run(hospital, "audit", "out.csv", "--policy", "p.toml")[0] == 0


def test_warnings_speak_in_flags_too(hospital: Path) -> None:
    stream = ["stream", "patients.csv", "out.csv", "--qi", "age", "-k", "10", "--delay", "20"]
    told = run(hospital, *stream)[2]
    assert "warning: --delay 20 is less than 5 k = 50" in told
    (hospital / "codes.csv").write_text("zip\n" + "12111\n" * 6)
    told = run(hospital, "anonymize", "codes.csv", "released.csv", "--qi", "zip", "-k", "3")[2]
    assert "set --recode zip=mean if it is a quantity, or --recode zip=mode to confirm" in told


def test_errors_of_a_policy_file_speak_toml(hospital: Path) -> None:
    (hospital / "p.toml").write_text('quasi_identifiers = ["age"]\nk = 3\nt = 0.2\n')
    told = run(hospital, "audit", "patients.csv", "--policy", "p.toml")[2]
    assert told == "error: t = 0.2 needs sensitive columns: add sensitive = [...]\n"
    assert run(hospital, "audit", "patients.csv", "--policy", "p.toml", "-t", "2")[2].startswith(
        "error: -t 2: "
    )
