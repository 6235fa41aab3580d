"""One Spark for all tests of releases: starting it takes seconds."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.engines import spark
from tests.spark.running import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Spark with two tasks at a time, which knows this project."""
    python = spark.find()
    if python is None:
        pytest.skip(spark.MISSING)
    if not spark.java_is_there():
        pytest.skip(spark.NO_JAVA)
    if not spark.has_all(python):
        pytest.skip(spark.WITHOUT)
    folder: Path = tmp_path_factory.mktemp("spark")
    with Running(python, folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)
