"""Relations of 100,000 records and as many values, which DuckDB and Spark make by themselves from a series.

So many that products of two counts, or of two ranks, are beyond 32 bits, and beyond 64 bits times 10^12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from duckanon.audits.portable import audit_names
from tests.engines.worlds import DERIVED, World, reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckanon.audits.portable import Engine

# Class 0 has 5,095 of the records, 999 others 95 each; 100003 is a prime, so that no two values are the same. More in
# one class is not to be: Spark adds up what follows a row from anew for each (CURRENT ROW AND UNBOUNDED FOLLOWING).
CLASS = "CASE WHEN i < 5000 THEN 0 ELSE i % 1000 END"
VALUE = "i * 7919 % 100003"
SERIES = "range(100000) AS n(i)"


class Numbers(NamedTuple):
    """A relation as a query that both engines read as it stands, but for the name of integers of 128 bits."""

    query: str

    def select(self, engine: Engine) -> str:
        """Give the SELECT that makes it."""
        return self.query if engine == "duckdb" else self.query.replace("HUGEINT", "DECIMAL(38, 0)")


def columns(value: str, rows: str = "TRUE") -> Numbers:
    """Give three numeric columns, one of them constant; `value` is SQL over the number of the record."""
    values = {"a": value, "b": f"({value}) % 1000 + i % 7", "c": "7"}
    return Numbers(" UNION ALL ".join(
        f"SELECT i AS record, '{name}' AS attribute, CAST({sql} AS DOUBLE) AS value FROM {SERIES} WHERE {rows}"
        for name, sql in values.items()
    ))  # fmt: skip


QUERIES = {
    "class_member": f"SELECT {CLASS} AS class, {VALUE} AS value FROM {SERIES}",
    "class_subject": f"SELECT {CLASS} AS class, {VALUE} % 20000 AS value FROM {SERIES}",
    "class_superset": "SELECT i AS class, 0 AS superset FROM range(1000) AS n(i) "
    "UNION ALL SELECT i, 1 + i % 7 FROM range(1000) AS n(i)",
    "class_rank": "SELECT i AS class, p AS place, i * (3 + p) % 97 + 1 AS rank FROM range(1000) AS n(i), (VALUES (1), (2)) AS q(p)",
    "superset_bound": "SELECT i AS superset, 1 + j AS place, i % 90 AS first, i % 90 + 7 AS last FROM range(250) AS n(i), range(2) AS m(j)",
    "class_number": "SELECT i AS class, 'age' AS attribute, CAST(i % 90 AS DOUBLE) AS value FROM range(1000) AS n(i)",
    "contribution": f"SELECT {CLASS} AS class, 'pay' AS attribute, i AS contributor, {VALUE} - 50000 AS value FROM {SERIES}",
    "joint_place": " UNION ALL ".join(
        f"SELECT i AS value, {part} AS attribute, {place} AS place, 100002 AS steps, {ordered} AS ordered FROM range(100003) AS n(i)"
        for part, place, ordered in ((1, "i", "TRUE"), (2, "i % 7", "FALSE"))
    ),
    "joint_kind": "SELECT FALSE AS largest",
    "joint_scale": "SELECT CAST(200004 AS BIGINT) AS denominator",
    "joint_pair": f"SELECT {VALUE} AS from_value, ({VALUE} + 1) % 100003 AS to_value FROM {SERIES}",
    "joint_flow": f"SELECT {CLASS} AS class, {VALUE} AS from_value, ({VALUE} + 1) % 100003 AS to_value, i * 99991 AS mass FROM {SERIES}",
    "joint_potential": f"SELECT {CLASS} AS class, {VALUE} AS value, i * 99991 AS potential FROM {SERIES}",
    "population": f"SELECT i % 1100 AS class FROM {SERIES}",
    "release_record": f"SELECT i % 3 = 0 AS is_new, i % 1000 AS class, i % 70000 AS combination FROM {SERIES}",
    "release_value": f"SELECT i % 3 = 0 AS is_new, i % 1000 AS class, 's' AS attribute, {VALUE} % 60000 AS value FROM {SERIES}",
    "subset_class": f"SELECT i % 28 AS subset, {CLASS} AS class, 1 + i % 9 AS class_size FROM {SERIES}",
    "threshold": "SELECT 3 AS k, CAST(1.5 AS DECIMAL(18, 12)) AS l, CAST(3000000000001 AS HUGEINT) AS c, "
    "CAST(0.3 AS DECIMAL(18, 12)) AS t, CAST(50000 AS BIGINT) AS n, 1 AS level, 10 AS p, 100 AS p_of, 4 AS k_of, "
    "CAST(0.5 AS DECIMAL(18, 12)) AS alpha, '7' AS named, CAST(1.1 AS DECIMAL(18, 12)) AS delta, "
    "CAST(1 AS DECIMAL(18, 12)) AS beta, CAST(0.7 AS DECIMAL(18, 12)) AS enhanced_beta, "
    "CAST(5 AS BIGINT) AS subset",
    "tree": " UNION ALL ".join(
        f"SELECT i AS value, {level} AS level, {node} AS node FROM range(100003) AS n(i)"
        for level, node in enumerate(("concat(i)", "concat(i % 100)", "'all'"))
    ),
    "verdict": "SELECT 2 AS place, 't_closeness' AS measure, 's' AS attribute, CAST(0.25 AS DOUBLE) AS threshold, i AS class, "
    f"1 + i % 9 AS class_size, CAST(i % 1024 AS DOUBLE) / 1024 AS value, i % 1024 > 256 AS violated FROM {SERIES}",
}  # fmt: skip
RELATIONS = {name: Numbers(query) for name, query in QUERIES.items()} | {
    "original": columns(VALUE),
    "released": columns(f"{VALUE} - ({VALUE}) % 10", "i % 100 > 0"),
}


def large(relation: str = "", maker: str = "") -> World:
    """Give the world, in which an audit makes a relation of `DERIVED`, else the first that can."""
    makers = {name: audits[0] for name, audits in DERIVED.items()}
    return World(RELATIONS, makers | ({relation: maker} if relation else {}))


def cases() -> Iterator[Any]:
    """Give every audit with its world; with several where more than one audit makes what it reads."""
    for audit in audit_names():
        choices = [name for name in reads(audit) if len(DERIVED.get(name, ())) > 1]
        for relation in choices:
            for maker in DERIVED[relation]:
                yield pytest.param(audit, large(relation, maker), id=f"{audit}-{maker}")
        if not choices:
            yield pytest.param(audit, large(), id=audit)
