"""Rows that tasks get: the release is the same for files that tasks read and rows that Spark hands over."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.oracle_release import assert_release_valid
from tests.spark.test_anonymize import released, same_report, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.running import Running

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {
    "quasi_identifiers": ["a", "a.b", "born", "seen", "cost"], "sensitive": ["pay", "ill"], "insensitive": "*",
    "recode": {"a": "range", "a.b": "set", "born": "median", "seen": "mode"}, "k": 3, "t": 0.4, "effort": "fast",
}  # fmt: skip

WATCH = """
from duckanon.spark import tasks
tasks.held, tasks.asked = tasks._can_be_read, []
def can_be_read(spark, folder):
    tasks.asked.append(tasks.held(spark, folder))
    return tasks.asked[-1]
tasks._can_be_read = can_be_read
"""
ASK = "import json\nfrom duckanon.spark import tasks\nprint(json.dumps(tasks.asked))\ntasks.asked.clear()\n"


@pytest.fixture
def watched(running: Running) -> Iterator[Running]:
    """Spark that keeps whether tasks read the files of each step."""
    running.run(WATCH)
    yield running
    running.run("from duckanon.spark import tasks\ntasks._can_be_read = tasks.held\n")


def rows() -> pa.Table:
    """A name that is the begin of another one, as a path is; days before the calendar of today."""
    found = table(random.Random(21), 150).rename_columns({"age": "a", "zip": "a.b"})
    old = [date(1500, 2, 27) + timedelta(days=number % 9) for number in range(len(found))]
    return found.append_column("old", pa.array(old, pa.date32()))


def test_rows_and_files_give_one_release(watched: Running) -> None:
    """Tiles, recode, audit in parts and fingerprint; a file that a task has no room for is handed over by rows."""
    by_files = watched.anonymize(rows(), ASKED, tile=40, part=50, partitions=3)
    assert "error" not in by_files, by_files["error"]
    assert json.loads(watched.run(ASK)) == [True] * 4
    watched.run(
        "from duckanon.spark import tasks\ntasks.most, tasks.WHOLE_FILE_MAX_BYTES = tasks.WHOLE_FILE_MAX_BYTES, 0\n"
    )
    try:
        by_rows = watched.anonymize(rows(), ASKED, tile=40, part=50, partitions=3)
    finally:
        watched.run("from duckanon.spark import tasks\ntasks.WHOLE_FILE_MAX_BYTES = tasks.most\n")
    assert json.loads(watched.run(ASK)) == [False] * 4
    assert by_files["evidence"]["fingerprint"] == by_rows["evidence"]["fingerprint"]
    assert by_files["report"] == by_rows["report"]
    assert {row["old"] for row in released(by_files["path"])} == set(rows()["old"].to_pylist())
    same_report(by_files["report"], by_files["path"], ASKED)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"},
        {"spark.sql.parquet.writeLegacyFormat": "true", "spark.sql.parquet.compression.codec": "gzip"},
        {"spark.sql.parquet.compression.codec": "zstd", "spark.sql.files.maxRecordsPerFile": "7"},
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "2", "spark.sql.session.timeZone": "Asia/Kolkata"},
    ],
)
def test_however_spark_writes_its_files(watched: Running, settings: dict[str, str]) -> None:
    usual = watched.anonymize(rows(), ASKED, tile=40, part=50)
    answer = watched.anonymize(rows(), ASKED, tile=40, part=50, settings=settings)
    assert "error" not in answer, answer["error"]
    assert answer["evidence"]["fingerprint"] == usual["evidence"]["fingerprint"]
    assert answer["report"] == usual["report"]
    assert json.loads(watched.run(ASK)) == [True] * 8


def test_files_that_are_encrypted_are_left_to_spark(watched: Running) -> None:
    """Whoever has a factory of keys: with none for these files Spark writes and reads them as they are."""
    setting = (
        "from pyspark.sql import SparkSession\n"
        "hadoop = SparkSession.getActiveSession().sparkContext._jsc.hadoopConfiguration()\n"
        "name = 'parquet.crypto.factory.class'\n"
    )
    factory = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"
    watched.run(setting + f"hadoop.set(name, {factory!r})\n")
    try:
        answer = watched.anonymize(rows(), ASKED)
    finally:
        watched.run(setting + "hadoop.unset(name)\n")
    assert "error" not in answer, answer["error"]
    assert json.loads(watched.run(ASK)) == [False] * 4


def test_a_step_that_has_some_of_the_records_reads_no_files(watched: Running) -> None:
    """Records that nulls = 'suppress' leaves out are in the files of the first step, and none in the release."""
    asked = {**ASKED, "nulls": "suppress"}
    answer = watched.anonymize(rows(), asked, tile=40)
    assert "error" not in answer, answer["error"]
    assert json.loads(watched.run(ASK)) == [True] * 3
    nulls = sum(None in row.values() for row in rows().select(ASKED["quasi_identifiers"]).to_pylist())
    assert answer["evidence"]["suppressed"] == nulls > 0
    assert len(released(answer["path"])) == len(rows()) - nulls


def test_classes_that_were_merged_instead_of_left_out_are_read_as_they_became(watched: Running) -> None:
    """None of 30 records may be left out where a twentieth may: classes have other numbers than at first."""
    rows = table(random.Random(0), 30)
    asked = {
        "quasi_identifiers": "zip", "sensitive": "ill", "insensitive": "*", "recode": {"zip": "set"}, "k": 3,
        "t": 0.25, "effort": "fast", "refine": False, "suppression_limit": 0.05,
    }  # fmt: skip
    answer = watched.anonymize(rows, asked)
    assert "error" not in answer, answer["error"]
    assert json.loads(watched.run(ASK)) == [True] * 4
    assert answer["evidence"]["suppressed"] == 0
    assert_release_valid(rows.to_pylist(), released(answer["path"]), asked)


OTHERS = """
import tempfile
from pyspark.sql import SparkSession
from duckanon import DuckanonError, Policy
from duckanon.spark import audits, tasks
spark = SparkSession.getActiveSession()
folder = tempfile.mkdtemp() + "/made"
spark.range(40).selectExpr("id % 4 AS a", "id % 5 AS pay").write.parquet(folder)
policy = Policy(quasi_identifiers="a", sensitive="pay", k=2, t=0.5)
for records in (40, 39):
    try:
        written = tasks.StoredRecords(folder, records)
        report = audits.audited(spark.read.parquet(folder), policy, name="made", written=written)
        print(report.measures[0].value)
    except DuckanonError as error:
        print(error)
"""


def test_files_with_other_records_than_were_written_are_an_error(running: Running) -> None:
    """Ten records a class, of forty; of 39 one has come from elsewhere."""
    told = "39 records were 40 in parts: do others write there?"
    assert running.run(OTHERS).splitlines() == ["10.0", told]


KEPT = """
from pyspark.sql import SparkSession
import pyarrow as pa

def task(batches):
    import gc, sys, zipimport
    from duckanon.spark import tasks
    tasks.database()
    left = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimport.zipimporter)]
    from pyspark.sql import udtf  # from an archive, and not needed before
    for batch in batches:
        pass
    yield pa.record_batch({"told": [str((len(left), gc.get_freeze_count() > 1000, udtf.__name__))]})

spark = SparkSession.getActiveSession()
for time in range(2):
    print(spark.range(3).coalesce(1).mapInArrow(task, "told string").collect()[0][0])
"""


def test_a_process_lets_go_of_archives_and_finds_them_again(running: Running) -> None:
    assert running.run(KEPT).splitlines() == ["(0, True, 'pyspark.sql.udtf')"] * 2


HANDED = """
import datetime, tempfile
from pyspark.sql import SparkSession
import pyarrow as pa
from duckanon.spark.tasks import in_utc, mapped

def task(batches):
    for batch in batches:
        rows = in_utc(pa.Table.from_batches([batch]))
        told = [f"{field.name} {field.type}" for field in rows.schema]
        yield pa.record_batch({"told": [str(told), *sorted(map(str, rows.to_pylist()))]})

spark = SparkSession.getActiveSession()
zone = spark.conf.get("spark.sql.session.timeZone")
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
try:
    seen = datetime.datetime(2026, 11, 27, 10, 12)
    rows = [(number, (number + 5,), seen + datetime.timedelta(hours=number)) for number in range(3)]
    told = "`a.b` bigint, a struct<b: bigint>, seen timestamp"
    folder = tempfile.mkdtemp() + "/rows"
    spark.createDataFrame(rows, told).coalesce(1).write.parquet(folder)
    some = spark.read.parquet(folder).select("seen", "`a.b`").toDF("x", "y")
    for where in (None, folder):
        found = mapped(some, task, "told string", folder=where, names=["seen", "a.b"])
        print([row[0] for row in found.collect()])
finally:
    spark.conf.set("spark.sql.session.timeZone", zone)
"""


def test_files_give_what_spark_hands_over_of_some_columns(running: Running) -> None:
    """No field of a struct whose path is the name of a column; times are the same, whatever zone they are told in."""
    handed, read = running.run(HANDED).splitlines()
    assert handed == read
    assert handed.startswith("[\"['x timestamp[us, tz=UTC]', 'y int64']\"")


PACKED_ROWS = """
from datetime import UTC, datetime
from decimal import Decimal
import numpy as np
import pyarrow as pa
from duckanon.spark.tasks import packed, unpacked
moments = [datetime(2024, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(6)]
PACKED_ROWS = pa.table({
    "n": pa.array([1, None, 3, 4, 5, 6], pa.int32()), "s": ["a", "", None, "ä" * 50, "b", "c"],
    "x": [0.0, -0.0, float("nan"), None, float("inf"), 1.5], "at": pa.array(moments, pa.timestamp("us", "UTC")),
    "money": pa.array([Decimal("1.50"), None, *map(Decimal, "2345")], pa.decimal128(12, 2)),
    "raw": pa.array([b"\\\\x00", b"", None, b"abc", b"d", b"e"], pa.binary()),
    "yes": [True, None, False, True, True, False],
})
same = lambda one, other: one.schema == other.schema and repr(one.to_pydict()) == repr(other.to_pydict())
"""

PACKED_PARTS = """
for parts in ([0] * 6, [0, 0, 1, 1, 1, 5], [5, 0, 5, 1, 0, 5], [6, 5, 4, 3, 2, 1]):
    batch = packed(PACKED_ROWS, np.array(parts, np.int64))
    print(batch.column("part").to_pylist() == sorted(set(parts)))
    for part, records, value in zip(*batch.columns, strict=True):
        places = [place for place, number in enumerate(parts) if number == part.as_py()]
        print(records.as_py() == len(places) and same(unpacked([value]), PACKED_ROWS.take(places)))
"""

PACKED_TWICE = """
batches = [packed(PACKED_ROWS.slice(start, 3), np.zeros(3, np.int64)) for start in (0, 3)]
print(same(unpacked([value for batch in batches for value in batch.column("packed")]), PACKED_ROWS))
many = pa.table({"s": ["text " * 100] * 1000})
print(len(packed(many.slice(998), np.zeros(2, np.int64)).column("packed")[0].as_py()) < 4000)
print(len(packed(PACKED_ROWS.slice(0, 0), np.zeros(0, np.int64))) == 0)
"""


def test_each_part_has_its_rows_in_their_order(running: Running) -> None:
    assert set(running.run(PACKED_ROWS + PACKED_PARTS).split()) == {"True"}


def test_what_several_tasks_packed_is_put_together(running: Running) -> None:
    """A slice of a table packs its own rows alone, and no row is no part."""
    assert running.run(PACKED_ROWS + PACKED_TWICE).split() == ["True"] * 3


BATCHES = """
import json
import pyarrow as pa
from duckanon.spark import tasks
tasks.BATCH_ROWS, tasks.BATCH_BYTES, held = 10, 1000, (tasks.BATCH_ROWS, tasks.BATCH_BYTES)
def sizes(*rows, width=1):
    batches = [pa.RecordBatch.from_arrays([pa.array(["x" * width] * count)], ["a"]) for count in rows]
    return [len(table) for table in tasks.combined(iter(batches))]
print(json.dumps([sizes(), sizes(0, 0), sizes(4, 0, 5, 1, 3), sizes(25, 1), sizes(1, 1, 1, 1, width=600)]))
tasks.BATCH_ROWS, tasks.BATCH_BYTES = held
"""


def test_batches_are_put_together_up_to_so_many_rows_or_bytes(running: Running) -> None:
    """By hand: ten rows, or some thousand bytes; batches without a row are passed over."""
    assert json.loads(running.run(BATCHES)) == [[], [], [10, 3], [25, 1], [2, 2]]
