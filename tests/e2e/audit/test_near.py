"""(n, t)-closeness through AUDIT TABLE, Python and the command line, judged by the definition in fractions."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon import AuditPolicy
from duckanon.audits.certificate import SUPERSETS_MAX, Supersets
from duckanon.audits.run import audit_attributes
from duckanon.cli.main import main
from duckanon.policy.bind import bind_audit
from duckanon.testing import assert_private
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duckanon.audits.report import Report

Row = tuple[Any, ...]

FLOORS = [
    (ward, floor, cold)
    for ward, cold in (("4.1", "flu"), ("4.2", "cold"))
    for floor in (0, 1)
    for _ in range(2)
]
"""Four floors in two wards: by hand, a floor is as its ward, and 1/2 from the table."""
KINDS = {
    "VARCHAR": ["a", "b", "C", "ä", None],
    "INTEGER": [3, 10, 20, 21, None],
    "DOUBLE": [-1.5, 0.0, 2.0, float("nan"), None],
}


def order_of(value: Any) -> tuple[bool, bool, Any]:
    """Key of a value as DuckDB sorts: text by bytes, NaN above numbers, NULL last."""
    if value is None or value != value:
        return value is None, True, 0
    return False, False, value.encode() if isinstance(value, str) else value


def ranks(values: Sequence[Any]) -> list[int]:
    """Dense ranks from 1."""
    keys = list(map(order_of, values))
    known = sorted(set(keys))
    return [known.index(key) + 1 for key in keys]


def emd(part: Sequence[int], whole: Sequence[int], m: int, *, ordered: bool) -> Fraction:
    """Distance of two lists of ranks among m values: the sums of Li et al. 2007, section 5."""
    p, q = Counter(part), Counter(whole)
    gaps = [Fraction(p[v], len(part)) - Fraction(q[v], len(whole)) for v in range(1, m + 1)]
    if not ordered:
        return sum(map(abs, gaps), Fraction(0)) / 2
    return sum((abs(sum(gaps[:i], Fraction(0))) for i in range(1, m + 1)), Fraction(0)) / max(m - 1, 1)


def nearest(
    rows: Sequence[Row], places: int, bounds: Sequence[Row], n: int, *, ordered: bool
) -> dict[tuple[int, ...], Fraction | None]:
    """Distance of each class to its nearest superset of n records; None if there is no such superset."""
    rank = list(zip(*(ranks([row[p] for row in rows]) for p in range(places)), strict=True))
    value = ranks([row[places] for row in rows])
    sets = [range(len(rows))]
    for superset in {row[0] for row in bounds}:
        own = [row[1:] for row in bounds if row[0] == superset]
        sets.append(
            [
                i
                for i in range(len(rows))
                if all(
                    any(low <= rank[i][p - 1] <= high for of, low, high in own if of == p)
                    for p in {row[0] for row in own}
                )
            ]
        )
    found = {}
    for one in set(rank):
        members = [i for i in range(len(rows)) if rank[i] == one]
        holding = [each for each in [*sets, members] if members[0] in each and len(each) >= n]
        part = [value[i] for i in members]
        found[one] = min(
            (emd(part, [value[i] for i in each], max(value), ordered=ordered) for each in holding),
            default=None,
        )
    return found


def stored(con: duckanon.Connection, rows: Sequence[Row], kinds: Sequence[str]) -> None:
    names = ("a", "b", "s")
    con.execute(
        f"CREATE OR REPLACE TABLE visits ({', '.join(f'{n} {k}' for n, k in zip(names, kinds, strict=True))})"
    )
    con.execute(
        f"INSERT INTO visits VALUES {', '.join('(?, ?, ?)' for _ in rows)}",
        [cell for row in rows for cell in row],
    )


def bounds_of(report: Report) -> list[Row]:
    assert report.supersets is not None
    return [tuple(row.values()) for row in report.supersets.bounds.to_pylist()]


def given(
    con: duckanon.Connection, policy: AuditPolicy, bounds: Sequence[Row], kinds: Sequence[str]
) -> Report:
    columns = [pa.array([row[i] for row in bounds], pa.int64()) for i in range(4)]
    boxes = Supersets(pa.table(dict(zip(("superset", "place", "first", "last"), columns, strict=True))))
    attributes = bind_audit(policy, list(zip(("a", "b", "s"), kinds, strict=True)))
    return audit_attributes(con.duckdb, "visits", attributes, policy, {}, name="visits", supersets=boxes)


def judged(report: Report, found: dict[tuple[int, ...], Fraction | None], t: Fraction) -> None:
    """Compare the measure with the oracle."""
    (measure,) = [one for one in report.measures if one.measure == "nt_closeness"]
    worst = [float("inf") if one is None else float(one) for one in found.values()]
    assert measure.value == pytest.approx(max(worst), abs=1e-12)
    beyond = [one for one in found.values() if one is None or one > t]
    assert measure.violations == len(beyond)
    assert measure.passed is (not beyond)
    values = sorted(float("inf") if one is None else float(one) for one in beyond)
    assert sorted(one.value for one in report.violations if one.measure == "nt_closeness") == pytest.approx(
        values, abs=1e-12
    )
    (plain,) = [one for one in report.measures if one.measure == "t_closeness"]
    assert (plain.threshold, plain.passed) == (None, None)


@pytest.fixture
def con() -> duckanon.Connection:
    connection = duckanon.connect()
    connection.execute("CREATE TABLE floors (ward VARCHAR, floor INTEGER, diagnosis VARCHAR)")
    connection.execute(f"INSERT INTO floors VALUES {', '.join(map(str, FLOORS))}")
    return connection


@pytest.mark.parametrize(
    ("n", "line"),
    [
        (2, (0.1, 0.0, 4, 0, 0, True)),
        (4, (0.1, 0.0, 4, 0, 0, True)),
        (5, (0.1, 0.5, 4, 4, 8, False)),
        (9, (0.1, float("inf"), 4, 4, 8, False)),
    ],
)
def test_the_statement_by_hand(con: duckanon.Connection, n: int, line: Row) -> None:
    """A floor has 2 records, its ward 4, the table 8."""
    rows = con.execute(
        f"AUDIT TABLE floors WITH (quasi_identifiers = (ward, floor), sensitive = diagnosis, t = 0.1, n = {n})"
    ).fetchall()
    names = [row[0] for row in rows]
    assert names.index("nt_closeness") == names.index("average_class_size") - 1
    assert next(row for row in rows if row[0] == "t_closeness")[2:] == (None, 0.5, 4, None, None, None)
    assert [row for row in rows if row[0] == "nt_closeness"] == [("nt_closeness", "diagnosis", *line)]


@pytest.mark.parametrize("searched", [False, True])
def test_random_tables_by_the_definition(*, searched: bool) -> None:
    rng = np.random.default_rng(31 + searched)
    con = duckanon.connect()
    for _ in range(examples(500, few=8)):
        kinds = [str(rng.choice(list(KINDS))) for _ in range(3)]
        rows = [tuple(KINDS[kind][rng.integers(0, 5)] for kind in kinds) for _ in range(rng.integers(1, 40))]
        stored(con, rows, kinds)
        ordered = bool(rng.integers(0, 2)) or kinds[2] == "DOUBLE"
        n, bounds = (
            int(rng.integers(1, 25)),
            [
                (int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(low), int(low + rng.integers(0, 4)))
                for low in rng.integers(1, 5, 8)
            ],
        )
        found = nearest(rows, 2, bounds, n, ordered=ordered)
        known = sorted(one for one in found.values() if one)
        t = Fraction(str(float(known[len(known) // 2]))) if known else Fraction(1, 10)
        policy = AuditPolicy(
            quasi_identifiers=["a", "b"], sensitive="s", t=str(float(t)), n=n,
            distance={"s": "ordered" if ordered else "equal"},
        )  # fmt: skip
        t = Fraction(str(policy.t))
        if searched:
            report = duckanon.audit(con, "visits", policy)
            judged(report, nearest(rows, 2, bounds_of(report), n, ordered=ordered), t)
            without = nearest(rows, 2, [], n, ordered=ordered)
            assert next(
                one.violations or 0 for one in report.measures if one.measure == "nt_closeness"
            ) <= sum(one is None or one > t for one in without.values())
        else:
            judged(given(con, policy, bounds, kinds), found, t)


def test_a_box_of_one_record_less_is_no_superset() -> None:
    """Six records, the class a = 1 has x, its box a <= 2 has x, x, x, y: 1/4 away; the table is 1/2 away."""
    con = duckanon.connect()
    rows = [(1, 0, "x"), (1, 0, "x"), (2, 0, "x"), (2, 0, "y"), (3, 0, "y"), (3, 0, "y")]
    kinds = ["INTEGER", "INTEGER", "VARCHAR"]
    stored(con, rows, kinds)
    for n, t, beyond in ((4, "0.25", 0), (4, "0.249999999999", 1), (5, "0.25", 1)):
        policy = AuditPolicy(quasi_identifiers=["a", "b"], sensitive="s", t=t, n=n)
        report = given(con, policy, [(1, 1, 1, 2), (2, 1, 2, 3)], kinds)
        (measure,) = [one for one in report.measures if one.measure == "nt_closeness"]
        assert measure.violations == 2 * beyond
        where = [one.class_values["a"] for one in report.violations]
        assert where == ["1", "3"][: 2 * beyond]


def test_the_report_carries_its_boxes(con: duckanon.Connection) -> None:
    policy = AuditPolicy(quasi_identifiers=["ward", "floor"], sensitive="diagnosis", t=0.1, n=4)
    report = duckanon.audit(con, "floors", policy)
    assert bounds_of(report) == [(1, 1, 1, 1), (1, 2, 1, 2), (2, 1, 2, 2), (2, 2, 1, 2)]
    assert "supersets" not in json.loads(report.to_json())
    assert "no natural superset" not in " ".join(report.warnings)
    none = duckanon.audit(con, "floors", policy.override(t=0.1, n=5))
    assert not none.passed
    assert "no natural superset was found for the classes that violate" in " ".join(none.warnings)
    assert (
        duckanon.audit(
            con, "floors", AuditPolicy(quasi_identifiers="ward", sensitive="diagnosis", t=1)
        ).supersets
        is None
    )


def test_the_command_line_asks_for_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "floors.csv"
    file.write_text("ward,floor,diagnosis\n" + "".join(f"{','.join(map(str, row))}\n" for row in FLOORS))
    command = ["audit", str(file), "--qi", "ward,floor", "--sensitive", "diagnosis", "-t", "0.1", "--n"]
    for n, code in (("4", 0), ("5", 1)):
        with pytest.raises(SystemExit) as left:
            main([*command, n])
        assert left.value.code == code
        assert "nt_closeness" in capsys.readouterr().out


def test_more_records_than_the_table_has_are_told(con: duckanon.Connection) -> None:
    policy = AuditPolicy(quasi_identifiers=["ward", "floor"], sensitive="diagnosis", t=0.1, n=9)
    report = duckanon.audit(con, "floors", policy)
    assert report.warnings == (
        "n = 9 is more than the records of the table, so no group is large enough for any class",
    )


def test_a_test_suite_asks_for_n(con: duckanon.Connection) -> None:
    asked: Any = {"quasi_identifiers": ["ward", "floor"], "sensitive": "diagnosis", "t": 0.1, "con": con}
    assert assert_private("floors", n=4, **asked).passed
    with pytest.raises(AssertionError, match="nt_closeness of diagnosis is 0"):
        assert_private("floors", n=5, **asked)


def test_more_classes_than_boxes_get_the_boxes_of_most() -> None:
    """Pairs 0..299 tell x or y alone, each as its neighbour: boxes of 4 records hold one pair of classes each."""
    con = duckanon.connect()
    con.execute(
        "CREATE TABLE pairs AS SELECT i AS a, 0 AS b, CAST(i // 2 AS VARCHAR) AS s "
        "FROM range(600) AS n(i), range(2)"
    )
    policy = AuditPolicy(quasi_identifiers=["a", "b"], sensitive="s", t=0.5, n=4)
    report = duckanon.audit(con, "pairs", policy)
    assert len({row[0] for row in bounds_of(report)}) <= SUPERSETS_MAX
    (measure,) = [one for one in report.measures if one.measure == "nt_closeness"]
    assert measure.violations is not None
    assert 0 < measure.violations <= 600 - 2 * SUPERSETS_MAX
