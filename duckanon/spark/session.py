"""The session of Spark: its versions and settings are checked before the first job."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from typing import TYPE_CHECKING

from duckanon.errors import MissingExtra, PolicyError, ReleaseError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_ERROR = re.compile(r"[A-Za-z_][\w.]*: |\[[A-Z_.]+\]")
"""Begin of a line that names an error."""

_NOT_OWN = ("at ", "File ", "...", "JVM", "Suppressed: ")
"""Begins of lines of a stack trace."""

SPARK_VERSION, JAVA_VERSION, PANDAS_VERSION, NEXT_PANDAS_VERSION = (4, 1), 17, (2, 2), (3,)


def check_pyspark() -> None:
    """Raise a MissingExtra unless pyspark and pandas, which pyspark needs for Arrow, are installed."""
    for package in ("pyspark", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"duckanon.spark needs {package}: pip install 'duckanon[spark]'")
    found = _version(importlib.import_module("pandas").__version__)
    if not PANDAS_VERSION <= found < NEXT_PANDAS_VERSION:
        raise MissingExtra(
            f"pandas {'.'.join(map(str, found))}: Spark needs 2.2 or later and below 3; "
            "run pip install 'duckanon[spark]'"
        )


def check_session(frame: DataFrame) -> SparkSession:
    """Session of a DataFrame; a PolicyError for a version or setting that would give wrong results."""
    spark = frame.sparkSession
    if frame.isStreaming:
        raise PolicyError("the DataFrame is a stream: write it to a table, or use duckanon.anonymize_stream")
    if _version(spark.version) < SPARK_VERSION:
        raise PolicyError(f"Spark {spark.version}: 4.1 or later is needed")
    if not hasattr(spark, "_jsc"):
        raise PolicyError(
            "Spark Connect hands over no broadcast variables: use a session on the cluster itself"
        )
    java = str(spark.sparkContext._jvm.java.lang.System.getProperty("java.specification.version"))
    if _version(java)[0] < JAVA_VERSION:
        raise PolicyError(f"Java {java}: Spark 4.1 needs {JAVA_VERSION} or later")
    if spark.conf.get("spark.sql.ansi.enabled") != "true":
        raise PolicyError(
            "spark.sql.ansi.enabled is off: a sum that is too large would be NULL, and not an error; "
            "set it to true"
        )
    return spark


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an error of Spark into one line with the reason and, if known, the remedy."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as stopped:
        lines = [line.strip().removeprefix(": ") for line in str(stopped).splitlines()]
        own = [line for line in lines if line and not line.startswith(_NOT_OWN)]
        why = next((line for line in reversed(own) if _ERROR.match(line)), own[0] if own else "no reason")
        lacks = "No module named" in why or "MissingExtra" in why
        help_of = ": PYSPARK_PYTHON names the Python of the tasks, which needs duckanon" if lacks else ""
        raise ReleaseError(f"Spark stopped: {why}{help_of}") from stopped


def frame(source: str, form: str, master: str | None) -> DataFrame:
    """DataFrame of a file or folder, in the present session or a new one."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    # Tasks need the packages of this interpreter; on a cluster the user sets the interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("duckanon")
    if master is not None:
        builder = builder.master(master)
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    options = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    try:
        return spark.read.format(form).options(**options).load(source)
    except AnalysisException as unread:
        why = str(unread).strip().splitlines()[0]
        raise SourceError(f"{source!r} cannot be read as {form}: {why}") from unread


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
