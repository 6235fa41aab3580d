"""``con.stream``: a query leaves for a table of the same database, and only whole classes are ever in it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import duckanon
from duckanon.database.fingerprint import fingerprint
from duckanon.streams import tables
from tests.e2e.scenes import ROOT
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

VISITS = """
CREATE TABLE visits AS
SELECT i AS n, (i * 37 % 80)::INTEGER AS age, 'z' || i % 3 AS zip, DATE '2024-01-01' + (i % 9)::INTEGER AS seen
FROM range(1000) AS r(i)
"""
QUERY = "SELECT age, zip, seen, n FROM visits ORDER BY n"
ASKED = {"quasi_identifiers": ["age", "zip"], "k": 4, "delay": 40}


@pytest.fixture
def con() -> duckanon.Connection:
    made = duckanon.connect()
    made.execute(VISITS)
    return made


def test_the_table_is_what_the_python_api_gives(con: duckanon.Connection) -> None:
    report = con.stream(QUERY, into="released", **ASKED, class_id=True)
    stream = duckanon.anonymize_stream(
        con.duckdb.sql(QUERY).to_arrow_table().to_batches(), **ASKED, class_id=True
    )
    expected = pa.Table.from_batches(list(stream))
    assert con.duckdb.sql("FROM released").to_arrow_table().to_pylist() == expected.to_pylist()
    assert replace(report, fingerprint=None, audit=None) == stream.report
    assert report.fingerprint == fingerprint(con.duckdb, "released")
    assert report.audit is not None
    assert [(one.measure, one.value, one.passed) for one in report.audit.measures][:1] == [
        ("k_anonymity", 4.0, True)
    ]
    assert json.loads(report.to_json())["audit"]["passed"] is True
    assert report.read == 1000 == report.written + report.dropped + report.held
    kinds = {row[0]: row[1] for row in con.duckdb.sql("DESCRIBE released").fetchall()}
    assert kinds == {
        "age": "INTEGER", "zip": "VARCHAR", "seen": "DATE", "n": "BIGINT", "class_id": "BIGINT",
    }  # fmt: skip


def test_by_hand(con: duckanon.Connection) -> None:
    """Source: hand calculation, k = 2: 31 with 35, 60 with 64."""
    con.execute("CREATE SCHEMA lab")
    con.execute("CREATE TEMP TABLE few AS FROM (VALUES (31), (60), (35), (64)) AS t(age)")
    report = con.stream("FROM few", 'lab."my few"', quasi_identifiers="age", k=2, delay=10)
    assert (report.written, report.classes, report.held) == (4, 2, 0)
    assert con.duckdb.sql('FROM lab."my few"').fetchall() == [(33,), (33,), (62,), (62,)]


def test_a_query_without_rows_makes_a_table_without_rows(con: duckanon.Connection) -> None:
    report = con.stream("FROM visits WHERE n < 0", "nothing", **ASKED)
    assert (report.read, report.written) == (0, 0)
    assert con.duckdb.sql("SELECT count(*), count(age) FROM nothing").fetchall() == [(0, 0)]


def test_a_table_that_is_there_is_left(con: duckanon.Connection) -> None:
    con.execute("CREATE TABLE mine AS SELECT 1 AS age")
    with pytest.raises(duckanon.DuckanonError, match="exists and a stream never overwrites"):
        con.stream(QUERY, "mine", **ASKED)
    assert con.duckdb.sql("FROM mine").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'101'::BIT", "BIT"),
        ("['101'::BIT]", "BIT[]"),
        ("TIMETZ '01:02:03+01'", "TIME WITH TIME ZONE"),
        ("{'z': TIMETZ '01:02:03+01'}", "STRUCT(z TIME WITH TIME ZONE)"),
        ("340282366920938463463374607431768211455::UHUGEINT", "UHUGEINT"),
        ("9::BIGNUM", "BIGNUM"),
        ("'a'::VARIANT", "VARIANT"),
        ("'POINT(1 2)'::GEOMETRY", "GEOMETRY"),
    ],
)
def test_a_type_that_would_leave_as_other_values_is_refused(
    con: duckanon.Connection, value: str, kind: str
) -> None:
    """Bits left as the bytes below them, times without their zone, the largest UHUGEINT below 0."""
    query = f"SELECT age, {value} AS v, n FROM visits"
    with pytest.raises(duckanon.SourceError, match=re.escape(f"column 'v' has type {kind}, and a stream")):
        con.stream(query, into="released", quasi_identifiers="age", k=4, delay=40)
    report = con.stream(query, into="released", quasi_identifiers="age", identifiers="v", k=4, delay=40)
    assert report.written == 1000


def test_types_that_leave_as_texts_or_decimals_keep_their_values(con: duckanon.Connection) -> None:
    con.execute("CREATE TYPE mood AS ENUM ('it''s), ', 'b')")
    values = """
        'b'::mood AS e, ['it''s), '::mood] AS es, MAP {uuid(): i::HUGEINT} AS m, {'UUID': '{}'::JSON} AS s,
        (99999999999999999999999999999999999999 - i)::HUGEINT AS h, (i % 7)::HUGEINT AS q
    """
    con.execute(f"CREATE TABLE others AS SELECT {values} FROM range(40) AS r(i)")
    con.stream("FROM others", into="released", quasi_identifiers="q", k=4, delay=40)
    texts = "SELECT COLUMNS(* EXCLUDE q)::VARCHAR FROM"
    given, found = (
        con.duckdb.sql(f"{texts} {name} ORDER BY h").fetchall() for name in ("others", "released")
    )
    assert found == given
    query = "SELECT * EXCLUDE h, h + 1 AS h FROM others"
    with pytest.raises(duckanon.SourceError, match="column 'h' of type HUGEINT has a number of more than 38"):
        con.stream(query, into="again", quasi_identifiers="q", k=4, delay=40)


def test_an_open_transaction_is_refused_and_kept(con: duckanon.Connection) -> None:
    con.execute("BEGIN")
    con.execute("DELETE FROM visits WHERE n = 0")
    with pytest.raises(duckanon.DuckanonError, match="COMMIT or ROLLBACK first"):
        con.stream(QUERY, "released", **ASKED)
    con.execute("ROLLBACK")
    assert con.duckdb.sql("SELECT count(*) FROM visits").fetchall() == [(1000,)]


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (QUERY, {"k": 1}, "k = 1"),
        (QUERY, {"delay": 2}, r"delay = 2: use a whole number of at least 3 \(k - 1"),
        (QUERY, {"order_weight": -1.0}, "order_weight = -1.0"),
        (QUERY, {"delai": 2}, "unknown option 'delai' of a stream, did you mean 'delay'"),
        (QUERY, {"quasi_identifiers": ["agee"]}, "names 'agee', which the source does not have"),
        ("SELECT nothing FROM visits", {}, "nothing"),
        ("-- nothing", {}, "the query is empty"),
        ("SELECT 'nan'::DOUBLE AS age, zip FROM visits", {}, "NaN or infinite in tuple 1"),
        ("SELECT age, zip, NULL::INTEGER AS who FROM visits", {"subject": "who"}, r"subject \(who\) is NULL"),
        ("SELECT NULL::INTEGER AS age, zip FROM visits", {"nulls": "error"}, "'age' is NULL in tuple 1"),
    ],
)
def test_what_is_wrong_is_an_error(
    con: duckanon.Connection, query: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(duckanon.DuckanonError, match=message):
        con.stream(query, "released", **{**ASKED, **options})
    there = con.duckdb.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'released'").fetchall()
    if there == [(1,)]:
        assert con.duckdb.sql("SELECT count(*) FROM released").fetchall() == [(0,)]
    con.execute("DROP TABLE IF EXISTS released")
    assert con.stream(QUERY, "released", **ASKED).read == 1000


def test_quasi_identifiers_have_to_be_named(con: duckanon.Connection) -> None:
    with pytest.raises(duckanon.PolicyError, match="quasi_identifiers is missing"):
        con.stream(QUERY, "released", k=3)


def test_classes_before_an_error_stay(con: duckanon.Connection) -> None:
    """The first batch of DuckDB's reader is written before the second is read."""
    query = (
        "SELECT CASE WHEN i < 250_000 THEN i % 50 ELSE 'inf'::DOUBLE END AS age FROM range(300_000) AS r(i)"
    )
    with pytest.raises(duckanon.SourceError, match="NaN or infinite in tuple 250001") as ended:
        con.stream(query, "released", quasi_identifiers="age", k=4, delay=40, scale={"age": (0, 50)})
    read = int(str(ended.value).split(" tuples read")[0].rsplit(" ", 1)[1])
    ((written, odd),) = con.duckdb.sql(
        "SELECT sum(n), count(*) FILTER (n % 4 <> 0) FROM (SELECT count(*) AS n FROM released GROUP BY age)"
    ).fetchall()
    assert 100_000 < written < 250_000
    assert odd == 0
    assert str(ended.value).endswith(f" tuples read: {written} written, 0 dropped, {read - written} held")


def test_others_read_while_it_is_written(tmp_path: Path) -> None:
    """The connection reads the table that it streams, and the cursor writes to the same database."""
    with duckanon.connect(tmp_path / "d.duckdb") as con:
        con.execute(VISITS)
        con.stream(QUERY, "one", **ASKED)
        con.stream("FROM one", "two", quasi_identifiers=["age", "zip"], k=4, delay=40)
        assert (
            con.duckdb.sql("SELECT count(*) FROM two").fetchall()
            == con.duckdb.sql("SELECT count(*) FROM one").fetchall()
        )


PROGRAM = """
import sys, duckanon
con = duckanon.connect(sys.argv[1])
print("ready", flush=True)
con.stream("SELECT hash(i) % 80 AS age, i FROM range(100_000_000) AS r(i)", "t", quasi_identifiers="age", k=4,
           delay=40, class_id=True)
"""


def begun(file: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def until_classes_are_written(file: Path) -> None:
    """Wait until the file grows, which is a moment before the first classes are there, on however slow a machine."""
    last = time.monotonic() + 60
    while file.stat().st_size < 100_000:
        assert time.monotonic() < last
        time.sleep(0.01)


def whole(file: Path) -> int:
    """Count the classes of the table, each of which has to be of four tuples."""
    with duckdb.connect(str(file)) as con:
        if not con.sql("FROM duckdb_tables() WHERE table_name = 't'").fetchall():
            return 0
        query = "SELECT count(*), coalesce(min(n), 4), coalesce(max(n), 4) FROM (SELECT count(*) AS n FROM t GROUP BY class_id, age)"
        ((count, least, most),) = con.sql(query).fetchall()
        assert (least, most) == (4, 4)
        return int(count)


@pytest.mark.slow
def test_kill_9_leaves_whole_classes(tmp_path: Path) -> None:
    chance, found = random.Random(4), 0
    for attempt in range(examples(20, few=4)):
        file = tmp_path / f"{attempt}.duckdb"
        process = begun(file)
        if attempt % 4:
            until_classes_are_written(file)
        time.sleep(chance.random())
        process.kill()
        process.communicate()
        found += whole(file)
    assert found


def test_a_table_that_is_not_what_was_asked_is_an_audit_failure(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes to the table after its last class: one row more is in a class of its own."""

    def changed(report: Any, writer: Any, relation: str, *others: Any, **named: Any) -> Any:
        writer.execute(f"INSERT INTO {relation} VALUES (1000, 'z', NULL, 0)")
        return of_table(report, writer, relation, *others, **named)

    of_table = tables.with_evidence_of_table
    monkeypatch.setattr(tables, "with_evidence_of_table", changed)
    with pytest.raises(duckanon.AuditFailure, match="is not what was asked") as failure:
        con.stream(QUERY, "released", **ASKED)
    assert failure.value.report.measures[0].violations == 1
    assert str(failure.value).endswith(
        f"; 1000 tuples read: {rows_there(con) - 1} written, 0 dropped, 0 held"
    )


def test_ctrl_c_during_the_audit_says_what_is_there(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "with_evidence_of_table", stopped)
    with pytest.raises(
        KeyboardInterrupt, match=r"^1000 tuples read: \d+ written, 0 dropped, \d+ held$"
    ) as ended:
        con.stream(QUERY, "released", **ASKED)
    assert f" {rows_there(con)} written" in str(ended.value)


def rows_there(con: duckanon.Connection) -> int:
    """Count the rows of the table."""
    ((rows,),) = con.duckdb.sql("SELECT count(*) FROM released").fetchall()
    return int(rows)


@pytest.mark.parametrize("method", ["steered", "castle"])
def test_k_over_class_and_subject_is_that_of_the_audit_of_every_release(
    con: duckanon.Connection, method: str
) -> None:
    """Who has the source joins the subjects by a row number; k is then counted by the macros of sql/install.sql."""
    con.execute("CREATE TABLE who AS SELECT n, (n * n) % 57 AS patient, age FROM visits")
    con.stream(
        "FROM who ORDER BY n", "released", quasi_identifiers="age", subject="patient", k=4, delay=60, method=method,
        class_id=True, scale={"age": (0, 80)},
    )  # fmt: skip
    con.execute("CREATE TABLE told AS SELECT class_id, who.patient FROM released JOIN who USING (n)")
    con.duckdb.execute((ROOT / "sql" / "install.sql").read_text())
    query = "FROM k_anonymity('told', ['class_id'], subject := ['patient'])"
    ((k, classes, records),) = con.duckdb.sql(query).fetchall()
    assert k >= 4
    assert (classes, records) == con.duckdb.sql(
        "SELECT count(DISTINCT class_id), count(*) FROM released"
    ).fetchall()[0]
    ((by_hand,),) = con.duckdb.sql(
        "SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM told GROUP BY class_id)"
    ).fetchall()
    assert k == by_hand


def test_l_is_judged_and_t_told_of_the_table(con: duckanon.Connection) -> None:
    report = con.stream(
        QUERY,
        "released",
        quasi_identifiers="age",
        k=4,
        delay=60,
        sensitive=["zip", "n"],
        l={"zip": 3},
        t={"n": 0.3},
    )
    assert report.audit is not None
    found = {(one.measure, one.attribute): (one.threshold, one.passed) for one in report.audit.measures}
    assert found["distinct_l_diversity", "zip"] == (3.0, True)
    assert found["t_closeness", "n"] == (None, None)
    ((least,),) = con.duckdb.sql(
        "SELECT min(v) FROM (SELECT count(DISTINCT zip) AS v FROM released GROUP BY age)"
    ).fetchall()
    assert least == 3


@pytest.mark.slow
def test_ctrl_c_leaves_whole_classes(tmp_path: Path) -> None:
    process = begun(tmp_path / "d.duckdb")
    until_classes_are_written(tmp_path / "d.duckdb")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    told = re.search(r"KeyboardInterrupt: (\d+) tuples read: (\d+) written, 0 dropped, (\d+) held\n$", errors)
    assert told is not None, errors
    read, written, held = map(int, told.groups())
    assert read == written + held
    assert whole(tmp_path / "d.duckdb") * 4 == written > 0
