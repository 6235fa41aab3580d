"""Cost of the copy that protects audits from wrong statistics in foreign files, and of auditing a view.

Run from the repository: ``python -m benchmarks.bench_foreign``. An audit of k, l and t by `duckanon audit` is
compared with the same audit of the rows as DuckDB reads them, for a Parquet file and for a table in a .duckdb
file. A view is audited as a copy and without a copy, compared with a copy of the table behind it. Figures are
CPU seconds of processes that alternate, and medians of their ratios.
"""

from __future__ import annotations

import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.bars import Results, shrunk
from benchmarks.bench_audit import DATA
from benchmarks.bench_first import seconds
from duckanon.api import files
from duckanon.audits.run import audit_named, audit_relation
from duckanon.database import engine
from duckanon.database.relations import named
from duckanon.policy.policy import AuditPolicy
from duckanon.statements.tokens import parse_name

RECORDS, ROUNDS = 1_000_000, 3
MOST_OF_COPY = 1.3
POLICY = AuditPolicy(
    quasi_identifiers=["age", "sex", "zip", "education"], sensitive=["income"], k=5, l=2, t=Decimal("0.5")
)
TITLE = "audits of 1,000,000 records of six columns"


def write(folder: Path, records: int) -> None:
    """Write the table as Parquet and, with a view of it, into a database."""
    with duckdb.connect(str(folder / "p.duckdb")) as con:
        con.execute(
            f"CREATE TABLE person AS SELECT {DATA}, hash(i) % 1000 AS charge FROM range({records}) AS r(i)"
        )
        con.execute("CREATE VIEW shown AS FROM person")
        con.execute(f"COPY person TO '{folder / 'p.parquet'}'")


def copied(name: str) -> None:
    """Audit a file like the command line, which copies its rows."""
    with files.opened(name) as con:
        audit_relation(con, files.relation(con, name), POLICY, name=name)


def believed(name: str) -> None:
    """Audit a file as DuckDB reads it, without a copy."""
    path, _, table = name.partition(":")
    with engine.in_memory() as con:
        if table:
            con.execute(f"ATTACH '{path}' AS p (READ_ONLY)")
        audit_relation(con, named("p", table) if table else f"'{path}'", POLICY, name=name)


def stated(name: str) -> None:
    """Audit a table or view of an open database, as AUDIT TABLE does."""
    path, _, table = name.partition(":")
    with duckdb.connect(path, read_only=True) as con:
        audit_named(con, parse_name(table), POLICY, called=table)


AUDITS = {"copied": copied, "believed": believed, "stated": stated}


def spent_by(audit: str, name: str) -> float:
    """CPU seconds of a process that runs one of `AUDITS` on a file."""
    return seconds(("-m", "benchmarks.bench_foreign", audit, name), {})


def main() -> int:
    """Measure each pair alternately."""
    results = Results("bench_foreign")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, shrunk(RECORDS, 1000))
        parquet, database = str(folder / "p.parquet"), str(folder / "p.duckdb")
        table = f"{database}:person"
        pairs: tuple[tuple[str, tuple[str, str], tuple[str, str], float | None], ...] = (
            ("Parquet", ("copied", parquet), ("believed", parquet), MOST_OF_COPY),
            ("table of a .duckdb file", ("copied", table), ("believed", table), MOST_OF_COPY),
            ("AUDIT TABLE of a view", ("stated", f"{database}:shown"), ("stated", table), None),
        )
        for what, ours, plain, most in pairs:
            runs = [(spent_by(*ours), spent_by(*plain)) for _ in range(ROUNDS)]
            ratio = median(one / other for one, other in runs)
            spent, beside = (median(column) for column in zip(*runs, strict=True))
            results.row(TITLE, of=what, ratio=ratio, **{"CPU s": spent, "CPU s without": beside})
            if most is not None:
                results.bar(f"{what}: CPU of an audit / without the copy", ratio, most)
    return results.exit_code()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        AUDITS[sys.argv[1]](sys.argv[2])
    else:
        sys.exit(main())
