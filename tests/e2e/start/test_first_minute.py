"""The first release of a process: it loads what it needs, and nothing that takes a tenth of a second more."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.scenes import ROOT

RELEASE = """
import sys
sys.modules["scipy"] = None  # numba imports scipy if it is there; users need not have it
import duckanon
con = duckanon.connect()
con.execute("CREATE TABLE p AS SELECT hash(i) % 6000 / 7 AS a, hash(i + 900) % 50 AS b FROM range(300) r(i)")
con.execute("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a, b), k = 3, effort = 'fast')")
con.execute("EXPLAIN ANONYMIZED VIEW v").fetchall()
print([name for name in ("pandas", "pyarrow.compute", "rich", "duckanon.streams") if name in sys.modules])
"""


def test_the_first_release_loads_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RELEASE],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout == "[]\n"
