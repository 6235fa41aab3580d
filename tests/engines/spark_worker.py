"""Answers of Apache Spark, line by line; it runs in an environment of its own and imports nothing of this project.

A line of input is JSON: ``jobs``, each with ``views`` (pairs of name and SELECT, made in this order), ``query``
and ``settings`` (of Spark SQL); or ``script``, Python text that is run. The answer gives for each job ``rows``
(mappings from column to value) or ``error``, and for a script what it ``printed``. A map is ``{"map": pairs}``,
a decimal an integer where its scale is 0, else text.

Spark starts once. Small tables want no code generation, few partitions and a compiler that starts fast; there
are two partitions, so that ties come in any order and groups are put together from parts.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from decimal import Decimal
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def plain(value: Any) -> Any:
    """Give a value as JSON can hold it."""
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else str(value)
    if isinstance(value, dict):
        return {"map": [[plain(key), plain(held)] for key, held in value.items()]}
    if isinstance(value, Row):
        return [plain(held) for held in value]
    return value


def answer(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    """Give the rows of a job, or the first line of its error."""
    changed = {name: spark.conf.get(name) for name in job["settings"]}
    try:
        for name, value in job["settings"].items():
            spark.conf.set(name, value)
        for name, select in job["views"]:
            spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS {select}")
        found = spark.sql(job["query"])
        rows = [dict(zip(found.columns, map(plain, row), strict=True)) for row in found.collect()]
    except PySparkException as error:
        return {"error": str(error).strip().split("\n")[0]}
    except Py4JJavaError as error:
        # What fails while a side of a join is sent to all tasks comes in an exception that pyspark does not know.
        return {"error": str(error.java_exception.getMessage()).strip().split("\n")[0]}
    finally:
        for name, value in changed.items():
            spark.conf.set(name, value)
        for name, _ in job["views"]:
            spark.catalog.dropTempView(name)
    return {"rows": rows}


def run(script: str) -> str:
    """Give what a script prints; it finds the session that is there."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(script, "script", "exec"), {})
    return printed.getvalue()


def main() -> None:
    """Answer until the input ends."""
    # Java writes warnings where Python writes answers, so the answers get a channel of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]").appName("audits")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        request = json.loads(line)
        if "script" in request:
            reply: dict[str, Any] = {"printed": run(request["script"])}
        else:
            reply = {"answers": [answer(spark, job) for job in request["jobs"]]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
