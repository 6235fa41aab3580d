"""What stands where a release is to be: the same whatever the tasks, and nothing where it failed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from duckanon.database.fingerprint import fingerprint
from tests.e2e.folder_scene import verified
from tests.engines.spark import find
from tests.oracle_release import assert_release_valid
from tests.spark.running import ROOT
from tests.spark.test_anonymize import loss, released, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.running import Running

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {
    "quasi_identifiers": ["age", "zip"], "sensitive": "ill", "insensitive": "*", "k": 3, "t": 0.4, "effort": "fast",
}  # fmt: skip


def beside(path: str) -> list[str]:
    """What stands there and beside it."""
    return sorted(other.name for other in Path(path).parent.glob(f"*{Path(path).name}*"))


def test_the_release_does_not_depend_on_partitions_and_tasks(running: Running) -> None:
    rows = table(random.Random(5), 900)
    found = []
    for partitions, settings in (
        (1, {"spark.sql.shuffle.partitions": "1"}),
        (7, {"spark.sql.shuffle.partitions": "5"}),
        (3, {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "true"}),
    ):
        answer = running.anonymize(rows, ASKED, partitions=partitions, settings=settings, tile=60)
        assert "error" not in answer, answer["error"]
        found.append(answer["evidence"]["fingerprint"])
    assert len(set(found)) == 1


@pytest.mark.parametrize("records", [1_000_000, 30])
def test_the_evidence_is_that_of_the_files(running: Running, records: int) -> None:
    """Rows are sorted in one part, and in several."""
    rows = table(random.Random(6), 200)
    running.run(
        f"from duckanon.spark import evidence\nevidence.kept, evidence.PART_RECORDS = evidence.PART_RECORDS, {records}\n"
    )
    try:
        answer = running.anonymize(rows, ASKED)
    finally:
        running.run("from duckanon.spark import evidence\nevidence.PART_RECORDS = evidence.kept\n")
    path = answer["path"]
    assert beside(path) == [Path(path).name]
    evidence = json.loads((Path(path) / "_duckanon.json").read_text())
    assert evidence == answer["evidence"]
    with duckdb.connect() as con:
        assert evidence["fingerprint"] == fingerprint(con, f"read_parquet('{path}/*.parquet')")
    assert evidence["records"] == 200
    assert evidence["audit"]["passed"] is True
    assert 0 < evidence["information_loss"] < 100
    assert 'quasi_identifiers = ["age", "zip"]' in evidence["policy"]


def test_an_auditor_without_spark_verifies_it_and_sees_what_was_changed(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times, NULL and odd names are in it; the folder is on another machine, where the zone is another one."""
    asked = {
        "quasi_identifiers": ["age", "zip", "born", "seen"],
        "sensitive": ["ill", "pay"],
        "identifiers": "cost",
        "insensitive": "*",
        "k": 3,
        "t": 0.6,
        "l": {"ill": 1.5},
        "l_diversity": "entropy",
        "effort": "fast",
    }
    answer = running.anonymize(
        table(random.Random(12), 300), asked, tile=60, settings={"spark.sql.session.timeZone": "Pacific/Apia"}
    )
    assert "error" not in answer, answer["error"]
    folder = Path(shutil.copytree(answer["path"], tmp_path / "it's [a] copy"))
    told = (folder / "_duckanon.json").read_text()
    assert all(name in told for name in (r"\"age\"", r"\"pay\""))
    assert r"\"cost\"" not in told, "a column that was dropped is named"
    assert verified(folder, capsys) == (0, [])
    assert verified(folder, capsys, expect=[answer["evidence"]["fingerprint"]]) == (0, [])
    file = max(folder.glob("part-*.parquet"), key=lambda part: part.stat().st_size)
    kept = file.read_bytes()
    rows = pq.read_table(file)
    ages = pa.array(range(rows.num_rows), rows["age"].type)
    paid = rows["pay"].take(pa.array(range(rows.num_rows))[::-1])
    for changed, message in (
        (rows.slice(1), "records recorded 300, found 299"),
        (rows.set_column(rows.column_names.index("pay"), "pay", paid), "fingerprint recorded"),
        (rows.set_column(0, "age", ages), "verdict passed -> VIOLATED"),
    ):
        pq.write_table(changed, file)
        code, found = verified(folder, capsys)
        assert code == 1
        assert message in "\n".join(found)
    file.write_bytes(kept)
    assert verified(folder, capsys) == (0, [])
    (folder / "_evil.parquet").write_bytes(kept)
    code, [found] = verified(folder, capsys)
    assert (code, found.partition(",")[0]) == (1, "the folder holds '_evil.parquet'")


def test_nothing_is_overwritten_and_nothing_is_left(running: Running, tmp_path: Path) -> None:
    rows = table(random.Random(7), 30)
    path = tmp_path / "there"
    path.mkdir()
    (path / "mine").write_text("kept")
    answer = running.anonymize(rows, ASKED, path=str(path))
    assert answer["error"].startswith("ReleaseError: ")
    assert "exists and a release never overwrites" in answer["error"]
    assert [file.name for file in path.iterdir()] == ["mine"]
    odd = rows.set_column(0, "age", pa.array([float("nan")] * 30))
    named = 30 - odd.column("zip").null_count
    for nulls, records in (("category", 30), ("suppress", named)):  # NaN is no NULL
        answer = running.anonymize(odd, {**ASKED, "nulls": nulls})
        assert answer["error"] == (
            f"SourceError: quasi-identifier 'age' is NaN or infinite in {records} records: "
            "leave them out, or make it NULL"
        )
        assert beside(answer["path"]) == []


def test_a_table_that_spark_cannot_count_is_refused(running: Running) -> None:
    running.run(
        "from duckanon.spark import embed\nembed.kept = embed.LARGEST_TOTAL\nembed.LARGEST_TOTAL = 30\n"
    )
    try:
        answer = running.anonymize(table(random.Random(8), 30), ASKED)
        plain = running.anonymize(
            table(random.Random(8), 30), {"quasi_identifiers": "age", "insensitive": "*", "k": 3}
        )
    finally:
        running.run("from duckanon.spark import embed\nembed.LARGEST_TOTAL = embed.kept\n")
    assert answer["error"].startswith(
        "PolicyError: t and l of 30 records are not yet for Spark: up to 29 are"
    )
    assert "error" not in plain, plain["error"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"subject": "Insens"}, "subject is not yet for Spark"),
        ({"method": "mdav", "sensitive": [], "t": None}, "method = 'mdav' is not yet for Spark"),
        ({"time_limit": 9}, "time_limit is not yet for Spark"),
        ({"delta": 2}, "delta is not yet for Spark"),
        ({"quasi_identifiers": ["age", "nix"]}, "quasi_identifiers names 'nix'"),
        ({"k": 1000}, "k = 1000 is more than the 30 records"),
    ],
)
def test_what_spark_has_not_is_said(running: Running, more: dict[str, Any], message: str) -> None:
    answer = running.anonymize(table(random.Random(8), 30), {**ASKED, **more})
    assert answer["error"].startswith("PolicyError: ")
    assert message in answer["error"]
    assert beside(answer["path"]) == []


def test_a_session_that_would_answer_wrongly_is_refused(running: Running) -> None:
    answer = running.anonymize(
        table(random.Random(8), 30), ASKED, settings={"spark.sql.ansi.enabled": "false"}
    )
    assert answer["error"].startswith("PolicyError: spark.sql.ansi.enabled is off")
    nested = pa.table({"age": [1, 2], "tags": [["a"], ["b"]]})
    answer = running.anonymize(nested, {"quasi_identifiers": "age", "insensitive": "*", "k": 2})
    assert "column 'tags' is array<string>, which is not yet for Spark" in answer["error"]
    found = running.run(
        "import duckanon, duckanon.spark\n"
        "from pyspark.sql import SparkSession\n"
        "frame = SparkSession.getActiveSession().readStream.format('rate').load()\n"
        "try: duckanon.spark.anonymize(frame, duckanon.Policy(quasi_identifiers='value', k=2), path='/nowhere')\n"
        "except duckanon.PolicyError as error: print(error)\n"
    )
    assert found.startswith("the DataFrame is a stream")


@pytest.mark.parametrize(
    ("lie", "truth", "words"),
    [
        (
            "SparkSession.version = property(lambda session: '4.0.2')", "SparkSession.version = held",
            "PolicyError: Spark 4.0.2: 4.1 or later is needed",
        ),
        (
            "java.setProperty(name, '11')", "java.setProperty(name, version)",
            "PolicyError: Java 11: Spark 4.1 needs 17 or later",
        ),
        (
            "pandas.__version__ = '3.0.1'", "pandas.__version__ = kept",
            "MissingExtra: pandas 3.0: Spark needs 2.2 or later and below 3; run pip install",
        ),
        (
            "pandas.__version__ = '2.1.4'", "pandas.__version__ = kept",
            "MissingExtra: pandas 2.1: Spark needs 2.2 or later and below 3; run pip install",
        ),
    ],
)  # fmt: skip
def test_versions_that_do_not_do_are_named(running: Running, lie: str, truth: str, words: str) -> None:
    """Only one of each is installed here, which says that it is another one."""
    found = running.run(
        "import pandas\n"
        "import duckanon, duckanon.spark\n"
        "from duckanon.spark.session import check_pyspark\n"
        "from pyspark.sql import SparkSession\n"
        "spark, held, kept = SparkSession.getActiveSession(), SparkSession.version, pandas.__version__\n"
        "java, name = spark._jvm.java.lang.System, 'java.specification.version'\n"
        "version = java.getProperty(name)\n"
        f"{lie}\n"
        "try:\n"
        "    check_pyspark()\n"
        "    asked = duckanon.Policy(quasi_identifiers='id', k=2)\n"
        "    duckanon.spark.anonymize(spark.range(9), asked, path='/nowhere')\n"
        "except duckanon.DuckanonError as error: print(f'{type(error).__name__}: {error}')\n"
        f"{truth}\n"
    )
    assert found.startswith(words)
    assert found.count("\n") == 1


def test_a_tile_that_is_too_large_is_split_in_its_task(running: Running) -> None:
    """All records but 20 are equal, so that no bound can part them: 480 are in a tile, where 40 are meant."""
    rows = pa.table({"age": [*([30] * 480), *range(50, 70)], "ill": [f"i{i % 7}" for i in range(500)]})
    asked = {"quasi_identifiers": "age", "sensitive": "ill", "k": 5, "t": 0.5, "effort": "fast"}
    answer = running.anonymize(rows, asked, tile=10)
    assert_release_valid(rows.to_pylist(), released(answer["path"]), asked)
    again = running.anonymize(rows, asked, tile=10, partitions=5)
    assert again["evidence"]["fingerprint"] == answer["evidence"]["fingerprint"]
    sizes = running.run(
        "import numpy as np\n"
        "from duckanon.spark import partition\n"
        "points = np.repeat([[1.0, 2.0], [1.0, 3.0]], [480, 20], axis=0)\n"
        "parts = partition._split(np.arange(500), points, 40, 10)\n"
        "print(max(map(len, parts)), min(map(len, parts)) >= 10, sorted(np.concatenate(parts)) == list(range(500)))\n"
    )
    assert int(sizes.split()[0]) <= 40
    assert sizes.split()[1:] == ["True", "True"]


def test_a_session_in_another_zone_gives_the_same_release(running: Running) -> None:
    """A time is sensitive, and one a quasi-identifier; the audit of DuckDB agrees."""
    rows = table(random.Random(11), 300)
    asked = {
        "quasi_identifiers": ["born", "seen"],
        "sensitive": "seen2",
        "insensitive": "*",
        "k": 3,
        "t": 0.4,
    }
    rows = rows.append_column("seen2", rows.column("seen"))
    found = [
        running.anonymize(rows, asked, tile=40, settings={"spark.sql.session.timeZone": zone})
        for zone in ("UTC", "Europe/Berlin", "Pacific/Apia")
    ]
    assert all("error" not in answer for answer in found), found
    assert len({answer["evidence"]["fingerprint"] for answer in found}) == 1


SINGLES_OUT = (
    "insensitive column 'n' has 6 values in 6 records and can single them out: "
    "is it an identifier or a quasi-identifier?"
)


def test_what_the_owner_should_know_is_said(running: Running) -> None:
    """Two classes of three are certain, for k = 3 keeps equal ages together; one of them has one illness."""
    rows = pa.table(
        {
            "age": [1, 1, 1, 9, 9, 9, None], "ill": ["flu", "flu", "flu", "acne", None, "flu", "flu"],
            "n": range(7), "same": ["x"] * 7,
        }
    )  # fmt: skip
    asked = {
        "quasi_identifiers": "age", "sensitive": ["ill", "same"], "insensitive": "n", "k": 3, "nulls": "suppress",
    }  # fmt: skip
    answer = running.anonymize(rows, asked)
    assert "error" not in answer, answer["error"]
    assert answer["evidence"]["audit"]["warnings"] == [
        "1 of 2 classes, 3 of 6 records reveal 'ill': all records of such a class have the same value; set l or t",
        "sensitive column 'same' has one value in all 6 records: whoever is in the release has it",
        SINGLES_OUT,
        "nulls = 'suppress' left out 1 records with a NULL in a quasi-identifier",
    ]
    spread = pa.table({"age": np.arange(80.0), "pay": np.arange(80)})
    asked = {"quasi_identifiers": "age", "sensitive": "pay", "k": 2, "t": 0.02, "effort": "fast"}
    answer = running.anonymize(spread, asked)
    assert "error" not in answer, answer["error"]
    # Whoever earns more is older, so that a class within .02 is nearly everybody.
    [said] = answer["evidence"]["audit"]["warnings"]
    assert said.startswith("the thresholds cost the data: ")


def test_names_that_somebody_may_give(running: Running) -> None:
    """A comma, a dot, a quote, a semicolon and names of our own; k = n makes one class."""
    names = ["a,b", "a.b", "it's", 'q"1', "q1", "class_id"]
    rows = pa.table({name: [place % 3, place % 2, 7, 1, 2, 9] for place, name in enumerate(names)})
    asked = {"quasi_identifiers": names[:4], "sensitive": names[4], "insensitive": names[5], "k": 6, "l": 2}
    answer = running.anonymize(rows, asked)
    assert "error" not in answer, answer["error"]
    found = released(answer["path"])
    assert [*found[0]] == names
    assert len({tuple(row[name] for name in names[:4]) for row in found}) == 1


def test_what_gives_other_rows_each_time_is_asked_once(running: Running, tmp_path: Path) -> None:
    """Each record has a class by chance, and its number as sensitive value: EMD of a class of s is 1 - s / 3000.

    So the largest EMD tells k again, if both are of the same records. Asked twice, they nearly never are.
    """
    found = running.run(
        "import random\n"
        "import duckanon.spark\n"
        "from pyspark.sql import SparkSession, functions\n"
        "from duckanon import Policy\n"
        "chance = functions.udf(lambda: random.SystemRandom().randrange(20), 'int').asNondeterministic()\n"
        "frame = SparkSession.getActiveSession().range(3000).select(chance().alias('a'), 'id')\n"
        "frame = frame.withColumn('s', functions.concat(functions.lit('v'), 'a'))\n"
        "asked = Policy(quasi_identifiers='a', sensitive='s', insensitive='id', k=2, t=1)\n"
        "def measures(): return {m.measure: m.value for m in duckanon.spark.audit(frame, asked).measures}\n"
        "found = [measures() for _ in range(3)]\n"
        "print([abs((1 - one['t_closeness']) * 3000 - one['k_anonymity']) < 1e-6 for one in found])\n"
        f"made = duckanon.spark.anonymize(frame, asked, path={str(tmp_path / 'out')!r})\n"
        "print(made.evidence['records'], made.report.passed)\n"
    )
    assert found == "[True, True, True]\n3000 True\n"


APART = """
import duckanon.spark
from duckanon import Policy
from duckanon.spark import audits, steps
from pyspark.sql import SparkSession, functions
spark = SparkSession.getActiveSession()
frame = spark.range(300).select((functions.col("id") % 20).alias("a"), (functions.col("id") % 7).alias("s"))
asked = Policy(quasi_identifiers="a", sensitive="s", k=2, t=1)
names = ["spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled", "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"]
def seen():
    kept = spark.sparkContext._jsc.getPersistentRDDs().keySet().toString()
    return [spark.conf.get(name) for name in names], sorted(t.name for t in spark.catalog.listTables()), kept
def stopped(self, name, frame, inner=steps.Steps.keep):
    rows = inner(self, name, frame)
    if name == "step_run":
        raise KeyboardInterrupt
    return rows
before = seen()
duckanon.spark.audit(frame, asked)
after = seen()
whole, steps.Steps.keep = steps.Steps.keep, stopped
most, audits.TASK_MAX_RECORDS = audits.TASK_MAX_RECORDS, -1
try:
    duckanon.spark.audit(frame, asked)
except KeyboardInterrupt:
    print("stopped")
finally:
    steps.Steps.keep, audits.TASK_MAX_RECORDS = whole, most
print(after == before, seen() == before, SparkSession.getActiveSession() is spark)
"""


def test_an_audit_leaves_the_session_as_it_is_even_where_it_is_stopped(running: Running) -> None:
    """Settings, views and what the executors keep."""
    assert running.run(APART) == "stopped\nTrue True True\n"


def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(running: Running, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    answer = running.anonymize(table(random.Random(8), 30), ASKED, path=str(tmp_path / "file" / "out"))
    assert answer["error"].startswith("ReleaseError: Spark stopped: ")
    assert "\n" not in answer["error"]


FINGERPRINTS = """
from pyspark.sql import SparkSession
from duckanon.spark import evidence
before, session = evidence.PART_RECORDS, SparkSession.getActiveSession()
try:
    for evidence.PART_RECORDS in {records}:
        frame = session.read.parquet({source!r})
        for many in (frame.repartition(3), frame.limit(0), frame.coalesce(1)):
            print(evidence.fingerprint(many))
finally:
    evidence.PART_RECORDS = before
"""


def test_a_fingerprint_is_that_of_duckdb_in_any_number_of_parts(running: Running) -> None:
    """Equal rows, parts that are empty, statements of one row, and no row at all."""
    rows = pa.table({"a": [i % 20 for i in range(50)], "b": [None if i % 7 else "ä" for i in range(50)]})
    source = running.stored(rows)
    with duckdb.connect() as con:
        relation = f"read_parquet('{source}')"
        whole, none = (fingerprint(con, f"(FROM {relation} {rest})") for rest in ("", "LIMIT 0"))
    found = running.run(FINGERPRINTS.format(source=source, records=(1_000_000, 9, 3, 1)))
    assert found.split() == 4 * [whole, none, whole]


def test_a_fingerprint_of_more_rows_than_a_task_handles_at_a_time(running: Running) -> None:
    """A task of 210,000 rows has three tables of them; each type in its form, -0.0, NaN and a long text."""
    query = """
        SELECT
            i AS n, CASE WHEN i % 7 > 0 THEN i END AS m, CAST(i % 100 AS SMALLINT) AS small,
            CASE i % 4 WHEN 0 THEN 'nan' WHEN 1 THEN '-0.0' ELSE i / 8 END::DOUBLE AS x, CAST(i % 3 AS FLOAT) AS f,
            repeat('ä', CAST(i % 50 AS INTEGER)) AS s, DATE '2020-01-01' + CAST(i % 90 AS INTEGER) AS d, i % 2 = 0 AS b,
            TIMESTAMP '2020-01-01 00:00:00' + to_seconds(i) AS at, CAST(i AS DECIMAL(12, 2)) AS money
        FROM range(210000) AS r(i)
    """
    with duckdb.connect() as con:
        source = running.stored(con.sql(query).to_arrow_table())
        whole, none = (
            fingerprint(con, f"(FROM read_parquet('{source}') {rest})") for rest in ("", "LIMIT 0")
        )
    found = running.run(FINGERPRINTS.format(source=source, records=(1_000_000, 60_000)))
    assert found.split() == 2 * [whole, none, whole]


@pytest.mark.parametrize("character", "*?[]{}\\")
def test_a_path_that_spark_would_read_as_a_pattern_is_refused(
    running: Running, tmp_path: Path, character: str
) -> None:
    """Wherever it stands, and before the first job, so that nothing is written."""
    jobs = (
        "from pyspark.sql import SparkSession\n"
        "print(len(SparkSession.getActiveSession().sparkContext.statusTracker().getJobIdsForGroup()))\n"
    )
    rows = table(random.Random(8), 30)
    for path in (f"out{character}", f"a{character}b/out"):
        before = running.run(jobs)
        answer = running.anonymize(rows, ASKED, path=str(tmp_path / path))
        assert answer["error"] == (
            f"ReleaseError: {str(tmp_path / path)!r} has {character} in it, and Spark reads such a path as a "
            "pattern: choose a path with none of * ? [ ] { } \\"
        )
        # The file of the table is asked for its schema.
        assert int(running.run(jobs)) <= int(before) + 1
    assert list(tmp_path.iterdir()) == []


def test_classes_are_merged_across_tiles_where_none_alone_keeps_t(running: Running) -> None:
    """Tiles are cut by age alone, and all of an age have one illness: no class of a tile is within t."""
    ages = np.arange(240) % 60
    rows = pa.table(
        {"age": ages.astype(float), "ill": pa.array(np.where(ages < 30, "flu", "cold")), "n": np.arange(240)}
    )
    asked = {
        "quasi_identifiers": "age",
        "sensitive": "ill",
        "insensitive": "n",
        "k": 3,
        "t": 0.2,
        "effort": "fast",
    }
    running.run(
        "from duckanon.spark import tiles\ntiles.kept = tiles.recipes.tile_strata\ntiles.recipes.tile_strata = lambda *a, **b: 1\n"
    )
    try:
        answer = running.anonymize(rows, asked, tile=40)
    finally:
        running.run("from duckanon.spark import tiles\ntiles.recipes.tile_strata = tiles.kept\n")
    assert "error" not in answer, answer["error"]
    found = released(answer["path"])
    assert answer["evidence"]["information_loss"] == float(f"{loss(rows, found):.3g}")
    assert sorted(row["n"] for row in found) == list(range(240))
    # Half have each illness: EMD of a class is the distance of its share of flu from 1/2.
    flu, sizes = (
        Counter(row["age"] for row in found if row["ill"] == "flu"),
        Counter(row["age"] for row in found),
    )
    assert all(size >= 3 and abs(flu[age] / size - 0.5) <= 0.2 for age, size in sizes.items())


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from duckanon import DuckanonError, Policy
from duckanon.spark import anonymize, audit, partition, tiles
spark = SparkSession.builder.master(sys.argv[4]).config("spark.ui.enabled", "false").config(
    "spark.sql.shuffle.partitions", "4").config("spark.driver.host", "127.0.0.1").getOrCreate()
tiles.tile_size = partition.tile_size = lambda *_: 60
frame, policy = spark.read.parquet(sys.argv[1]), Policy(**eval(sys.argv[3]))
try:
    release = anonymize(frame.repartition(4), policy, path=sys.argv[2])
except DuckanonError as error:
    print(f"error: {error}")
    try:
        audit(frame, policy)
    except Exception as error:
        print(type(error).__name__)
    sys.exit(1)
print(release.evidence["fingerprint"])
"""


def tasks(parent: int) -> Iterator[int]:
    """Processes that run tasks below another one: children of a daemon of pyspark."""
    parents, daemons = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.add(pid)
    for pid in daemons:
        place = pid
        while place in parents and place != parent:
            place = parents[place]
        if place == parent and parents[pid] in daemons:
            yield pid


def started(source: str, folder: Path, master: str) -> subprocess.Popen[str]:
    """Start a release on a Spark of its own, which prints the fingerprint."""
    python = str(find())
    return subprocess.Popen(
        [python, "-c", PROGRAM, source, str(folder / "out"), repr(ASKED), master],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def test_executors_of_their_own_give_the_same_release(running: Running, tmp_path: Path) -> None:
    """Two executors with a core each, in processes of their own."""
    rows = table(random.Random(10), 400)
    answer = running.anonymize(rows, ASKED, tile=60)
    printed, _ = started(running.stored(rows), tmp_path, "local-cluster[2,1,1024]").communicate(timeout=300)
    assert printed.strip().splitlines()[-1] == answer["evidence"]["fingerprint"]


def below(parent: int, word: bytes) -> list[int]:
    """Processes below another one in whose command a word stands."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if word in (folder / "cmdline").read_bytes():
                found.append(pid)

    def of(pid: int) -> bool:
        return pid in parents and (parents[pid] == parent or of(parents[pid]))

    return [pid for pid in found if of(pid)]


def test_an_executor_that_is_lost_changes_nothing(running: Running, tmp_path: Path) -> None:
    """One of two is killed when the records are written and their audit has begun: what it kept is gone."""
    rows = table(random.Random(10), 400)
    answer = running.anonymize(rows, ASKED, tile=60)
    process = started(running.stored(rows), tmp_path, "local-cluster[2,1,1024]")
    until = time.monotonic() + 200
    while not list(tmp_path.glob("_out.duckanon-*/candidate/_SUCCESS")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)
    os.kill(below(process.pid, b"CoarseGrainedExecutorBackend")[0], signal.SIGKILL)
    printed, _ = process.communicate(timeout=300)
    assert printed.strip().splitlines()[-1] == answer["evidence"]["fingerprint"]


def test_nothing_of_a_failed_release_runs_when_its_folder_is_removed(
    running: Running, tmp_path: Path
) -> None:
    """A task that would sleep for a minute is ended: Spark takes some two seconds for that."""
    found = running.run(
        "import time\n"
        "from pyspark import InheritableThread\n"
        "from pyspark.sql import SparkSession\n"
        "from duckanon.spark.publish import place_of\n"
        "spark = SparkSession.getActiveSession()\n"
        "def slow(batches):\n"
        "    for batch in batches:\n"
        "        time.sleep(60)\n"
        "        yield batch\n"
        "def write(folder):\n"
        "    try: spark.range(4).mapInArrow(slow, 'id bigint').write.parquet(folder)\n"
        "    except Exception: pass\n"
        "try:\n"
        f"    with place_of(spark, {str(tmp_path / 'out')!r}) as place:\n"
        "        thread = InheritableThread(target=write, args=(place.folder('made'),))\n"
        "        thread.start()\n"
        "        while not (place._jobs_run() and place._queries_run()): time.sleep(0.05)\n"
        "        raise KeyError\n"
        "except KeyError: print(place._jobs_run(), place._queries_run())\n"
        "thread.join()\n"
        "print(spark.sparkContext.getLocalProperty('spark.job.description'))\n"
    )
    assert found == "False False\nNone\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0, 4])
def test_parts_that_would_miss_a_record_are_an_error(running: Running, part: int) -> None:
    """A task that does not get all records, which none is known to do: the release is none."""
    running.run(
        "import pyarrow as pa\n"
        "from duckanon.spark import audits, tasks\n"
        "audits.held = audits._audited\n"
        "less = lambda value: tasks.written(tasks.unpacked([value]).slice(1))\n"
        "fewer = lambda batch: pa.record_batch({'packed': pa.array(map(less, batch.column(0)), pa.binary())})\n"
        "audits._audited = lambda asked, batches, whole=audits._audited: whole(asked, map(fewer, batches))\n"
    )
    try:
        answer = running.anonymize(table(random.Random(8), 30), ASKED, part=part)
    finally:
        running.run("from duckanon.spark import audits\naudits._audited = audits.held\n")
    assert answer["error"].startswith("SourceError: 30 records were 2")
    assert "in parts: do others write there?" in answer["error"]
    assert beside(answer["path"]) == []


def test_values_that_were_counted_of_other_records_are_an_error(running: Running) -> None:
    running.run(
        "from duckanon.spark import steps\n"
        "steps.kept = steps.Steps.rendered\n"
        "def rendered(self, template, **values):\n"
        "    found = steps.kept(self, template, **values)\n"
        "    return found.limit(2) if template == 'value_counts' else found\n"
        "steps.Steps.rendered = rendered\n"
    )
    try:
        answer = running.anonymize(table(random.Random(8), 30), ASKED, part=4)
    finally:
        running.run("from duckanon.spark import steps\nsteps.Steps.rendered = steps.kept\n")
    assert answer["error"].startswith("SourceError: 30 records were ")
    assert beside(answer["path"]) == []


def test_an_audit_that_would_miss_a_record_is_an_error(running: Running) -> None:
    """A join that loses one, which none is known to do: the release is none."""
    running.run(
        "from duckanon.spark import steps\n"
        "steps.kept = steps.Steps.rendered\n"
        "def rendered(self, template, **values):\n"
        "    found = steps.kept(self, template, **values)\n"
        "    return found.limit(29) if template == 'member' else found\n"
        "steps.Steps.rendered = rendered\n"
    )
    try:
        answer = running.anonymize(table(random.Random(8), 30), ASKED, steps=True)
    finally:
        running.run("from duckanon.spark import steps\nsteps.Steps.rendered = steps.kept\n")
    assert answer["error"].startswith("SourceError: 30 records were 29 when their classes were asked for")
    assert beside(answer["path"]) == []


@pytest.mark.parametrize("losses", [2, 3])
def test_what_an_audit_kept_may_be_lost_twice(running: Running, losses: int) -> None:
    """The blocks that Spark kept are freed, as with the executor that holds them."""
    running.run(
        "from duckanon.spark import steps\n"
        f"steps.kept, steps.losses = steps.Steps.audit, {losses}\n"
        "def audit(self, name, audit):\n"
        "    if steps.losses and 'member' in self._kept:\n"
        "        steps.losses -= 1\n"
        "        self.forget('member')\n"
        "    return steps.kept(self, name, audit)\n"
        "steps.Steps.audit = audit\n"
    )
    try:
        answer = running.anonymize(table(random.Random(8), 30), ASKED, steps=True)
    finally:
        left = running.run(
            "from duckanon.spark import steps\nsteps.Steps.audit = steps.kept\nprint(steps.losses)\n"
        )
    assert left == "0\n"
    if losses == 2:
        assert answer["evidence"]["audit"]["passed"] is True
    else:
        assert answer["error"].startswith("ReleaseError: Spark stopped: ")
        assert "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in answer["error"]
        assert beside(answer["path"]) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_ended_leaves_nothing(
    running: Running, tmp_path: Path, sent: signal.Signals
) -> None:
    """Records that nobody has anonymized are in the folder of the work, which nobody else may read."""
    process = started(running.stored(table(random.Random(9), 900)), tmp_path, "local[2]")
    until = time.monotonic() + 120
    while not (work := list(tmp_path.glob("_out.duckanon-*/tiled"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert work
    assert work[0].parent.stat().st_mode & 0o777 == 0o700
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert process.returncode != 0
    until = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_a_spark_that_is_gone_leaves_no_release_and_its_work_is_named(
    running: Running, tmp_path: Path
) -> None:
    process = started(running.stored(table(random.Random(9), 900)), tmp_path, "local[2]")
    until = time.monotonic() + 120
    while not (work := list(tmp_path.glob("_out.duckanon-*/tiled"))) and time.monotonic() < until:
        time.sleep(0.05)
    [java] = below(process.pid, b"SparkSubmit")
    os.kill(java, signal.SIGKILL)
    printed, _ = process.communicate(timeout=100)
    told, audited = printed.splitlines()
    assert audited == "ReleaseError"
    assert told == (
        "error: Spark stopped, and what it had made was not removed: "
        f"remove {str(work[0].parent)!r}, which may hold records that nobody has anonymized"
    )
    assert not (tmp_path / "out").exists()


def test_killed_tasks_change_nothing(running: Running, tmp_path: Path) -> None:
    """Processes of tasks are killed again and again; Spark tries them once more, and the release is the same."""
    rows = table(random.Random(9), 600)
    answer = running.anonymize(rows, ASKED, tile=60)
    process = started(running.stored(rows), tmp_path, "local[2,8]")
    killed, until = 0, time.monotonic() + 240
    while process.poll() is None and time.monotonic() < until:
        for pid in list(tasks(process.pid))[:1] if killed < 4 else []:
            os.kill(pid, signal.SIGKILL)
            killed += 1
            time.sleep(2)
        time.sleep(0.2)
    printed, _ = process.communicate(timeout=60)
    assert killed
    assert printed.strip() == answer["evidence"]["fingerprint"]
