"""The dbt macros alone, rendered by Jinja and run on a connection that the plugin has prepared; no dbt needed."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import jinja2
import pytest

import duckanon
from duckanon import dbt
from duckanon.database.templates import ident
from duckanon.dbt import Plugin, package

if TYPE_CHECKING:
    from collections.abc import Iterator

# Li et al. 2007, table 3: three classes of nine salaries; EMD 0.375, 0.167 and 0.236 (section 5.1).
SALARIES = """CREATE TABLE salaries AS FROM (VALUES
    ('4767*', 3), ('4767*', 4), ('4767*', 5), ('4790*', 6), ('4790*', 8), ('4790*', 11),
    ('4760*', 7), ('4760*', 9), ('4760*', 10)) AS v(zip, salary)"""


@pytest.fixture(scope="module")
def plugin() -> Plugin:
    """A plugin without dbt's own part."""
    return Plugin.__new__(Plugin)


@pytest.fixture(scope="module")
def model(plugin: Plugin) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor as a model of dbt has it; to parse our macros takes DuckDB longer than most tests."""
    with duckdb.connect() as connection:
        plugin.configure_connection(connection)
        with connection.cursor() as cursor:
            plugin.configure_cursor(cursor)
            yield cursor


@pytest.fixture
def con(model: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """The cursor in a database that holds nothing but the salaries."""
    model.execute(SALARIES)
    yield model
    tables = model.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    for (name,) in tables:
        model.execute(f"DROP TABLE {ident(name)}")


def rendered(test: str, *arguments: Any, **named: Any) -> str:
    """SQL of a generic test, as dbt would render it."""
    loader = jinja2.FileSystemLoader(package() / "macros")
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined)
    # The macros of a package see each other below its name.
    namespace: dict[str, Any] = {}
    environment.globals["duckanon"] = namespace
    for path in (package() / "macros").rglob("*.sql"):
        if path.parent.name == "materializations":
            continue
        text = re.sub(r"{% test (\w+)", r"{% macro test_\1", path.read_text(encoding="utf-8"))
        module = environment.from_string(text.replace("{% endtest %}", "{% endmacro %}")).module
        namespace.update({name: getattr(module, name) for name in dir(module) if not name.startswith("_")})
    sql: str = namespace[f"test_{test}"](*arguments, **named)
    return sql


def rows(con: duckdb.DuckDBPyConnection, test: str, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
    """Rows of a generic test: zip of the class, its size, its value."""
    sql = rendered(test, *arguments, **named)
    found = con.execute(f"SELECT class.zip, class_size, value FROM ({sql}) AS found").fetchall()
    # dbt counts them, and does so without reading a column.
    assert con.execute(f"SELECT count(*) FROM ({sql}) AS found").fetchall() == [(len(found),)]
    return found


def test_k_anonymity(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, "k_anonymity", "salaries", ["zip"], 3) == []
    assert rows(con, "k_anonymity", "salaries", "ZIP", 4) == [
        ("4760*", 3, 3.0),
        ("4767*", 3, 3.0),
        ("4790*", 3, 3.0),
    ]


def test_t_closeness_of_li_2007_at_the_boundary(con: duckdb.DuckDBPyConnection) -> None:
    """Li et al. 2007, section 5.1: {3, 4, 5} is at 0.375 exactly, which passes t = 0.375."""
    assert rows(con, "t_closeness", "salaries", ["zip"], 0.375, ["salary"]) == []
    assert rows(con, "t_closeness", "salaries", ["zip"], "0.374999999999", "salary") == [("4767*", 3, 0.375)]
    (first, second) = rows(con, "t_closeness", "salaries", ["zip"], {"salary": 0.2}, column_name="salary")
    assert (first[0], second[0]) == ("4767*", "4760*")
    assert second[2] == pytest.approx(0.2361, abs=5e-5)


def test_t_closeness_of_a_text_with_an_order(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: q = (1/2, 1/4, 1/4) in the order low, mid, high, so both classes are 3/8 away; tests/sql/audit/ranks.test."""
    con.execute(
        "CREATE TABLE pains AS FROM (VALUES (1, 'low'), (1, 'low'), (2, 'mid'), (2, 'high')) AS v(zip, pain)"
    )
    order = {"pain": ["low", "mid", "high"]}
    assert rows(con, "t_closeness", "pains", ["zip"], 0.375, "pain", order=order) == []
    found = rows(con, "t_closeness", "pains", ["zip"], 0.37, "pain", order=order)
    assert sorted(found) == [("1", 2, 0.375), ("2", 2, 0.375)]


def test_t_closeness_with_another_distance(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: each class holds 3 of 9 values, 1/3 each: (3 * |1/3 - 1/9| + 6/9) / 2 = 2/3."""
    found = rows(con, "t_closeness", "salaries", ["zip"], 0.5, "salary", distance={"salary": "equal"})
    assert [value for _, _, value in found] == [pytest.approx(2 / 3)] * 3


@pytest.mark.parametrize(
    ("named", "violating"),
    [
        # By hand: three different values in a class.
        ({"l": 3}, 0),
        ({"l": 4}, 3),
        ({"l": 3, "kind": "entropy"}, 0),
        ({"l": 3.01, "kind": "entropy"}, 3),
        # r_1 = 1 < c (r_2 + r_3) = 2 c
        ({"l": 2, "kind": "recursive", "c": 0.6}, 0),
        ({"l": 2, "kind": "recursive", "c": 0.5}, 3),
    ],
)
def test_l_diversity(con: duckdb.DuckDBPyConnection, named: dict[str, Any], violating: int) -> None:
    assert len(rows(con, "l_diversity", "salaries", ["zip"], sensitive="salary", **named)) == violating


def test_names_with_quotes_and_a_filter(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""CREATE TABLE "a'b" AS SELECT zip AS "it's", salary AS "my ""col" FROM salaries""")
    model = """(select * from "a'b" where "it's" <> '4767*') dbt_subquery"""
    sql = rendered("t_closeness", model, ["it's"], {'my "col': 0.0000001}, ['my "col'])
    found = con.execute(f"""SELECT attribute, class."it's" FROM ({sql})""").fetchall()
    assert sorted(found) == [('my "col', "4760*"), ('my "col', "4790*")]


def test_null_is_a_class(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("INSERT INTO salaries VALUES (NULL, 3), (NULL, 4)")
    assert rows(con, "k_anonymity", "salaries", ["zip"], 3) == [(None, 2, 2.0)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'nobody', quasi_identifiers := ['zip'], k := 3", "the table is empty"),
        ("'nowhere', quasi_identifiers := ['zip'], k := 3", "nowhere"),
        ("'salaries', quasi_identifiers := ['zpi'], k := 3", "did you mean 'zip'"),
        ("'salaries', quasi_identifiers := ['zip'], sensitive := ['zip'], k := 3", "one role"),
        ("'salaries', quasi_identifiers := [], k := 3", "at least one quasi-identifier"),
        ("'salaries', k := 3", "at least one quasi-identifier"),
        ("'salaries', quasi_identifiers := ['zip']", "nothing to judge"),
        ("'salaries', quasi_identifiers := ['zip'], t := 0.2", "sensitive"),
        ("'salaries', quasi_identifiers := ['zip'], sensitive := ['salary'], t := 2", "at most 1"),
        (
            "'salaries', quasi_identifiers := ['zip'], sensitive := ['salary'], t := {'zip': 0.5}",
            "zip",
        ),
        ("'salaries', quasi_identifiers := NULL, k := 3", "quasi_identifiers is NULL"),
        (
            "'salaries', quasi_identifiers := ['zip'], sensitive := ['salary'], t := 0.5, k := NULL",
            "k is NULL",
        ),
        (
            "'salaries', quasi_identifiers := ['zip'], sensitive := ['salary'], k := 3, t := NULL",
            "t is NULL",
        ),
    ],
)
def test_what_is_wrong_is_never_a_pass(con: duckdb.DuckDBPyConnection, call: str, words: str) -> None:
    con.execute("CREATE TABLE nobody AS FROM salaries LIMIT 0")
    for query in ("FROM {}", "SELECT count(*) FROM {}", "SELECT 1 FROM {} WHERE class_size < 3"):
        with pytest.raises(duckdb.Error, match=re.escape(words)):
            con.execute(query.format(f"violating_classes({call})"))


@pytest.mark.parametrize(
    "relation",
    [
        "salaries; DROP TABLE salaries",
        "salaries; DELETE FROM salaries; FROM salaries",
        "salaries; SELECT 1",
        "salaries); DROP TABLE salaries; --",
        "(INSERT INTO salaries VALUES ('4767*', 1) RETURNING *)",
        "salaries /*",
        "(PIVOT salaries ON zip USING sum(salary))",
        "",
    ],
)
@pytest.mark.parametrize("query", ["FROM {}", "EXPLAIN FROM {}", "PREPARE p AS FROM {}"])
def test_a_relation_is_read_and_never_run(con: duckdb.DuckDBPyConnection, query: str, relation: str) -> None:
    text = relation.replace("'", "''")
    with pytest.raises(duckdb.Error):
        con.execute(query.format(f"violating_classes('{text}', quasi_identifiers := ['zip'], k := 3)"))
    assert con.execute("SELECT count(*) FROM salaries").fetchall() == [(9,)]


@pytest.mark.parametrize(
    ("relation", "violating"),
    [
        # By hand: three classes of 3 records; without salary 3 one has 2, and the least four are 3, 4, 5 and 6.
        ("salaries -- all of them", 0),
        ("(SELECT * FROM salaries) AS s", 0),
        ("salaries WHERE salary <> 3", 1),
        ("salaries ORDER BY salary LIMIT 4", 1),
    ],
)
def test_what_stands_after_from_is_audited_as_a_whole(
    con: duckdb.DuckDBPyConnection, relation: str, violating: int
) -> None:
    found = con.execute(
        f"FROM violating_classes('{relation}', quasi_identifiers := ['zip'], k := 3)"
    ).fetchall()
    assert len(found) == violating


def test_cursors_share_scalar_functions_and_nothing_else() -> None:
    """What docs/workflows.md says about con.cursor()."""
    with duckdb.connect() as connection:
        connection.execute(SALARIES)
        duckanon.register(connection)
        with connection.cursor() as cursor:
            assert cursor.execute("SELECT emd_ordered([3, 4, 5], range(3, 12))").fetchall() == [(0.375,)]
            for call in (
                "k_anonymity('salaries', ['zip'])",
                "anonymize('salaries', quasi_identifiers := ['zip'], insensitive := ['salary'], k := 3)",
            ):
                with pytest.raises(duckdb.CatalogException, match="does not exist"):
                    cursor.execute(f"FROM {call}")
            duckanon.register(cursor)
            assert cursor.execute("FROM k_anonymity('salaries', ['zip'])").fetchall() == [(3, 3, 9)]


@pytest.mark.slow
def test_threads_of_dbt_register_at_the_same_time(plugin: Plugin) -> None:
    failures: list[BaseException] = []

    def node() -> None:
        try:
            with connection.cursor() as cursor:
                plugin.configure_cursor(cursor)
                assert len(rows(cursor, "k_anonymity", "salaries", ["zip"], 4)) == 3
        except BaseException as failure:  # noqa: BLE001 - the main thread judges it
            failures.append(failure)

    with duckdb.connect() as connection:
        connection.execute(SALARIES)
        plugin.configure_connection(connection)
        threads = [threading.Thread(target=node) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_database_that_stays_open_can_be_configured_again(plugin: Plugin, tmp_path: Any) -> None:
    """A notebook may keep the file open while dbt runs in the same process, more than once."""
    with duckdb.connect(tmp_path / "clinic.duckdb") as kept:
        kept.execute(SALARIES)
        for _ in range(2):
            with duckdb.connect(tmp_path / "clinic.duckdb") as connection:
                plugin.configure_connection(connection)
                with connection.cursor() as cursor:
                    plugin.configure_cursor(cursor)
                    assert rows(cursor, "k_anonymity", "salaries", ["zip"], 3) == []


def test_without_dbt_the_plugin_says_what_is_missing() -> None:
    with pytest.raises(duckanon.MissingExtra, match="dbt-duckdb"):
        dbt._Missing(name="duckanon", plugin_config={})


def test_publish_takes_the_connection_out_of_wrappers(fresh_db: duckdb.DuckDBPyConnection) -> None:
    class Wrapper:
        def __init__(self, cursor: object) -> None:
            self._cursor = cursor

    fresh_db.execute(SALARIES)
    options = '{"quasi_identifiers": ["zip"], "sensitive": ["salary"], "k": 3, "t": 0.375}'
    dbt.publish(Wrapper(Wrapper(fresh_db)), "FROM salaries", 'memory.main."a b"', options)
    assert fresh_db.execute('SELECT count(*) FROM "a b"').fetchall() == [(9,)]
    dbt.publish(fresh_db, "FROM salaries", "v", "null")
    (told,) = fresh_db.execute("SELECT getvariable('duckanon_refused')").fetchone() or ()
    assert str(told).startswith("the model has no policy")


def test_k_of_subsets(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: nine salaries in one zip each; a column that a subset lacks is NULL in its class."""
    con.execute("CREATE TABLE pays AS SELECT left(zip, 3) AS zip, salary FROM salaries")
    sql = rendered("k_anonymity", "pays", ["zip", "salary"], {"zip": 7, "(salary)": 1})
    found = con.execute(f"SELECT measure, attribute, class, value FROM ({sql}) AS found").fetchall()
    assert found == [
        ("k_anonymity_subset", "zip", {"zip": "479", "salary": None}, 3.0),
        ("k_anonymity_subset", "zip", {"zip": "476", "salary": None}, 6.0),
    ]
    sql = rendered("k_anonymity", "pays", ["zip", "salary"], 2, k_subsets={2: 1})
    assert con.execute(sql).fetchall()


def test_shares_of_sensitive_values(con: duckdb.DuckDBPyConnection) -> None:
    """Each class holds three salaries, each once in nine: shares of a third, gains of 2; a class lacks six."""
    classes = len(rows(con, "k_anonymity", "salaries", ["zip"], 1000))
    assert rows(con, "alpha_k_anonymity", "salaries", ["zip"], {"salary": 0.34}, "salary") == []
    assert len(rows(con, "alpha_k_anonymity", "salaries", ["zip"], 0.33, "salary")) == classes
    assert len(rows(con, "alpha_k_anonymity", "salaries", ["zip"], {"salary": {"3": 0.3}}, "salary")) == 1
    assert rows(con, "beta_likeness", "salaries", ["zip"], 2, sensitive="salary") == []
    assert len(rows(con, "beta_likeness", "salaries", ["zip"], 1.9, sensitive="salary")) == classes
    assert rows(con, "beta_likeness", "salaries", ["zip"], 2, sensitive="salary", enhanced=True) == []
    assert len(rows(con, "delta_disclosure", "salaries", ["zip"], 30, "salary")) == classes
