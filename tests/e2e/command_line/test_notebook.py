"""Notebooks in a Jupyter kernel that has no ipywidgets: first cells, and the notebooks of examples."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.notebooks import NOTEBOOKS, code_cells, executed, kernel, texts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

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


@pytest.fixture(autouse=True)
def _no_widgets() -> None:
    assert importlib.util.find_spec("ipywidgets") is None, "with ipywidgets DuckDB refuses no setting"


def test_the_first_cells_run(tmp_path: Path) -> None:
    with kernel(tmp_path) as client:
        for cell, expected in CELLS.items():
            shown = texts(executed(client, cell))
            assert [expected in text for text in shown] == ([] if expected is None else [True]), (cell, shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_stores(path: Path, tmp_path: Path) -> None:
    """``python -m tests.e2e.notebooks`` stores the outputs anew."""
    with kernel(tmp_path) as client:
        for cell in code_cells(json.loads(path.read_text("utf-8"))):
            source = "".join(cell["source"])
            assert texts(executed(client, source)) == texts(cell["outputs"]), source
