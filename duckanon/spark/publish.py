"""Publish: the audited folder gets its name in one step; after a failure nothing is there."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from duckanon.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CANCEL_WAIT_SECONDS = 30
"""Seconds to wait for cancelled tasks: Spark ends the Python of a task after some two seconds."""

_JAVA_ENDED_ERRORS = (Py4JError, ConnectionError)
"""Errors of the driver when Java has ended."""

_PATTERN = "*?[]{}\\"
"""Characters that make a path a pattern for Hadoop, which then reads other folders, or none."""

_DESCRIPTION = "spark.job.description"
_WRITE_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Settings with which other engines read the same times and dates."""


@dataclass(frozen=True)
class ReleasePlace:
    """The path of a release, and the working folder beside it."""

    spark: SparkSession
    path: str
    aside: str
    tag: str  # tag of all jobs of the release, and description of its queries

    def folder(self, name: str) -> str:
        """Return the path of a folder inside the working folder."""
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
        """Move a folder of the work to the path; a ReleaseError if something else is there by now."""
        files, made = self._files(folder)
        _, target = self._files(self.path)
        if files.exists(target) or not files.rename(made, target):
            raise ReleaseError(f"{self.path!r} exists by now, or cannot be written: nothing was released")

    def exists(self) -> bool:
        """Whether something is at the path."""
        files, target = self._files(self.path)
        return bool(files.exists(target))

    def begin(self) -> None:
        """Make the working folder, for its owner alone; Java removes it if Python is killed."""
        files, aside = self._files(self.aside)
        files.mkdirs(aside)
        owner = self.spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission("700")
        files.setPermission(aside, owner)
        files.deleteOnExit(aside)

    def clear(self) -> None:
        """Remove the working folder."""
        files, aside = self._files(self.aside)
        files.delete(aside, True)

    def end(self) -> None:
        """Remove the working folder of a failed release after its last job has ended.

        Java continues cancelled jobs for a while, and would make the folder again.
        """
        until = time.monotonic() + CANCEL_WAIT_SECONDS
        while time.monotonic() < until:
            self.spark.sparkContext.cancelJobsWithTag(self.tag)
            if not (self._jobs_run() or self._queries_run()):
                break
            time.sleep(0.1)
        self.clear()

    def _jobs_run(self) -> bool:
        """Whether tasks of the release are running."""
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self.tag)]
        stages = [stage for job in jobs if job.isDefined() for stage in job.get().stageIds()]
        found = [tracker.getStageInfo(stage) for stage in stages]
        return any(stage.isDefined() and stage.get().numActiveTasks() for stage in found)

    def _queries_run(self) -> bool:
        """Whether a query of the release is running: a query may make folders before its first job."""
        found = self.spark._jsparkSession.sharedState().statusStore().executionsList()
        queries = (found.apply(place) for place in range(found.size()))
        return any(one.description() == self.tag and not one.completionTime().isDefined() for one in queries)

    def _files(self, path: str) -> tuple[Any, Any]:
        """Return the file system of a path, and the path on it."""
        context = self.spark.sparkContext
        found = context._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(context._jsc.hadoopConfiguration()), found


@contextlib.contextmanager
def place_of(spark: SparkSession, path: str) -> Iterator[ReleasePlace]:
    """Give the place of a release, and remove the working folder at the end.

    A ReleaseError if something is at the path, or Spark could not read the path back.
    """
    odd = next((character for character in path if character in _PATTERN), None)
    if odd is not None:
        raise ReleaseError(
            f"{path!r} has {odd} in it, and Spark reads such a path as a pattern: "
            f"choose a path with none of {' '.join(_PATTERN)}"
        )
    clean = path.rstrip("/")
    folder, slash, name = clean.rpartition("/")
    # Readers ignore names that begin with "_". The folder holds records that are not anonymized yet.
    tag = f"duckanon-{uuid.uuid4().hex}"
    place = ReleasePlace(spark, clean, f"{folder}{slash}_{name}.{tag}", tag)
    if place.exists():
        raise ReleaseError(
            f"{path!r} exists and a release never overwrites: remove it or choose another path"
        )
    before = {name: spark.conf.get(name) for name in _WRITE_SETTINGS}
    context = spark.sparkContext
    described = context.getLocalProperty(_DESCRIPTION)
    context.addJobTag(tag)
    try:
        context.setLocalProperty(_DESCRIPTION, tag)
        place.begin()
        for name, value in _WRITE_SETTINGS.items():
            spark.conf.set(name, value)
        yield place
    except BaseException as failure:
        _end(place, failure)
        raise
    else:
        place.clear()
    finally:
        # If Java has ended, its settings are gone, too: the first error is reported.
        with contextlib.suppress(*_JAVA_ENDED_ERRORS):
            context.removeJobTag(tag)
            context.setLocalProperty(_DESCRIPTION, described)
            for name, value in before.items():
                spark.conf.set(name, value)


def _end(place: ReleasePlace, failure: BaseException) -> None:
    """Remove the working folder of a failed release; if Spark has ended, a ReleaseError names the folder."""
    try:
        place.end()
    except _JAVA_ENDED_ERRORS:
        raise ReleaseError(
            "Spark stopped, and what it had made was not removed: remove "
            f"{place.aside!r}, which may hold records that nobody has anonymized"
        ) from failure
