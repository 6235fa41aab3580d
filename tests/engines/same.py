"""Whether two engines gave the same rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]
# Some results are differences of nearly equal numbers, so beside 10^-12 of the value 10^-12 itself is enough.
TOLERANCE = 1e-12


def assert_same(found: Sequence[Row], wanted: Sequence[Row]) -> None:
    """Assert that rows are the same in any order: doubles but for rounding, all else exactly."""
    assert len(found) == len(wanted), (found, wanted)
    if not wanted:
        return
    assert all(list(row) == list(wanted[0]) for row in found), (list(found[0]), list(wanted[0]))
    rounded = {name for row in wanted for name, value in row.items() if isinstance(value, float | dict)}
    keys = [name for name in wanted[0] if name not in rounded]
    pairs = zip(_sorted(found, keys), _sorted(wanted, keys), strict=True)
    for ours, theirs in pairs:
        assert all(same(ours[name], value) for name, value in theirs.items()), f"{ours} is not {theirs}"


def _sorted(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    return sorted(
        rows, key=lambda row: (repr([row[name] for name in keys]), repr([*map(_number, row.values())]))
    )


def _number(value: Any) -> Any:
    """Give a number as a float, so that rows with equal keys have one order on every engine."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def same(found: Any, wanted: Any) -> bool:
    """Tell whether a value that came as JSON is one of DuckDB."""
    if isinstance(wanted, float):
        return isinstance(found, int | float | str) and math.isclose(
            float(found), wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE
        )
    if isinstance(wanted, dict):
        held = _map(found)
        return held.keys() == wanted.keys() and all(same(held[key], wanted[key]) for key in wanted)
    return type(found) is type(wanted) and bool(found == wanted)


def _map(found: Mapping[str, Any]) -> dict[Any, Any]:
    """Give a map from l as Spark's worker writes it, or from a JSON object with l as text."""
    pairs = found["map"] if "map" in found else [(int(key), value) for key, value in found.items()]
    return dict(pairs)
