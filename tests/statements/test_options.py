"""Reading WITH ( ... ): values by hand."""

from __future__ import annotations

import contextlib
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.database.templates import ident, literal
from duckanon.errors import PolicyError, StatementError
from duckanon.policy.policy import OPTIONS, AuditPolicy, Policy
from duckanon.statements.grammar import Create
from duckanon.statements.options import Options, options_to_audit, options_to_policy
from duckanon.statements.parse import parse
from duckanon.statements.tokens import split
from tests.examples import examples

DOCS = Path(__file__).resolve().parents[2] / "docs"


def options_of(text: str) -> Options:
    """Return the options of a CREATE whose WITH ( stands at the end of line 2."""
    statement = parse(f"CREATE ANONYMIZED VIEW v AS SELECT 1\nWITH (\n{text})")
    assert isinstance(statement, Create)
    return statement.options


def value_of(text: str) -> Any:
    """Return the value that is written."""
    return options_of(f"x = {text}")["x"].value


VALUES: list[tuple[str, Any]] = [
    ("5", 5),
    ("1_000", 1000),
    ("-3", -3),
    ("- 3", -3),
    ("+3", 3),
    ("0.150", Decimal("0.150")),
    (".5", Decimal("0.5")),
    ("5.", Decimal(5)),
    ("1e-3", Decimal("0.001")),
    ("-1.5", Decimal("-1.5")),
    ("true", True),
    ("FALSE", False),
    ("'auto'", "auto"),
    ("'it''s'", "it's"),
    ("$$it's$$", "it's"),
    ("mdav", "mdav"),
    ('"my col"', "my col"),
    ("*", "*"),
    ('"*"', ("*",)),
    ("(age)", ("age",)),
    ('(age, "my ""col", \'zip\', 😀)', ("age", 'my "col', "zip", "😀")),
    ("(true, k, with)", ("true", "k", "with")),
    ("[age, zip,]", ("age", "zip")),
    ("( -- the first\n age /* the second */, zip )", ("age", "zip")),
    ("{charge: 0.15}", {"charge": Decimal("0.15")}),
    (
        "{charge: 0.15, \"my col\": 1, 'x': 'ordered',}",
        {"charge": Decimal("0.15"), "my col": 1, "x": "ordered"},
    ),
    ("{age: (1, 3), zip: [2]}", {"age": (1, 3), "zip": (2,)}),
    (
        "{sex: 0.5, age: {HIV: 0.2, 'hiv': 1,}}",
        {"sex": Decimal("0.5"), "age": {"HIV": Decimal("0.2"), "hiv": 1}},
    ),
    ("{sex: mode, age: true}", {"sex": "mode", "age": True}),
    ("{*: 5, (age, sex): 10, 2: 50}", {"*": 5, ("age", "sex"): 10, 2: 50}),
    ("{(\"last, first\"): 0.5, [zip, 'x',]: 3}", {("last, first",): Decimal("0.5"), ("zip", "x"): 3}),
]

WRONG = [
    ("", "WITH () names no option", 3, 2),
    ("k", "option 'k' has no value: write k = ...", 3, 1),
    ("k =", "option 'k' has no value: write k = ...", 3, 1),
    ("k = 5, t = , l = 2", "option 't' has no value", 3, 8),
    ("k 5", "expected = after option 'k', found '5'", 3, 3),
    ("k := 5", "expected = after option 'k', found ':'", 3, 3),
    ("k = 5,\n K = 6", "option 'k' stands twice", 4, 2),
    ("= 5", "expected an option, as in k = 5, found '='", 3, 1),
    ("5 = k", "expected an option, as in k = 5, found '5'", 3, 1),
    ("k = 5 t = 1", "expected , or ), found 't'", 3, 7),
    ("k = 5,, t = 1", "expected an option", 3, 7),
    ("k = 5 + 1", "expected , or ), found '+'", 3, 7),
    ("k = -x", "expected a value", 3, 6),
    ("k = ?", "expected a value", 3, 5),
    ("k = 0.15abc", "expected , or ), found 'abc'", 3, 9),
    (f"k = {'9' * 61}", "a number has at most 60 characters", 3, 5),
    ("k = 1e99999999999999999999", "out of range", 3, 5),
    ("method = E'x'", "strings with backslash escapes", 3, 10),
    ("x = ()", "the list is empty", 3, 5),
    ("x = (age zip)", "expected , or ), found 'zip'", 3, 10),
    (
        "x = (5)",
        "expected a column name, found '5': a number stands alone, as in k = 5, and several in braces",
        3,
        6,
    ),
    ("x = (a, 3)", "expected a column name, found '3': a number stands alone", 3, 9),
    ("x = (a, (b))", "expected a column name, found '('", 3, 9),
    ("x = [a)", "expected , or ], found ')'", 3, 7),
    ("x = {}", "the map is empty", 3, 5),
    ("x = {a}", "expected : after column 'a', as in {a: value}", 3, 7),
    ("x = {a: }", "expected a value", 3, 9),
    ("x = {a = 1}", "expected : after column 'a'", 3, 8),
    ("x = {a: 1, 'A': 2}", "column 'A' stands twice", 3, 12),
    ("x = {a: {1: 2}}", "expected a value of the column, as text in quotes, found '1'", 3, 10),
    ("x = {a: {}}", "the map is empty", 3, 9),
    ("x = {a: {null: 1}}", "NULL cannot be named: give one number, which bounds every value", 3, 10),
    ("x = {a: {'v': 1, v: 2}}", "value 'v' stands twice", 3, 18),
    ("x = {a: {v: {w: 1}}}", "expected a value", 3, 13),
    ("x = {1.5: 2}", "expected a column name", 3, 6),
    ("x = {(): 2}", "the list of columns is empty", 3, 6),
    ("x = {(a, b) 2}", "expected : after (a, b), as in {(a, b): value}", 3, 13),
    ("x = {(a, b): 1, (B, a): 2}", "column (B, a) stands twice", 3, 17),
    ("x = {(a): 1, 'A': 2}", "column 'A' stands twice", 3, 14),
]

REFUSED = [
    ("k = 5", "option 'quasi_identifiers' is missing"),
    ("quasi_identifiers = age", "option 'k' is missing: write k = 5"),
    ("quasi_identifier = age, k = 5", "unknown option 'quasi_identifier', did you mean 'quasi_identifiers'?"),
    ("k = 5,\n  qqq = 1", "unknown option 'qqq'; Options: quasi_identifiers, k, sensitive, "),
    ("k = 5,\n  qqq = 1", "(line 4, column 3)"),
    ("k = 1", "k = 1: use an integer of at least 2, a class of one record hides nobody (line 3, column 1)"),
    ("k = 5.0", "k = 5.0: use an integer (line 3, column 1)"),
    ("k = '5'", "k = '5': use an integer"),
    ("k = true", "k = true: use an integer"),
    ("quasi_identifiers = *, k = 5", "only insensitive takes *"),
    ("quasi_identifiers = 5, k = 5", "quasi_identifiers takes a list of columns, not 5"),
    ("sensitive = {a: 1}", "sensitive takes a list of columns"),
    ("quasi_identifiers = (a, B, A)", "quasi_identifiers names column 'A' twice"),
    ("t = (a, b)", "use a number"),
    ("t = {charge: 1.5}", "t of 'charge' = 1.5: use a number above 0 and at most 1"),
    ("method = 'magic'", "method = 'magic' is unknown: Use auto | blocks | cbfs | dba1"),
    ("method = 'mdva'", "did you mean 'mdav'?"),
    ("distance = 'ordered'", "distance takes a value for each column: write distance = {column: 'ordered'}"),
    ("distance = {a: 'orderd'}", "distance of 'a' = 'orderd' is unknown, did you mean 'ordered'?"),
    ("subject = 5", "subject"),
    ("refine = 'yes'", "refine = 'yes': use true or false"),
    ("effort = 'quick'", "effort = 'quick' is unknown: Use fast | balanced | best (line 3, column 1)"),
    ("effort = balance", "effort = 'balance' is unknown, did you mean 'balanced'?"),
    ("time_limit = 0", "time_limit = 0: use seconds, a number above 0, or leave it out (line 3, column 1)"),
    ("time_limit = {a: 1}", "use a number"),
    ("time_limits = 5", "unknown option 'time_limits', did you mean 'time_limit'?"),
    ("suppression_limit = 5", "not percent; 5 % is 0.05"),
    ("nulls = NULL", "nulls = 'NULL' is unknown"),
    ("seed = 0.5", "seed = 0.5: use an integer"),
    ("weights = {a: 0}", "weights of 'a' = 0: use a number above 0"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value_is_read(text: str, value: Any) -> None:
    """By hand; a decimal keeps the digits that are written."""
    read = value_of(text)
    assert (read, type(read)) == (value, type(value))
    assert str(read) == str(value)


@pytest.mark.parametrize(("text", "message", "line", "column"), WRONG)
def test_wrong_syntax_is_an_error_with_its_place(text: str, message: str, line: int, column: int) -> None:
    """By hand: what is wrong and where."""
    with pytest.raises(StatementError) as wrong:
        options_of(text)
    assert message in str(wrong.value)
    assert (wrong.value.line, wrong.value.column) == (line, column)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_wrong_option_is_an_error(text: str, message: str) -> None:
    """By hand: what is wrong, and what would work."""
    with pytest.raises(PolicyError) as wrong:
        options_to_policy(options_of(text))
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_place_counts_from_the_beginning_of_the_script() -> None:
    """A policy error points into the script, not into the statement."""
    script = "SELECT 1;\n\nCREATE ANONYMIZED VIEW v AS SELECT 1 WITH (\n    kk = 5);"
    statement = parse(split(script)[1])
    assert isinstance(statement, Create)
    with pytest.raises(PolicyError, match=r"did you mean 'k'\? .*\(line 4, column 5\)$"):
        options_to_policy(statement.options)


def test_every_option_reaches_the_policy() -> None:
    """All options of section 3 at once are the policy that Python makes of the same values."""
    text = """
        Quasi_Identifiers = (age, "my zip"), sensitive = (charge, diagnosis), identifiers = name,
        INSENSITIVE = *, k = 5, t = {charge: 0.15, diagnosis: 0.3},
        l = {Charge: 2}, l_diversity = 'Recursive', c = 3.5,
        distance = {diagnosis: 'hierarchical'}, hierarchies = {diagnosis: 'icd_tree'}, method = 'mdav',
        recode = {age: 'median'}, weights = {"my zip": 0.5}, suppression_limit = 0.05, nulls = 'suppress',
        refine = false, effort = Best, time_limit = 1.5, seed = -7
    """
    assert options_to_policy(options_of(text)) == Policy(
        quasi_identifiers=["age", "my zip"],
        sensitive=["charge", "diagnosis"],
        identifiers="name",
        insensitive="*",
        k=5,
        t={"charge": 0.15, "diagnosis": "0.3"},
        l={"Charge": 2},
        l_diversity="recursive",
        c=3.5,
        distance={"diagnosis": "hierarchical"},
        hierarchies={"diagnosis": "icd_tree"},
        method="mdav",
        recode={"age": "median"},
        weights={"my zip": 0.5},
        suppression_limit=0.05,
        nulls="suppress",
        refine=False,
        effort="best",
        time_limit=1.5,
        seed=-7,
    )


def test_column_called_star_is_no_star() -> None:
    """In quotes it is the name of a column, as everywhere in SQL."""
    text = 'quasi_identifiers = a, k = 2, insensitive = "*"'
    assert options_to_policy(options_of(text)).insensitive == ("*",)


def test_documented_policy_is_the_same_in_sql_and_toml() -> None:
    """The last example of docs/options.md and its TOML text, which is what `to_toml` writes."""
    text = (DOCS / "options.md").read_text(encoding="utf-8")
    (script,), (toml,) = (
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for language in ("sql", "toml")
    )
    statement = parse(split(script)[-1])
    assert isinstance(statement, Create)
    assert options_to_policy(statement.options) == Policy.from_toml(toml)
    assert Policy.from_toml(toml).to_toml() == toml


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text())
def test_any_column_name_and_text_survives(columns: list[str], text: str) -> None:
    """Names and strings of any characters come back from their quoted forms, in lists and maps."""
    listed = ", ".join(ident(column) for column in columns)
    assert value_of(f"({listed})") == tuple(columns)
    assert value_of(f"{{{ident(columns[0])}: {literal(text)}}}") == {columns[0]: text}
    assert value_of(f"{{{literal(columns[0])}: 1}}") == {columns[0]: 1}


ANYTHING = st.sampled_from(
    [
        *("5", "0", "-1", "0.5", "1e18", "1e-18", "9" * 30, "true", "*", "x", "'x'", '"x"', "(x, y)", "[q]"),
        *("{x: 1}", "{x: 'x'}", "{q: 0.5}", "{y: equal}", "{X: hierarchical, y: 'ordered'}", "{q: mode}"),
    ]
)
RELEASED = AuditPolicy(quasi_identifiers="q", sensitive="x", k=5)
NAMES = st.sampled_from([*OPTIONS, "unknown"])


@settings(max_examples=examples(400))
@given(st.dictionaries(NAMES, ANYTHING, max_size=6), st.booleans())
def test_any_options_make_a_policy_or_an_error(values: dict[str, str], usable: bool) -> None:
    """No combination of options and values does anything but make a policy or raise PolicyError."""
    values |= {"quasi_identifiers": "(q, r)", "k": "5", "sensitive": "(x, y)"} if usable else {}
    options = options_of(", ".join(f"{name} = {value}" for name, value in values.items())) if values else {}
    for read in (options_to_policy, options_to_audit, lambda given: options_to_audit(given, RELEASED)):
        with contextlib.suppress(PolicyError):
            read(options)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=0, max_value=10**9))
def test_decimals_keep_their_digits(number: Decimal) -> None:
    """What is written is what is read, trailing zeros included."""
    text = format(number, "f")
    assert str(value_of(text)) == str(Decimal(text))
