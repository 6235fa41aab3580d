"""Embed: every quasi-identifier becomes Euclidean coordinates, every sensitive value a code.

A number is z-scored, and so is the rank of a text with an order. Two values of a nominal attribute have
squared distance 1; with a hierarchy it is the level of their lowest common ancestor divided by the height.
With more than `EXACT_VALUES` values these distances are off by up to 15 % (with a hierarchy 25 %), one
standard deviation. A weight multiplies squared distances.

Tree distances are Euclidean: `tree_corners` finds exact points, each with one coordinate more than the one
before (Cholesky). `tree_vectors` is shorter: each node of a path adds a vector of half the squared distance
of two siblings. Nodes of the upper levels, up to `TREE_NODES`, have a coordinate each, because their errors
would cost most. All other nodes have sign vectors (Johnson and Lindenstrauss 1984; Achlioptas 2003: signs
suffice).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.database import arrow, engine, templates
from duckanon.hierarchies.tree import make_climb
from duckanon.kernels.splitmix import STEP, mixed
from duckanon.literature.mondrian import ColumnTree, level_widths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.stage import Field, Staged


EXACT_VALUES = 64
"""Largest number of values of a nominal attribute with a corner of a regular simplex for each value."""

CODE_DIRECTIONS = 48
"""Coordinates of a nominal attribute with more values."""

TREE_NODES, TREE_DIRECTIONS = 32, 32
"""With more values in a hierarchy: upper nodes with a coordinate each, and coordinates for the rest."""

FRACTION_BITS, HALF_BITS = 55, 27
"""Bits kept after the point of a number of at most 1/2. They distinguish neighbours of the largest number,
which is 1/4 or more. Numbers are split at the second place, so that products fit into 64 bits."""


@dataclass(frozen=True)
class Coordinates:
    """Map from a quasi-identifier to coordinates."""

    column: str  # column of the coded table with its number or value code
    exponent: int  # numbers are first divided by this power of two, to at most 1/2
    center: float  # mean of the divided numbers; unused for a nominal attribute
    spread: float  # standard deviation of the divided numbers, likewise
    weight: float  # factor of every coordinate: square root of the policy's weight, relative to the largest
    missing: bool  # whether NULL among numbers has a coordinate of its own, at squared distance 1
    corners: npt.NDArray[np.float64] | None  # (values, directions), by value code; None for a number
    variance: float  # total variance of the coordinates, the width of the attribute
    paths: npt.NDArray[np.int64] | None = None  # nodes above each value code, if there is a hierarchy


Cuts = tuple["npt.NDArray[np.float64]", dict[int, ColumnTree]]
"""Coordinates (n, d), including places in hierarchies, and the hierarchies by column."""


@dataclass(frozen=True)
class Embedded:
    """The coded records, and the map to their coordinates."""

    coded: str  # temporary table: record_id, x_<field> of a quasi-identifier, c_<field> of a sensitive field
    domains: Mapping[str, str]  # temporary table of the values of each coded field, by field column
    axes: tuple[Coordinates, ...]  # one for each quasi-identifier
    counts: Mapping[str, npt.NDArray[np.int64]]  # records per value code, by sensitive field column


@progress.step("embed")
def embed(con: duckdb.DuckDBPyConnection, staged: Staged, policy: Policy) -> Embedded:
    """Coordinates of the quasi-identifiers and codes of the sensitive values. O(n log n) in SQL.

    Distances: top of the module. PolicyError if a hierarchy is unusable.
    """
    nominal = [field for field in staged.quasi if field.nominal]
    told = [staged.subject] if staged.subject is not None else []
    ranked = [field for field in staged.quasi if field.ranked]
    coded_fields = [*nominal, *ranked, *staged.sensitive, *told]
    domains = {field.column: f"{staged.workspace}_domain_{field.column}" for field in coded_fields}
    for field in coded_fields:
        _render(
            con,
            "embed.sql.j2:domain",
            domain=domains[field.column],
            column=field.column,
            records=staged.records,
            order=field.attribute.order,
        )
    paths = {
        field.column: make_climb(
            con, field.attribute, tree=staged.tree(field), climb=climb, domain=domains[field.column]
        )
        for field in nominal
        if (climb := staged.climbs.get(field.column)) is not None
    }
    coded = f"{staged.workspace}_coded"
    _render(
        con,
        "embed.sql.j2:coded",
        coded=coded,
        records=staged.records,
        quasi=staged.quasi,
        sensitive=[*staged.sensitive, *told],
        coded_fields=coded_fields,
        domains=domains,
    )
    weights = _weights(staged.quasi)
    axes = tuple(
        _nominal(
            field,
            _counts(con, domains[field.column]),
            paths.get(field.column),
            weights[field.column],
            policy.seed,
        )
        if field in nominal
        else _number(con, coded, field, weights[field.column], staged.size)
        for field in staged.quasi
    )
    counts = {field.column: _counts(con, domains[field.column]) for field in [*staged.sensitive, *told]}
    return Embedded(coded, domains, axes, counts)


def coordinates(
    axes: tuple[Coordinates, ...], columns: Mapping[str, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """C-contiguous coordinates (n, d) of some coded records; NaN in `columns` is NULL. O(n d)."""
    parts = [part for axis in axes for part in _parts(axis, columns[axis.column])]
    length = len(next(iter(columns.values())))
    return np.ascontiguousarray(np.column_stack(parts)) if parts else np.zeros((length, 0))


def cut_points(axes: tuple[Coordinates, ...], columns: Mapping[str, npt.NDArray[np.float64]]) -> Cuts:
    """Input of a method that cuts, in place of `coordinates`."""
    parts: list[npt.NDArray[np.float64]] = []
    trees: dict[int, ColumnTree] = {}
    for axis in axes:
        if axis.paths is None:
            parts += _parts(axis, columns[axis.column])
        else:
            # An earlier part may have several columns, as for three names, or none, as for a single name.
            place = sum(1 if part.ndim == 1 else part.shape[1] for part in parts)
            trees[place] = ColumnTree(axis.paths, level_widths(axis.paths.shape[1] - 1, axis.weight))
            parts.append(columns[axis.column])
    length = len(next(iter(columns.values())))
    return np.ascontiguousarray(np.column_stack(parts)) if parts else np.zeros((length, 0)), trees


def cut_attributes(
    axes: tuple[Coordinates, ...],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Quasi-identifier of each column (d,) of `cut_points`, and the weight of each quasi-identifier."""
    columns = [1 if axis.paths is not None else dimensions((axis,)) for axis in axes]
    return np.repeat(np.arange(len(axes)), columns), np.array([axis.weight**2 for axis in axes])


def dimensions(axes: tuple[Coordinates, ...]) -> int:
    """Number of coordinates of a record."""
    return sum(
        (axis.spread > 0) + axis.missing if axis.corners is None else axis.corners.shape[1] for axis in axes
    )


def _parts(axis: Coordinates, values: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    if axis.corners is not None:
        return [axis.corners[values.astype(np.int64)] * axis.weight]
    absent = np.isnan(values)
    score = np.zeros(len(values))
    if axis.spread:
        score = (np.ldexp(values, -axis.exponent) - axis.center) / axis.spread
    score[absent] = 0.0
    indicator = [absent * axis.weight] if axis.missing else []
    return [score * axis.weight, *indicator] if axis.spread else indicator


def _weights(quasi: tuple[Field, ...]) -> dict[str, float]:
    """Return the weight of each quasi-identifier, by column; a power of four brings the largest to 1..4.

    Distances keep their order and their digits, and do not overflow.
    """
    weights = {field.column: float(field.attribute.weight) for field in quasi}
    shift = (math.frexp(max(weights.values()))[1] - 1) // 2 * 2
    return {column: math.ldexp(weight, -shift) for column, weight in weights.items()}


def _number(
    con: duckdb.DuckDBPyConnection, coded: str, field: Field, weight: float, size: int
) -> Coordinates:
    found = moments(con, coded, f"x_{field.column}")
    share = 1 - found.present / size
    variance = weight * ((1 - share) * (found.spread > 0) + share * (1 - share))
    return Coordinates(
        f"x_{field.column}", found.exponent, found.center, found.spread, math.sqrt(weight),
        found.present < size, None, variance,
    )  # fmt: skip


def _nominal(
    field: Field,
    counts: npt.NDArray[np.int64],
    paths: npt.NDArray[np.int64] | None,
    weight: float,
    seed: int,
) -> Coordinates:
    shares = counts / counts.sum()
    if paths is not None:
        corners = tree_corners(paths) if len(counts) <= EXACT_VALUES else tree_vectors(paths, seed)
        middle = (shares[:, None] * corners).sum(axis=0)
        width = float((shares[:, None] * (corners - middle) ** 2).sum())
    else:
        corners = simplex(len(counts)) if len(counts) <= EXACT_VALUES else sign_vectors(len(counts), seed)
        width = float(1 - (shares**2).sum()) / 2
    return Coordinates(
        f"x_{field.column}", 0, 0.0, 0.0, math.sqrt(weight), False, corners, weight * width, paths
    )


def simplex(size: int) -> npt.NDArray[np.float64]:
    """Corners, (size, size - 1), of a regular simplex with edges of length 1."""
    corners = np.zeros((size, size - 1))
    for direction in range(size - 1):
        # The new corner has height h above the centroid of the earlier corners.
        corners[: direction + 1, direction] = 0.0
        corners[direction + 1, :direction] = corners[: direction + 1, :direction].mean(axis=0)
        base = ((corners[0, :direction] - corners[direction + 1, :direction]) ** 2).sum()
        corners[direction + 1, direction] = math.sqrt(1.0 - base)
    return corners


def sign_vectors(size: int, seed: int, directions: int = CODE_DIRECTIONS) -> npt.NDArray[np.float64]:
    """Nearly orthogonal rows of squared length 1/2, one for each value, from `kernels.splitmix`.

    The mean squared distance of two rows is 1.
    """
    return signs_of(np.arange(1, size + 1, dtype=np.uint64), seed, directions)


def signs_of(
    numbers: npt.NDArray[np.uint64], seed: int, directions: int = CODE_DIRECTIONS
) -> npt.NDArray[np.float64]:
    """Vectors of given numbers, as in `sign_vectors`."""
    counters = numbers + np.uint64(seed % 2**32) * np.uint64(0x9E3779B9)
    bits = (mixed(counters * STEP)[:, None] >> np.arange(directions, dtype=np.uint64)) & np.uint64(1)
    signs: npt.NDArray[np.float64] = (2.0 * bits.astype(np.float64) - 1.0) * math.sqrt(0.5 / directions)
    return signs


def tree_corners(paths: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Points (m, m - 1) with squared distance level of the lowest common ancestor / height.

    Row i of `paths` (m, H + 1) has the nodes above leaf i, from the leaf to the root.
    """
    size, height = len(paths), paths.shape[1] - 1
    common = (paths[:, None, :] != paths[None, :, :]).sum(axis=2) / height
    # Inner products of the vectors from the first point.
    inner = (common[1:, :1] + common[:1, 1:] - common[1:, 1:]) / 2
    corners = np.zeros((size, size - 1))
    for row in range(1, size):
        for column in range(row):
            known = corners[row, :column] * corners[column + 1, :column]
            rest = inner[row - 1, column] - float(known.sum())
            if column + 1 < row:
                corners[row, column] = rest / corners[column + 1, column]
            else:
                corners[row, column] = math.sqrt(rest)
    return corners


def tree_vectors(paths: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Rows, one for each leaf, with squared distances of `tree_corners` on average; at most 64 columns."""
    size, height = len(paths), paths.shape[1] - 1
    parts, free, signed = [np.zeros((size, 0))], TREE_NODES, height
    for level in range(height - 1, -1, -1):
        nodes, places = np.unique(paths[:, level], return_inverse=True)
        if len(nodes) > free:
            break
        exact = np.zeros((size, len(nodes)))
        exact[np.arange(size), places] = math.sqrt(0.5 / height)
        parts.append(exact)
        free, signed = free - len(nodes), level
    nodes, places = np.unique(paths[:, :signed], return_inverse=True)
    vectors = sign_vectors(len(nodes), seed, TREE_DIRECTIONS) / math.sqrt(height)
    projected = np.zeros((size, TREE_DIRECTIONS if signed else 0))
    # By level, because all levels at once would take the height times the memory.
    for level_of in places.reshape(size, signed).T:
        projected += vectors[level_of]
    return np.column_stack([*parts, projected])


def _counts(con: duckdb.DuckDBPyConnection, domain: str) -> npt.NDArray[np.int64]:
    query = templates.render("embed.sql.j2:counts", domain=domain)
    return arrow.numbers(engine.table(con, query, "embed").column(0)).astype(np.int64)


def _render(con: duckdb.DuckDBPyConnection, name: str, /, **values: object) -> None:
    engine.run(con, templates.render(name, **values), "embed")


@dataclass(frozen=True)
class Moments:
    """Constants that bring a column of numbers to mean 0 and standard deviation 1."""

    present: int  # numbers without NULL
    exponent: int  # numbers are first divided by this power of two, to at most 1/2
    center: float  # mean of the divided numbers
    spread: float  # standard deviation of the divided numbers; 0 if all are equal or there is none


def moments(con: duckdb.DuckDBPyConnection, coded: str, column: str) -> Moments:
    """Moments of a column of the coded records. O(n) in two passes; one batch of numbers in memory.

    Divided numbers are rounded to 55 bits after the point, and their sums are exact. So neither threads nor
    the order of the records change a digit.
    """
    asked = {"coded": coded, "column": column}
    ((low, high, present),) = engine.rows(con, templates.render("embed.sql.j2:extent", **asked), "embed")
    if not present or low == high:
        return Moments(present, 0, low if present else 0.0, 0.0)
    exponent = math.frexp(max(-low, high))[1] + 1
    batches = engine.batches(con, templates.render("embed.sql.j2:present", **asked), "embed")
    center, spread = mean_and_spread((arrow.numbers(batch.column(0)) for batch in batches), exponent, present)
    return Moments(present, exponent, center, spread)


def mean_and_spread(
    batches: Iterable[npt.NDArray[np.float64]], exponent: int, count: int
) -> tuple[float, float]:
    """Mean and standard deviation of `count` numbers after division by a power of two to at most 1/2."""
    total, squares = 0, 0
    for values in batches:
        whole = np.rint(np.ldexp(values, FRACTION_BITS - exponent)).astype(np.int64)
        high, low = whole >> HALF_BITS, whole & ((1 << HALF_BITS) - 1)
        total += _exact(whole)
        squares += (
            (_exact(high * high) << 2 * HALF_BITS) + (_exact(high * low) << HALF_BITS + 1) + _exact(low * low)
        )
    variance = Fraction(count * squares - total * total, (count * count) << 2 * FRACTION_BITS)
    return float(Fraction(total, count << FRACTION_BITS)), math.sqrt(variance)


def _exact(numbers: npt.NDArray[np.int64]) -> int:
    """Return the exact sum of fewer than 2^36 integers."""
    return (int((numbers >> HALF_BITS).sum()) << HALF_BITS) + int((numbers & ((1 << HALF_BITS) - 1)).sum())
