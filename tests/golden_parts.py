"""Tables of the golden net, and what is compared of a release: see `golden.py`."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import re
import tempfile
import warnings
from dataclasses import asdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"

Parts = dict[str, Any]
"""Parts of a case by name: texts, lists and numbers that JSON holds."""

VOLATILE = {
    "audit_id",
    "audited_at", "created_at", "duckanon_version", "duckdb_version", "versions", "chain", "previous", "seconds",
}  # fmt: skip
"""Columns and keys that differ from run to run."""

CASES: dict[str, Callable[[], Parts]] = {}


# ---------------------------------------------------------------- tables

CITIES = ("Basel", "Bern", "Biel", "Chur", "Genf", "Luzern", "Sion", "Thun", "Uster", "Zug", "Zürich", None)
DIAGNOSES = ("acne", "asthma", "cold", "flu", "gastritis", "hepatitis", "hiv", "ulcer")
PLACES = {
    "acne": "skin",
    "asthma": "lung",
    "cold": "lung",
    "flu": "lung",
    "gastritis": "gut",
    "hepatitis": "gut",
}

PEOPLE = """
    CREATE TABLE {name} (
        id INTEGER, person INTEGER, age INTEGER, height DOUBLE, weight DECIMAL(5,1), born DATE, seen TIMESTAMP,
        zip VARCHAR, plan_type INTEGER, city VARCHAR, smoker BOOLEAN, income DECIMAL(10,2), balance DOUBLE,
        charge INTEGER, cost DOUBLE, diagnosis VARCHAR, day DATE, visits INTEGER
    )
"""


def people(con: Any, count: int, *, name: str = "people", first: int = 0, seed: int = 1) -> None:
    """Make, or add to, a table of persons with ties, NULLs, outliers and all types that recoding knows."""
    draw = random.Random(1000 * seed + count)
    rows = []
    for i in range(first, first + count):
        age = min(95, int(abs(draw.gauss(0, 22))) + 18)
        born = date(2024, 6, 1) - timedelta(days=365 * age + draw.randrange(365))
        height = None if draw.random() < 0.06 else round(draw.gauss(172, 9), 1)
        income = Decimal(round(draw.lognormvariate(10, 1) * 100)) / 100
        rows.append(
            (
                i, i // 2, age, height, Decimal(round(draw.gauss(740, 120))) / 10, born,
                datetime(2024, 1, 1) + timedelta(minutes=draw.randrange(400_000)),
                f"{draw.choice((12, 12, 47, 80))}{draw.randrange(30):03d}", draw.randrange(4), draw.choice(CITIES),
                draw.random() < 0.3, income, draw.gauss(0, 1000) * draw.choice((1, 1, 1, 9)),
                int(draw.expovariate(0.1)), draw.random() * age, draw.choice(DIAGNOSES[: 4 + i % 5]),
                date(2024, 1, 1) + timedelta(days=draw.randrange(60)), draw.randrange(3),
            )
        )  # fmt: skip
    if not first:
        con.execute(PEOPLE.format(name=name))
    import pyarrow as pa

    columns = [list(column) for column in zip(*rows, strict=True)]
    con.duckdb.register("drawn", pa.table(columns, names=[f"c{place}" for place in range(len(columns))]))
    con.execute(f"INSERT INTO {name} FROM drawn")
    con.duckdb.unregister("drawn")


def trees(con: Any) -> None:
    """Make hierarchies of diagnosis, zip and age."""
    con.execute("CREATE TABLE icd (leaf VARCHAR, place VARCHAR, root VARCHAR)")
    con.duckdb.executemany(
        "INSERT INTO icd VALUES (?, ?, 'any')", [(one, PLACES.get(one, "other")) for one in DIAGNOSES]
    )
    con.execute("CREATE TABLE zip_tree AS FROM prefix_hierarchy('people', 'zip')")
    con.execute("CREATE TABLE age_tree AS FROM interval_hierarchy('people', 'age', [10, 20, 40])")
    con.execute("CREATE TABLE born_tree AS FROM date_hierarchy('people', 'born')")


def census(con: Any, count: int) -> None:
    """Make a table of every 29th person of the bundled census."""
    con.execute(
        f"CREATE TABLE census AS SELECT * EXCLUDE row FROM (SELECT *, row_number() OVER () AS row FROM read_parquet('{FIXTURES / 'census_income.parquet'}')) WHERE row % 29 = 0 ORDER BY row LIMIT {count}"
    )


# ---------------------------------------------------------------- what a release is


def case(function: Callable[[], Parts]) -> Callable[[], Parts]:
    """Enter a case by the name of its function."""
    CASES[function.__name__] = function
    return function


def plain(value: object) -> Any:
    """Return plain data without what differs from run to run."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items() if name not in VOLATILE}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool | int):
        return value
    return steady(
        value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
    )


def steady(text: str) -> str:
    """Return a text without times, paths, what compiling says, and the class that stands for equally bad ones."""
    text = text.replace(str(ROOT), "<root>").replace(tempfile.gettempdir(), "<tmp>")
    text = re.sub(r"<tmp>/golden\w*", "<tmp>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?", "<time>", text)
    text = re.sub(r"as the class \([^)]*\)", "as the class <one>", text)
    text = re.sub(r"^compiling .*\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"\b\d+(\.\d+)?(e-?\d+)? s\b", "<seconds> s", text)


def rows_of(relation: Any) -> Parts:
    """Return hash and beginning of the rows of a relation, in their order, with names and types."""
    head = [f"{name} {kind}" for name, kind in zip(relation.columns, relation.types, strict=True)]
    rows = [repr(row) for row in relation.fetchall()]
    text = "\n".join([*head, *rows])
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "count": len(rows),
        "types": head,
        "first": rows[:3],
    }


def arrow_rows(table: Any) -> Parts:
    """Return the same of an Arrow table."""
    head = [str(field) for field in table.schema]
    rows = [repr(tuple(row.values())) for row in table.to_pylist()]
    text = "\n".join([*head, *rows])
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "count": len(rows),
        "types": head,
        "first": rows[:3],
    }


def evidence_of(con: Any) -> Parts:
    """Return the metadata of all releases, hashes apart: those of trees may be of another recipe."""
    found: Parts = {}
    hashes: list[str] = []
    for table in ("releases", "columns", "thresholds", "audits"):
        relation = con.duckdb.sql(
            f"SELECT COLUMNS(lambda c: c NOT IN {tuple(sorted(VOLATILE))}) FROM duckanon.{table} ORDER BY ALL"
        )
        lines = []
        for row in relation.fetchall():
            line = steady(json.dumps(dict(zip(relation.columns, row, strict=True)), default=str))
            hashes += re.findall(r"[0-9a-f]{64}", line)
            lines.append(re.sub(r"[0-9a-f]{64}", "<hash>", line))
        found[table] = lines
    return {"evidence": found, "hashes": list(dict.fromkeys(hashes))}


def outcomes(con: Any, text: str) -> list[Parts]:
    """Run a script and return title, report, effect and, without a report, rows of each statement of ours."""
    found = []
    # Values as they are, and records that stay, have no effect to tell.
    told = not any(word in text for word in ("'anatomy'", "'swap'", "'append'"))
    for outcome in con.outcomes(text, effect=told):
        if not hasattr(outcome, "title"):
            continue
        parts: Parts = {"title": plain(outcome.title)}
        if outcome.report is not None:
            parts["report"] = plain(json.loads(outcome.report.to_json()))
            parts["text"] = steady(outcome.report.to_text()).split("\n")
        elif outcome.table is not None:
            parts["rows"] = [plain(list(row.values())) for row in _timeless(outcome.table).to_pylist()]
        if outcome.effect:
            parts["effect"] = [plain(list(asdict(one).values())) for one in outcome.effect]
        found.append(parts)
    return found


def _timeless(table: Any) -> Any:
    return table.drop_columns([name for name in table.column_names if name in VOLATILE])


def command(*words: object) -> Parts:
    """Return exit code and output of the command line."""
    from duckanon.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    shown = warnings.showwarning
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(word) for word in words])
    except SystemExit as left:
        code = left.code
    finally:
        warnings.showwarning = shown
    return {
        "code": code,
        "out": steady(out.getvalue()).split("\n"),
        "err": steady(err.getvalue()).split("\n"),
    }


def connected(count: int = 300, *, hierarchies: bool = False) -> Any:
    """Return a connection with a table of persons."""
    import duckanon

    con = duckanon.connect()
    if count:
        people(con, count)
    if hierarchies:
        trees(con)
    return con


def released(con: Any, query: str, options: str, *, explain: bool = True) -> Parts:
    """Explain and create one view, and return all that is to be compared."""
    text = f"ANONYMIZED VIEW v AS {query} WITH ({options})"
    parts: Parts = {"explain": outcomes(con, f"EXPLAIN CREATE {text}")} if explain else {}
    parts["created"] = outcomes(con, f"CREATE {text}")
    views = [
        name
        for (name,) in con.duckdb.sql(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        ).fetchall()
    ]
    parts["rows"] = {name: rows_of(con.duckdb.sql(f'FROM "{name}"')) for name in views}
    return parts | evidence_of(con)


def simple(
    name: str,
    columns: str,
    options: str,
    count: int = 300,
    *,
    hierarchies: bool = False,
    explain: bool = True,
) -> None:
    """Enter a case of one view over some columns of the table of persons."""

    def run() -> Parts:
        with connected(count, hierarchies=hierarchies) as con:
            return released(con, f"SELECT {columns} FROM people", options, explain=explain)

    CASES[name] = run


def unhashed(parts: Parts) -> Parts:
    """Return the parts without hashes."""
    return json.loads(re.sub(r"\b[0-9a-f]{64}\b", "<hash>", json.dumps(parts)))


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="golden") as aside:
        yield Path(aside)


def attempt(run: Callable[[], Parts]) -> Parts:
    """Return the parts of a case and the warnings that it raised, or its error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            parts = run()
        except Exception as error:  # noqa: BLE001 - the other cases are to be run, too
            parts = {"error": steady(f"{type(error).__name__}: {error}")}
    raised = [
        steady(f"{one.category.__name__}: {one.message}")
        for one in told
        if "duckanon" in one.category.__module__
    ]
    return parts | ({"warnings": raised} if raised else {})
