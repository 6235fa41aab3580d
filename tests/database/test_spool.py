"""Rows that wait on disk: what was added comes back, nothing is left of it, and a full disk is an error of ours."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from duckanon.database import spool
from duckanon.database.spool import Spool, spool_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("in_memory", [0, spool.BYTES_IN_MEMORY])
def test_what_is_added_comes_back_as_often_as_it_is_read(
    in_memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BYTES_IN_MEMORY", in_memory or 1)
    rows = Spool(tmp_path)
    for first in range(0, 300, 100):
        rows.add({"record_id": np.arange(first, first + 100), "mean": np.full(100, first / 8)})
    rows.add({"record_id": np.arange(0), "mean": np.full(0, np.nan)})
    rows.add({"record_id": np.array([300]), "mean": np.array([np.nan])})
    with duckdb.connect() as con:
        for _ in range(2):
            con.register("waiting", rows.read())
            found = con.execute(
                "SELECT count(*), sum(record_id), sum(mean), count(mean) FROM waiting"
            ).fetchall()
            assert found == [(301, 300 * 301 // 2, 100 * (12.5 + 25), 300)]
            con.unregister("waiting")
    columns = rows.columns()
    assert columns["record_id"].tolist() == list(range(301))
    assert np.isnan(columns["mean"][300])
    assert not list(tmp_path.iterdir())


def test_few_rows_are_gathered_and_are_what_they_were_when_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a row each would cost more than the rows; an array may be used anew after it was added."""
    monkeypatch.setattr(spool, "ROWS_PER_WRITE", 10)
    rows, used = Spool(tmp_path), np.zeros(4, dtype=np.int64)
    for first in range(0, 28, 4):
        used[:] = np.arange(first, first + 4)
        rows.add({"record_id": used})
    rows.add({"record_id": np.arange(28, 40)})
    batches = [batch.column(0).to_pylist() for batch in rows.read()]
    assert [len(batch) for batch in batches] == [12, 12, 16]
    assert [number for batch in batches for number in batch] == list(range(40))


def test_its_file_is_closed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not closed is a ResourceWarning, which is an error here."""
    monkeypatch.setattr(spool, "BYTES_IN_MEMORY", 1)
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(spool, "ROWS_PER_WRITE", 1000)
    rows = Spool(tmp_path)
    rows.add({"record_id": np.arange(1000)})
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del rows
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from duckanon.database.spool import Spool
from duckanon.errors import DuckanonError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
rows = Spool(Path(sys.argv[1]))
try:
    for _ in range(400):
        rows.add({"record_id": np.arange(int(sys.argv[2]))})
except DuckanonError as full:
    print(full)
"""


@pytest.mark.sampled
@pytest.mark.parametrize(("rows", "size"), [(125_000, 1_000_000), (50_000, 800_000)])
def test_a_full_disk_is_told_with_its_place(rows: int, size: int, tmp_path: Path) -> None:
    """Of a process that may not write more than 20 MB into a file; 50,000 rows wait for as many more."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(rows)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"no room for {size} bytes more in {tmp_path} (")
    assert "SET temp_directory" in done.stdout
    assert not list(tmp_path.iterdir())


def test_it_waits_where_duckdb_spills(tmp_path: Path) -> None:
    with duckdb.connect(config={"temp_directory": str(tmp_path)}) as con:
        assert spool_folder(con) == tmp_path
    with duckdb.connect(config={"temp_directory": str(tmp_path / "none")}) as con:
        assert spool_folder(con) is None
    with duckdb.connect(config={"temp_directory": ""}) as con:
        assert spool_folder(con) is None
