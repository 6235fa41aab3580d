"""A release on Spark beside that of DuckDB: time with one and two tasks, CPU seconds, loss and memory.

Run from the repository: ``python -m benchmarks.bench_spark [RECORDS]``. Five numeric quasi-identifiers and a
text, k = 5, t = .1, the default effort. Spark runs in a process of its own, in the environment that
CONTRIBUTING.md names; its start is not counted. CPU seconds are those of all its processes, Java's too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from benchmarks.bars import ROOT, Results, shrunk
from tests.engines.spark import MISSING, find, java_is_there

RECORDS, SMALL = 2_000_000, 200_000
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
import json, os, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
import duckanon.spark
from duckanon import Policy
from duckanon.spark import pipeline

def below():
    # Processes that this one has begun, and what stat says of each.
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    known, grown = {os.getpid()}, True
    while grown:
        grown = {pid for pid, fields in found.items() if int(fields[1]) in known} - known
        known |= grown
    return {pid: found[pid] for pid in known if pid in found}

def processes():
    return sum(sum(map(int, fields[11:15])) for fields in below().values()) / os.sysconf("SC_CLK_TCK")

def watch(peak):
    while True:
        pages = sum(int(fields[21]) for pid, fields in below().items() if pid != os.getpid())
        peak[0] = max(peak[0], pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        time.sleep(0.5)

source, target, cores, policy = sys.argv[1:]
spark = (SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
spark.range(10).count()
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
begin, cpu = time.monotonic(), processes()
release = duckanon.spark.anonymize(spark.read.parquet(source), Policy(**json.loads(policy)), path=target)
wall, cpu = time.monotonic() - begin, processes() - cpu
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"wall": wall, "cpu": cpu, "loss": release.evidence["information_loss"],
    "peak_mb": int(status["VmHWM"].split()[0]) / 1024,
    "executor_mb": peak[0], "audit_cpu": used["audited"], "steps": spent}))
"""


def on_spark(python: Path, source: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Return what a release took."""
    target = folder / f"out{time.monotonic_ns()}"
    done = subprocess.run(
        [python, "-c", PROGRAM, str(source), str(target), str(cores), json.dumps(POLICY)],
        capture_output=True, text=True, check=False, cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def on_duckdb(source: Path) -> tuple[float, float, float]:
    """Return CPU seconds and loss of a release by DuckDB, and CPU seconds of its audit alone."""
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE source AS FROM '{source}'")
        begin = time.process_time()
        release = duckanon.anonymize(con, "source", duckanon.Policy(**POLICY), name="released")
        middle = time.process_time()
        assert not duckanon.audit(con, "released", duckanon.Policy(**POLICY)).violated
        return middle - begin, release.information_loss, time.process_time() - middle


def main() -> int:
    """Print one line a way and the bars."""
    results, python = Results("bench_spark"), find()
    if python is None or not java_is_there():
        print(MISSING)
        return results.exit_code()
    records = int(sys.argv[1]) if len(sys.argv) > 1 else shrunk(RECORDS, 2_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, small = folder / "in.parquet", folder / "small.parquet"
        for path, size in ((source, records), (small, records * SMALL // RECORDS)):
            duckdb.connect().execute(SOURCE.format(records=size, path=path))
        cpu, loss, audit = on_duckdb(source)
        results.row(f"{records:,} records", way="DuckDB", **{"CPU s": cpu, "loss": loss, "audit": audit})
        found = {}
        for way, path, cores in (
            ("local[1]", source, 1),
            ("local[2]", source, 2),
            ("a tenth, local[2]", small, 2),
        ):
            found[way] = on_spark(python, path, folder, cores)
            steps = {f"{step} s": seconds for step, seconds in found[way].pop("steps").items()}
            results.row(f"{records:,} records", way=way, **found[way], **steps)
            found[way] |= steps
    two = found["local[2]"]
    results.bar(
        "tile stage: time with two tasks / with one",
        two["partition s"] / found["local[1]"]["partition s"],
        1 / 1.6,
    )
    results.bar("CPU s / DuckDB's", two["cpu"] / cpu, 2.5)
    results.bar("loss / DuckDB's", (two["loss"] or float("inf")) / loss, 1.1)
    results.bar("CPU s of the audit / DuckDB's", two["audit_cpu"] / audit, 5)
    results.bar("memory of the executor with two tasks, MB", two["executor_mb"], 2048)
    results.bar(
        "memory of the driver, MB more than with a tenth",
        two["peak_mb"] - found["a tenth, local[2]"]["peak_mb"],
        200,
    )
    return results.exit_code()


if __name__ == "__main__":
    sys.exit(main())
