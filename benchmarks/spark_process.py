"""Separate processes that run programs in the environment of Spark, and the figures that they print."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.bars import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MEASURE = """
import json, os, sys, threading, time
from pathlib import Path

EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"

def stats():
    # Of every process what stat says, and whether it is an executor.
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().split(b"\\0")
            found[int(folder.name)] = fields, EXECUTOR in command
        except OSError:
            continue
    return found

def below(found, first):
    # A process and those that it has begun.
    known, grown = {first}, True
    while grown:
        grown = {pid for pid, (fields, _) in found.items() if int(fields[1]) in known} - known
        known |= grown
    return [found[pid][0] for pid in known if pid in found]

def processes():
    used = (sum(map(int, fields[11:15])) for fields in below(stats(), os.getpid()))
    return sum(used) / os.sysconf("SC_CLK_TCK")

def session(master):
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master(master).config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).count()
    return spark
"""
"""Code for CPU seconds of a process with all child processes, and for a started session."""


def command(python: Path, program: str, *arguments: object) -> tuple[list[str], dict[str, str]]:
    """Return the command of a program and its environment."""
    environment = {
        "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), "PATH": "/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    return [str(python), "-c", MEASURE + program, *map(str, arguments)], environment


def answer(python: Path, program: str, *arguments: object, folder: Path) -> dict[str, Any]:
    """Run a program in a folder, and return the JSON object that it prints last."""
    words, environment = command(python, program, *arguments)
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
