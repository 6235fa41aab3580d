"""Publish: what was audited gets its name at once, or nothing is there."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckanon.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

WAIT = 30
"""Seconds for tasks that were cancelled to end: Spark ends the Python of one after some two."""

_TIMES = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True)
class Place:
    """Where a release is to stand, and the folder beside it where it is made."""

    spark: SparkSession
    path: str
    aside: str
    tag: str  # of all its jobs

    def folder(self, name: str) -> str:
        """Return a folder of the work."""
        return f"{self.aside}/{name}"

    def write(self, folder: str, name: str, text: str) -> None:
        """Write a text file."""
        files, path = self._files(f"{folder}/{name}")
        stream = files.create(path, False)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    def publish(self, folder: str) -> None:
        """Give a folder of the work its name; a ReleaseError where something has it by now."""
        files, made = self._files(folder)
        _, target = self._files(self.path)
        if files.exists(target) or not files.rename(made, target):
            raise ReleaseError(f"{self.path!r} exists by now, or cannot be written: nothing was released")

    def exists(self) -> bool:
        """Tell whether something stands there."""
        files, target = self._files(self.path)
        return bool(files.exists(target))

    def begin(self) -> None:
        """Make the folder of the work, for its owner alone; where Python is killed, Java removes it."""
        files, aside = self._files(self.aside)
        files.mkdirs(aside)
        owner = self.spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission("700")
        files.setPermission(aside, owner)
        files.deleteOnExit(aside)

    def clear(self) -> None:
        """Remove the work."""
        files, aside = self._files(self.aside)
        files.delete(aside, True)

    def end(self) -> None:
        """Remove the work of a release that failed, when none of its tasks runs any more.

        A task that is cancelled goes on for a while, and would make the folder again.
        """
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        self.spark.sparkContext.cancelJobsWithTag(self.tag)
        until = time.monotonic() + WAIT
        while _running(tracker, self.tag) and time.monotonic() < until:
            time.sleep(0.05)
        self.clear()

    def _files(self, path: str) -> tuple[Any, Any]:
        """Return the file system of a path, and the path for it."""
        context = self.spark.sparkContext
        found = context._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(context._jsc.hadoopConfiguration()), found


@contextlib.contextmanager
def place_of(spark: SparkSession, path: str) -> Iterator[Place]:
    """Give the place of a release; whatever happens, no work is left beside it.

    A ReleaseError where something stands there. Times are written as other engines read them.
    """
    clean = path.rstrip("/")
    folder, slash, name = clean.rpartition("/")
    # Readers pass over names that begin so: in there are records that nobody has anonymized yet.
    tag = f"duckanon-{uuid.uuid4().hex}"
    place = Place(spark, clean, f"{folder}{slash}_{name}.{tag}", tag)
    if place.exists():
        raise ReleaseError(
            f"{path!r} exists and a release never overwrites: remove it or choose another path"
        )
    before = spark.conf.get(_TIMES)
    spark.sparkContext.addJobTag(tag)
    try:
        place.begin()
        spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
        yield place
    except BaseException:
        place.end()
        raise
    else:
        place.clear()
    finally:
        spark.sparkContext.removeJobTag(tag)
        spark.conf.set(_TIMES, before)


def _running(tracker: Any, tag: str) -> bool:
    """Tell whether tasks of jobs with a tag run."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
    stages = [stage for job in jobs if job.isDefined() for stage in job.get().stageIds()]
    found = [tracker.getStageInfo(stage) for stage in stages]
    return any(stage.isDefined() and stage.get().numActiveTasks() for stage in found)
