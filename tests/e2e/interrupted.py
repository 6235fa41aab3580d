"""A child process that is interrupted: runs what it is told, and tells what was left after Ctrl-C.

It reads one JSON line a round from stdin: ``{"work": ..., "transaction": ...}``. It prints ``go`` when the work
begins and one JSON line when all is over. The parent sends SIGINT in between, once or several times, and a line
when it has sent the last.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckanon

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = """
CREATE TABLE lab.people AS
SELECT
    20 + hash(i) % 60 AS age, hash(i + 1) % 900 / 7 AS weight, 'z' || hash(i + 2) % 20 AS zip,
    hash(i + 3) % 40 AS charge, CASE hash(i + 4) % 3 WHEN 0 THEN 'flu' WHEN 1 THEN 'cold' ELSE 'cancer' END AS ill
FROM range(600) AS r(i)
"""

POLICY = duckanon.Policy(
    quasi_identifiers=["age", "weight", "zip"],
    sensitive=["charge", "ill"],
    k=4,
    t={"charge": 0.3, "ill": 0.5},
    hierarchies={"ill": "lab.tree"},
    distance={"ill": "hierarchical"},
    effort="fast",
)

EFFORT = ", effort = 'fast'"

WITH = """WITH (
    quasi_identifiers = (age, weight, zip), sensitive = (charge, ill), k = 4, t = {charge: 0.3, ill: 0.5},
    distance = {ill: 'hierarchical'}, hierarchies = {ill: 'lab.tree'}, effort = 'fast'
)"""

CALL = """FROM anonymize('lab.people', quasi_identifiers := ['age', 'weight', 'zip'], sensitive := ['charge', 'ill'],
k := 4, t := 0.4, seed := {seed}, effort := 'fast')"""

STATE = {
    "settings": "SELECT name, value FROM duckdb_settings() WHERE name <> 'wal_autocheckpoint' ORDER BY ALL",
    "place": "SELECT current_database(), current_schema(), current_setting('search_path')",
    "temporary": "SELECT table_name FROM duckdb_tables() WHERE temporary UNION ALL "
    "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal ORDER BY ALL",
    "source": "SELECT count(*), sum(hash(people)) FROM p.lab.people",
}


def connection(folder: Path) -> duckanon.Connection:
    """Give a connection with a source, a hierarchy and one anonymized view `v`."""
    con = duckanon.connect(folder / "p.duckdb")
    con.execute("CREATE SCHEMA lab; CREATE SCHEMA elsewhere")
    con.execute(SOURCE)
    con.execute(
        "CREATE TABLE lab.tree AS FROM (VALUES ('flu', 'light', '*'), ('cold', 'light', '*'), ('cancer', 'grave', '*')) t(ill, kind, root)"
    )
    con.sql(f"CREATE ANONYMIZED VIEW v AS FROM lab.people {WITH}")
    con.execute("USE elsewhere")
    duckanon.register(con.duckdb)
    return con


def works(con: duckanon.Connection, folder: Path, n: int) -> dict[str, Callable[[], object]]:
    """Give what can be interrupted, by name."""
    table = con.duckdb.sql("FROM p.lab.people").to_arrow_table()
    alone = duckanon.Policy(
        quasi_identifiers=["age", "weight", "zip"], sensitive=["charge", "ill"], k=4, t=0.4, effort="fast"
    )
    return {
        "anonymize": lambda: duckanon.anonymize(con, "lab.people", POLICY, name="p.main.w", or_replace=True),
        "create": lambda: con.sql(f"CREATE OR REPLACE ANONYMIZED VIEW p.main.w AS FROM lab.people {WITH}"),
        "refresh": lambda: con.sql("REFRESH ANONYMIZED VIEW p.main.v"),
        "audit": lambda: con.sql("AUDIT VIEW p.main.v"),
        "audit table": lambda: con.sql(f"AUDIT TABLE p.main.v {WITH.replace(EFFORT, '')}"),
        "explain": lambda: con.sql("EXPLAIN ANONYMIZED VIEW p.main.v"),
        "export duckdb": lambda: con.sql(f"EXPORT ANONYMIZED VIEW p.main.v TO '{folder / f'{n}.duckdb'}'"),
        "export csv": lambda: con.sql(f"EXPORT ANONYMIZED VIEW p.main.v TO '{folder / f'{n}.csv'}'"),
        "function": lambda: con.execute(CALL.format(seed=n)).fetchall(),
        "plain function": lambda: con.duckdb.execute(CALL.format(seed=n)).fetchall(),
        "table": lambda: duckanon.anonymize_table(table, alone),
        "query": lambda: con.execute("SELECT sum(hash(i)) FROM range(200_000_000) AS r(i)").fetchall(),
    }  # fmt: skip


def state(con: duckanon.Connection, folder: Path) -> dict[str, Any]:
    """Give what must be as it was."""
    found: dict[str, Any] = {name: con.duckdb.execute(query).fetchall() for name, query in STATE.items()}
    found["hidden"] = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
    return found


def broken(con: duckanon.Connection) -> list[str]:
    """Give what does not fit together: views, backing tables, metadata, and the policy of every release."""
    ask = con.duckdb.execute
    wrong = []
    numbers = {n for (n,) in ask("SELECT release_id FROM p.duckanon.releases").fetchall()}
    views = dict(
        ask(
            "SELECT view_name, comment FROM duckdb_views() WHERE starts_with(comment, 'duckanon release ')"
        ).fetchall()
    )
    if {f"duckanon release {n}" for n in numbers} != set(views.values()):
        wrong.append(f"releases {numbers}, views {views}")
    tables = {
        name
        for (name,) in ask("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'duckanon'").fetchall()
        if name[-1].isdigit()
    }
    kept = {n for (n,) in ask("SELECT release_id FROM p.duckanon.history").fetchall()}
    of_each = {name.format(n) for n in numbers for name in ("release_{}", "tree_{}_2")}
    of_history = {name.format(n) for n in kept for name in ("persons_{}", "values_{}")}
    if tables != of_each | of_history or not numbers <= kept:
        wrong.append(f"releases {numbers}, kept {kept}, tables {tables}")
    for table in ("columns", "thresholds", "audits"):
        found = {n for (n,) in ask(f"SELECT DISTINCT release_id FROM p.duckanon.{table}").fetchall()}
        if found != numbers:
            wrong.append(f"releases {numbers}, {table} {found}")
    for view in views:
        (least,) = ask(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM p.main.{view} GROUP BY age, weight, zip)"
        ).fetchone() or (0,)
        if least < 4:
            wrong.append(f"{view} has a class of {least}")
    return wrong


def one_round(con: duckanon.Connection, folder: Path, number: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Run one work under Ctrl-C and say how it ended and what was left."""
    before = state(con, folder)
    work = works(con, folder, number)[asked["work"]]
    if asked["transaction"]:
        con.duckdb.begin()
    ended, told, took = "done", "", 0.0
    begun = time.monotonic()
    try:
        print("go", flush=True)
        try:
            work()
        except BaseException as failure:  # noqa: BLE001
            ended, told = type(failure).__name__, "".join(traceback.format_exception(failure))
        took = time.monotonic() - begun
    except KeyboardInterrupt:
        # A Ctrl-C that came before anything began, or when all was over.
        pass
    handlers = []
    for _ in range(4):
        try:
            handlers.append(signal.getsignal(signal.SIGINT))
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            continue
    sys.stdin.readline()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wrong: list[str] = []
    if asked["transaction"]:
        con.duckdb.rollback()
    after = state(con, folder)
    wrong += [
        f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name]
    ]
    wrong += broken(con)
    workers = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if workers:
        wrong.append(f"threads {workers}")
    if handlers[0] is not signal.default_int_handler:
        wrong.append(f"the handler of SIGINT is {handlers[0]}")
    return {"ended": ended, "told": told, "wrong": wrong, "took": took, **asked}


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    con = connection(folder)
    begun = time.monotonic()
    con.sql("REFRESH ANONYMIZED VIEW p.main.v")
    print("ready", time.monotonic() - begun, flush=True)
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        print(json.dumps(one_round(con, folder, number, json.loads(line))), flush=True)
    con.close()


if __name__ == "__main__":
    main()
