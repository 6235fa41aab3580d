"""An independent auditor: brute force in pure Python, exact (fractions), written from the definitions.

It shares nothing with the package: no import of it, no numpy, and other formulas. The EMD of an ordered
attribute is the work of the monotone coupling (lowest earth to lowest hole), that of an equal distance the
mass that has to move, that of a tree the recursion over nodes of Li 2007, section 5.2; tests/test_oracle.py
checks all three against the transportation problem itself. A row is a mapping from column name to value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

Row = Mapping[str, Any]
Tree = Sequence[Sequence[Any]]
"""A hierarchy table: one row a leaf, values from the leaf to the root, all rows equally long."""
Distance = Literal["ordered", "equal", "hierarchical"]
Key = tuple[Any, ...]
"""A value as GROUP BY sees it: (0, value), (1,) for NaN, (2,) for NULL; sorts as ORDER BY ... NULLS LAST."""


def key(value: Any) -> Key:
    """Return what two values share exactly when GROUP BY puts them together."""
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    if isinstance(value, Mapping):
        return (0, tuple(key(part) for part in value.values()))
    if isinstance(value, list):
        return (0, tuple(key(part) for part in value))
    return (0, value)


def exact(number: Any) -> Fraction:
    """Return the decimal that is written: 0.1 is one tenth, not the nearest double."""
    return Fraction(str(number))


def classes(rows: Iterable[Row], quasi_identifiers: Sequence[str]) -> list[list[Row]]:
    """Return the equivalence classes, each the list of its rows, in the order of their first rows."""
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(key(row[name]) for name in quasi_identifiers), []).append(row)
    return list(found.values())


def k_anonymity(rows: Iterable[Row], quasi_identifiers: Sequence[str]) -> int:
    """Return the size of the smallest class."""
    return min(len(members) for members in classes(rows, quasi_identifiers))


def counts(rows: Iterable[Row], column: str) -> Counter[Key]:
    """Return how many rows hold each value; NULL is a value."""
    return Counter(key(row[column]) for row in rows)


def distinct_l(values: Counter[Key]) -> int:
    """Return the number of values that occur."""
    return sum(count > 0 for count in values.values())


def entropy_l(values: Counter[Key]) -> float:
    """Return exp(H), for reading; verdicts use `reaches_entropy`."""
    size = values.total()
    return math.exp(-sum(c / size * math.log(c / size) for c in values.values()))


def reaches_entropy(values: Counter[Key], l: Fraction) -> bool:  # noqa: E741 - l is the name of the measure
    """Tell exactly whether H >= log l: multiplied by n and exponentiated, n^n >= l^n * prod c^c.

    Counts that are not equal must exceed it: an audit rounds logarithms, and errs on the safe side.
    """
    size: int = values.total()
    product: int = math.prod(count**count for count in values.values())
    ours, asked = (size * l.denominator) ** size, l.numerator**size * product
    return bool(ours > asked or (ours == asked and (l == 1 or len(set(values.values())) == 1)))


def recursive_c(values: Counter[Key], l: int) -> Fraction | None:  # noqa: E741 - l is the name of the measure
    """Return r_1 / (r_l + ... + r_m): the class has recursive (c, l)-diversity exactly for c above it.

    None where fewer than l values occur, for then no c will do (Li 2007, section 2, interpretation 3).
    """
    descending = sorted(values.values(), reverse=True)
    tail = sum(descending[l - 1 :])
    return Fraction(descending[0], tail) if tail else None


def reaches_l(values: Counter[Key], l: Fraction, kind: str = "distinct", c: Fraction | None = None) -> bool:  # noqa: E741
    """Tell whether a class with these counts is l-diverse; a recursive l is an integer and needs c."""
    if kind == "distinct":
        return distinct_l(values) >= l
    if kind == "entropy":
        return reaches_entropy(values, l)
    assert kind == "recursive", kind
    assert c is not None, "recursive l-diversity needs c"
    assert l.denominator == 1, "recursive l-diversity needs an integer l"
    smallest = recursive_c(values, int(l))
    return smallest is not None and c > smallest


def default_distance(values: Iterable[Any]) -> Distance:
    """Return 'ordered' for numbers, dates and timestamps, else 'equal'; NULLs alone have EMD 0."""
    present = [value for value in values if value is not None]
    ordered = all(isinstance(v, int | float | Decimal | date) and not isinstance(v, bool) for v in present)
    return "ordered" if ordered else "equal"


def emd(part: Counter[Key], whole: Counter[Key], distance: Distance, tree: Tree | None = None) -> Fraction:
    """Return the earth mover's distance between the distributions of a class and of the whole table.

    Parameters
    ----------
    part, whole : Counter
        Counts by key; every key of the class occurs in the whole.
    distance : {'ordered', 'equal', 'hierarchical'}
        Ground distance: |i - j| / (m - 1) on the m distinct values of the whole; 1; or the height of the
        lowest common ancestor divided by the height of the tree.
    tree : sequence of sequences, optional
        Needed for 'hierarchical'.

    Returns
    -------
    Fraction
        In [0, 1].
    """
    assert all(whole[value] > 0 for value in part), "a class holds a value that the table does not hold"
    if distance == "ordered":
        return _emd_ordered(part, whole)
    if distance == "equal":
        return sum((gain for gain in _extra(part, whole).values() if gain > 0), Fraction(0))
    assert tree is not None, "a hierarchical distance needs a tree"
    return _emd_tree(_extra(part, whole), tree)


def class_emds(
    rows: Sequence[Row],
    quasi_identifiers: Sequence[str],
    column: str,
    *,
    distance: Distance | None = None,
    tree: Tree | None = None,
) -> list[Fraction]:
    """Return the EMD of each class, in the order of `classes`, for one sensitive column."""
    chosen = distance or default_distance(row[column] for row in rows)
    whole = counts(rows, column)
    return [emd(counts(members, column), whole, chosen, tree) for members in classes(rows, quasi_identifiers)]


def path_to_root(value: Key, tree: Tree) -> tuple[Any, ...]:
    """Return the nodes from the root down to a leaf; NULL is a leaf directly below the root."""
    (root,) = {row[-1] for row in tree}
    if value == key(None):
        return (root, value)
    (row,) = [row for row in tree if key(row[0]) == value]
    return (*reversed(row[1:]), value)


def ground_distance(
    first: Key, second: Key, distance: Distance, domain: Sequence[Key], tree: Tree | None
) -> Fraction:
    """Return the distance of two values of a sorted domain, straight from its definition."""
    if first == second:
        return Fraction(0)
    if distance == "ordered":
        return Fraction(abs(domain.index(first) - domain.index(second)), len(domain) - 1)
    if distance == "equal":
        return Fraction(1)
    assert tree is not None, "a hierarchical distance needs a tree"
    height = len(tree[0]) - 1
    pairs = zip(path_to_root(first, tree), path_to_root(second, tree), strict=False)
    shared = [one == other for one, other in pairs]
    return Fraction(height - (shared.index(False) - 1), height)


def il(points: Sequence[Sequence[float]], labels: Sequence[int], scale: str = "zscore") -> float:
    """Return the information loss 100 SSE / SST in percent; 0 when all points are equal.

    Exact until the end: a z-scored column has the same SST as any other column that varies, so each column's
    SSE is divided by its own SST; 'minmax' divides by the squared range, 'none' by 1.
    """
    columns = [[Fraction(x) for x in column] for column in zip(*points, strict=True)]
    varying = [column for column in columns if len(set(column)) > 1]
    within = total = Fraction(0)
    for column in varying:
        spread = _squares(column)
        weight = {"zscore": spread, "minmax": (max(column) - min(column)) ** 2, "none": Fraction(1)}[scale]
        total += spread / weight
        within += sum(_squares(members) for members in _by_label(column, labels)) / weight
    return float(100 * within / total) if total else 0.0


def _extra(part: Counter[Key], whole: Counter[Key]) -> dict[Key, Fraction]:
    """Return p - q of every value of the whole."""
    size, total = part.total(), whole.total()
    return {value: Fraction(part[value], size) - Fraction(count, total) for value, count in whole.items()}


def _emd_ordered(part: Counter[Key], whole: Counter[Key]) -> Fraction:
    """Carry the lowest earth left to the lowest hole left, in units of 1 / (class size * table size)."""
    domain = sorted(value for value in whole if whole[value])
    if len(domain) == 1:
        return Fraction(0)
    size, total = part.total(), whole.total()
    earth = [part[value] * total for value in domain]
    holes = [whole[value] * size for value in domain]
    source = work = 0
    for target, hole in enumerate(holes):
        missing = hole
        while missing:
            moved = min(missing, earth[source])
            work += moved * abs(source - target)
            missing -= moved
            earth[source] -= moved
            source += earth[source] == 0 and source < len(domain) - 1
    return Fraction(work, size * total * (len(domain) - 1))


def _emd_tree(extra: Mapping[Key, Fraction], tree: Tree) -> Fraction:
    """Sum cost(N) = height(N) / H * min(pos_extra(N), neg_extra(N)) over the inner nodes N."""
    paths = {path_to_root(value, tree): gain for value, gain in extra.items()}
    height = len(tree[0]) - 1
    inner = {path[: depth + 1] for path in paths for depth in range(len(path) - 1)}
    cost = Fraction(0)
    for node in inner:
        children: dict[Any, Fraction] = {}
        for path, gain in paths.items():
            if path[: len(node)] == node:
                child = path[len(node)]
                children[child] = children.get(child, Fraction(0)) + gain
        positive = sum((gain for gain in children.values() if gain > 0), Fraction(0))
        negative = -sum((gain for gain in children.values() if gain < 0), Fraction(0))
        cost += Fraction(height - (len(node) - 1), height) * min(positive, negative)
    return cost


def _squares(column: Sequence[Fraction]) -> Fraction:
    """Return the sum of squared deviations from the mean."""
    mean = Fraction(sum(column), len(column))
    return sum(((value - mean) ** 2 for value in column), Fraction(0))


def _by_label(column: Sequence[Fraction], labels: Sequence[int]) -> list[list[Fraction]]:
    """Return the values of each class."""
    members: dict[int, list[Fraction]] = {}
    for value, label in zip(column, labels, strict=True):
        members.setdefault(int(label), []).append(value)
    return list(members.values())
