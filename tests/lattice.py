"""Full-domain generalization by brute force: every node of the lattice, in plain Python and fractions.

Written from the definitions; it shares nothing with the package but the names of options.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.oracle import counts, emd, key, reaches_l

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.oracle import Row, Tree


class Sensitive(NamedTuple):
    """What is asked of a sensitive column."""

    distance: Any
    t: Fraction | None = None
    l: Fraction | None = None  # noqa: E741 - l-diversity has this name everywhere
    kind: str = "distinct"
    c: Fraction | None = None
    tree: Tree | None = None


class Best(NamedTuple):
    """The node of least cost: levels, cost (of 'loss' the product of 1 + x), released rows."""

    levels: tuple[int, ...]
    cost: Fraction
    rows: list[dict[str, Any]]


def nodes(trees: Mapping[str, Tree | None]) -> list[tuple[int, ...]]:
    """Return all levels of quasi-identifiers; one without a tree has level 0 only."""
    return list(product(*(range(len(tree[0]) if tree else 1) for tree in trees.values())))


def node_of(value: Any, tree: Tree | None, level: int) -> Any:
    """Return what a value shows at a level; only the root is above NULL."""
    if tree is None:
        return value
    if value is None:
        return str(tree[0][-1]) if level == len(tree[0]) - 1 else None
    (row,) = [row for row in tree if str(row[0]) == str(value)]
    return str(row[level])


def released(
    rows: Sequence[Row],
    trees: Mapping[str, Tree | None],
    levels: tuple[int, ...],
    k: int,
    sensitive: Mapping[str, Sensitive],
    *,
    original: bool = False,
) -> list[list[dict[str, Any]]]:
    """Return the classes of a node that are left when no more has to be suppressed.

    First those that miss k or l go; then those that miss t against the rest, again and again, or against the
    `original` table.
    """
    shown = [
        {
            **row,
            **{
                q: node_of(row[q], tree, level)
                for (q, tree), level in zip(trees.items(), levels, strict=True)
            },
        }
        for row in rows
    ]
    classes: dict[Any, list[dict[str, Any]]] = {}
    for row in shown:
        classes.setdefault(tuple(key(row[q]) for q in trees), []).append(row)

    def kept(members: list[dict[str, Any]]) -> bool:
        return len(members) >= k and all(
            asked.l is None or reaches_l(counts(members, column), asked.l, asked.kind, asked.c)
            for column, asked in sensitive.items()
        )

    left = [members for members in classes.values() if kept(members)]
    while True:
        everyone = shown if original else [row for members in left for row in members]
        whole = {column: counts(everyone, column) for column in sensitive}
        still = [
            members
            for members in left
            if all(
                asked.t is None
                or emd(counts(members, column), whole[column], asked.distance, asked.tree) <= asked.t
                for column, asked in sensitive.items()
            )
        ]
        if len(still) == len(left):
            return left
        left = still


def cost(
    rows: Sequence[Row],
    trees: Mapping[str, Tree | None],
    levels: tuple[int, ...],
    k: int,
    left: list[list[dict[str, Any]]],
    objective: str,
    weights: Mapping[str, Fraction] | None = None,
) -> Fraction:
    """Return what an objective says of a node; with weights of columns a loss is rounded, as a real power."""
    shares = [Fraction((weights or {}).get(column, 1)) for column in trees]
    shares = [share / sum(shares) for share in shares]
    n, released_records = len(rows), sum(map(len, left))
    gone = n - released_records
    if objective == "discernibility":
        return Fraction(sum(len(members) ** 2 for members in left) + gone * n)
    if objective == "c_avg":
        return Fraction(n, len(left) * k)
    if objective == "precision":
        climbed = sum(
            share * (Fraction(level, len(tree[0]) - 1) if tree else 0)
            for share, tree, level in zip(shares, trees.values(), levels, strict=True)
        )
        return (climbed * released_records + gone) / Fraction(n)
    parts = []
    for (column, tree), level in zip(trees.items(), levels, strict=True):
        null = any(row[column] is None for row in rows)
        leaves = len(tree or ()) + null
        below = Counter(str(row[level]) for row in tree or ())
        total = Fraction(gone)
        for member in (member for members in left for member in members):
            if tree is None or leaves == 1:
                continue
            share = below[member[column]] if member[column] is not None else 1
            top = level == len(tree[0]) - 1
            total += Fraction((leaves if top else share) - 1, leaves - 1)
        parts.append(1 + total / n)
    if weights:
        return Fraction(prod(float(part) ** float(share) for part, share in zip(parts, shares, strict=True)))
    return prod(parts, start=Fraction(1))


def best(
    rows: Sequence[Row],
    trees: Mapping[str, Tree | None],
    k: int,
    sensitive: Mapping[str, Sensitive],
    *,
    allowed: int = 0,
    objective: str = "loss",
    original: bool = False,
) -> Best | None:
    """Return the node of least cost with at most so many records suppressed; of several the lowest levels."""
    found: Best | None = None
    for levels in nodes(trees):
        left = released(rows, trees, levels, k, sensitive, original=original)
        if not left or len(rows) - sum(map(len, left)) > allowed:
            continue
        price = cost(rows, trees, levels, k, left, objective)
        if found is None or price < found.cost:
            found = Best(levels, price, [row for members in left for row in members])
    return found


def keeping(
    rows: Sequence[Row],
    trees: Mapping[str, Tree | None],
    k: int,
    sensitive: Mapping[str, Sensitive],
    allowed: int = 0,
) -> set[tuple[int, ...]]:
    """Return the nodes that keep what is asked."""
    found = set()
    for levels in nodes(trees):
        left = released(rows, trees, levels, k, sensitive)
        if left and len(rows) - sum(map(len, left)) <= allowed:
            found.add(levels)
    return found


def minimal(found: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return those of which no other one is at most as high in every column."""
    return sorted(
        one
        for one in found
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in found)
    )
