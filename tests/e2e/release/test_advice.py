"""What a release says beside its verdicts: each warning where there is something to say, and nowhere else."""

from __future__ import annotations

import csv
import warnings
from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonWarning
from tests.e2e.scenes import EFFORT, ROOT, command, rows
from tests.examples import slowly
from tests.reference import reference_file

if TYPE_CHECKING:
    from pathlib import Path


def released(query: str, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Give the rows of a release of a query, and its warnings, which Python shows as well."""
    options.setdefault("effort", "fast")
    with duckanon.connect() as con, warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        made = duckanon.anonymize(con, query, duckanon.Policy(**options), name="v")
        assert [str(one.message) for one in shown] == list(made.report.warnings)
        assert all(one.category is DuckanonWarning for one in shown)
        return rows(con, "FROM v"), list(made.report.warnings)


def one_valued(records: list[dict[str, Any]], quasi: tuple[str, ...], sensitive: str) -> tuple[int, int, int]:
    """Count classes, those with one sensitive value, and the records in these: a slow oracle of its own."""
    classes = defaultdict(list)
    for record in records:
        classes[tuple(record[name] for name in quasi)].append(record[sensitive])
    alike = [members for members in classes.values() if len(set(members)) == 1]
    return len(classes), len(alike), sum(map(len, alike))


def test_classes_with_one_sensitive_value_are_counted_in_the_release() -> None:
    """By hand: s is 7 for a = 0, NULL for a = 1, and both values for a = 2."""
    query = "SELECT i // 4 AS a, CASE i // 4 WHEN 0 THEN 7 WHEN 1 THEN NULL ELSE i % 2 END AS s FROM range(12) r(i)"
    _, said = released(query, quasi_identifiers="a", sensitive="s", k=4)
    assert said == [
        "2 of 3 classes, 8 of 12 records reveal 's': all records of such a class have the same value; set l or t"
    ]
    for threshold in ({"l": 1}, {"t": 1}):
        assert released(query, quasi_identifiers="a", sensitive="s", k=4, **threshold)[1] == []


@pytest.mark.slow
def test_many_adults_have_a_known_salary_class() -> None:
    """About half of the classes of Adult at k = 5 hold one value; counted again from the released rows."""
    path = reference_file("adult/adult.csv")
    quasi = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation")
    query = f"FROM read_csv('{path}', delim = ';') LIMIT 8000"
    found, said = released(query, quasi_identifiers=quasi, sensitive="salary-class", k=5)
    classes, alike, records = one_valued(found, quasi, "salary-class")
    assert records > 2000
    begin = f"{alike} of {classes} classes, {records} of 8000 records reveal 'salary-class'"
    assert [one for one in said if "reveal" in one] == [
        f"{begin}: all records of such a class have the same value; set l or t"
    ]
    assert len(said) == 1


def check_random_tables(seeds: range) -> None:
    """The warning stands exactly where the slow count from the released rows finds classes, with its numbers."""
    for seed in seeds:
        values = 2 + seed % 4
        query = (
            f"SELECT hash(i + {seed}) % {4 + seed % 9} AS a, chr(97 + (hash(-i - {seed}) % 3)::INTEGER) AS b, "
            f"nullif(hash(i * 7 + {seed}) % {values}, 1) AS s FROM range({40 + seed % 50}) AS r(i)"
        )
        found, said = released(query, quasi_identifiers=["a", "b"], sensitive="s", k=2 + seed % 3)
        classes, alike, records = one_valued(found, ("a", "b"), "s")
        begin = f"{alike} of {classes} classes, {records} of {len(found)} records reveal 's'"
        assert [one.partition(":")[0] for one in said] == ([begin] if alike else []), seed


def test_what_classes_reveal_is_counted_in_random_tables() -> None:
    check_random_tables(range(4))


@pytest.mark.long
def test_what_classes_reveal_is_counted_in_many_random_tables() -> None:
    check_random_tables(range(4, 150))


def test_a_constant_is_known_of_everyone() -> None:
    _, said = released(
        "SELECT i % 9 AS a, 'flu' AS s FROM range(90) r(i)", quasi_identifiers="a", sensitive="s", k=5
    )
    assert said == ["sensitive column 's' has one value in all 90 records: whoever is in the release has it"]


@pytest.mark.parametrize(
    ("value", "recode", "what"),
    slowly(
        [
            ("'Person ' || i", "mode", "is released as that of one of its records"),
            ("(10000 + i)::VARCHAR", "mode", "is released as that of one of its records"),
            ("'Person ' || i", "set", "lists all of its"),
            ("1000.5 * i", "mode", "is released as that of one of its records"),
            ("md5(i::VARCHAR)::UUID", "mode", "is released as that of one of its records"),
        ],
        one_of=3,
    ),
)
def test_a_value_of_ones_own_is_not_released_as_that_of_five(value: str, recode: str, what: str) -> None:
    query = f"SELECT {value} AS who, i % 60 AS age, i % 11 AS s FROM range(100) r(i)"
    quasi = ("who", "age")
    _, said = released(query, quasi_identifiers=quasi, insensitive="s", recode={"who": recode}, k=5)
    (warning,) = said
    assert warning.startswith("quasi-identifier 'who' has 100 values in 100 records")
    assert what in warning
    assert "make it an identifier, or group it in the source query as a hierarchy would" in warning
    common = query.replace(value, "(i % 20)::VARCHAR")
    assert released(common, quasi_identifiers=quasi, insensitive="s", recode={"who": recode}, k=5)[1] == []


@pytest.mark.parametrize(
    ("text", "cast", "number"),
    [
        ("1,5", """CAST(replace("my x", ',', '.') AS DOUBLE)""", 1.5),
        ("-12,25", """CAST(replace("my x", ',', '.') AS DOUBLE)""", -12.25),
        ("1.234,50", """CAST(replace(replace("my x", '.', ''), ',', '.') AS DOUBLE)""", 1234.5),
        ("1,234", """CAST(replace("my x", ',', '') AS DOUBLE) if it parts thousands""", 1234.0),
    ],
)
@pytest.mark.parametrize("role", slowly(["quasi_identifiers", "sensitive"], one_of=3))
def test_numbers_with_a_decimal_comma_are_pointed_at_and_the_cast_works(
    text: str, cast: str, number: float, role: str
) -> None:
    query = (
        f"SELECT i % 9 AS a, i % 2 AS b, ['{text}', '7,125', NULL][1 + i % 3] AS \"my x\" FROM range(90) r(i)"
    )
    roles = {"quasi_identifiers": ["a"], "sensitive": ["b"], "k": 5, "l": 1}
    roles[role] = [*roles[role], "my x"]
    _, said = released(query, **roles)
    (warning,) = [one for one in said if "my x" in one]
    assert warning.startswith("'my x' is text that looks like numbers with a decimal comma")
    assert cast in warning
    expression = cast.partition(" if it")[0]
    with duckdb.connect() as con:
        assert con.execute(f"SELECT {expression} FROM (SELECT '{text}' AS \"my x\")").fetchall() == [
            (number,)
        ]


@pytest.mark.parametrize("text", slowly(["1,2,3", "a,b", "1.5", "12", "Berlin, 5", "2020-01-01", ",", ""]))
def test_other_texts_are_no_numbers_with_a_comma(text: str) -> None:
    query = f"SELECT i % 9 AS a, ['{text}', '7,125'][1 + i % 2] AS x FROM range(90) r(i)"
    plain = f"SELECT i % 9 AS a, '{text}' || i % 2 AS x FROM range(90) r(i)"
    for one in (plain, *([] if text in {"12"} else [query])):
        assert released(one, quasi_identifiers=["a", "x"], k=5)[1] == []


def test_insensitive_columns_that_are_unique_together_are_counted() -> None:
    """By hand: x has 90 values and y 10, and i gives every pair of them once, but for the last ten records."""
    query = "SELECT i % 9 AS a, (i % 890) // 10 AS x, (i % 890) % 10 AS y FROM range(900) r(i)"
    (warning,) = released(query, quasi_identifiers="a", insensitive="*", k=5)[1]
    assert warning.startswith("880 of 900 records are alone with their 2 insensitive columns taken together")
    assert released(query.replace("% 890", "% 90"), quasi_identifiers="a", insensitive="*", k=5)[1] == []
    (alone,) = released(
        "SELECT i % 9 AS a, i AS x, i % 7 AS y FROM range(90) r(i)",
        quasi_identifiers="a",
        insensitive="*",
        k=5,
    )[1]
    assert "can single them out" in alone


@pytest.mark.parametrize("share", [0, 10, 19, 20, 30, 50, 70, 80, 89, 95])
def test_an_insensitive_column_that_singles_many_out_is_told_with_their_number(share: int) -> None:
    """By hand: of 200 records so many per cent have a value of their own, two each of the others the same one."""
    alone = 2 * share
    query = f"SELECT i % 9 AS a, CASE WHEN i < {alone} THEN i ELSE -1 - i // 2 END AS x FROM range(200) r(i)"
    found = released(query, quasi_identifiers="a", insensitive="*", k=5)[1]
    values = alone + (200 - alone) // 2
    if share < 20:
        assert found == []
        return
    what = f"singles out {alone} of 200 records, each alone with its value: is it an "
    if values > 180:
        what = f"has {values} values in 200 records and can single them out: is it an "
    assert found == [f"insensitive column 'x' {what}identifier or a quasi-identifier?"]


def explained(groups: list[tuple[Any, Any]], *, means: bool) -> float:
    """Give the share of the variance that lies between groups, without what chance puts there (Kelley 1935)."""
    size, parts = len(groups), defaultdict(list)
    for group, value in groups:
        parts[group].append(value)
    cells = {1} if means else {value for _, value in groups}
    between = within = Fraction(0)
    for cell in cells:
        coded = {g: [Fraction(v) if means else Fraction(v == cell) for v in vs] for g, vs in parts.items()}
        middle = sum(map(sum, coded.values()), Fraction(0)) / size
        for members in coded.values():
            mean = sum(members, Fraction(0)) / len(members)
            between += len(members) * (mean - middle) ** 2
            within += sum((value - mean) ** 2 for value in members)
    corrected = between - (len(parts) - 1) * within / (size - len(parts))
    return float(max(Fraction(0), corrected) / (between + within))


@pytest.mark.parametrize("means", [True, False])
def test_a_group_effect_that_t_takes_away_is_told_with_its_numbers(means: bool) -> None:
    """The pay follows the town; both shares are counted again, exactly, from source and released rows."""
    pay = (
        "(i % 5) * 100 + hash(i) % 90"
        if means
        else "'p' || CASE WHEN hash(i) % 4 = 0 THEN hash(i) % 5 ELSE i % 5 END"
    )
    query = f"SELECT 'town ' || i % 5 AS town, hash(-i) % 12 AS floor, {pay} AS pay FROM range(1500) r(i)"
    found, said = released(query, quasi_identifiers=["town", "floor"], sensitive="pay", k=5, t="0.05")
    (warning,) = said
    with duckdb.connect() as con:
        before = explained(con.execute(f"SELECT town, pay FROM ({query})").fetchall(), means=means)
    after = explained([(row["town"], row["pay"]) for row in found], means=means)
    assert before > 0.4
    assert after < before / 10
    assert warning.startswith("t of 'pay' took what 'town' tells of it")
    assert f"{100 * before:.1f} % of its {'variance' if means else 'variation'} in the source" in warning
    assert f"and {100 * after:.1f} % in the release" in warning
    assert ("means" if means else "shares") + " by group are nearly equal there" in warning


def test_a_group_effect_that_stays_or_never_was_is_not_told() -> None:
    loose = "SELECT 'town ' || i % 5 AS town, (i % 5) * 100 + hash(i) % 900 AS pay FROM range(1500) r(i)"
    assert released(loose, quasi_identifiers="town", sensitive="pay", k=5, t="0.4")[1] == []
    chance = "SELECT 'town ' || hash(i) % 9 AS town, hash(-i) % 900 AS pay FROM range(200) r(i)"
    assert released(chance, quasi_identifiers="town", sensitive="pay", k=5, t="0.2")[1] == []


@pytest.mark.slow
def test_warnings_stand_for_every_type_of_column() -> None:
    """A sensitive or insensitive column may have any type, values without an order or a mean included."""
    columns = {
        "ts": "CASE WHEN i % 5 = 0 THEN 'infinity'::TIMESTAMP ELSE TIMESTAMP '2020-01-01' + INTERVAL (i) hour END",
        "tz": "'2020-01-01'::TIMESTAMP_NS", "li": "[i % 3]", "st": "{'a': i % 3}", "ma": "MAP {'a': i % 2}",
        "big": "1e300 * (i % 7)", "na": "CASE WHEN i % 3 = 0 THEN 'nan'::DOUBLE ELSE i % 4 END",
        "hu": "CASE WHEN i % 2 = 0 THEN i % 6 END::UHUGEINT", "iv": "INTERVAL (i % 4) month", "bo": "i % 2 = 0",
        "no": "NULL::INTEGER", "bi": "'101'::BIT", "bl": "'a'::BLOB", "ti": "TIME '12:00'", "en": "'a'::ENUM('a')",
        "js": "'{}'::JSON", "un": "union_value(a := i % 2)", "bn": "1::BIGNUM",
    }  # fmt: skip
    source = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    query = f"SELECT i % 7 AS a, DATE '2020-01-01' + (i % 90)::INTEGER AS d, {source} FROM range(400) r(i)"
    roles = {"quasi_identifiers": ["a", "d"], "k": 5, "recode": {"a": "range", "d": "set"}}
    _, free = released(query, **roles, sensitive=list(columns))
    constant = {one.split("'")[1] for one in free if "one value in all 400 records" in one}
    assert constant == {"tz", "no", "bi", "bl", "ti", "en", "js", "bn"}
    _, bound = released(query, **roles, sensitive=list(columns), t=1)
    assert bound == []
    released(query, **roles, insensitive=list(columns))


@pytest.mark.slow
def test_every_door_says_it_once(tmp_path: Path) -> None:
    """View, frame and table function warn in Python; the command line says it once, on stderr."""
    query = "SELECT i // 5 AS a, (i // 5) % 2 AS s FROM range(20) r(i)"
    policy = duckanon.Policy(quasi_identifiers="a", sensitive="s", k=5)
    text = "4 of 4 classes, 20 of 20 records reveal 's'"
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t AS {query}")
        with pytest.warns(DuckanonWarning, match=text):
            duckanon.anonymize_table(con.sql("FROM t").to_arrow_table(), policy)
        duckanon.register(con)
        with pytest.warns(DuckanonWarning, match=text):
            con.execute(
                "FROM anonymize('t', quasi_identifiers := ['a'], sensitive := ['s'], k := 5)"
            ).fetchall()
        duckanon.unregister(con)
        con.execute(f"COPY t TO '{tmp_path / 'in.csv'}'")
    done = command(
        "anonymize", tmp_path / "in.csv", tmp_path / "out.csv", "--qi", "a", "--sensitive", "s", "-k", "5"
    )
    assert (done.returncode, done.stderr.count(text), done.stdout.count(text)) == (0, 1, 0)
    with (tmp_path / "out.csv").open(newline="") as file:
        assert Counter(row["a"] for row in csv.DictReader(file)) == Counter({str(a): 5 for a in range(4)})
    script = (
        f"CREATE ANONYMIZED VIEW v AS {query} WITH (quasi_identifiers = a, sensitive = s, k = 5, {EFFORT})"
    )
    done = command("sql", script, cwd=ROOT)
    assert (done.returncode, done.stderr.count(text), done.stdout.count(text)) == (0, 1, 0)
