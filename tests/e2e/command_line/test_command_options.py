"""Options of the command line: what is given twice is never dropped, and any column can be named."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperArgument, TyperOption

from duckanon.cli.flags import read_flags
from duckanon.cli.main import app, main
from duckanon.errors import DuckanonError, PolicyError
from duckanon.policy.policy import Policy
from tests.e2e.scenes import settled
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from pathlib import Path

GROUP = typer.main.get_command(app)
OPTIONS = [
    pytest.param(name, option, id=f"{name} {option.opts[0]}")
    for name, command in sorted(GROUP.commands.items())
    for option in command.whole.params
    if isinstance(option, TyperOption) and not option.is_eager
]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Give exit code, stdout and stderr of the command line in this process."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert isinstance(left.value.code, int)
    told, error = capsys.readouterr()
    return left.value.code, told, settled(error)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Ten persons: two ages of five each; with the zip everybody is alone."""
    file = tmp_path / "people.csv"
    file.write_text("age,zip,charge\n" + "".join(f"{30 + i % 2},{100 + i},{i % 3}\n" for i in range(10)))
    return file


def test_a_repeated_qi_is_not_a_false_pass(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: k = 5 for age, k = 5 for nothing else, k = 1 for age and zip, in whatever order."""
    assert run(capsys, "audit", people, "--qi", "age", "-k", "5")[0] == 0
    for options in (
        ["--qi", "age", "--qi", "zip"],
        ["--qi", "zip", "--qi", "age"],
        ["--qi", "zip,age"],
        ["--quasi-identifiers", "zip", "--qi=age"],
    ):
        code, told, _ = run(capsys, "audit", people, *options, "-k", "5")
        assert (code, told.splitlines()[2].split()[:6]) == (1, ["k_anonymity", "5", "1", "10", "10", "10"])


def test_a_repeated_sensitive_column_is_judged(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: within each age every zip is there once, and each age has three charges."""
    people.write_text("age,zip,charge\n" + "".join(f"{30 + i % 2},{100 + i},{i // 2}\n" for i in range(10)))
    options = ["--qi", "age", "--sensitive", "zip", "--sensitive", "charge", "-k", "5"]
    code, told, _ = run(capsys, "audit", people, *options, "-l", "zip=5", "-l", "charge=6")
    assert code == 1
    assert [line.split()[-1] for line in told.splitlines() if line.startswith("distinct_l_diversity")] == [
        "yes",
        "NO",
    ]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_given_twice_accumulates_or_is_an_error(name: str, option: TyperOption) -> None:
    """Every option of every command, those that come later too."""
    command = GROUP.commands[name].whole
    positional = [argument.name for argument in command.params if isinstance(argument, TyperArgument)]
    values = [[], []] if option.is_flag else [["1"], ["2"]]
    twice = [part for value in values for part in (option.opts[0], *value)]
    with GROUP.make_context("duckanon", [name]) as parent:
        if option.multiple:
            context = command.make_context(name, [*positional, *twice], parent=parent)
            assert list(context.params[option.name]) == ["1", "2"]
        else:
            with pytest.raises(DuckanonError, match=rf"^(.* or )?{option.opts[0]}\b.* given 2 times"):
                command.make_context(name, [*positional, *twice], parent=parent)
            other = [*option.opts, *option.secondary_opts][-1]
            with pytest.raises(DuckanonError, match="given 2 times"):
                command.make_context(name, [*positional, *twice[: len(twice) // 2], other, *values[1]])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-k", "5", "-k", "7"], "-k has two values for all columns, '5' and '7'"),
        (["-k", "5", "-k", "5"], "-k has two values for all columns, '5' and '5'"),
        (["--policy", "a.toml", "--policy", "b.toml"], "--policy is given 2 times"),
        (["--format", "text", "--format=json"], "--format is given 2 times"),
        (["-o", "a", "--output", "b"], "--output or -o is given 2 times"),
        (["-t", "0.1", "-t", "0.2"], "-t has two values for all columns, '0.1' and '0.2'"),
        (["--order", "plan=low,high"], "--order has 'high' without a column: write < between the values"),
        (["-t", "0.1,0.2"], "-t has two values for all columns, '0.1' and '0.2'"),
        (["-t", "charge=.1", "-t", "charge=.2"], "-t has two values for column 'charge'"),
        (["-t", "charge=.1,CHARGE=.2"], "-t has two values for column 'CHARGE'"),
        (["-t", "0.1", "-t", "charge=.2"], "-t has a value for all columns, '0.1', and one for a column"),
        (["-l", "2", "-l", "3"], "-l has two values"),
        (["--distance", "charge=equal", "--distance", "charge=ordered"], "--distance has two values"),
        (["--qi", "age,ZIP", "--qi", "zip"], "--qi names column 'zip' twice"),
        (["--qi", "age,"], "--qi 'age,': there is nothing"),
        (["--qi", "age,,zip"], "--qi 'age,,zip': there is nothing"),
        (["--qi", ""], "--qi '': there is nothing"),
        (["--qi", '"age'], "--qi '\"age': quotes are around a whole name"),
        (["--qi", '"age"x,zip'], "quotes are around a whole name"),
        (["-t", "charge="], "-t 'charge=': there is nothing"),
        (["-t", "x"], "-t takes a number or column=number pairs, not 'x'"),
        (["--c", "1,2"], "--c takes a number, not '1,2'"),
    ],
)
def test_two_values_for_one_thing_are_an_error_that_names_the_option(
    people: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    given = ["--qi", "age"] if "--qi" not in options else []
    code, told, error = run(capsys, "audit", people, *given, "--sensitive", "charge", *options)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert named in error


def test_the_star_and_columns_are_two_values(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = people.with_name("out.csv")
    options = ["--qi", "age", "-k", "2", "--insensitive", "*", "--insensitive", "zip"]
    code, _, error = run(capsys, "anonymize", people, out, *options)
    assert (code, error) == (2, "error: --insensitive has * and columns: give one of both\n")
    assert not out.exists()


NAMES = ("a,b", "x=y", 'say "hi"', "*", "id")


def test_any_column_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names as SQL quotes them: with a comma, an equals sign, quotes, a star."""
    source, out = tmp_path / "odd.csv", tmp_path / "out.csv"
    with source.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([i % 7, i % 3, i % 5, i % 2, i] for i in range(30))
    options = [
        *("--qi", '"a,b", "x=y"', "--sensitive", '"say ""hi"""', "--sensitive", '"*"'),
        *("--identifiers", '"id"', "-k", "3", "-t", '"say ""hi"""=0.5', "-t", '"*" = 0.5'),
        *("--recode", '"a,b"=median', "--weights", '"x=y"=2,"a,b"=1', "--effort", "fast"),
    ]
    code, _, error = run(capsys, "anonymize", source, out, *options)
    assert (code, error) == (0, "")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(NAMES[:4])
    assert k_anonymity(rows, ("a,b", "x=y")) >= 3
    code, told, _ = run(capsys, "audit", out, "--qi", '"x=y"', "--qi", '"a,b"', "-k", "31")
    assert code == 1, told


def test_flags_repeated_are_flags_joined() -> None:
    """Every option that takes columns, or values by column; a value in quotes may hold a comma."""
    for name in ("quasi_identifiers", "sensitive", "identifiers", "insensitive"):
        assert read_flags({name: ["a, b", '"c,d"', '" e "']}) == {name: ["a", "b", "c,d", " e "]}
    for name in ("distance", "recode", "hierarchies"):
        assert read_flags({name: ["a=x", 'b = "y,z.csv" ,"c,d"=w=v']}) == {
            name: {"a": "x", "b": "y,z.csv", "c,d": "w=v"}
        }
    assert read_flags({"alpha": ['a.HIV=1, "b.c"=2', 'a."x, y"=3,d.e.f=4']}) == {
        "alpha": {"a": {"HIV": 1, "x, y": 3}, "b.c": 2, "d": {"e.f": 4}}
    }
    for twice in ("a=1,a.b=1", "a.b=1,A.b=2", "a.b=1,a=2"):
        with pytest.raises(PolicyError, match="--alpha has two values for column"):
            read_flags({"alpha": [twice]})
    for name in ("t", "l", "weights", "delta", "beta", "enhanced_beta"):
        found = read_flags({name: ["a=1", "b=2,c=3"]})[name]
        assert {column: str(value) for column, value in found.items()} == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    "text",
    [
        "k = 5\nk = 7",
        "k = 5\nt = {charge = 0.1, charge = 0.2}",
        "k = 5\nt = {charge = 0.1, CHARGE = 0.2}",
        "k = 5\n[t]\ncharge = 0.1\n[t]\nzip = 0.1",
    ],
)
def test_a_policy_file_with_two_values_is_an_error(text: str) -> None:
    with pytest.raises(PolicyError):
        Policy.from_toml(f'quasi_identifiers = ["age"]\nsensitive = ["charge", "zip"]\n{text}')


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["audit", "--sensitve", "x"], "no option --sensitve, did you mean --sensitive?"),
        (["audit", "--quasi_identifiers", "x"], "no option --quasi_identifiers, did you mean --quasi-identifiers?"),
        (["anonymize", "--supression-limit=1"], "no option --supression-limit, did you mean --suppression-limit?"),
        (["audit", "--k", "5"], "no option --k, did you mean -k?"),
        (["--verson"], "no option --verson, did you mean --version?"),
        (["verify", "--zzz"], "no option --zzz: duckanon verify -h lists them"),
        (["anonimize"], "no command 'anonimize', did you mean 'anonymize'?"),
    ],
)  # fmt: skip
def test_a_misspelt_option_or_command_gets_the_nearest_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], meant: str
) -> None:
    code, told, error = run(capsys, *arguments)
    assert (code, told) == (2, "")
    assert meant in error
