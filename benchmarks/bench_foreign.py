"""What the copy costs by which nothing is believed that a foreign file states of its rows, and a view twice.

Run from the repository: ``python -m benchmarks.bench_foreign``. An audit of k, l and t of a Parquet file and
of a table in a .duckdb file, as `duckanon audit` makes it, and the same audit of the file as DuckDB reads it:
CPU seconds, by turns, the median of the ratios. A view is audited as a copy and as it stands; the yardstick
is the table behind it.
"""

from __future__ import annotations

import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import duckdb

from benchmarks.bars import Results, shrunk
from benchmarks.bench_audit import DATA
from duckanon.api import files
from duckanon.audits.run import audit_named, audit_relation
from duckanon.database import engine
from duckanon.database.relations import named
from duckanon.policy.policy import AuditPolicy
from duckanon.statements.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS, ROUNDS = 1_000_000, 5
MOST_OF_COPY = 1.3
POLICY = AuditPolicy(
    quasi_identifiers=["age", "sex", "zip", "education"], sensitive=["income"], k=5, l=2, t=Decimal("0.5")
)
TITLE = "audits of 1,000,000 records of six columns"


def write(folder: Path, records: int) -> None:
    """Write the table as Parquet and into a database, with a view of it."""
    with duckdb.connect(str(folder / "p.duckdb")) as con:
        con.execute(
            f"CREATE TABLE person AS SELECT {DATA}, hash(i) % 1000 AS charge FROM range({records}) AS r(i)"
        )
        con.execute("CREATE VIEW shown AS FROM person")
        con.execute(f"COPY person TO '{folder / 'p.parquet'}'")


def copied(name: str) -> None:
    """Audit a file as the command line does."""
    with files.opened(name) as con:
        audit_relation(con, files.relation(con, name), POLICY, name=name)


def believed(name: str) -> None:
    """Audit a file as DuckDB reads it."""
    path, _, table = name.partition(":")
    with engine.in_memory() as con:
        if table:
            con.execute(f"ATTACH '{path}' AS p (READ_ONLY)")
        audit_relation(con, named("p", table) if table else f"'{path}'", POLICY, name=name)


def of_database(path: Path, table: str) -> None:
    """Audit a table or view of the database that a connection has opened, as the statement does."""
    with duckdb.connect(str(path), read_only=True) as con:
        audit_named(con, parse_name(table), POLICY, called=table)


def seconds(work: Callable[[], None]) -> float:
    """CPU seconds of some work, all threads."""
    before = process_time()
    work()
    return process_time() - before


def main() -> int:
    """Measure each pair by turns; the first round of each warms up."""
    results = Results("bench_foreign")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, shrunk(RECORDS, 1000))
        parquet, table = str(folder / "p.parquet"), f"{folder / 'p.duckdb'}:person"
        database = folder / "p.duckdb"
        pairs: dict[str, tuple[Callable[[], None], Callable[[], None], float | None]] = {
            "Parquet": (lambda: copied(parquet), lambda: believed(parquet), MOST_OF_COPY),
            "table of a .duckdb file": (lambda: copied(table), lambda: believed(table), MOST_OF_COPY),
            "AUDIT TABLE of a view": (
                lambda: of_database(database, "shown"), lambda: of_database(database, "person"), None,
            ),
        }  # fmt: skip
        for what, (ours, plain, most) in pairs.items():
            runs = [(seconds(ours), seconds(plain)) for _ in range(ROUNDS + 1)][1:]
            ratio = median(one / other for one, other in runs)
            spent, beside = (median(column) for column in zip(*runs, strict=True))
            results.row(TITLE, of=what, ratio=ratio, **{"CPU s": spent, "CPU s without": beside})
            if most is not None:
                results.bar(f"{what}: CPU of an audit / without the copy", ratio, most)
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
