"""Apache Spark in a process and an environment of its own, which is ``<our environment>/spark``.

pyspark is some 500 MB and needs Java, so it is kept out of our environment. ``DUCKANON_SPARK_PYTHON`` may name a
Python that has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.engines.relations import Answer, Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MISSING = (
    'pyspark is missing: python3 -m venv .venv/spark && .venv/spark/bin/python -m pip install "pyspark>=4.1,<4.2", '
    "or set DUCKANON_SPARK_PYTHON to a Python that has it"
)
WITHOUT = (
    "the environment of Spark lacks what duckanon needs: .venv/spark/bin/python -m pip install -e '.[spark]'"
)
NO_JAVA = "Spark 4.1 needs Java 17 or later: no java in JAVA_HOME or on the PATH, or an older one"


def find() -> Path | None:
    """The Python that has pyspark, or None."""
    named = os.environ.get("DUCKANON_SPARK_PYTHON")
    python = Path(named) if named else Path(sys.prefix) / "spark" / "bin" / "python"
    if not python.is_file():
        return None
    done = subprocess.run([python, "-c", "import pyspark"], capture_output=True, check=False, timeout=120)
    return python if done.returncode == 0 else None


def has_all(python: Path) -> bool:
    """Tell whether that Python has what releases on Spark need, too."""
    needed = "import pyspark, pandas, duckdb, numba, pyarrow, jinja2, sqlglot"
    done = subprocess.run([python, "-c", needed], capture_output=True, check=False, timeout=120)
    return done.returncode == 0


def java_is_there() -> bool:
    """Tell whether there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        return False
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=120)
    version = re.search(r'version "(\d+)', done.stderr)
    return version is not None and int(version[1]) >= 17


class Spark:
    """A running Spark; a context manager.

    Parameters
    ----------
    python : Path
        As `find` gives it.
    environment : mapping, optional
        Variables of that process and of the tasks beside those of this one.
    """

    def __init__(self, python: Path, environment: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="spark")  # Spark makes folders where it runs
        self._process = subprocess.Popen(
            [python, Path(__file__).with_name("spark_worker.py")],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        shutil.rmtree(self._folder)

    def ask(self, jobs: Sequence[Job], settings: Mapping[str, str] | None = None) -> list[Answer]:
        """Answers to some jobs; settings are those of Spark SQL."""
        written = [
            {"views": list(job.views.items()), "query": job.query, "settings": settings or {}} for job in jobs
        ]
        answers = self._send(jobs=written)["answers"]
        return [Answer(found.get("rows", []), found.get("error")) for found in answers]

    def run(self, script: str) -> str:
        """Give what a script prints in that process."""
        return str(self._send(script=script)["printed"])

    def _send(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark did not answer {str(request)[:200]}")
        reply: dict[str, Any] = json.loads(line)
        return reply
