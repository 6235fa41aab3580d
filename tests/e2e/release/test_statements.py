"""CREATE, REFRESH, AUDIT, SHOW, EXPLAIN and DROP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyError, ReleaseError, SourceError, StatementError
from tests.e2e.scenes import CREATE, OPTIONS, QI, measure, patients, rows
from tests.examples import slowly
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from pathlib import Path


def test_create_gives_report_rows_and_a_view_that_keeps_k() -> None:
    with patients() as con:
        report = rows(con, CREATE)
        assert list(report[0]) == [
            "measure", "attribute", "threshold", "value", "classes", "violations", "records", "passed",
        ]  # fmt: skip
        assert all(row["passed"] is not False for row in report)
        released = rows(con, "FROM v")
        assert len(released) == 60
        assert list(released[0]) == ["age", "zip", "charge", "diagnosis"]
        assert k_anonymity(released, QI) >= 3


def test_create_refuses_an_existing_name_and_replaces_only_its_own() -> None:
    with patients() as con:
        con.sql(CREATE)
        with pytest.raises(ReleaseError, match="OR REPLACE"):
            con.sql(CREATE)
        with pytest.warns(duckanon.DuckanonWarning, match="fewer than k = 7 subjects"):
            con.sql(CREATE.replace("CREATE", "CREATE OR REPLACE").replace("k = 3", "k = 7"))
        assert k_anonymity(rows(con, "FROM v"), QI) >= 7
        con.execute("CREATE TABLE mine AS SELECT 1 AS x")
        with pytest.raises(ReleaseError, match="did not make"):
            con.sql(CREATE.replace("CREATE", "CREATE OR REPLACE").replace("VIEW v", "VIEW mine"))
        assert rows(con, "FROM mine") == [{"x": 1}]


def test_if_not_exists_leaves_an_anonymized_view_as_it_is_and_nothing_else() -> None:
    """A table or plain view of that name is no release: an error, where DuckDB would do nothing."""
    quiet = CREATE.replace("VIEW v", "VIEW IF NOT EXISTS v")
    with patients() as con:
        (made,) = con.run_script(quiet)
        assert made.report is not None
        (left,) = con.run_script(quiet.replace("k = 3", "k = 7"))
        assert left.title == "memory.main.v exists: nothing was done, and it keeps its own policy"
        assert (left.report, left.table) == (None, None)
        assert rows(con, "SELECT count(*) AS n FROM duckanon.releases") == [{"n": 1}]
        assert "k = 3" in rows(con, "SELECT policy FROM duckanon.releases")[0]["policy"]
        with pytest.raises(PolicyError, match="unknown option"):
            con.sql(quiet.replace("k = 3", "kk = 3"))
        con.execute("CREATE TABLE mine AS SELECT 1 AS x; CREATE VIEW shown AS FROM patients")
        for name in ("mine", "shown"):
            with pytest.raises(ReleaseError, match="did not make"):
                con.sql(quiet.replace("EXISTS v", f"EXISTS {name}"))
        con.execute("DROP VIEW v")
        (again,) = con.run_script(quiet)
        assert again.report is not None


def test_a_view_that_replaced_ours_is_never_replaced() -> None:
    with patients() as con:
        con.sql(CREATE)
        con.execute("CREATE OR REPLACE VIEW v AS SELECT 1 AS mine")
        for statement in (
            CREATE.replace("CREATE", "CREATE OR REPLACE"),
            "REFRESH ANONYMIZED VIEW v",
            "DROP ANONYMIZED VIEW v",
        ):
            with pytest.raises(ReleaseError):
                con.sql(statement)
        assert rows(con, "FROM v") == [{"mine": 1}]


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_refresh_takes_the_source_of_today_and_the_policy_of_then() -> None:
    with patients() as con:
        con.sql(CREATE)
        con.execute("INSERT INTO patients SELECT 100 + i, 30, 'z1', 5, 'flu' FROM range(7) r(i)")
        con.sql("REFRESH ANONYMIZED VIEW v")
        assert len(rows(con, "FROM v")) == 67
        assert k_anonymity(rows(con, "FROM v"), QI) >= 3
        con.execute("DELETE FROM patients")
        with pytest.raises(SourceError, match="no records"):
            con.sql("REFRESH ANONYMIZED VIEW v")
        assert len(rows(con, "FROM v")) == 67


def test_refresh_keeps_effort_and_reads_policies_that_were_stored_without_it() -> None:
    """A stored policy holds what differs from the defaults, as all policies did before these options."""
    with patients() as con:
        con.sql(CREATE.replace(", effort = 'fast'", ""))
        con.sql(CREATE.replace("VIEW v", "VIEW w").replace("'fast'", "'fast', time_limit = 60"))
        stored = [
            row["policy"] for row in rows(con, "SELECT policy FROM duckanon.releases ORDER BY release_id")
        ]
        assert [("effort" in policy, "time_limit" in policy) for policy in stored] == [
            (False,) * 2,
            (True,) * 2,
        ]
        kept = duckanon.Policy.from_toml(stored[1])
        assert (kept.effort, kept.time_limit) == ("fast", 60.0)
        for view in ("v", "w"):
            con.sql(f"REFRESH ANONYMIZED VIEW {view}")
        again = [
            row["policy"] for row in rows(con, "SELECT policy FROM duckanon.releases ORDER BY release_id")
        ]
        assert again == stored


def test_refresh_looks_names_up_where_the_view_was_created() -> None:
    with patients() as con:
        con.execute("CREATE SCHEMA other")
        con.sql(CREATE)
        con.execute("USE other")
        con.sql("REFRESH ANONYMIZED VIEW main.v")
        assert rows(con, "SELECT current_schema() AS s") == [{"s": "other"}]
        assert len(rows(con, "FROM main.v")) == 60


def test_audit_view_takes_roles_from_the_catalog_and_thresholds_from_with() -> None:
    with patients() as con:
        con.sql(CREATE)
        assert measure(con, "AUDIT VIEW v", "k_anonymity")["passed"] is True
        assert measure(con, "AUDIT VIEW v WITH (k = 60)", "k_anonymity")["passed"] is False
        with pytest.raises(PolicyError, match="quasi_identifiers"):
            con.sql("AUDIT VIEW v WITH (quasi_identifiers = (age))")


def test_audit_table_looks_at_any_table() -> None:
    with patients() as con:
        row = measure(con, "AUDIT TABLE patients WITH (quasi_identifiers = (zip), k = 15)", "k_anonymity")
        # 60 records over 4 zips: every class has exactly 15.
        assert (row["value"], row["classes"], row["violations"], row["passed"]) == (15, 4, 0, True)
        row = measure(con, "AUDIT TABLE patients WITH (quasi_identifiers = (id), k = 2)", "k_anonymity")
        assert (row["value"], row["violations"], row["records"], row["passed"]) == (1, 60, 60, False)


@pytest.mark.parametrize(
    "options", ["quasi_identifiers = (nope), k = 2", "quasi_identifiers = (zip), sensitive = (nope), k = 2"]
)
def test_audit_of_a_missing_column_is_an_error(options: str) -> None:
    with patients() as con, pytest.raises(DuckanonError, match="nope"):
        con.sql(f"AUDIT TABLE patients WITH ({options})")


def test_audit_of_an_empty_table_is_an_error() -> None:
    with patients() as con:
        con.execute("DELETE FROM patients")
        with pytest.raises(DuckanonError, match=r"empty|no record"):
            con.sql("AUDIT TABLE patients WITH (quasi_identifiers = (zip), k = 2)")


def test_show_lists_and_drop_removes_everything() -> None:
    with patients() as con:
        assert rows(con, "SHOW ANONYMIZED VIEWS") == []
        con.sql(CREATE)
        (shown,) = rows(con, "SHOW ANONYMIZED VIEWS")
        assert (shown["view_name"], shown["records"], shown["suppressed"]) == ("v", 60, 0)
        con.sql("DROP ANONYMIZED VIEW v")
        assert rows(con, "SHOW ANONYMIZED VIEWS") == []
        left = rows(
            con, "SELECT table_name FROM duckdb_tables() WHERE regexp_matches(table_name, 'release_[0-9]')"
        )
        assert left == []
        con.sql("DROP ANONYMIZED VIEW IF EXISTS v")
        with pytest.raises(ReleaseError, match="not an anonymized view"):
            con.sql("DROP ANONYMIZED VIEW v")


def test_drop_never_drops_a_plain_view() -> None:
    with patients() as con:
        con.execute("CREATE VIEW plain AS SELECT 1 AS x")
        for statement in ("DROP ANONYMIZED VIEW plain", "DROP ANONYMIZED VIEW IF EXISTS plain"):
            with pytest.raises(ReleaseError):
                con.sql(statement)
        assert rows(con, "FROM plain") == [{"x": 1}]


def test_explain_says_method_and_distances_and_writes_nothing() -> None:
    with patients() as con:
        plan = rows(con, "EXPLAIN " + CREATE)
        by_property = {(row["property"], row["attribute"]): row["value"] for row in plan}
        assert by_property["method", None] == "mdav"
        assert by_property["distance", "charge"] == "ordered"
        assert by_property["distance", "diagnosis"] == "equal"
        assert rows(con, "SELECT * FROM duckdb_tables() WHERE table_name <> 'patients'") == []
        con.sql(CREATE)
        assert {row["property"] for row in rows(con, "EXPLAIN ANONYMIZED VIEW v")} == {
            row["property"] for row in plan
        }


def test_no_temporary_relation_is_left() -> None:
    with patients() as con:
        con.sql(CREATE)
        with pytest.raises(DuckanonError):
            con.sql(CREATE.replace("VIEW v", "VIEW w").replace("k = 3", "k = 300"))
        query = "SELECT table_name AS n FROM duckdb_tables() WHERE temporary UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
        assert rows(con, query) == []


@pytest.mark.parametrize(
    "quoted", slowly(['"my view"', '"a""b"', '"SELECT"', '"with ("', '"v;w"', "ünï"], one_of=3)
)
def test_quoted_names(quoted: str) -> None:
    with patients() as con:
        con.execute('CREATE SCHEMA "the schema"')
        con.sql(CREATE.replace("VIEW v", f'VIEW "the schema".{quoted}'))
        con.sql(f'REFRESH ANONYMIZED VIEW "the schema".{quoted}')
        assert len(rows(con, f'FROM "the schema".{quoted}')) == 60
        assert measure(con, f'AUDIT VIEW "the schema".{quoted}', "k_anonymity")["passed"] is True
        con.sql(f'DROP ANONYMIZED VIEW "the schema".{quoted}')


def test_quoted_columns() -> None:
    with duckanon.connect() as con:
        con.execute(
            """CREATE TABLE odd AS SELECT i AS "a ""b", i % 2 AS "select", i % 3 AS "with (", 'x' AS "class" FROM range(12) r(i)"""
        )
        con.sql("""
            CREATE ANONYMIZED VIEW v AS FROM odd
            WITH (quasi_identifiers = ("a ""b", "select"), sensitive = ("with ("), insensitive = *, k = 3, t = 0.6)
        """)
        released = rows(con, "FROM v")
        assert list(released[0]) == ['a "b', "select", "with (", "class"]
        assert k_anonymity(released, ['a "b', "select"]) >= 3


@pytest.mark.filterwarnings("ignore:this audit was not recorded:duckanon.DuckanonWarning")
def test_attached_databases_hold_their_own_releases(tmp_path: Path) -> None:
    with patients() as con:
        con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
        con.sql(CREATE.replace("VIEW v", "VIEW other.main.v"))
        con.sql(CREATE.replace("VIEW v", "VIEW other.w"))
        assert [r["view_name"] for r in rows(con, "SHOW ANONYMIZED VIEWS")] == ["v", "w"]
        assert (
            rows(
                con,
                "SELECT * FROM duckdb_tables() WHERE database_name = 'memory' AND schema_name = 'duckanon'",
            )
            == []
        )
    with duckanon.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS elsewhere (READ_ONLY)")
        assert len(rows(con, "FROM elsewhere.v")) == 60
        assert measure(con, "AUDIT VIEW elsewhere.v", "k_anonymity")["passed"] is True
        with pytest.raises(ReleaseError, match="read-only"):
            con.sql("DROP ANONYMIZED VIEW elsewhere.v")


def test_a_read_only_database_is_refused_and_can_be_audited(tmp_path: Path) -> None:
    file = tmp_path / "p.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    with duckanon.connect(file, read_only=True) as con:
        with pytest.warns(duckanon.DuckanonWarning, match="this audit was not recorded"):
            assert measure(con, "AUDIT VIEW v", "k_anonymity")["passed"] is True
        for statement in (CREATE.replace("VIEW v", "VIEW w"), "REFRESH ANONYMIZED VIEW v"):
            with pytest.raises(ReleaseError, match="read-only"):
                con.sql(statement)


def test_a_database_called_like_our_schema_is_refused_clearly(tmp_path: Path) -> None:
    with patients(tmp_path / "duckanon.duckdb") as con, pytest.raises(ReleaseError, match="another name"):
        con.sql(CREATE)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_statement_joins_an_open_transaction(tmp_path: Path) -> None:
    file = tmp_path / "p.duckdb"
    with patients(file) as con:
        con.execute("BEGIN")
        con.execute("INSERT INTO patients SELECT 100 + i, 30, 'z1', 5, 'flu' FROM range(5) r(i)")
        con.sql(CREATE)
        assert len(rows(con, "FROM v")) == 65
        con.execute("ROLLBACK")
        with pytest.raises(duckdb.CatalogException):
            con.sql("FROM v")
        con.execute("BEGIN")
        con.sql(CREATE)
        con.execute("COMMIT")
        assert len(rows(con, "FROM v")) == 60


def test_another_connection_sees_the_old_release_until_the_commit(tmp_path: Path) -> None:
    with patients(tmp_path / "p.duckdb") as con:
        con.sql(CREATE)
        reader = con.duckdb.cursor()
        con.execute("BEGIN")
        con.execute("DELETE FROM patients WHERE id < 20")
        with pytest.warns(duckanon.DuckanonWarning, match="of fewer than k = 3"):
            con.sql("REFRESH ANONYMIZED VIEW v")
        assert reader.execute("SELECT count(*) FROM v").fetchall() == [(60,)]
        con.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM v").fetchall() == [(40,)]
        reader.close()


def test_two_writers_cannot_both_publish(tmp_path: Path) -> None:
    with patients(tmp_path / "p.duckdb") as con:
        con.sql(CREATE)
        other = duckanon.api.connection.Connection(con.duckdb.cursor())
        con.execute("BEGIN")
        con.sql("REFRESH ANONYMIZED VIEW v")
        with pytest.raises(ReleaseError, match="onflict"):
            other.sql("REFRESH ANONYMIZED VIEW v")
        con.execute("COMMIT")
        other.sql("REFRESH ANONYMIZED VIEW v")
        other.close()
        assert len(rows(con, "SHOW ANONYMIZED VIEWS")) == 1


SOURCES = [
    "FROM patients",
    "FROM patients -- a comment with ( in it",
    "/* WITH (k = 1) */ SELECT * FROM patients /* and ' an open quote */",
    "WITH p AS (SELECT * FROM patients) SELECT * FROM p",
    "SELECT * FROM patients WHERE diagnosis <> $$it's WITH ($$",
    "SELECT * FROM patients UNION ALL SELECT * FROM patients",
    "(SELECT * FROM patients) EXCEPT (SELECT * FROM patients WHERE id = 1)",
    "SELECT * FROM (SELECT * FROM patients) AS inner_patients(id, age, zip, charge, diagnosis)",
    "SELECT id, age, zip, charge, diagnosis FROM (PIVOT patients ON zip USING count(*)) AS p JOIN (SELECT id AS i, zip FROM patients) AS q ON p.id = q.i",
    "SELECT * REPLACE (age + 1 AS age) FROM patients QUALIFY row_number() OVER (PARTITION BY id) = 1",
]


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("source", slowly(SOURCES, one_of=3))
def test_any_query_of_duckdb_is_a_source(source: str) -> None:
    with patients() as con:
        con.sql(f"CREATE ANONYMIZED VIEW v AS {source}\nWITH ({OPTIONS});")
        released = rows(con, "FROM v")
        plain = con.duckdb.sql(source)
        assert len(released) == len(plain.fetchall())
        assert k_anonymity(released, QI) >= 3


def test_a_top_level_pivot_is_a_source() -> None:
    with patients() as con:
        con.sql("""
            CREATE ANONYMIZED VIEW v AS PIVOT patients ON zip USING count(*) GROUP BY age
            WITH (quasi_identifiers = (age), insensitive = *, k = 2)
        """)
        assert k_anonymity(rows(con, "FROM v"), ["age"]) >= 2


def test_other_statements_run_in_order_as_they_are() -> None:
    script = f"""
        -- made by hand; with a semicolon in a comment
        CREATE TABLE notes AS SELECT 'a;b' AS note;
        {CREATE.replace("FROM patients", "FROM patients WHERE diagnosis <> ';'")};
        INSERT INTO notes SELECT count(*)::VARCHAR FROM v;
    """
    with patients() as con:
        outcomes = con.run_script(script)
        assert [outcome.title for outcome in outcomes] == ["released memory.main.v"]
        assert rows(con, "FROM notes ORDER BY ALL") == [{"note": "60"}, {"note": "a;b"}]


def test_a_script_stops_at_its_first_error() -> None:
    with patients() as con:
        with pytest.raises(duckdb.CatalogException):
            con.run_script("CREATE TABLE a AS SELECT 1; FROM nowhere; CREATE TABLE b AS SELECT 1")
        assert [
            r["table_name"] for r in rows(con, "SELECT table_name FROM duckdb_tables() ORDER BY ALL")
        ] == ["a", "patients"]


def test_a_query_that_fails_stops_a_script_though_nobody_reads_its_rows() -> None:
    script = "SELECT error('boo' || i) FROM range(3) r(i); CREATE TABLE later AS SELECT 1"
    with patients() as con:
        for run in (con.run_script, con.sql, con.execute):
            with pytest.raises(duckdb.Error, match="boo"):
                run(script)
        assert rows(con, "SELECT table_name FROM duckdb_tables() WHERE table_name = 'later'") == []


def test_our_statements_take_no_parameters() -> None:
    with patients() as con, pytest.raises(StatementError, match="no parameters"):
        con.sql(CREATE, params=[1])
