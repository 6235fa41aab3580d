"""The first cells of a notebook, in a Jupyter kernel that has no ipywidgets."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_client.blocking.client import BlockingKernelClient

CELLS = {
    "import duckanon; con = duckanon.connect()": None,
    "con.sql('CREATE TABLE p AS SELECT i % 3 AS age, i AS pay FROM range(12) AS r(i)')": None,
    (
        "con.sql('CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (age), sensitive = (pay), k = 4)')"
    ): "k_anonymity",
    "duckanon.audit(con, 'v', duckanon.AuditPolicy(quasi_identifiers='age', k=4))": "passed",
    "con.sql('SELECT count(*) AS classes FROM (SELECT DISTINCT age FROM v)').fetchall()": "[(3,)]",
    "import pyarrow as pa": None,
    (
        "duckanon.anonymize_table(pa.table({'age': [1, 1, 2, 2]}), duckanon.Policy(quasi_identifiers='age', k=2))"
        ".to_pydict()"
    ): "{'age': [1, 1, 2, 2]}",
    "con.sql('EXPORT ANONYMIZED VIEW v TO \\'v.duckdb\\'')": "k_anonymity",
    "con.close()": None,
}
"""What a cell must show, by its text; None where it shows nothing. Three ages, each of four records."""


@pytest.fixture
def kernel(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingKernelClient]:
    """Give a kernel that runs in an empty folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_the_first_cells_run(kernel: BlockingKernelClient) -> None:
    assert importlib.util.find_spec("ipywidgets") is None, "with ipywidgets DuckDB refuses no setting"
    for cell, expected in CELLS.items():
        shown: list[dict[str, Any]] = []
        reply = kernel.execute_interactive(cell, output_hook=shown.append, timeout=120, allow_stdin=False)
        assert reply["content"]["status"] == "ok", reply["content"].get("traceback")
        texts = [
            str(message["content"]["data"]) for message in shown if message["msg_type"] == "execute_result"
        ]
        assert [expected in text for text in texts] == ([] if expected is None else [True]), (cell, shown)
