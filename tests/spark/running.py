"""Releases on a real Spark in a process of its own; sources and releases are Parquet files on disk."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.engines.spark import Spark

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json
import traceback
from pyspark.sql import SparkSession
import duckanon
from duckanon.policy.policy import Policy
import duckanon.spark
from duckanon.spark import audits, domain, partition, tiles

asked = json.loads({asked!r})
spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
before = {{name: spark.conf.get(name) for name in asked["settings"]}}
for name, value in asked["settings"].items():
    spark.conf.set(name, value)
whole = tiles.tile_size
if asked["tile"]:
    tiles.tile_size = partition.tile_size = lambda *_: asked["tile"]
answer, held = {{}}, (domain.DRIVER_MAX_VALUES, domain.COARSE_CODES, audits.PART_RECORDS, audits.TASK_MAX_RECORDS)
if asked["codes"]:
    domain.DRIVER_MAX_VALUES, domain.COARSE_CODES = asked["codes"]
if asked["part"]:
    audits.PART_RECORDS = asked["part"]
if asked["steps"]:
    audits.TASK_MAX_RECORDS = -1
try:
    frame = spark.read.parquet(asked["source"]).repartition(asked["partitions"])
    policy = Policy(**asked["policy"])
    if asked["path"]:
        release = duckanon.spark.anonymize(frame, policy, path=asked["path"])
        report, answer["evidence"] = release.report, release.evidence
    else:
        report = duckanon.spark.audit(frame, policy)
    answer["report"] = [[None if x is None else str(x) if not isinstance(x, (int, float, str)) else x for x in m.row()] for m in report.measures]
except duckanon.DuckanonError as error:
    answer["error"] = f"{{type(error).__name__}}: {{error}}"
except Exception:
    answer["error"] = traceback.format_exc()
finally:
    tiles.tile_size = partition.tile_size = whole
    domain.DRIVER_MAX_VALUES, domain.COARSE_CODES, audits.PART_RECORDS, audits.TASK_MAX_RECORDS = held
    for name, value in before.items():
        spark.conf.set(name, value)
print(json.dumps(answer))
"""


class Running:
    """Spark that takes tables; a context manager."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        # The link is the interpreter of an environment: resolved, it would be another one.
        self._spark = Spark(python, {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python.absolute())})

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.__exit__()

    def anonymize(self, table: pa.Table, policy: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Release a table; the answer has report and evidence, or an error, and the path."""
        return self._asked(
            table, policy, more.pop("path", None) or str(self.folder / f"out{next(self._numbers)}"), more
        )

    def audit(self, table: pa.Table, policy: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Audit a table."""
        return self._asked(table, policy, None, more)

    def run(self, script: str) -> str:
        """Give what a script prints there."""
        return self._spark.run(script)

    def stored(self, table: pa.Table) -> str:
        """Write a table to a file, and give its path."""
        source = self.folder / f"in{next(self._numbers)}.parquet"
        pq.write_table(table, source, coerce_timestamps="us")
        return str(source)

    def _asked(
        self, table: pa.Table, policy: dict[str, Any], path: str | None, more: dict[str, Any]
    ) -> dict[str, Any]:
        asked = {
            "source": self.stored(table), "policy": policy, "path": path, "partitions": 2, "tile": 0, "codes": None,
            "part": 0, "steps": False, "settings": {}, **more,
        }  # fmt: skip
        answer: dict[str, Any] = json.loads(self.run(SCRIPT.format(asked=json.dumps(asked))))
        return {**answer, "path": path}
