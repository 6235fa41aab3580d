"""A release on Spark compared with DuckDB: time with one and two tasks, CPU seconds, loss and memory.

Run from the repository: ``python -m benchmarks.bench_spark [RECORDS]``. Five numeric quasi-identifiers and a
text, k = 5, t = .1, the default effort. Spark runs in a separate process, in the environment that
CONTRIBUTING.md names; its start is not counted. CPU seconds are those of all its processes, with Java. Timed
ways alternate in three rounds, and medians are compared. Memory is that of a real executor of one core and
1,024 MB, with its Java and Python processes, since in ``local[2]`` executor and driver are one process. For
comparison, plain processes work on some of the same tiles. The last figures are of the ordered audit, as
Spark's own text and as the text for all engines.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

import duckanon
from benchmarks import spark_texts
from benchmarks.bars import Results, shrunk
from benchmarks.spark_alone import KEEP, alone
from benchmarks.spark_process import answer
from tests.engines.spark import MISSING, find, java_is_there

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS, SMALL_TABLE_RECORDS, ROUNDS = 2_000_000, 200_000, 3
EXECUTORS = "local-cluster[2,1,1024]"
WITHOUT_SPARK = "two processes without Spark / one"
TEXTS = "t_closeness_ordered on Spark"
SOURCE = """
CREATE MACRO normal(i, seed) AS
    sqrt(-2 * ln((hash(i, seed) % 1000000 + 1) / 1000001.0)) * cos(hash(i, seed + 1) % 1000 / 159.0);
COPY (
    SELECT
        normal(i, 1) + hash(i, 0) % 4 AS a, normal(i, 3) + hash(i, 0) % 3 AS b, normal(i, 5) AS c,
        CAST(hash(i, 7) % 90 AS INTEGER) AS d, CAST(hash(i, 8) % 53 AS INTEGER) AS e,
        'v' || hash(i, 9) % 20 AS f, CAST(hash(i, 10) % 1000 AS INTEGER) AS pay
    FROM range({records}) AS r(i)
) TO '{path}'
"""
POLICY: dict[str, Any] = {
    "quasi_identifiers": ["a", "b", "c", "d", "e", "f"], "sensitive": "pay", "k": 5, "t": 0.1,
}  # fmt: skip
PROGRAM = """
import duckanon.spark
from duckanon import Policy
from duckanon.spark import pipeline

def watch(peak):
    while True:
        found = stats()
        for pid, (_, executor) in found.items():
            if executor:
                pages = sum(int(fields[21]) for fields in below(found, pid))
                peak[0] = max(peak[0], pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        time.sleep(0.5)

source, target, master, policy, keep = sys.argv[1:]
spark = session(master)
spent, used, peak = {}, {}, [0.0]
threading.Thread(target=watch, args=(peak,), daemon=True).start()
def timed(name):
    inner = getattr(pipeline, name)
    def run(*given, **named):
        begin, cpu = time.monotonic(), processes()
        result = inner(*given, **named)
        spent[name] = time.monotonic() - begin
        used[name] = processes() - cpu
        return result
    setattr(pipeline, name, run)
for name in ("stage", "embed", "tiled", "partition", "repair", "audited", "fingerprint"):
    timed(name)
if keep:
    pipeline.partition = keeping(pipeline.partition, keep)
begin, cpu = time.monotonic(), processes()
release = duckanon.spark.anonymize(spark.read.parquet(source), Policy(**json.loads(policy)), path=target)
wall, cpu = time.monotonic() - begin, processes() - cpu
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"wall": wall, "cpu": cpu, "loss": release.evidence["information_loss"],
    "peak_mb": int(status["VmHWM"].split()[0]) / 1024,
    "executor_mb": peak[0], "audit_cpu": used["audited"], "steps": spent}))
"""


def on_spark(python: Path, source: Path, folder: Path, master: str, keep: str = "") -> dict[str, float]:
    """Return the cost of a release; the inputs of the tile tasks are left in a folder."""
    target = folder / f"out{time.monotonic_ns()}"
    found = answer(python, KEEP + PROGRAM, source, target, master, json.dumps(POLICY), keep, folder=folder)
    steps = found.pop("steps")
    return {**found, **{f"{step} s": seconds for step, seconds in steps.items()}}


def on_duckdb(source: Path) -> dict[str, float]:
    """Return CPU seconds and loss of a release by DuckDB, and CPU seconds of its audit alone."""
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE source AS FROM '{source}'")
        begin = time.process_time()
        release = duckanon.anonymize(con, "source", duckanon.Policy(**POLICY), name="released")
        middle = time.process_time()
        assert not duckanon.audit(con, "released", duckanon.Policy(**POLICY)).violated
        audit = time.process_time() - middle
        return {"cpu": middle - begin, "loss": release.information_loss, "audit_cpu": audit}


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure of several runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def measured(python: Path, records: int) -> dict[str, dict[str, float]]:
    """Return the figures of each way by name, as medians if it is timed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, small = folder / "in.parquet", folder / "small.parquet"
        for path, size in ((source, records), (small, records * SMALL_TABLE_RECORDS // RECORDS)):
            duckdb.connect().execute(SOURCE.format(records=size, path=path))
        ways: dict[str, Callable[[], dict[str, float]]] = {"DuckDB": partial(on_duckdb, source)}
        for master in ("local[1]", "local[2]"):
            ways[master] = partial(on_spark, python, source, folder, master)
        ways["a tenth, local[2]"] = partial(on_spark, python, small, folder, "local[2]")
        rounds = [{way: run() for way, run in ways.items()} for _ in range(ROUNDS)]
        found = {way: medians([one[way] for one in rounds]) for way in ways}
        kept = folder / "kept"
        kept.mkdir()
        found[EXECUTORS] = on_spark(python, source, folder, EXECUTORS, str(kept))
        return found | {WITHOUT_SPARK: alone(python, kept)}


def main() -> int:
    """Print one line a way and the bars."""
    results, python = Results("bench_spark"), find()
    if python is None or not java_is_there():
        print(MISSING)
        return results.exit_code()
    records = int(sys.argv[1]) if len(sys.argv) > 1 else shrunk(RECORDS, 2_000)
    found = measured(python, records)
    for way, figures in found.items():
        results.row(f"{records:,} records", way=way, **figures)
    for line in spark_texts.rows(python, records):
        results.row(TEXTS, **line)
    duck, one, two = (found[way] for way in ("DuckDB", "local[1]", "local[2]"))
    results.bar(
        "tile stage: time with two tasks / with one", two["partition s"] / one["partition s"], 1 / 1.6
    )
    results.bar("CPU s / DuckDB's", two["cpu"] / duck["cpu"], 2.5)
    results.bar("loss / DuckDB's", (two["loss"] or float("inf")) / duck["loss"], 1.1)
    results.bar("CPU s of the audit / DuckDB's", two["audit_cpu"] / duck["audit_cpu"], 5)
    results.bar("memory of an executor, MB", found[EXECUTORS]["executor_mb"], 2048)
    results.bar(
        "memory of the driver, MB more than with a tenth",
        two["peak_mb"] - found["a tenth, local[2]"]["peak_mb"],
        200,
    )
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
