"""Scenes that several end-to-end tests start from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckanon
from duckanon.database.templates import ident
from duckanon.kernels.compiled import COMPILING
from duckanon.kernels.prepared import VARIABLE
from tests.e2e import launcher

if TYPE_CHECKING:
    import duckdb

ROOT = Path(__file__).resolve().parents[2]


def uncompiled(cache: Path) -> dict[str, str]:
    """Give the environment of an installation in which nothing is compiled, nor came with the package."""
    return {"NUMBA_CACHE_DIR": str(cache), VARIABLE: ""}


PATIENTS = """
CREATE OR REPLACE TABLE patients AS
SELECT
    i AS id,
    20 + (i * 7) % 50 AS age,
    'z' || (i % 4) AS zip,
    (i * 13) % 11 AS charge,
    CASE i % 3 WHEN 0 THEN 'flu' WHEN 1 THEN 'cold' ELSE 'cancer' END AS diagnosis
FROM range(60) AS r(i)
"""

# Without this the search for less information loss would take most of the time of these tests.
EFFORT = "effort = 'fast'"

OPTIONS = (
    f"identifiers = (id), quasi_identifiers = (age, zip), sensitive = (charge, diagnosis), k = 3, {EFFORT}"
)

CREATE = f"CREATE ANONYMIZED VIEW v AS SELECT * FROM patients WITH ({OPTIONS})"

QI = ("age", "zip")

RELATIONS = """
SELECT 'VIEW', view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary
UNION ALL
SELECT 'TABLE', table_name FROM duckdb_tables() WHERE NOT temporary
"""


def patients(database: str | Path = ":memory:") -> duckanon.Connection:
    """Give a connection with sixty patients."""
    con = duckanon.connect(database)
    con.execute(PATIENTS)
    return con


def emptied(con: duckdb.DuckDBPyConnection) -> None:
    """Drop the views and tables that a test made on a connection that several share, for our macros are long to parse."""
    for kind, name in con.execute(RELATIONS).fetchall():
        con.execute(f"DROP {kind} {ident(name)}")


def rows(con: duckanon.Connection, query: str) -> list[dict[str, Any]]:
    """Give the rows of a query as dictionaries."""
    relation = con.sql(query)
    assert relation is not None
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def measure(
    con: duckanon.Connection, statement: str, name: str, attribute: str | None = None
) -> dict[str, Any]:
    """Give one report row of a statement."""
    (found,) = [r for r in rows(con, statement) if r["measure"] == name and r["attribute"] == attribute]
    return found


def command(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, in a process of its own."""
    words, folder = [str(argument) for argument in arguments], cwd or ROOT
    variables = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    if launcher.forks(environment):
        done = launcher.run(words, folder, variables, timeout=300)
    else:
        done = subprocess.run(
            [sys.executable, "-m", "duckanon", *words],
            capture_output=True, text=True, timeout=300, cwd=folder, env=variables, check=False,
        )  # fmt: skip
    done.stderr = settled(done.stderr)
    return done


def settled(written: str) -> str:
    """Give what was written to stderr without what the first use of an installation says once."""
    return written.replace(f"{COMPILING} ...\n", "")


def stock_cli(database: str | Path, *statements: str) -> subprocess.CompletedProcess[str]:
    """Run the stock duckdb command line, which knows nothing of Python."""
    return stock_script(database, ";\n".join(statements) + ";")


def stock_script(database: str | Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run lines of the stock duckdb command line, its own commands among them."""
    binary = Path(sys.executable).parent / "duckdb"
    arguments = [str(binary), "-readonly", "-bail", "-csv", str(database)]
    return subprocess.run(
        arguments,
        input=f"{script}\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
