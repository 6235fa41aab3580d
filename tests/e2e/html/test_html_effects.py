"""What the HTML report says of change and loss, against records that stand side by side and against assignment.

The report does not know which record became which: its bounds are compared with the cheapest and the dearest
assignment that scipy finds among the pairs of records that agree in the columns released as they were.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from duckanon.audits.html.comparison import Effect, Matching, effect, matching, overall
from duckanon.audits.html.copies import STAGE, copied
from duckanon.database.relations import columns_of
from duckanon.policy import bind
from duckanon.policy.policy import AuditPolicy
from tests.e2e import pages
from tests.e2e.html_scene import page_of
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def measured(
    con: duckdb.DuckDBPyConnection, original: pd.DataFrame, released: pd.DataFrame, quasi: list[str]
) -> tuple[Matching, dict[str, Effect]]:
    con.register("before", original)
    con.register("after", released)
    con.execute("CREATE OR REPLACE TEMP TABLE o AS FROM before; CREATE OR REPLACE TEMP TABLE r AS FROM after")
    return compared(con, quasi)


def compared(con: duckdb.DuckDBPyConnection, quasi: list[str]) -> tuple[Matching, dict[str, Effect]]:
    """Effects of a release r on its original o."""
    columns = columns_of(con, "r", STAGE)
    attributes = bind.bind_audit(AuditPolicy(quasi_identifiers=quasi), columns)
    others = [column for column in columns if column[0] not in quasi]
    with copied(con, "r", attributes, others, original="o") as copies:
        found = matching(copies)
        assert found is not None
        return found, {one.name: effect(copies, found, one, k=2) for one in copies.columns}


def ways(
    original: pd.DataFrame, released: pd.DataFrame, by: list[str], cost: Callable[[Any, Any], float]
) -> tuple[float, float]:
    """Least and most total cost of giving every released record a record of the original that agrees in `by`."""
    low = high = 0.0
    old = original.groupby(by, dropna=False).indices if by else {(): np.arange(len(original))}
    new = released.groupby(by, dropna=False).indices if by else {(): np.arange(len(released))}
    for key, rows in new.items():
        partners = next(values for other, values in old.items() if other == key or str(other) == str(key))
        costs = np.array([[cost(original.iloc[o], released.iloc[r]) for o in partners] for r in rows])
        for maximize in (False, True):
            chosen = costs[linear_sum_assignment(costs, maximize=maximize)].sum()
            low, high = (low, high + chosen) if maximize else (low + chosen, high)
    return low, high


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """An original, a release of it in other order, and the columns that were released as they are."""
    n = draw(st.integers(2, 12))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    original = pd.DataFrame({
        "age": pd.array(column(st.integers(0, 6)), dtype="Int64"),
        "town": pd.array(column(st.sampled_from(["a", "b", "c", None])), dtype="string"),
        "job": pd.array(column(st.sampled_from(["x", "y"])), dtype="string"),
        "ward": pd.array(column(st.integers(0, draw(st.sampled_from([0, 2, 9])))), dtype="Int64"),
    })  # fmt: skip
    released = original.copy()
    released["age"] = pd.array(column(st.integers(0, 6) | st.just(None)) if draw(st.booleans()) else
                               column(st.integers(-3, 9)), dtype="Int64")  # fmt: skip
    released["town"] = pd.array(column(st.sampled_from(["a", "b", "c", None])), dtype="string")
    kept = draw(st.integers(1, n)) if draw(st.booleans()) else n
    order = draw(st.permutations(range(n)))[:kept]
    by = ["job", "ward"]
    if draw(st.booleans()):
        released["job"] = "z"
        by = ["ward"]
    return original, released.iloc[order].reset_index(drop=True), by


def differs(name: str) -> Callable[[Any, Any], float]:
    def cost(old: Any, new: Any) -> float:
        missing = [pd.isna(value) for value in (old[name], new[name])]
        return float(missing[0] != missing[1] if any(missing) else old[name] != new[name])

    return cost


def check_bounds(original: pd.DataFrame, released: pd.DataFrame, by: list[str]) -> None:
    """Every figure lies where it may, and is what the assignments say."""
    with duckdb.connect() as con:
        found, effects = measured(con, original, released, ["age", "town"])
    n = len(released)
    assert sorted(pair.new.name for pair in found.used) == by
    assert found.possible
    fitting = [(original[by] == released.loc[row, by]).all(axis=1).sum() for row in range(n)]
    assert found.certain == sum(count == 1 for count in fitting)
    for name in ("age", "town"):
        changed = effects[name].changed
        assert changed is not None
        assert 0 <= changed.least <= changed.most <= 1
        assert (n * changed.least, n * changed.most) == pytest.approx(
            ways(original, released, by, differs(name))
        )
    if len(by) == 1:
        assert effects["job"].changed == (1, 1)
    check_numbers(original, released, by, effects["age"])


def check_numbers(original: pd.DataFrame, released: pd.DataFrame, by: list[str], found: Effect) -> None:
    """Of the groups that are whole: as many records in both tables, and no number missing."""
    whole = []
    for key, rows in released.groupby(by).indices.items():
        same = (original[by] == pd.Series(key, index=by)).all(axis=1)
        if same.sum() == len(rows) and not released["age"].iloc[rows].isna().any():
            whole.append((original[same], released.iloc[rows]))
    assert found.over == sum(len(new) for _, new in whole)
    if not whole:
        assert found.moved is found.loss is None
        return
    old, new = (pd.concat(side) for side in zip(*whole, strict=True))
    variance = float(np.var(original["age"].to_numpy(dtype=float)))
    for span, power, unit in ((found.moved, 1, 1.0), (found.loss, 2, variance)):
        bounds = ways(old, new, by, lambda a, b, power=power: abs(float(a["age"]) - float(b["age"])) ** power)
        if not unit:
            assert span == ((0, 0) if bounds[1] == 0 else None)
            continue
        assert span is not None
        assert 0 <= span.least <= span.most
        assert tuple(span) == pytest.approx([bound / len(new) / unit for bound in bounds], rel=1e-8)


@pytest.mark.slow
@given(tables())
@settings(max_examples=examples(300, few=15), deadline=None)
def test_the_bounds_of_change_and_loss_are_those_of_all_assignments(
    case: tuple[pd.DataFrame, pd.DataFrame, list[str]],
) -> None:
    check_bounds(*case)


def test_the_bounds_are_those_of_all_permutations() -> None:
    """By trying all 120 ways to pair five records, which no column matches."""
    original = pd.DataFrame({"age": [1, 2, 2, 5, 9], "town": list("aabbc")})
    released = pd.DataFrame({"age": [2, 2, 3, 5, 5], "town": list("aaaab")})
    with duckdb.connect() as con:
        found, effects = measured(con, original, released, ["age", "town"])
    assert found.used == ()
    orders = [list(order) for order in itertools.permutations(range(5))]
    ages, towns = original["age"].to_numpy(), original["town"].to_numpy()
    moved = [np.abs(ages[order] - released["age"]).mean() for order in orders]
    squared = [((ages[order] - released["age"]) ** 2).mean() / ages.var() for order in orders]
    changed = [(towns[order] != released["town"]).mean() for order in orders]
    assert effects["age"].moved == pytest.approx((min(moved), max(moved)))
    assert effects["age"].loss == pytest.approx((min(squared), max(squared)))
    assert effects["town"].changed == pytest.approx((min(changed), max(changed)))
    mean = overall([effects["age"], effects["town"]])
    assert mean == pytest.approx(((min(squared) + min(changed)) / 2, (max(squared) + max(changed)) / 2))


def test_a_release_with_records_of_its_own_is_told_as_such(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE few AS SELECT i % 3 AS q, i AS s FROM range(6) AS r(i)")
    con.execute("CREATE TABLE many AS SELECT i % 3 AS q, i % 6 AS s FROM range(9) AS r(i)")
    policy = AuditPolicy(quasi_identifiers="q", sensitive="s", k=2)
    root = pages.tree(page_of(con, "many", policy, original="few"))
    assert "The release has 9 records and the original 6" in pages.text(root)
    # Of nine released values only six can come from the original.
    assert pages.cells(root, "What changed")[1][1:3] == ["33.33 % to 100 %", "–"]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("CASE WHEN i % 2 = 0 THEN i END", "CASE WHEN i % 2 = 0 THEN i END", 0),
        ("i::INTEGER", "i::DOUBLE", 0),
        ("0.0::DOUBLE", "-0.0::DOUBLE", 0),
        ("'NaN'::DOUBLE", "'NaN'::DOUBLE", 0),
        ("i", "CASE WHEN i >= 2 THEN i END", 0.25),
        ("i", "{'low': i, 'high': i + i // 4}", 0.5),
        ("('a' || i % 2)::ENUM('a0', 'a1')", "'a0'", 0.5),
        ("DATE '2000-01-01' + i::INTEGER", "TIMESTAMP '2000-01-01' + INTERVAL 1 DAY * i", 0),
        ("[i]", "[i // 2 * 2]", 0.5),
        ("'A' COLLATE NOCASE", "'a' COLLATE NOCASE", 1),
        ("i", "'a' || i", None),
    ],
)
def test_what_counts_as_changed(
    con: duckdb.DuckDBPyConnection, before: str, after: str, changed: float | None
) -> None:
    """By hand, of eight records that a key matches."""
    con.execute(f"CREATE TABLE o AS SELECT {before} AS q, i AS s FROM range(8) AS r(i)")
    con.execute(f"CREATE TABLE r AS SELECT {after} AS q, i AS s FROM range(8) AS r(i)")
    _, effects = compared(con, ["q"])
    assert effects["q"].changed == (None if changed is None else (changed, changed))
