"""Cost of audits and of evidence: compared with necessary work and with pyCANON, and in little memory.

Run from the repository: ``python -m benchmarks.bench_audit``. The large table has five records a class, five
quasi-identifiers of four types, and a sensitive number that differs in every record. Every statement stores
its result in a table. A ratio of wall times is the median over alternating rounds, so that other load affects
both sides. CPU seconds are the least of the rounds. pyCANON (see tests/trust/peer.py) and the audit of ten
million records run in their own processes, which have their own peak of memory.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import duckdb

import duckanon
from benchmarks.bars import Results, shrunk
from duckanon.audits.columns import AuditColumn
from duckanon.audits.headers import rows_of
from duckanon.audits.macros import macro_statements
from duckanon.database import templates
from duckanon.database.fingerprint import fingerprint
from tests.trust.peer import MISSING, Peer, find

ROUNDS, FULL_ROUNDS = 7, 3
MOST_OF_SORT = 2.0
"""Largest ratio of the CPU time of a fingerprint to that of sorting the same rows."""
MOST_RATIO, MOST_SECONDS, LEAST_TIMES, MEMORY = 3.5, 8.0, 50, "2GB"
SEXES, SCHOOLS = "['female', 'male'][i % 2 + 1] AS sex", "'school of type ' || i % 16 AS education"
DATA = f"i % 80 AS age, {SEXES}, 10000 + i % 50000 || '' AS zip, {SCHOOLS}, i // 1000 * 12.5 AS income"
KEYS = ("age", "sex", "zip", "education", "income")
MEASURES = ("k_anonymity", "distinct_l_diversity", "t_closeness")
ARGUMENTS = f"'person', {list(KEYS)}, ['charge']"
MACRO = f"SELECT * FROM t_closeness_ordered({ARGUMENTS})"
AUDITS = {
    "audit(...): k, distinct l, t": f"SELECT * FROM audit({ARGUMENTS}, k := 5, l := 2, t := 0.3)",
    "audit(...): k, entropy l, t": (
        f"SELECT * FROM audit({ARGUMENTS}, k := 5, l := 2, t := 0.3, l_diversity := 'entropy')"
    ),
    "audit(...): k, recursive l, t": (
        f"SELECT * FROM audit({ARGUMENTS}, k := 5, l := 2, t := 0.3, l_diversity := 'recursive', c := 3)"
    ),
}
# 100,000 records, 700 classes of five text columns, ten diagnoses of unequal frequency, 100 lengths.
WARD = """
CREATE TABLE ward AS
SELECT
    'band ' || c % 7 AS age, ['female', 'male'][c % 2 + 1] AS sex, 'zip ' || c % 10 AS zip,
    'school ' || c % 5 AS education, 'marital ' || c // 70 AS marital,
    'diagnosis ' || floor(sqrt(hash(i) % 100)) AS diagnosis, hash(i + 5) % 100 AS days
FROM (SELECT i, i % 700 AS c FROM range(100000) AS r(i))
"""
WARD_KEYS = ["age", "sex", "zip", "education", "marital"]
SENSITIVE = (["diagnosis"], ["days"], ["diagnosis", "days"])


def people(con: duckdb.DuckDBPyConnection, records: int) -> None:
    """Make the table `person`, five records a class, in an order independent of the values."""
    classes = max(records // 5, 1)
    con.execute(f"CREATE TABLE keys AS SELECT i AS class, {DATA} FROM range({classes}) AS r(i)")
    draw = f"SELECT i % {classes} AS class, hash(i) / 1e9 AS charge FROM range({records}) AS r(i)"
    con.execute(f"CREATE TABLE draw AS {draw}")
    con.execute(
        "CREATE TABLE person AS SELECT keys.*, charge FROM draw JOIN keys USING (class) ORDER BY hash(charge)"
    )
    con.execute("DROP TABLE draw; DROP TABLE keys")


def audited(*, database: str | Path = ":memory:") -> duckdb.DuckDBPyConnection:
    """Open a connection with the audit macros."""
    con = duckdb.connect(str(database))
    for statement in macro_statements(temporary=True):
        con.execute(statement)
    return con


def seconds(con: duckdb.DuckDBPyConnection, *queries: str) -> tuple[float, float]:
    """Return wall and CPU seconds of queries that store their results."""
    wall, cpu = perf_counter(), process_time()
    for query in queries:
        con.execute(f"CREATE OR REPLACE TEMP TABLE result AS {query}")
    return perf_counter() - wall, process_time() - cpu


def load() -> float:
    """Return the mean number of processes that wanted a core in the last minute, the load of the machine."""
    return round(os.getloadavg()[0], 1)


def beside_the_least_work(con: duckdb.DuckDBPyConnection, results: Results) -> None:
    """Measure the distance and the whole report in units of GROUP BY + dense_rank."""
    report = templates.render(
        "audit_bind/report.sql.j2",
        relation="person",
        qi=list(KEYS),
        attributes=[AuditColumn("charge", "ordered", Decimal("0.3"), Decimal(2))],
        k=5,
        texts={"sex", "zip", "education"},
        rows_of=rows_of,
    )
    first = next(iter(AUDITS))
    audits = {"t_closeness_ordered(...)": MACRO, first: AUDITS[first], "AUDIT statement: k, l and t": report}
    grouped = f"SELECT {', '.join(KEYS)}, count(*) AS n FROM person GROUP BY ALL"
    ranked = "SELECT dense_rank() OVER (ORDER BY charge) AS r FROM person"
    unit, times = [], {name: [] for name in audits}  # type: ignore[var-annotated]
    for _ in range(ROUNDS):
        unit.append(seconds(con, grouped, ranked)[0])
        for name, query in audits.items():
            times[name].append(seconds(con, query)[0])
    table = "1,000,000 records in 200,000 classes"
    results.row(table, work="GROUP BY + dense_rank", **{"wall s": median(unit), "ratio": 1.0, "load": load()})
    ratios = {}
    for name, run in times.items():
        ratios[name] = median(one / base for one, base in zip(run, unit, strict=True))
        results.row(table, work=name, **{"wall s": median(run), "ratio": ratios[name], "load": load()})
    text = "t_closeness_ordered: times the wall time of GROUP BY + dense_rank"
    results.bar(text, ratios["t_closeness_ordered(...)"], MOST_RATIO)


def whole_audit(con: duckdb.DuckDBPyConnection, results: Results) -> None:
    """Measure audits of k, of three kinds of l, and of t; one audit for each kind measures k and t again."""
    total = []
    for _ in range(FULL_ROUNDS):
        runs = [seconds(con, query) for query in AUDITS.values()]
        total.append((sum(wall for wall, _ in runs), sum(cpu for _, cpu in runs)))
        cells = {"wall s": total[-1][0], "CPU s": total[-1][1], "load": load()}
        results.row("k, three kinds of l, t: 1,000,000 records in 200,000 classes", **cells)
    text = "k, three kinds of l and t of 1,000,000 records in 200,000 classes: CPU seconds"
    results.bar(text, min(cpu for _, cpu in total), MOST_SECONDS)


def fingerprints(results: Results) -> None:
    """Measure the CPU time of a fingerprint relative to DuckDB's sort of the rows."""
    records = shrunk(1_000_000, 1000)
    numbers = ", ".join(f"hash(i + {column}) / 1e15 AS q{column}" for column in range(6))
    tables = {"six numbers": numbers, "four of texts": f"{DATA}, hash(i) / 1e9 AS charge"}
    with audited() as con:
        for table, columns in tables.items():
            con.execute(f"CREATE OR REPLACE TABLE released AS SELECT {columns} FROM range({records}) AS r(i)")
            rounds = [
                (seconds(con, "FROM released ORDER BY ALL")[1], fingerprinted(con))
                for _ in range(FULL_ROUNDS)
            ]
            sort, spent = (median(times) for times in zip(*rounds, strict=True))
            cells = {"ORDER BY ALL, CPU s": sort, "CPU s": spent}
            results.row("fingerprint of 1,000,000 x 6", columns=table, **cells)
            ratio = median(one / other for other, one in rounds)
            results.bar(f"fingerprint, {table}: CPU / ORDER BY ALL of the rows", ratio, MOST_OF_SORT)


def fingerprinted(con: duckdb.DuckDBPyConnection) -> float:
    """Return the CPU seconds of the fingerprint of `released`."""
    start = process_time()
    fingerprint(con, "released")
    return process_time() - start


def beside_pycanon(results: Results, folder: Path) -> None:
    """Measure k, l and t of 100,000 records in 700 classes by duckanon and by pyCANON, in CPU seconds."""
    text = "k, l and t of 100,000 records in 700 classes: share of pyCANON's CPU time"
    place = find()
    if place is None:
        results.bar(f"{text} ({MISSING})", None, 1 / LEAST_TIMES)
        return
    csv, shares = folder / "ward.csv", []
    with duckanon.connect() as con, Peer(place) as peer:
        con.execute(WARD)
        con.execute(f"COPY ward TO '{csv}'")
        for sensitive in SENSITIVE:
            policy = duckanon.AuditPolicy(quasi_identifiers=WARD_KEYS, sensitive=sensitive, k=5, l=2, t="0.3")
            spent, report = [], None
            for _ in range(ROUNDS):
                start = process_time()
                report = duckanon.audit(con, "ward", policy)
                spent.append(process_time() - start)
            request = {"csv": str(csv), "qi": WARD_KEYS, "s": sensitive, "calls": ["k", "l", "t"]}
            replies = [peer.ask(**request) for _ in range(2)]
            agree(report, replies[0]["results"])
            there = min(sum(reply["seconds"].values()) for reply in replies)
            shares.append(min(spent) / there)
            cells = {"CPU s": min(spent), "pyCANON CPU s": there, "times": there / min(spent), "load": load()}
            table = "k, l and t of 100,000 records in 700 classes"
            names = {"sensitive": " and ".join(sensitive), "its pandas": replies[0]["pandas"]}
            results.row(table, **names, **cells)
    results.bar(text, max(shares), 1 / LEAST_TIMES)


def agree(report: duckanon.Report | None, theirs: dict[str, float]) -> None:
    """Stop if pyCANON finds other values: then one of the two has not done the work."""
    assert report is not None
    found = {name: [m.value for m in report.measures if m.measure == name] for name in MEASURES}
    ours = [min(found[MEASURES[0]]), min(found[MEASURES[1]]), max(found[MEASURES[2]])]  # type: ignore[type-var]
    if any(abs(one - theirs[name]) > 1e-9 for one, name in zip(ours, "klt", strict=True)):  # type: ignore[operator]
        raise SystemExit(f"we say k, l, t = {ours}, pyCANON says {theirs}")


def in_little_memory(results: Results, folder: Path) -> None:
    """Audit ten million records of a database file within 2 GB, in a separate process."""
    records = shrunk(10_000_000, 1000)
    database = folder / "people.duckdb"
    with duckdb.connect(str(database)) as con:
        people(con, records)
    command = [sys.executable, "-m", "benchmarks.bench_audit", str(database)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = f"k, l and t of 10,000,000 records with memory_limit = {MEMORY}: audits that failed"
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:])
        results.bar(text, 1, 0)
        return
    cells = json.loads(done.stdout)
    results.row("10,000,000 records in 2,000,000 classes", **cells, load=load())
    results.bar(text, 0, 0)


def in_this_process(database: str) -> None:
    """Audit `person` of a file with little memory, and print the cost as JSON."""
    with audited(database=database) as con:
        con.execute(f"SET memory_limit = '{MEMORY}'")
        con.execute(f"SET temp_directory = '{database}.spill'")
        wall, cpu = seconds(con, next(iter(AUDITS.values())))
        classes = con.execute("SELECT classes FROM result WHERE measure = 't_closeness'").fetchall()[0][0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    cells = {"memory_limit": MEMORY, "classes": classes, "wall s": wall, "CPU s": cpu, "peak RSS GB": peak}
    print(json.dumps(cells))


def main() -> int:
    """Run all measurements or, given the path of a database, audit its table `person`."""
    if len(sys.argv) > 1:
        in_this_process(sys.argv[1])
        return 0
    results = Results("bench_audit")
    with audited() as con:
        people(con, shrunk(1_000_000, 1000))
        beside_the_least_work(con, results)
        whole_audit(con, results)
    fingerprints(results)
    with TemporaryDirectory() as folder:
        beside_pycanon(results, Path(folder))
        in_little_memory(results, Path(folder))
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
