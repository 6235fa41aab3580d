"""The ordered audit on Spark, as Spark's own text and as the plain text of all engines, on the same records.

Both texts run in steps, as in `duckanon.spark.audit` for an audit that is not dealt to tasks. Classes have
five records. The plain text numbers all records in one task, which the time of the longest task shows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.spark_process import answer

if TYPE_CHECKING:
    from collections.abc import Iterator

MASTER, VALUES = "local[2]", 1_000
TEXTS = ("own", "plain")

SOURCE = """
COPY (
    SELECT i // 5 AS class, CAST(hash(i, 10) % {values} AS INTEGER) AS value FROM range({records}) AS r(i)
) TO '{path}'
"""

PROGRAM = """
from pyspark.sql import functions as sf
from duckanon.audits import portable
from duckanon.spark.steps import own_session

source, text, master = sys.argv[1:]
if text == "plain":
    portable.audit_file = lambda name, engine: f"audit/fast/{name}.sql"
spark = session(master)
begin, cpu = time.monotonic(), processes()
with own_session(spark.read.parquet(source)) as steps:
    members = steps.frame("record")
    steps.define("class_member", members)
    steps.deal(members.count())
    steps.audit("emd", "t_closeness_ordered")
    sums = sf.count("class"), sf.sum("emd_numerator").cast("string"), sf.max("emd")
    [row] = steps.frame("emd").agg(*sums).collect()
wall, cpu = time.monotonic() - begin, processes() - cpu
store = spark.sparkContext._jsc.sc().statusStore()
longest, empty, stage = 0.0, 0, 0
while empty < 100:
    # Stages that were not run again have no tasks.
    tasks = store.taskList(stage, 0, 10_000)
    found = [tasks.apply(place).taskMetrics() for place in range(tasks.size())]
    longest = max([longest, *(one.get().executorCpuTime() / 1e9 for one in found if one.isDefined())])
    empty, stage = 0 if found else empty + 1, stage + 1
print(json.dumps({"told": list(row), "wall": wall, "cpu": cpu, "longest task, CPU s": longest}))
"""


def rows(python: Path, records: int) -> Iterator[dict[str, str | float]]:
    """Yield a line a text and number of records, for a tenth of the records and for all."""
    with tempfile.TemporaryDirectory() as name:
        for size in (records // 10, records):
            source = Path(name) / f"{size}.parquet"
            duckdb.connect().execute(SOURCE.format(records=size, values=VALUES, path=source))
            found = {text: answer(python, PROGRAM, source, text, MASTER, folder=Path(name)) for text in TEXTS}
            assert len({str(one.pop("told")) for one in found.values()}) == 1, found
            for text, figures in found.items():
                yield {"way": f"{text} text, {size:,} records", **figures}
