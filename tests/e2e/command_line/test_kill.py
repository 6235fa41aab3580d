"""A process killed with SIGKILL while it publishes leaves the old view intact (issue, "Bad input gets")."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.e2e.scenes import CREATE, QI, ROOT, patients
from tests.examples import examples
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from pathlib import Path

# Stops in the middle of publishing: when the metadata of the new release was written and COMMIT was not.
PROGRAM = """
import sys, time
import duckanon
from duckanon.release import publish
def stop(*arguments, **named):
    print("publishing", flush=True)
    time.sleep(60)
setattr(publish, sys.argv[2], stop)
con = duckanon.connect(sys.argv[1])
con.execute("DELETE FROM patients WHERE id < 30")
con.sql("REFRESH ANONYMIZED VIEW v")
"""


@pytest.mark.sampled
@pytest.mark.parametrize("stopped_at", ["_trees", "_record"])
def test_kill_9_while_publishing(tmp_path: Path, stopped_at: str) -> None:
    file = tmp_path / "p.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), stopped_at],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "publishing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with duckdb.connect(str(file)) as con:
        cursor = con.execute("FROM v")
        names = [column[0] for column in cursor.description]
        released = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert len(released) == 60
        assert k_anonymity(released, QI) >= 3
        assert con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'duckanon' AND regexp_matches(table_name, '_[0-9]') ORDER BY ALL"
        ).fetchall() == [("persons_1",), ("release_1",), ("values_1",)]
        assert con.execute("SELECT release_id FROM duckanon.releases").fetchall() == [(1,)]


def test_kill_9_at_any_moment(tmp_path: Path) -> None:
    """Killed after growing delays, wherever that is: the view is the old release or the new one, never another."""
    file = tmp_path / "p.duckdb"
    with patients(file) as con:
        con.sql(CREATE)
    for attempt in range(0, 6, 6 // examples(6, few=3)):
        program = f"import duckanon; con = duckanon.connect({str(file)!r}); print('ready', flush=True)\nwhile True: con.sql('REFRESH ANONYMIZED VIEW v')"
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.15 + 0.23 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with duckdb.connect(str(file)) as con:
            assert con.execute("SELECT count(*) FROM v").fetchall() == [(60,)]
            assert con.execute(
                "SELECT min(n) >= 3 FROM (SELECT count(*) AS n FROM v GROUP BY age, zip)"
            ).fetchall() == [(True,)]
            assert con.execute("SELECT count(*) FROM duckanon.releases").fetchall() == [(1,)]
