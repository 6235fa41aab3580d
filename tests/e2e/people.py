"""A table with every kind of column, and a way to run what was suggested for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckanon.errors import InfeasibleError

if TYPE_CHECKING:
    import duckanon
    from duckanon.suggestion import Suggestion

PEOPLE = """
CREATE TABLE people AS
SELECT
    1000 + i AS patient_id,
    'Person ' || chr(65 + (i % 26)::INTEGER) || i AS full_name,
    'user' || i || '@example.org' AS contact,
    '+49 30 ' || (1000000 + i * 37) AS reach_me,
    DATE '1930-01-01' + CAST(hash(i) % 25000 AS INTEGER) AS dob,
    lpad(CAST(hash(i + 7) % 90 + 10000 AS VARCHAR), 5, '0') AS zip,
    CASE WHEN hash(i + 1) % 2 = 0 THEN 'f' ELSE 'm' END AS sex,
    CAST(hash(i + 2) % 90 AS INTEGER) AS x,
    (hash(i + 3) % 300) * 100 AS charge,
    'd' || hash(i + 4) % 6 AS diagnosis,
    'seen on day ' || i || ', came back with the same complaint, see letter' AS remark,
    'north' AS wing,
    [i, i + 1] AS visits,
    {'a': i} AS extra,
    'x'::BLOB AS scan
FROM range(300) AS r(i)
"""


def run(con: duckanon.Connection, found: Suggestion) -> list[dict[str, Any]]:
    """Run the statement as it is; only thresholds out of reach may stop it."""
    assert found.statement is not None
    try:
        relation = con.sql(found.statement)
    except InfeasibleError:
        return []
    assert relation is not None
    rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert rows
    assert all(row["passed"] in (True, None) for row in rows)
    return rows
