"""Coordinates of the tuples of a stream: quasi-identifiers as numbers on a scale that never changes.

Squared distances are added over the columns, each times the weight of the column. The squared distance of two
numbers is (difference / range of the scale)^2. Two different texts have distance 1. Two leaves of a hierarchy
have the level of their lowest common ancestor divided by the height.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.errors import PolicyError, SourceError
from duckanon.hierarchies.tree import make_climb
from duckanon.policy.bind import Role
from duckanon.policy.names import ByColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.streams.policy import StreamPolicy

STAGE = "stream"

TEXT_CORNERS = 16
"""Texts of a column that are told apart; each further one counts as one of these, by its hash."""

OUTSIDE_MAX_RANGES = 1e6
"""Largest distance, in ranges of the scale, of a number from the least number of the scale."""

NULL_COORDINATE = -1.0
"""Coordinate of NULL among numbers: a range below the least."""


@dataclass
class Coordinates:
    """How quasi-identifiers become coordinates; scales and corners are found while tuples come."""

    attributes: Sequence[Attribute]
    policy: StreamPolicy
    climbs: Mapping[str, Climb]  # hierarchies by column
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    corners: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)  # by column and level

    @property
    def dimensions(self) -> int:
        """Number of coordinates of a tuple."""
        return sum(self._width(one) for one in self.attributes)

    def _width(self, one: Attribute) -> int:
        if one.name in self.climbs:
            return TEXT_CORNERS * self.climbs[one.name].height
        return TEXT_CORNERS if nominal(one) else 1

    @property
    def known(self) -> bool:
        """Whether the scale of every number is known."""
        return all(
            nominal(one) or one.name in self.policy.scale or one.name in self.scales
            for one in self.attributes
        )

    def fix(self, con: duckdb.DuckDBPyConnection, tuples: pa.Table) -> None:
        """Take missing scales from the first tuples: from the least to the largest number."""
        for name, values in _numbers(con, tuples, self._without_tree, first=0).items():
            if name not in self.policy.scale and values.dtype != np.uint64:
                known = values[~np.isnan(values)]
                self.scales[name] = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)

    def of(self, con: duckdb.DuckDBPyConnection, tuples: pa.Table, first: int) -> NDArray[np.float64]:
        """Coordinates (m, d) of tuples; `first` is the place of the first tuple in the stream, from 0.

        A SourceError for NaN, infinity, a value outside the hierarchy, or NULL with nulls = 'error'.
        """
        columns, numbers = [], _numbers(con, tuples, self._without_tree, first)
        for one in self.attributes:
            self._check_nulls(one, tuples, first)
            if one.name in self.climbs:
                part = self._climbed(one, self.climbs[one.name].nodes(con, tuples.column(one.name), first))
            elif nominal(one):
                part = self._corner(one.name, 0, numbers[one.name])
            else:
                part = self._scaled(one, numbers[one.name])
            columns.append(part if one.weight == 1 else part * np.sqrt(one.weight))
        return np.ascontiguousarray(np.hstack(columns)) if columns else np.zeros((len(tuples), 0))

    def _check_nulls(self, one: Attribute, tuples: pa.Table, first: int) -> None:
        column = tuples.column(one.name)
        if self.policy.rows.nulls == "error" and column.null_count:
            place = column.is_null().to_pylist().index(True)
            raise SourceError(
                f"quasi-identifier {one.name!r} is NULL in tuple {first + place + 1}, and nulls = 'error'"
            )

    def _scaled(self, one: Attribute, values: NDArray[np.float64]) -> NDArray[np.float64]:
        given = self.policy.scale
        low, high = given[one.name] if one.name in given else self.scales[one.name]
        if not math.isfinite(high - low):  # the range of all numbers overflows
            values, low, high = values / 2, low / 2, high / 2
        width = high - low if high > low else 1.0
        with np.errstate(over="ignore"):
            scaled = values - low
            scaled /= width
        np.clip(scaled, -OUTSIDE_MAX_RANGES, OUTSIDE_MAX_RANGES, out=scaled)
        scaled[np.isnan(values)] = NULL_COORDINATE
        return scaled[:, None]

    @property
    def _without_tree(self) -> list[Attribute]:
        """Quasi-identifiers without a hierarchy."""
        return [one for one in self.attributes if one.name not in self.climbs]

    def _climbed(self, one: Attribute, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Corners of the nodes above each value: two values differ below their lowest common ancestor."""
        height = nodes.shape[1] - 1
        parts = [self._corner(one.name, level, nodes[:, level]) for level in range(height)]
        return np.asarray(np.hstack(parts) / np.sqrt(height))

    def _corner(self, name: str, level: int, codes: NDArray[Any]) -> NDArray[np.float64]:
        known = self.corners.setdefault((name, level), {})
        if len(known) < TEXT_CORNERS:
            found, first = np.unique(codes, return_index=True)
            for code in found[np.argsort(first)].tolist():
                if len(known) < TEXT_CORNERS:
                    known.setdefault(code, len(known))
        places = (codes % TEXT_CORNERS).astype(np.int64)
        for code, corner in known.items():
            places[codes == code] = corner
        points = np.zeros((len(codes), TEXT_CORNERS))
        points[np.arange(len(codes)), places] = np.sqrt(0.5)
        return points


def nominal(one: Attribute) -> bool:
    """Whether the values of a quasi-identifier are texts, booleans or leaves of a hierarchy."""
    return one.kind in {"text", "boolean"} or one.hierarchy is not None


def _numbers(
    con: duckdb.DuckDBPyConnection, tuples: pa.Table, attributes: Sequence[Attribute], first: int
) -> dict[str, NDArray[Any]]:
    """Return the numbers of numeric columns, NaN for NULL, and the codes of other columns."""
    plain = {one.name: _arrow_numbers(tuples.column(one.name)) for one in attributes}
    values: dict[str, NDArray[Any]] = {name: found for name, found in plain.items() if found is not None}
    asked = [one for one in attributes if one.name not in values]
    if asked:
        query = templates.render(
            "stream/quasi.sql.j2:numbers",
            columns=[(one.name, one.kind, one.type, nominal(one)) for one in asked],
            relation="duckanon_tuples",
        )
        with engine.registered(con, {"duckanon_tuples": tuples}):
            found = engine.table(con, query, STAGE)
        values |= {one.name: arrow.numbers(column) for one, column in zip(asked, found.columns, strict=True)}
    for name, numbers in values.items():
        odd = np.flatnonzero(np.isinf(numbers))
        if len(odd):
            raise SourceError(
                f"quasi-identifier {name!r} is NaN or infinite in tuple {first + int(odd[0]) + 1}: it has no "
                "place among the others; leave it out, or make it NULL, before the stream"
            )
    return values


def _arrow_numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Return numbers, infinity for NaN, without a query; None for other types and for columns with NULL."""
    whole, kind = pa.types.is_integer(column.type), column.type
    if column.null_count or not (whole or kind in (pa.float32(), pa.float64())):
        return None
    values = arrow.numbers(column).astype(np.float64, copy=False)
    return values if whole else np.where(np.isnan(values), np.inf, values)


def check_scales(attributes: Sequence[Attribute], policy: StreamPolicy) -> None:
    """Raise a PolicyError if a column with a scale has no numbers."""
    for one in attributes:
        if one.name in policy.scale and nominal(one):
            what = f"are {one.kind}" if one.hierarchy is None else "have places in its hierarchy"
            raise PolicyError(f"scale of {one.name!r}: its values {what}, and no scale: leave it out")


@dataclass(frozen=True)
class Climb:
    """The hierarchy of a quasi-identifier, or of a sensitive column with hierarchical distance."""

    attribute: Attribute
    table: str  # temporary table (place of a leaf, value, level, node)
    above: NDArray[np.int64]  # (leaves, H + 1), number of the node above each leaf, by level

    @property
    def height(self) -> int:
        """Levels above the leaves."""
        return int(self.above.shape[1]) - 1

    def nodes(self, con: duckdb.DuckDBPyConnection, column: pa.ChunkedArray, first: int) -> NDArray[np.int64]:
        """Nodes (m, H + 1) above the values of tuples; a SourceError for a value outside the hierarchy.

        `first` is the place of the first tuple in the stream, from 0.
        """
        tuples = pa.table({"number": arrow.arrow(np.arange(len(column))), "value": column})
        query = templates.render(
            "stream/quasi.sql.j2:places",
            relation="duckanon_tuples",
            climb=self.table,
            text=self.attribute.kind == "text",
        )
        with engine.registered(con, {"duckanon_tuples": tuples}):
            found = engine.table(con, query, STAGE)
        places = arrow.numbers(found.column("place"))
        lost = np.flatnonzero(places < 0)
        if len(lost):
            value = found.column("shown")[int(lost[0])].as_py()
            what = "quasi-identifier" if self.attribute.role is Role.QUASI_IDENTIFIER else "sensitive column"
            raise SourceError(
                f"{what} {self.attribute.name!r} is {value!r} in tuple {first + int(lost[0]) + 1}, "
                "which is no leaf of its hierarchy: add a row, or mend the value before the stream"
            )
        return np.asarray(self.above[places])


def climbs_of(con: duckdb.DuckDBPyConnection, attributes: Sequence[Attribute]) -> dict[str, Climb]:
    """Hierarchies of columns, by column; a PolicyError if a hierarchy is unusable."""
    found = {}
    for number, one in enumerate(attributes):
        if one.hierarchy is not None:
            tree, climb, domain = (f"duckanon_{what}_{number}" for what in ("tree", "climb", "domain"))
            kind = "VARCHAR" if one.kind == "text" else one.type
            engine.run(con, templates.render("stream/quasi.sql.j2:domain", domain=domain, type=kind), STAGE)
            make_climb(con, one, tree=tree, climb=climb, domain=domain)
            rows = engine.table(con, templates.render("stream/quasi.sql.j2:above", climb=climb), STAGE)
            levels = int(arrow.numbers(rows.column("level")).max()) + 1
            above = arrow.numbers(rows.column("node_number")).reshape(-1, levels)
            found[one.name] = Climb(one, climb, above)
    return found


def with_rows(con: duckdb.DuckDBPyConnection, policy: StreamPolicy) -> StreamPolicy:
    """Return the policy with rows in place of table names, because a stream has no access to the tables."""
    read: dict[str, Any] = {}
    for name, hierarchy in policy.rows.hierarchies.items():
        if isinstance(hierarchy, str) and not Path(hierarchy).is_file():
            relation = templates.render("relation.sql.j2:file", name=hierarchy, form=None).strip()
            query = templates.render("relation.sql.j2:rows", relation=relation)
            rows = engine.rows(con, query, f"hierarchy {hierarchy!r} of {name!r}", error=PolicyError)
            read[name] = [(leaf, *above[0]) if _labels(above) else (leaf, *above) for leaf, *above in rows]
    if not read:
        return policy
    trees = ByColumn({**policy.rows.hierarchies, **read})
    return replace(policy, rows=replace(policy.rows, hierarchies=trees))


def _labels(above: Sequence[object]) -> bool:
    """Whether the labels of a leaf are a list in one column."""
    return len(above) == 1 and isinstance(above[0], list)
