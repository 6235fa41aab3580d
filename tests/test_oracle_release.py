"""The oracle of recoding and of whole releases: hand calculation and random tables."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given, settings

from tests import oracle
from tests.examples import examples
from tests.oracle_recode import class_value, recoded, same_value
from tests.oracle_release import assert_ordered_by_values, assert_release_valid
from tests.strategies import TREE, Case, cases, load, records_of


@pytest.mark.parametrize(
    ("recode", "duckdb_type", "values", "expected"),
    [
        ("mean", "INTEGER", [1, 2], 2),
        ("mean", "INTEGER", [-1, -2], -2),
        ("mean", "INTEGER", [1, 1, 2], 1),
        ("mean", "INTEGER", [3, None, 4, None], 4),
        ("mean", "INTEGER", [None, None], None),
        ("mean", "BIGINT", [2**63 - 1, 2**63 - 1, 2**63 - 2], 2**63 - 1),
        ("mean", "DECIMAL(9,2)", [Decimal("0.01"), Decimal("0.02")], Decimal("0.02")),
        ("mean", "DECIMAL(9,2)", [Decimal("-0.01"), Decimal("-0.02")], Decimal("-0.02")),
        ("mean", "DOUBLE", [1.0, 2.0], 1.5),
        ("mean", "DATE", [date(2000, 2, 28), date(2000, 2, 29)], date(2000, 2, 29)),
        ("mean", "DATE", [date(1969, 12, 30), date(1969, 12, 31)], date(1969, 12, 30)),
        ("mean", "TIMESTAMP", [datetime(2000, 1, 1), datetime(2000, 1, 2)], datetime(2000, 1, 1, 12)),
        (
            "mean",
            "TIMESTAMP",
            [datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1)],
            datetime(1970, 1, 1, 0, 0, 0, 1),
        ),
        (
            "mean",
            "TIMESTAMP_S",
            [datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 3)],
            datetime(1970, 1, 1, 0, 0, 2),
        ),
        ("median", "INTEGER", [9, 1, 2], 2),
        ("median", "INTEGER", [9, 1, 2, 3], 3),
        ("median", "INTEGER", [None, 7], 7),
        ("mode", "VARCHAR", ["b", "a", "b", "a", "c"], "a"),
        ("mode", "VARCHAR", [None, "b"], "b"),
        ("mode", "VARCHAR", [None, None, "b"], None),
        ("mode", "BOOLEAN", [True, False], False),
        ("range", "INTEGER", [4, None, 2, 3], {"low": 2, "high": 4}),
        ("range", "DATE", [None], None),
        ("set", "VARCHAR", ["b", None, "a", "b"], ["a", "b", None]),
    ],
)
def test_class_values_worked_by_hand(recode: str, duckdb_type: str, values: list[Any], expected: Any) -> None:
    found = class_value(values, recode, duckdb_type)
    assert found == expected
    assert type(found) is type(expected)


def test_means_are_exact_beyond_doubles() -> None:
    # In doubles the three sum to 0; exactly they sum to 1.
    assert class_value([1e300, -1e300, 1.0], "mean", "DOUBLE") == 1 / 3
    assert same_value(0.0, 1 / 3, largest=1e300)
    assert not same_value(0.0, 1 / 3)
    assert not same_value(1, True)


def test_recoded_replaces_values_class_by_class() -> None:
    rows = [{"age": 20, "charge": 5}, {"age": 30, "charge": 6}, {"age": 23, "charge": 7}]
    found = recoded(rows, [0, 1, 0], recode={"age": "mean"}, types={"age": "INTEGER"})
    assert found == [{"age": 22, "charge": 5}, {"age": 30, "charge": 6}, {"age": 22, "charge": 7}]


SOURCE: list[dict[str, Any]] = [
    {"name": f"p{i}", "age": age, "city": city, "charge": charge}
    for i, (age, city, charge) in enumerate([(20, "a", 1), (21, "a", 3), (40, "b", 2), (44, None, 4)])
]
RELEASE: list[dict[str, Any]] = [
    {"age": 21, "city": "a", "charge": 1},
    {"age": 21, "city": "a", "charge": 3},
    {"age": 42, "city": "b", "charge": 2},
    {"age": 42, "city": "b", "charge": 4},
]
# Ordered EMD of {1, 3} and {2, 4} among 1 2 3 4: sums of p - q are 1 0 1 quarters, a step is 1/3: 1/6.
POLICY: dict[str, Any] = {
    "identifiers": "name",
    "quasi_identifiers": ["AGE", "city"],
    "sensitive": ["charge"],
    "k": 2,
    "l": 2,
    "t": Decimal("0.16666666666666666667"),
}


def test_a_valid_release_passes() -> None:
    assert_release_valid(SOURCE, RELEASE, POLICY)
    assert_release_valid(SOURCE[:3], RELEASE[:2], {**POLICY, "suppression_limit": 0.34, "t": 0.5})
    assert_release_valid(SOURCE, [{**row, "city": None} for row in RELEASE], {**POLICY, "t": 1})
    without_null = [{**row, "charge": charge} for row, charge in zip(RELEASE[:2], (1, 3), strict=True)]
    assert_release_valid([*SOURCE[:2], SOURCE[3]], without_null, {**POLICY, "nulls": "suppress", "t": 1})


@pytest.mark.parametrize(
    ("release", "changes", "reason"),
    [
        ([{"name": "p0", **row} for row in RELEASE], {}, "columns"),
        ([dict(reversed(row.items())) for row in RELEASE], {}, "columns"),
        (RELEASE[:3], {}, "suppressed"),
        (RELEASE, {"k": 3}, "a class of 2"),
        (RELEASE, {"l": 3}, "not distinct 3-diverse"),
        (RELEASE, {"t": 0.166666}, "EMD 1/6"),
        (RELEASE, {"t": 0.2, "distance": {"charge": "equal"}}, "EMD 1/2"),
        ([{**row, "charge": 1} for row in RELEASE], {}, "so often"),
        ([*RELEASE, RELEASE[0]], {}, "so often"),
        ([{**row, "charge": float(row["charge"])} for row in RELEASE], {}, "types"),
        ([{**row, "age": str(row["age"])} for row in RELEASE], {}, "types"),
        ([{**row, "age": 30 + (row["age"] == 42)} for row in RELEASE], {}, "total"),
        ([{**row, "age": row["age"] + 3} for row in RELEASE], {}, "outside"),
        ([{**row, "age": None} for row in RELEASE], {}, "NULL is released"),
        ([{**row, "city": "z"} for row in RELEASE], {"t": 1}, "not a value"),
        ([{**RELEASE[0], "city": "b"}, *RELEASE[1:]], {}, "a class of 1"),
        ([], {}, "empty"),
        (RELEASE, {"sensitive": ["charges"]}, "names no column"),
    ],
)
def test_an_invalid_release_fails(
    release: list[dict[str, Any]], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AssertionError, match=reason):
        assert_release_valid(SOURCE, release, {**POLICY, **changes})


def test_hierarchical_verdicts_use_the_tree() -> None:
    # {a, d} among a b d e: in each half of the tree 1/4 moves to the neighbour, at height 1 of 2: 1/4.
    source = [{"age": age, "letter": letter} for age, letter in ((1, "a"), (1, "d"), (2, "b"), (2, "e"))]
    policy = {
        "quasi_identifiers": ["age"],
        "sensitive": ["letter"],
        "k": 2,
        "distance": {"letter": "hierarchical"},
    }
    assert_release_valid(source, source, policy | {"t": 0.25}, trees={"letter": TREE})
    with pytest.raises(AssertionError, match="EMD 1/4"):
        assert_release_valid(source, source, policy | {"t": 0.249999}, trees={"letter": TREE})


def test_order_by_values() -> None:
    rows: list[dict[str, Any]] = [
        {"q": 1, "s": "b"},
        {"q": 2, "s": "a"},
        {"q": 2, "s": None},
        {"q": None, "s": "a"},
    ]
    assert_ordered_by_values(rows)
    with pytest.raises(AssertionError, match="order"):
        assert_ordered_by_values(rows[::-1])


@given(case=cases(hierarchies=False))
@settings(max_examples=examples(60))
def test_one_single_class_is_valid_exactly_if_the_case_is_not_refused(case: Case) -> None:
    # One class has EMD 0 and the table's own l: it is the release that always exists (Li 2007, Fact 2).
    assume(case.refusal != "nulls")
    names = [name for name, _ in case.columns if name not in case.policy.get("identifiers", [])]
    types = dict(case.columns)
    recode = {
        name: (case.policy.get("recode") or {}).get(name)
        or ("mean" if oracle.default_distance(row[name] for row in case.usable) == "ordered" else "mode")
        for name in case.policy["quasi_identifiers"]
    }
    whole = recoded(case.usable, [0] * len(case.usable), recode=recode, types=types)
    released = [{name: row[name] for name in names} for row in whole]
    if case.refusal is None:
        assert_release_valid(case.records, released, case.policy, trees=case.trees)
        return
    with pytest.raises(AssertionError, match=r"empty|a class of|-diverse"):
        assert_release_valid(case.records, released, case.policy, trees=case.trees)


@given(case=cases(hierarchies=False))
@settings(max_examples=examples(25))
def test_a_case_is_loaded_as_it_is(case: Case) -> None:
    with duckdb.connect() as connection:
        load(connection, case, 'a "table"')
        back = records_of(connection, 'a "table"')
        types = [(row[0], row[1]) for row in connection.execute('DESCRIBE "a ""table"""').fetchall()]
    assert [[oracle.key(v) for v in row.values()] for row in back] == [
        [oracle.key(v) for v in r] for r in case.rows
    ]
    assert types == list(case.columns)
