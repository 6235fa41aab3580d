"""``release_intersection`` beside a slow count in Python, on random pairs of small releases.

The expected rows are counted with multisets of Python, record by record, from the words of sql/README.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.audits.macros import macro_statement
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

ages, zips = st.sampled_from([1, 2, None]), st.sampled_from(["x", None])
ills, pays = st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2])
record = st.tuples(ages, zips, ills, pays)
release = st.lists(record, min_size=1, max_size=14)
Table = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(macro_statement("release_intersection", temporary=True))
        yield connection


def fewer(number: int, least: int) -> bool:
    return 0 < abs(number) < least


def expected(before: Table, then: Table, k: int, l: int) -> list[tuple[Any, ...]]:  # noqa: E741 - its name
    """Rows of the report without those that are not judged: measure, attribute, value, violations, records."""
    gone, came = Counter(before) - Counter(then), Counter(then) - Counter(before)
    classes: dict[Any, tuple[Table, Table]] = defaultdict(lambda: ([], []))
    for side, table in enumerate((before, then)):
        for row in table:
            classes[row[:2]][side].append(row)
    difference = len(then) - len(before)
    values = {
        name: [Counter(row[place] for row in table) for table in (before, then)]
        for place, name in ((2, "ill"), (3, "pay"))
    }
    moved = {name: ((one - two).total(), (two - one).total()) for name, (one, two) in values.items()}
    changed = max(abs(difference), *(max(pair) for pair in moved.values()))
    unlike = bool(gone or came)
    rows: list[tuple[Any, ...]] = [
        (
            "records_difference",
            None,
            difference,
            fewer(difference, k),
            fewer(difference, k) * abs(difference),
        ),
        ("records_changed", None, changed, unlike and changed < k, (unlike and changed < k) * changed),
    ]
    for measure, rest in (("rows_removed", gone), ("rows_added", came)):
        by_class = Counter[Any]()
        for row, number in rest.items():
            by_class[row[:2]] += number
        bad = [number for number in by_class.values() if number < k]
        rows.append((measure, None, rest.total(), len(bad), sum(bad)))
    sizes = [abs(len(one) - len(two)) for one, two in classes.values() if one and two]
    bad = [size for size in sizes if fewer(size, k)]
    rows.append(("class_size_difference", None, sum(sizes), len(bad), sum(bad)))
    for side, measure in enumerate(("values_removed", "values_added")):
        for name, pair in moved.items():
            rows.append((measure, name, pair[side], fewer(pair[side], k), fewer(pair[side], k) * pair[side]))
    for place, name in ((2, "ill"), (3, "pay")):
        both = [
            ({row[place] for row in one}, {row[place] for row in two}, len(two))
            for one, two in classes.values()
            if one and two
        ]
        least = min((len(one & two) for one, two, _ in both), default=None)
        bad = [size for one, two, size in both if min(len(one), len(two)) >= l > len(one & two)]
        rows.append(("common_values", name, least, len(bad), sum(bad)))
    totals = [sum(Fraction(row[0]) for row in table if row[0] is not None) for table in (before, then)]
    told = totals[0] != totals[1] and changed < k
    rows.append(("sum_difference", "age", totals[1] - totals[0], told, told * changed))
    return [(*row[:2], None if row[2] is None else float(row[2]), int(row[3]), int(row[4])) for row in rows]


@settings(max_examples=examples(60), deadline=None)
@given(before=release, then=release, k=st.integers(1, 4), l=st.integers(1, 3), near=st.booleans())
def test_it_counts_what_a_slow_reader_counts(
    con: duckdb.DuckDBPyConnection,
    before: Table,
    then: Table,
    k: int,
    l: int,  # noqa: E741 - l-diversity has this name everywhere
    near: bool,
) -> None:
    if near:
        # Two releases of the same data have most rows in common.
        then = before[1:] + then[:2]
    for name, table in (("before", before), ("then", then)):
        con.execute(f'CREATE OR REPLACE TABLE "{name}" (age INTEGER, zip VARCHAR, ill VARCHAR, pay INTEGER)')
        con.executemany(f'INSERT INTO "{name}" VALUES (?, ?, ?, ?)', table)
    rows = con.execute(
        "FROM release_intersection('before', 'then', ['age', 'zip'], ['ill', 'pay'], k := ?, l := ?)", [k, l]
    ).fetchall()
    judged = [row for row in rows if row[2] is not None]
    assert [(row[0], row[1], row[3], row[5], row[6]) for row in judged] == expected(before, then, k, l)
    assert all(row[7] == (row[5] == 0) for row in judged)
    keys = [{row[:2] for row in table} for table in (before, then)]
    assert {row[4] for row in rows} == {len(keys[0] | keys[1])}
    assert [row[3] for row in rows if row[2] is None] == [
        len(keys[0] & keys[1]), len(keys[0] - keys[1]), len(keys[1] - keys[0]),
    ]  # fmt: skip
