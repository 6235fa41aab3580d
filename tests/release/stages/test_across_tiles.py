"""What tiles cannot repair alone is merged or left out across them: the release is valid, its means those of its classes.

Tiles of 32 records instead of 16,384 make a small table one of many tiles; the oracle is tests/oracle_release.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.release.stages import bucket, repair
from tests.oracle_release import assert_release_valid
from tests.strategies import records_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

N = 400

POLICIES: dict[str, dict[str, Any]] = {
    "merged": {"t": "0.03"},
    "left out, then merged": {"t": "0.03", "suppression_limit": "0.2"},
    "merged by Algorithm 1": {"t": "0.03", "method": "kanonymity_first"},
}


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("how", POLICIES)
def test_a_repair_across_tiles_keeps_the_policy(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "TILE", 32)
    monkeypatch.setattr(bucket, "BROAD_TILE", 32)
    repaired: list[NDArray[np.int64]] = []
    mended = repair.mended

    def seen(*given: Any) -> Any:
        labels, classes = mended(*given)
        repaired.append(labels)
        return labels, classes

    monkeypatch.setattr(repair, "mended", seen)
    draw = np.random.default_rng(6)
    people = {
        "age": draw.normal(size=N),
        "weight": draw.normal(size=N) * 1e-5,
        "ward": draw.integers(0, 9, N),
        "pay": draw.integers(0, 40, N),
    }
    policy = {"quasi_identifiers": ["age", "weight", "ward"], "sensitive": ["pay"], "k": 3, **POLICIES[how]}
    with duckanon.connect() as con:
        con.duckdb.register("people", pa.table(people))
        con.sql("CREATE TABLE staff AS FROM people")
        duckanon.anonymize(con, "staff", duckanon.Policy(**policy), name="v")
        source, released = records_of(con.duckdb, "staff"), records_of(con.duckdb, "v")
    assert_release_valid(source, released, policy)
    (labels,) = repaired
    assert len(released) == (labels >= 0).sum()
    assert ("left out" in how) == (len(released) < N)
