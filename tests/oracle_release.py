"""Is a release what its policy promises? Brute force over the source and the released rows alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracle import (
    class_emds,
    classes,
    counts,
    default_distance,
    exact,
    key,
    reaches_l,
)
from tests.oracle_recode import digits_of
from tests.oracle_shares import asked_of, keeps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.oracle import Row, Tree


@dataclass(frozen=True)
class Roles:
    """Columns of the source by role, each in source order and in the source's spelling."""

    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    identifiers: tuple[str, ...]

    @classmethod
    def of(cls, policy: Mapping[str, Any], columns: Sequence[str]) -> Roles:
        """Return the roles that the options of a policy give to the columns."""
        named = {role: _names(policy.get(role)) for role in ("quasi_identifiers", "sensitive", "identifiers")}
        chosen = {r: tuple(c for c in columns if c.lower() in names) for r, names in named.items()}
        assert all(len(chosen[r]) == len(names) for r, names in named.items()), "a role names no column"
        return cls(**chosen)


def assert_release_valid(
    source: Sequence[Row],
    released: Sequence[Row],
    policy: Mapping[str, Any],
    *,
    trees: Mapping[str, Tree] | None = None,
) -> None:
    """Fail unless the released rows are a release of the source rows under the policy.

    Checked from the two tables alone: columns, types, range of the recoded values, the multiset of all values
    that are released as they are, the number of suppressed records, and k, l and t of every class, exactly.

    Parameters
    ----------
    source, released : sequence of rows
        All rows, in any order; at least one each; columns in their order.
    policy : mapping
        Options of WITH by name; numbers as the decimal that is written.
    trees : mapping, optional
        Rows of the hierarchy table of each column with a hierarchical distance.
    """
    assert released, "the release is empty"
    roles = Roles.of(policy, list(source[0]))
    expected = [name for name in source[0] if name not in roles.identifiers]
    assert list(released[0]) == expected, f"columns {list(released[0])} instead of {expected}"
    dropped_nulls = policy.get("nulls") == "suppress"
    kept = [r for r in source if not dropped_nulls or all(r[q] is not None for q in roles.quasi_identifiers)]
    _check_untouched(kept, released, [name for name in expected if name not in roles.quasi_identifiers])
    limit = exact(policy.get("suppression_limit", 0)) * len(source)
    suppressed = len(kept) - len(released)
    assert suppressed <= limit, f"{suppressed} records suppressed, {limit} allowed"
    for name in roles.quasi_identifiers:
        recode = _recode(policy, kept, name)
        _check_recoded(kept, released, name, recode)
        if recode == "mean" and not suppressed:
            _check_total(kept, released, name)
    _check_thresholds(released, roles, policy, trees or {})


def assert_swap_valid(
    source: Sequence[Row],
    released: Sequence[Row],
    policy: Mapping[str, Any],
    *,
    trees: Mapping[str, Tree] | None = None,
) -> None:
    """Fail unless the released rows are those of the source with quasi-identifiers dealt anew within classes.

    As `assert_release_valid`, where the column class_id, the first one, tells the classes, and each
    quasi-identifier alone has the values of the source, no oftener.
    """
    roles = Roles.of(policy, list(source[0]))
    expected = [name for name in source[0] if name not in roles.identifiers]
    assert list(released[0]) == ["class_id", *expected]
    dropped_nulls = policy.get("nulls") == "suppress"
    kept = [r for r in source if not dropped_nulls or all(r[q] is not None for q in roles.quasi_identifiers)]
    _check_untouched(kept, released, [name for name in expected if name not in roles.quasi_identifiers])
    for name in roles.quasi_identifiers:
        _check_untouched(kept, released, [name])
    assert len(kept) - len(released) <= exact(policy.get("suppression_limit", 0)) * len(source)
    assert sorted({row["class_id"] for row in released}) == list(
        range(max(r["class_id"] for r in released) + 1)
    )
    _check_thresholds(released, replace(roles, quasi_identifiers=("class_id",)), policy, trees or {})


def assert_anatomy_valid(
    source: Sequence[Row],
    first: Sequence[Row],
    second: Sequence[Row],
    policy: Mapping[str, Any],
    *,
    trees: Mapping[str, Tree] | None = None,
) -> None:
    """Fail unless two tables are the records of the source, divided, and keep k, the l of Xiao and Tao 2006, and t.

    The first has class_id and all columns but the sensitive ones; the second counts, for each class, how many
    records have which sensitive values. t is that of the second table alone: a class from all classes.
    """
    roles = Roles.of(policy, list(source[0]))
    expected = [name for name in source[0] if name not in roles.identifiers]
    persons = [name for name in expected if name not in roles.sensitive]
    held = [name for name in expected if name in roles.sensitive]
    assert list(first[0]) == ["class_id", *persons]
    assert list(second[0]) == ["class_id", *held, "records"]
    dropped_nulls = policy.get("nulls") == "suppress"
    kept = [r for r in source if not dropped_nulls or all(r[q] is not None for q in roles.quasi_identifiers)]
    values = [row for row in second for _ in range(row["records"])]
    _check_untouched(kept, first, persons)
    _check_untouched(kept, values, held)
    assert len(kept) - len(first) <= exact(policy.get("suppression_limit", 0)) * len(source)
    sizes = Counter(row["class_id"] for row in first)
    assert sizes == Counter(row["class_id"] for row in values)
    assert sorted(sizes) == list(range(len(sizes)))
    assert min(sizes.values()) >= policy["k"]
    thresholds = {name: value for name, value in policy.items() if name in ("k", "t", "distance")}
    alone = replace(roles, quasi_identifiers=("class_id",))
    _check_thresholds(values, alone, thresholds, trees or {})
    for name in held if policy.get("l") is not None else ():
        for (number, _), records in Counter((row["class_id"], key(row[name])) for row in values).items():
            assert records * policy["l"] <= sizes[number], f"{records} of {sizes[number]} have one {name}"


def assert_ordered_by_values(released: Sequence[Row]) -> None:
    """Fail unless the rows are in the order of their values, column by column, NULL last, 0.0 before -0.0."""
    keys = [tuple((key(value), str(value) == "-0.0") for value in row.values()) for row in released]
    assert keys == sorted(keys), "the order of the rows is not that of their values"


def _check_thresholds(
    released: Sequence[Row], roles: Roles, policy: Mapping[str, Any], trees: Mapping[str, Tree]
) -> None:
    """Compare k, l, t and the shares of values of every class with the policy."""
    found = classes(released, roles.quasi_identifiers)
    smallest = min(len(members) for members in found)
    assert smallest >= policy["k"], f"a class of {smallest} records, k = {policy['k']}"
    for name in roles.sensitive:
        l, t = _of(policy.get("l"), name), _of(policy.get("t"), name)  # noqa: E741 - name of the measure
        c = _of(policy.get("c"), name)
        kind = str(policy.get("l_diversity", "distinct"))
        for members in found if l is not None else ():
            held = counts(members, name)
            wanted = None if c is None else exact(c)
            assert reaches_l(held, exact(l), kind, wanted), f"{name}: {held} is not {kind} {l}-diverse"
        asked, values = asked_of(policy, name), [key(row[name]) for row in released]
        for members in found if asked else ():
            held_values = [key(row[name]) for row in members]
            assert keeps(held_values, values, asked), f"{name}: {held_values} of {values} break {asked}"
        if t is not None:
            chosen = _of(policy.get("distance"), name)
            emds = class_emds(released, roles.quasi_identifiers, name, distance=chosen, tree=_of(trees, name))
            assert max(emds) <= exact(t), f"{name}: EMD {max(emds)} = {float(max(emds))}, t = {t}"


def _check_untouched(kept: Sequence[Row], released: Sequence[Row], names: Sequence[str]) -> None:
    """Every released combination of sensitive and insensitive values is one of the source's, no oftener."""
    before, after = (Counter(tuple(key(r[n]) for n in names) for r in rows) for rows in (kept, released))
    assert after <= before, f"values that the source does not hold so often: {after - before}"
    for name in names:
        assert _types(released, name) <= _types(kept, name), f"{name}: types {_types(released, name)}"


def _check_recoded(kept: Sequence[Row], released: Sequence[Row], name: str, recode: str) -> None:
    """Recoded values have the type of the source and lie among its values, but for the rounding of a mean.

    Labels of a hierarchy are text; `tests/e2e/hierarchies/test_hierarchies.py` says which one a class releases.
    """
    if recode == "hierarchy":
        assert _types(released, name) <= {str}, f"{name}: types {_types(released, name)}"
        return
    assert _types(released, name) <= _types(kept, name), f"{name}: types {_types(released, name)}"
    known = [value for value in _parts(kept, name) if value is not None]
    beyond = _beyond(known) if recode in {"mean", "median"} else 0
    for value in _parts(released, name):
        if value is None:
            assert len(known) < len(kept), f"{name}: NULL is released, the source holds none"
        elif default_distance([value]) == "ordered":
            inside = min(known) <= value <= max(known) or (
                beyond and Fraction(min(known)) - beyond <= Fraction(value) <= Fraction(max(known)) + beyond
            )
            assert inside, f"{name}: {value!r} is outside the source's range"
        else:
            assert value in known, f"{name}: {value!r} is not a value of the source"


def _recode(policy: Mapping[str, Any], kept: Sequence[Row], name: str) -> str:
    """Return how a column is recoded: as the policy says, else by mean (numbers, dates) or mode."""
    ordered = default_distance(row[name] for row in kept) == "ordered"
    return _of(policy.get("recode"), name) or ("mean" if ordered else "mode")


def _check_total(kept: Sequence[Row], released: Sequence[Row], name: str) -> None:
    """Class means keep the total of a column without NULL, but for half a unit of rounding a record."""
    values = [row[name] for row in kept]
    if None in values:
        return
    before, after = (sum((_number(row[name]) for row in rows), Fraction(0)) for rows in (kept, released))
    moved = abs(after - before)
    assert moved <= len(kept) * _rounding(values), f"{name}: the total moves by {float(moved)}"


def _rounding(values: Sequence[Any]) -> Fraction:
    """Return how far rounding to the type of the values may move one of them."""
    first = values[0]
    if isinstance(first, float):
        return max(abs(Fraction(value)) for value in values) / 10**6 + _beyond(values)
    if isinstance(first, Decimal):
        return Fraction(1, 2) * Fraction(10) ** int(first.as_tuple().exponent)
    return Fraction(1, 2)


def _beyond(known: Sequence[Any]) -> Fraction:
    """Return how far rounding may move a mean of floating-point numbers: half a unit of its last digit."""
    if not known or not isinstance(known[0], float):
        return Fraction(0)
    # A number beyond the largest FLOAT is of a DOUBLE column.
    types = ("DOUBLE", "FLOAT") if max(map(abs, known)) <= float(np.finfo(np.float32).max) else ("DOUBLE",)
    digits = min(digits_of(known, name) for name in types)
    return Fraction(1, 2) * Fraction(10) ** -digits


def _number(value: Any) -> Fraction:
    """Return a number as it is, a date in days, a timestamp in seconds (the coarsest unit it may have)."""
    if isinstance(value, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return Fraction((value - epoch) // timedelta(microseconds=1), 10**6)
    return Fraction(value.toordinal()) if isinstance(value, date) else Fraction(value)


def _parts(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the values of a column; of a range both ends, of a set its members."""
    parts: list[Any] = []
    for row in rows:
        value = row[name]
        parts += value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
    return parts


def _types(rows: Iterable[Row], name: str) -> set[type]:
    """Return the Python types of the values that are not NULL."""
    return {type(value) for value in _parts(rows, name) if value is not None}


def _of(option: Any, name: str) -> Any:
    """Return what an option says of a column: its entry there, or the one value that it gives to all."""
    if hasattr(option, "items"):
        return next((value for column, value in option.items() if column.lower() == name.lower()), None)
    return option


def _names(option: Any) -> set[str]:
    """Return the column names of a role in lower case."""
    names = [option] if isinstance(option, str) else option or []
    return {name.lower() for name in names}
