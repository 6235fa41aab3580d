"""Hierarchies of quasi-identifiers: labels of lowest common ancestors, from any source, through every door.

The oracle climbs the rows of the hierarchy in Python, level by level; what is expected of small tables was worked
out by hand.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import duckanon
from duckanon import hierarchies
from duckanon.errors import DuckanonError, DuckanonWarning, PolicyError
from duckanon.release.unpublished import equivalence_classes
from tests.e2e.scenes import ROOT, command
from tests.examples import examples
from tests.oracle import key
from tests.oracle_release import assert_ordered_by_values, assert_release_valid
from tests.strategies import Case, cases, load, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

TOWNS = [
    ("Bonn", "Rhine", "Germany", "*"),
    ("Köln", "Rhine", "Germany", "*"),
    ("Ulm", "Danube", "Germany", "*"),
    ("Wien", "Vienna", "Austria", "*"),
    ("Graz", "Styria", "Austria", "*"),
]

PEOPLE = [("Bonn", 1), ("Köln", 1), ("Ulm", 2), ("Ulm", 2), ("Wien", 3), ("Graz", 3), (None, 4), (None, 4)]
"""Two of each number, and a release with k = 2 keeps them together, since numbers weigh more."""

BY_HAND = {1: "Rhine", 2: "Ulm", 3: "Austria", 4: None}

OPTIONS = (
    "quasi_identifiers = (town, n), k = 2, weights = {n: 1000}, recode = {town: 'hierarchy'}, effort = 'fast'"
)


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.execute("CREATE TABLE people(town VARCHAR, n INTEGER)")
        connection.duckdb.executemany("INSERT INTO people VALUES (?, ?)", PEOPLE)
        connection.execute(
            "CREATE TABLE towns(town VARCHAR, region VARCHAR, land VARCHAR, everywhere VARCHAR)"
        )
        connection.duckdb.executemany("INSERT INTO towns VALUES (?, ?, ?, ?)", TOWNS)
        yield connection


def released(con: duckanon.Connection, hierarchy: str = "towns", more: str = "") -> dict[int, str | None]:
    """Release the people, and return the one label of each number."""
    options = f"{OPTIONS}, hierarchies = {{town: '{hierarchy}'}}{more}"
    con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM people WITH ({options})")
    return labels(con.duckdb.execute("FROM v").fetchall())


def labels(rows: Sequence[tuple[Any, ...]]) -> dict[int, str | None]:
    assert len({n for _, n in rows}) == len(set(rows)), "a class has two labels"
    return {n: town for town, n in rows}


def test_a_class_releases_its_lowest_common_ancestor(con: duckanon.Connection) -> None:
    assert released(con) == BY_HAND
    assert con.duckdb.execute("SELECT DISTINCT typeof(town) FROM v").fetchall() == [("VARCHAR",)]


def test_the_first_and_the_last_value_do_not_speak_for_one_between_them(con: duckanon.Connection) -> None:
    """By hand: Bonn and Köln share the Rhine, and Graz, between them in the alphabet, lies in another land."""
    con.execute("INSERT INTO people VALUES ('Graz', 1)")
    assert released(con) == BY_HAND | {1: "*"}


def test_null_beside_values_is_everything(con: duckanon.Connection) -> None:
    """By hand: nothing but the root is above NULL and a town; alone it stays NULL, or goes, or is refused."""
    con.execute("INSERT INTO people VALUES ('Ulm', 4)")
    assert released(con) == BY_HAND | {4: "*"}
    con.execute("DELETE FROM people WHERE n = 4 AND town IS NOT NULL")
    assert released(con, more=", nulls = 'suppress'") == {1: "Rhine", 2: "Ulm", 3: "Austria"}
    with pytest.raises(DuckanonError, match="'town' is NULL in 2 of 8 records and nulls = 'error'"):
        released(con, more=", nulls = 'error'")


@pytest.mark.parametrize("method", ["mondrian", "mondrian_relaxed"])
@pytest.mark.parametrize("limit", [0, 0.25])
@pytest.mark.parametrize("before", ["'x'", "CASE town WHEN 'Ulm' THEN 'a' WHEN 'Graz' THEN 'b' ELSE 'c' END"])
def test_a_name_before_a_hierarchy_does_not_take_its_place(
    con: duckanon.Connection, before: str, limit: float, method: str
) -> None:
    """By hand: cut between the countries, then between the rivers; a constant has no coordinate, three names two."""
    con.execute(
        f"CREATE OR REPLACE ANONYMIZED VIEW v AS SELECT {before} AS name, town"
        " FROM (VALUES ('Bonn'), ('Köln'), ('Ulm'), ('Ulm'), ('Wien'), ('Graz')) AS t(town) WITH ("
        "quasi_identifiers = (name, town), k = 2, weights = {town: 1000}, recode = {town: 'hierarchy'},"
        f" method = '{method}', suppression_limit = {limit}, hierarchies = {{town: 'towns'}})"
    )
    found = Counter(con.duckdb.execute("SELECT town FROM v").fetchall())
    assert found == {("Rhine",): 2, ("Ulm",): 2, ("Austria",): 2}


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "headless.csv"])
def test_a_hierarchy_is_a_file(con: duckanon.Connection, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"towns.{ending}"
    header = "" if ending.startswith("headless") else ", HEADER"
    form = "FORMAT parquet" if ending == "parquet" else f"DELIMITER ';'{header or ', HEADER false'}"
    con.execute(f"COPY towns TO '{path}' ({form})")
    assert released(con, str(path)) == BY_HAND


def test_codes_of_a_file_keep_their_zeros(con: duckanon.Connection, tmp_path: Path) -> None:
    """Left to itself DuckDB reads 1.50 as a number; labels and leaves are what the file says, 01234 too."""
    path = tmp_path / "codes.csv"
    path.write_text("code,group,root\n1.50,1.0,0\n1.51,1.0,0\n2.00,2.0,0\n", encoding="utf-8")
    con.execute(
        "CREATE TABLE z AS FROM (VALUES ('1.50', 1), ('1.51', 1), ('2.00', 2), ('2.00', 2)) AS v(town, n)"
    )
    options = f"{OPTIONS}, hierarchies = {{town: '{path}'}}"
    con.execute(f"CREATE ANONYMIZED VIEW codes AS FROM z WITH ({options})")
    assert labels(con.duckdb.execute("FROM codes").fetchall()) == {1: "1.0", 2: "2.00"}
    path.write_text("01234,012,0\n01235,012,0\n02000,020,0\n", encoding="utf-8")
    con.execute(
        "CREATE OR REPLACE TABLE z AS FROM (VALUES ('01234', 1), ('01235', 1), ('02000', 2), ('02000', 2)) AS v(town, n)"
    )
    con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW codes AS FROM z WITH ({options})")
    assert labels(con.duckdb.execute("FROM codes").fetchall()) == {1: "012", 2: "02000"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rows",
    [
        {town: above for town, *above in TOWNS},
        {town: tuple(above) for town, *above in TOWNS},
        TOWNS,
        [list(row) for row in TOWNS],
    ],
)
def test_a_hierarchy_is_a_dict_or_rows_in_python(con: duckanon.Connection, rows: Any) -> None:
    policy = duckanon.Policy(
        quasi_identifiers=["town", "n"], k=2, weights={"n": 1000}, effort="fast",
        recode={"town": "hierarchy"}, hierarchies={"TOWN": rows},
    )  # fmt: skip
    assert duckanon.Policy.from_toml(policy.to_toml()) == policy
    duckanon.anonymize(con, "people", policy, name="w")
    assert labels(con.duckdb.execute("FROM w").fetchall()) == BY_HAND
    con.execute("REFRESH ANONYMIZED VIEW w")
    assert labels(con.duckdb.execute("FROM w").fetchall()) == BY_HAND
    table = pa.table({"town": [town for town, _ in PEOPLE], "n": [n for _, n in PEOPLE]})
    made = duckanon.anonymize_table(table, policy)
    assert labels(list(zip(*(made.column(c).to_pylist() for c in ("town", "n")), strict=True))) == BY_HAND


def test_numbers_dates_and_truth_have_hierarchies(con: duckanon.Connection) -> None:
    """By hand: labels are text, of a leaf as its table writes it."""
    con.execute("""
        CREATE TABLE t AS FROM (VALUES
            (27, DATE '2024-02-28', true, 1), (23, DATE '2024-02-01', true, 1),
            (35, DATE '2024-03-01', true, 2), (35, DATE '2024-01-31', false, 2)) AS v(age, born, yes, n);
        CREATE TABLE ages AS SELECT i AS age, i // 10 * 10 || '+' AS decade, '*' AS root FROM range(100) AS r(i);
        CREATE TABLE days AS SELECT d::DATE AS d, strftime(d, '%Y-%m') AS m, strftime(d, '%Y') AS y
            FROM range(DATE '2024-01-01', DATE '2025-01-01', INTERVAL 1 DAY) AS r(d);
        CREATE TABLE truth AS FROM (VALUES (true, 'any'), (false, 'any')) AS v(yes, either);
        CREATE ANONYMIZED VIEW made AS FROM t WITH (
            quasi_identifiers = (age, born, yes, n), k = 2, weights = {n: 1000},
            recode = {age: 'hierarchy', born: 'hierarchy', yes: 'hierarchy'},
            hierarchies = {age: 'ages', born: 'days', yes: 'truth'})
    """)
    assert con.duckdb.execute("SELECT DISTINCT * FROM made ORDER BY n").fetchall() == [
        ("20+", "2024-02", "true", 1),
        ("35", "2024", "any", 2),
    ]


def test_a_hierarchy_is_also_a_distance(con: duckanon.Connection) -> None:
    """By hand: Bonn and Köln share a region, Wien and Graz a land: no other two pairs are as near."""
    con.execute("CREATE TABLE four AS FROM (VALUES ('Bonn'), ('Wien'), ('Köln'), ('Graz')) AS v(town)")
    options = "quasi_identifiers = town, k = 2, hierarchies = {town: 'towns'}, recode = {town: 'set'}"
    con.execute(f"CREATE ANONYMIZED VIEW near AS FROM four WITH ({options})")
    found = con.duckdb.execute("SELECT DISTINCT town FROM near ORDER BY 1").fetchall()
    assert found == [(["Bonn", "Köln"],), (["Graz", "Wien"],)]


def test_labels_that_differ_in_case_are_two_under_any_collation(con: duckanon.Connection) -> None:
    con.execute("SET default_collation = 'NOCASE'")
    con.execute(
        "CREATE TABLE cased AS FROM (VALUES ('Ulm', 'a', '*'), ('Wien', 'A', '*'), ('Graz', 'A', '*'), ('Bonn', 'a', '*')) AS v(leaf, one, root)"
    )
    con.execute(
        "CREATE TABLE moved AS FROM (VALUES ('Ulm', 1), ('Bonn', 1), ('Wien', 2), ('Graz', 2)) AS v(town, n)"
    )
    options = f"{OPTIONS}, hierarchies = {{town: 'cased'}}"
    con.execute(f"CREATE ANONYMIZED VIEW w AS FROM moved WITH ({options})")
    assert labels(con.duckdb.execute("FROM w").fetchall()) == {1: "a", 2: "A"}


@pytest.mark.slow
def test_every_door_gives_the_same_labels(con: duckanon.Connection, tmp_path: Path) -> None:
    """View, refreshed view, table function, exports and the command line; what is exported verifies."""
    assert released(con) == BY_HAND
    con.execute("REFRESH ANONYMIZED VIEW v")
    assert labels(con.duckdb.execute("FROM v").fetchall()) == BY_HAND
    for ending in ("duckdb", "parquet", "csv"):
        path = tmp_path / f"v.{ending}"
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{path}'")
        if ending == "duckdb":
            assert command("verify", str(path)).returncode == 0
        else:
            assert labels(duckdb.sql(f"FROM '{path}'").fetchall()) == BY_HAND
    duckanon.register(con.duckdb)
    call = "anonymize('people', quasi_identifiers := ['town', 'n'], k := 2, weights := {'n': 1000}, recode := {'town': 'hierarchy'}, hierarchies := {'town': 'towns'}, effort := 'fast')"
    assert labels(con.duckdb.execute(f"FROM {call}").fetchall()) == BY_HAND
    con.execute("UPDATE towns SET region = 'Rhein' WHERE region = 'Rhine'")
    assert labels(con.duckdb.execute(f"FROM {call}").fetchall()) == BY_HAND | {1: "Rhein"}
    source, tree, out = (str(tmp_path / name) for name in ("people.csv", "towns.csv", "out.csv"))
    con.execute(f"COPY people TO '{source}' (HEADER); COPY towns TO '{tree}' (HEADER)")
    flags = ["--qi", "town,n", "-k", "2", "--weights", "n=1000", "--recode", "town=hierarchy"]
    done = command("anonymize", source, out, *flags, "--hierarchies", f"town={tree}", "--effort", "fast")
    assert done.returncode == 0, done.stderr
    assert labels(duckdb.sql(f"FROM '{out}'").fetchall()) == BY_HAND | {1: "Rhein"}


def test_an_export_does_not_carry_the_hierarchy(con: duckanon.Connection, tmp_path: Path) -> None:
    """Towns that nobody lives in, and leaves that no class shows, are not in the file."""
    con.execute("INSERT INTO towns VALUES ('Atlantis', 'Sea', 'Nowhere', '*')")
    assert released(con) == BY_HAND
    path = tmp_path / "v.duckdb"
    con.execute(f"EXPORT ANONYMIZED VIEW v TO '{path}'")
    content = path.read_bytes()
    assert b"Atlantis" not in content
    assert b"Graz" not in content
    assert b"Styria" not in content
    assert b"Austria" in content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "DELETE FROM towns WHERE land = 'Austria'",
            "has no row for the value Graz, Wien: add a row for each",
        ),
        ("DELETE FROM towns", "has no rows: add a row for each value"),
        (
            "INSERT INTO towns VALUES ('Ulm', 'Danube', 'Germany', '*')",
            "has more than one row for the leaf Ulm",
        ),
        (
            "UPDATE towns SET land = 'Prussia' WHERE town = 'Bonn'",
            "puts below different parents, of level 1: Rhine",
        ),
        (
            "UPDATE towns SET everywhere = land",
            "has 2 different roots in its last column, not one: Austria, Germany",
        ),
        ("UPDATE towns SET region = NULL WHERE town = 'Ulm'", "has an empty cell at level 1 of Ulm"),
        ("UPDATE towns SET town = NULL WHERE town = 'Ulm'", "has an empty cell at level 0 of (empty)"),
        (
            "INSERT INTO people SELECT 'x' || i, 5 FROM range(7) AS r(i)",
            "has no row for the value x0, x1, x2, x3, x4 and 2 more: add a row for each, or mend the values",
        ),
    ],
)
def test_a_hierarchy_with_a_flaw_is_an_error_and_nothing_is_written(
    con: duckanon.Connection, change: str, words: str
) -> None:
    con.execute(change)
    with pytest.raises(PolicyError) as wrong:
        released(con)
    assert f"hierarchy 'towns' of 'town' {words}" in str(wrong.value)
    assert con.duckdb.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = 'v'").fetchall() == [
        (0,)
    ]
    assert con.duckdb.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("hierarchies = {n: 'towns'}", "hierarchies of 'n' is of no use where it is recoded by 'mean': add recode = {n: 'hierarchy'}"),
        ("hierarchies = {town: 'nowhere'}, recode = {town: 'hierarchy'}", "nowhere"),
        ("hierarchies = {m: 'towns'}", "hierarchies names 'm', which is not in quasi_identifiers or sensitive"),
        ("recode = {town: 'hierarchy'}", "recode of 'town' is 'hierarchy' and has none"),
        ("hierarchies = {n: 'towns'}, recode = {n: 'hierarchy'}", "Could not convert string 'Bonn' to INT32"),
    ],
)  # fmt: skip
def test_wrong_options_say_what_to_do(con: duckanon.Connection, options: str, words: str) -> None:
    with pytest.raises(PolicyError) as wrong:
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = (town, n), k = 2, {options})"
        )
    assert words in str(wrong.value)
    assert len(str(wrong.value).splitlines()) <= 2


def test_an_audit_of_a_policy_with_hierarchies_needs_none_of_them(con: duckanon.Connection) -> None:
    rows = {"town": {town: above for town, *above in TOWNS}}
    policy = duckanon.Policy(quasi_identifiers="town", k=2, hierarchies=rows)
    assert not policy.audited().hierarchies
    assert released(con) == BY_HAND
    con.execute("DROP TABLE towns")
    assert con.duckdb.execute("SELECT count(*) FROM people").fetchall() == [(8,)]
    con.execute("AUDIT VIEW v")
    with pytest.raises(PolicyError, match="towns"):
        con.execute("REFRESH ANONYMIZED VIEW v")
    assert labels(con.duckdb.execute("FROM v").fetchall()) == BY_HAND


def test_the_page_runs() -> None:
    """Blocks of docs/hierarchies.md: SQL on a table with these columns, Python as it stands."""
    page = (ROOT / "docs" / "hierarchies.md").read_text(encoding="utf-8")
    (script,), (python,) = (
        re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("sql", "python")
    )
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE patients AS SELECT '0' || (1200 + i % 40) AS zip, 20 + i % 50 AS age, i % 9 AS charge "
            "FROM range(200) AS r(i)"
        )
        con.run_script(script)
        zips = {row[0] for row in con.duckdb.execute("SELECT DISTINCT zip FROM patients_anon").fetchall()}
    assert zips <= {f"0{prefix}"[:keep].ljust(5, "*") for prefix in range(1200, 1240) for keep in range(6)}
    assert any("*" in one for one in zips)
    exec(python, {"duckanon": duckanon})


def test_frames_come_back_with_labels_as_text() -> None:
    """By hand: a categorical is text then, too, and times share a month or nothing."""
    frame = pd.DataFrame({
        "zip": pd.Categorical(["012", "013", "020", "021"] * 5),
        "age": [20, 21, 35, 36] * 5,
        "seen": pd.to_datetime(["2024-01-01", "2024-01-05", "2024-05-01", "2024-06-01"] * 5),
    })  # fmt: skip
    columns = list(frame)
    policy = duckanon.Policy(
        quasi_identifiers=columns, k=10, recode=dict.fromkeys(columns, "hierarchy"),
        hierarchies={
            "zip": hierarchies.prefixes(frame["zip"]),
            "age": hierarchies.intervals(range(100), [10]),
            "seen": hierarchies.dates(frame["seen"], levels=["day", "month"]),
        },
    )  # fmt: skip
    expected = {("01*", "[20, 30)", "2024-01"), ("02*", "[30, 40)", "*")}
    made = duckanon.anonymize_table(frame, policy)
    assert set(made.itertuples(index=False, name=None)) == expected
    assert set(duckanon.anonymize_table(polars.from_pandas(frame), policy).iter_rows()) == expected


PATHS = [("012", "01*", "*"), ("013", "01*", "*"), ("020", "02*", "*"), ("021", "02*", "*")]
COLUMNS = dict(zip(["zip", "area", "root"], map(list, zip(*PATHS, strict=True)), strict=True))
FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame(COLUMNS),
    "categories": pd.DataFrame(COLUMNS, dtype="category"),
    "polars": polars.DataFrame(COLUMNS),
    "Arrow": pa.table(COLUMNS),
    "labels in lists": pd.DataFrame({"value": COLUMNS["zip"], "labels": [list(path[1:]) for path in PATHS]}),
    "labels in lists of polars": polars.DataFrame(
        {"value": COLUMNS["zip"], "labels": [list(path[1:]) for path in PATHS]}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_a_hierarchy(kind: str) -> None:
    """By hand: 012 and 013 share 01*, 020 and 021 share 02*."""
    policy = duckanon.Policy(
        quasi_identifiers="zip", k=10, recode={"zip": "hierarchy"}, hierarchies={"zip": FRAMES[kind]}
    )
    assert policy.hierarchies["zip"] == tuple(PATHS)
    assert duckanon.Policy.from_toml(policy.to_toml()) == policy
    made = duckanon.anonymize_table(pd.DataFrame({"zip": COLUMNS["zip"] * 5}), policy)
    assert sorted(made["zip"]) == ["01*"] * 10 + ["02*"] * 10


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3, 4], "int64"),
        (list(pd.to_datetime(["2020-01-01", "2020-01-02", "2021-01-01", "2021-01-02"])), "datetime64[ns]"),
        (list(pd.to_datetime(["2020-01-01", "2020-07-02", "2021-01-01", "2021-01-02"], utc=True)), None),
        (["1.50", "2", "3", "4"], "object"),
    ],
)
def test_leaves_of_a_frame_have_the_type_of_the_column(values: list[Any], kind: str | None) -> None:
    column = pd.Series(values, dtype=kind)
    tree = pd.DataFrame({"leaf": column, "half": ["low", "low", "high", "high"], "root": "*"})
    policy = duckanon.Policy(
        quasi_identifiers="a", k=2, recode={"a": "hierarchy"}, hierarchies={"a": tree}, effort="fast"
    )
    assert (
        sorted(duckanon.anonymize_table(pd.DataFrame({"a": column}), policy)["a"])
        == ["high"] * 2 + ["low"] * 2
    )


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (FRAMES["pandas"].set_index("zip"), r"index \(zip\) of the DataFrame is no column: reset_index"),
        (pd.DataFrame({"zip": ["012", None], "root": "*"}), "has an empty cell"),
        (pd.DataFrame({"zip": pd.array([1, None], "Int64"), "root": "*"}), "has an empty cell"),
        (pd.DataFrame({"zip": ["012"], "root": [pd.NA]}), "has an empty cell"),
        (FRAMES["pandas"][["zip"]], "has no label above a leaf"),
        (FRAMES["pandas"].iloc[:0], "has no label above a leaf"),
        (FRAMES["pandas"]["zip"], "0 012 1 013 .*give a table, a file"),
    ],
)
def test_a_frame_that_is_no_hierarchy_is_told(tree: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        duckanon.Policy(quasi_identifiers="zip", k=2, recode={"zip": "hierarchy"}, hierarchies={"zip": tree})


def ancestor(values: Sequence[Any], paths: Mapping[object, Sequence[str]]) -> str | None:
    """Return the first label, from the leaf up, that all values share; NULL shares the root alone."""
    if all(value is None for value in values):
        return None
    height = len(next(iter(paths.values())))
    for level in range(height):
        shared = {paths[key(value)][level] if value is not None else None for value in values}
        if len(shared) == 1 and shared != {None}:
            return shared.pop()
    return next(iter(paths.values()))[-1]


@pytest.mark.slow
@settings(
    max_examples=examples(200, 6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(case=cases(hierarchies=True, max_rows=24))
def test_any_class_of_any_table_releases_its_lowest_common_ancestor(
    con: duckanon.Connection, case: Case
) -> None:
    assume(case.climbs and not case.refusal)
    con.execute("USE memory.main; DROP SCHEMA IF EXISTS play CASCADE; CREATE SCHEMA play; USE play")
    load(con.duckdb, case, "source_table")
    policy = duckanon.Policy(**case.policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        duckanon.anonymize(con, "source_table", policy, name="v")
        classes = equivalence_classes(con.duckdb, "FROM source_table", policy).table.column(-1).to_pylist()
    rows = records_of(con.duckdb, "v")
    source = records_of(con.duckdb, "source_table")
    assert_release_valid(source, rows, case.policy, trees=case.trees)
    assert_ordered_by_values(rows)
    by_label = [name for name, how in case.policy["recode"].items() if how == "hierarchy"]
    expected: Counter[tuple[str | None, ...]] = Counter()
    paths = {name: paths_of(con.duckdb, case, name) for name in by_label}
    members: dict[int, list[dict[str, Any]]] = {}
    for row, label in zip(source, classes, strict=True):
        if label is not None:
            members.setdefault(label, []).append(row)
    for rows_of in members.values():
        expected[tuple(ancestor([row[c] for row in rows_of], paths[c]) for c in by_label)] += len(rows_of)
    assert Counter(tuple(row[c] for c in by_label) for row in rows) == expected


def paths_of(con: duckdb.DuckDBPyConnection, case: Case, name: str) -> dict[object, list[str]]:
    """Return the labels above each value of a column, its text in DuckDB first."""
    paths = {}
    for leaf, *above in case.climbs[name]:
        kind = dict(case.columns)[name]
        text = con.execute(
            f"SELECT CAST(CAST(? AS {'VARCHAR' if kind.startswith('ENUM') else kind}) AS VARCHAR)", [leaf]
        ).fetchall()
        paths[key(leaf)] = [text[0][0], *above]
    return paths
