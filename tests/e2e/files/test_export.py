"""EXPORT: a fresh file that others can open, that holds what is listed and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.errors import AuditFailure, ReleaseError
from duckanon.release.verify.verify import verify
from tests.e2e.scenes import CREATE, QI, patients, rows, stock_cli
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD_DUCKDB = Path(sys.prefix) / "duckdb-1.2.2"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with sixty patients and one release of them, to be copied; its name is that of one in memory."""
    file = tmp_path_factory.mktemp("made") / "memory.duckdb"
    with patients(file) as con:
        con.sql(CREATE.replace("k = 3", "k = 3, t = 0.5"))
    return file


@pytest.fixture
def con(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Connection]:
    with duckanon.connect(shutil.copy(made, tmp_path_factory.mktemp("copy") / made.name)) as connection:
        yield connection


def test_the_file_holds_the_listed_tables_and_columns_and_nothing_else(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "release.duckdb"
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release.duckdb"]
    with duckdb.connect(str(file), read_only=True) as reader:
        tables = reader.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        metadata = ["audits", "columns", "releases", "thresholds"]
        assert tables == [*[("duckanon", name) for name in metadata], ("main", "v")]
        columns = [row[0] for row in reader.execute("DESCRIBE v").fetchall()]
        assert columns == ["age", "zip", "charge", "diagnosis"]
        released = reader.execute(
            "SELECT column_name FROM duckdb_columns() WHERE table_name = 'releases'"
        ).fetchall()
        assert not {"policy", "source_sql"} & {row[0] for row in released}
        views = "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        assert reader.execute(views).fetchall() == [("duckanon", "check")]
        enums = "SELECT count(*) FROM duckdb_columns() WHERE data_type LIKE 'ENUM%' AND NOT internal"
        assert reader.execute(enums).fetchall() == [(0,)]


@pytest.mark.slow
def test_a_view_of_any_schema_is_in_main_of_the_file_and_of_its_record(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    """The record of a file speaks of the file, so that the gate and `verify` find the rows."""
    file = tmp_path / "release.duckdb"
    con.execute('CREATE SCHEMA "other one"')
    con.sql(CREATE.replace("VIEW v", 'VIEW "other one".w').replace("k = 3", "k = 3, t = 0.5"))
    con.sql(f"""EXPORT ANONYMIZED VIEW "other one".w TO '{file}'""")
    with duckdb.connect(str(file), read_only=True) as reader:
        where = "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> 'duckanon'"
        assert reader.execute(where).fetchall() == [("main", "w")]
        recorded = reader.execute("SELECT schema_name, view_name FROM duckanon.releases").fetchall()
        assert recorded == [("main", "w")]
        assert verify(reader).verified
    with duckanon.connect(tmp_path / "home.duckdb") as other:
        other.execute(f"ATTACH '{file}' AS release (READ_ONLY)")
        assert rows(other, "SELECT count(*) AS n FROM release.main.w") == [{"n": 60}]
    assert b"other one" not in file.read_bytes()


def test_no_dropped_value_is_in_the_bytes(tmp_path: Path) -> None:
    """Compression is off, so that the search can find what is there; the control finds a released value."""
    with duckanon.connect() as con:
        con.execute("""CREATE TABLE p AS SELECT i % 7 AS a, 'RELEASED' || (i % 3) AS b, 'SECRETNAME_' || i AS tag,
                    ('ENUMVALUE' || i % 2)::ENUM('ENUMVALUE0', 'ENUMVALUE1', 'NEVERUSED') AS e FROM range(5000) r(i)""")
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (identifiers = (tag), quasi_identifiers = (a), insensitive = (b, e), k = 5)"
        )
        file = tmp_path / "release.duckdb"
        con.execute("SET force_compression = 'uncompressed'")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    data = file.read_bytes()
    assert b"RELEASED1" in data
    assert b"SECRETNAME_" not in data
    assert b"NEVERUSED" not in data


def test_the_stock_command_line_opens_and_audits_it(con: duckanon.Connection, tmp_path: Path) -> None:
    file = tmp_path / "release.duckdb"
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    done = stock_cli(file, "SELECT count(*) FROM v", AUDIT)
    assert done.returncode == 0, done.stderr
    assert "60" in done.stdout
    cells = [
        ["" if cell == "NULL" else cell for cell in line.split(",")] for line in done.stdout.splitlines()
    ]
    assert_same_audit(con, [row for row in cells if len(row) == 5][1:])


AUDIT = "SELECT measure, attribute, value, violations, passed FROM audit('v', ['age', 'zip'], ['charge', 'diagnosis'], k := 3, t := 0.5) ORDER BY ALL"


def assert_same_audit(con: duckanon.Connection, cells: list[list[str]]) -> None:
    """The figures are those of AUDIT VIEW in this process."""
    expected = {(r["measure"], r["attribute"] or ""): r for r in rows(con, "AUDIT VIEW v")}
    assert len(cells) >= 3
    for measure, attribute, value, violations, passed in cells:
        row = expected[measure, attribute]
        assert float(value) == pytest.approx(row["value"], abs=1e-12)
        if row["passed"] is not None:
            assert (int(violations), passed) == (row["violations"], str(row["passed"]).lower())


@pytest.mark.slow
def test_duckdb_1_2_2_opens_and_audits_it(con: duckanon.Connection, tmp_path: Path) -> None:
    if not OLD_DUCKDB.is_dir():
        pytest.skip(
            f"duckdb 1.2.2 is missing in {OLD_DUCKDB.name}: run make install on a Python that has a wheel of it"
        )
    file = tmp_path / "release.duckdb"
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    program = (
        "import duckdb, json, sys\n"
        "assert duckdb.__version__ == '1.2.2', duckdb.__version__\n"
        "con = duckdb.connect(sys.argv[1], read_only=True)\n"
        "print(json.dumps([['' if c is None else str(c).lower() if isinstance(c, bool) else str(c) for c in r]"
        " for r in con.execute(sys.argv[2]).fetchall()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, str(file), AUDIT],
        capture_output=True, text=True, timeout=120, check=False, env={"PYTHONPATH": str(OLD_DUCKDB)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_same_audit(con, json.loads(done.stdout))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_plain_files(con: duckanon.Connection, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"release.{ending}"
    report = rows(con, f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    assert all(row["passed"] is not False for row in report)
    released = rows(con, f"FROM '{file}'")
    assert len(released) == 60
    assert list(released[0]) == ["age", "zip", "charge", "diagnosis"]
    assert k_anonymity(released, QI) >= 3


@pytest.mark.parametrize("name", ["charge=7/out.csv", "charge=7/out.parquet", "out[1].csv", "out[1].parquet"])
def test_what_was_written_is_what_is_read_back(con: duckanon.Connection, tmp_path: Path, name: str) -> None:
    """DuckDB would take charge = 7 from the folder's name, and out[1].csv for a pattern."""
    (tmp_path / "charge=7").mkdir()
    report = rows(con, f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / name}'")
    assert [row["value"] for row in report if row["measure"] == "k_anonymity"] == [3]
    assert (tmp_path / name).is_file()


def test_export_overwrites_only_if_asked(con: duckanon.Connection, tmp_path: Path) -> None:
    for ending in ("duckdb", "parquet", "csv"):
        file = tmp_path / f"mine.{ending}"
        file.write_text("mine")
        with pytest.raises(ReleaseError, match="exists: choose another name"):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
        assert file.read_text() == "mine"


@pytest.mark.parametrize("path", ["release.xlsx", "release", "nowhere/release.csv"])
def test_impossible_targets(con: duckanon.Connection, tmp_path: Path, path: str) -> None:
    with pytest.raises(ReleaseError):
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / path}'")
    assert list(tmp_path.iterdir()) == []


def test_a_csv_in_which_null_and_the_empty_text_fall_together_is_audited_as_it_is_read(
    tmp_path: Path,
) -> None:
    """By hand: values NULL and '' in equal shares; class 1 has only NULL, class 2 only ''. In the database that
    is 1 value against 2, EMD 1/2; read back from CSV all values are NULL and l is 1."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE p AS SELECT i % 2 AS a, CASE WHEN i % 4 < 2 THEN NULL ELSE '' END AS s FROM range(16) r(i)"
        )
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), sensitive = (s), k = 2, l = 2)"
        )
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'ok.parquet'}'")
        with pytest.raises(AuditFailure):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'bad.csv'}'")
        assert [p.name for p in tmp_path.iterdir()] == ["ok.parquet"]


def test_export_inside_a_transaction_sees_what_it_sees(con: duckanon.Connection, tmp_path: Path) -> None:
    con.execute("BEGIN")
    con.execute("DELETE FROM patients WHERE id < 10")
    with pytest.warns(duckanon.DuckanonWarning, match="of fewer than k = 3"):
        con.sql("REFRESH ANONYMIZED VIEW v")
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r.duckdb'}'")
    con.execute("ROLLBACK")
    with duckdb.connect(str(tmp_path / "r.duckdb"), read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM v").fetchall() == [(50,)]


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_types_survive_the_export(tmp_path: Path) -> None:
    types: dict[str, Any] = {
        "hugeint": "i::HUGEINT", "decimal": "(i / 4)::DECIMAL(9,2)", "date": "DATE '2020-01-01' + i::INTEGER",
        "timestamp": "TIMESTAMP '2020-01-01' + INTERVAL (i) HOUR", "boolean": "i % 2 = 0", "text": "i::VARCHAR",
        "real": "i::REAL", "stamp_s": "TIMESTAMP_S '2020-01-01'", "list": "[i, NULL]", "zoned": "TIMESTAMPTZ '2020-01-01 00:00:00+00'",
        "uuid": "md5(i::VARCHAR)::UUID", "time": "TIME '01:02:03'",
    }  # fmt: skip
    with duckanon.connect() as con:
        columns = ", ".join(f'{expression} AS "{name}"' for name, expression in types.items())
        con.execute(f"CREATE TABLE p AS SELECT i % 3 AS a, {columns} FROM range(9) r(i)")
        con.sql("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), insensitive = *, k = 3)")
        file = tmp_path / "r.duckdb"
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
        con.execute(f"ATTACH '{file}' AS e (READ_ONLY)")
        described = [con.execute(f"DESCRIBE {name}").fetchall() for name in ("v", "e.v")]
        assert [row[:2] for row in described[0]] == [row[:2] for row in described[1]]
        assert con.execute("SELECT count(*) FROM (FROM v EXCEPT ALL FROM e.v)").fetchall() == [(0,)]


def test_a_range_is_a_text_in_a_csv(tmp_path: Path) -> None:
    """By hand: two classes of two; a hyphen stands between numbers without a sign, a word where one could mislead."""
    with duckanon.connect() as con:
        con.execute(
            """CREATE TABLE people AS FROM (VALUES
                (20, -5, 1.50, DATE '2024-01-01', 1e-7::DOUBLE, NULL::INTEGER), (27, -2, 2.25, DATE '2024-02-01', 2.0, NULL),
                (70, 3, 7.00, DATE '2025-01-01', 9.0, 4), (70, 4, 8.00, DATE '2025-01-02', 9.5, 4)
            ) AS v(age, change, price, day, dose, rare)"""
        )
        columns = ["age", "change", "price", "day", "dose", "rare"]
        recode = ", ".join(f"{column}: 'range'" for column in columns)
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = ({', '.join(columns)}), k = 2, recode = {{{recode}}})"
        )
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'o.csv'}'")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'e.csv'}' WITH (csv_formulas = 'escape')")
    first = "20-27,{}-5 to -2,1.50-2.25,2024-01-01 to 2024-02-01,1e-07 to 2.0,"
    second = "70-70,3 to 4,7.00-8.00,2025-01-01 to 2025-01-02,9.0 to 9.5,4-4"
    for name, quote in (("o.csv", ""), ("e.csv", "'")):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert lines == [",".join(columns), *[first.format(quote)] * 2, *[second] * 2]


def test_a_struct_of_the_source_is_no_range(tmp_path: Path) -> None:
    """It is released as it is, and stands in a CSV as DuckDB writes it."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE people AS SELECT i // 2 AS age, {'low': 1, 'high': i % 2} AS span FROM range(8) r(i)"
        )
        con.execute(
            "CREATE ANONYMIZED VIEW v AS FROM people WITH (quasi_identifiers = age, insensitive = span, k = 2)"
        )
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'o.csv'}'")
    assert (tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()[1] == "0,\"{'low': 1, 'high': 0}\""
