"""Hierarchies of quasi-identifiers of a stream: leaves in order, and the nodes above each leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.errors import PolicyError, SourceError
from duckanon.hierarchies.tree import make_climb
from duckanon.policy.names import ByColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.streams.policy import StreamPolicy

STAGE = "stream"


@dataclass(frozen=True)
class Climb:
    """The hierarchy of a quasi-identifier."""

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
            raise SourceError(
                f"quasi-identifier {self.attribute.name!r} is {value!r} in tuple {first + int(lost[0]) + 1}, "
                "which is no leaf of its hierarchy: add a row, or mend the value before the stream"
            )
        return np.asarray(self.above[places])


def climbs_of(con: duckdb.DuckDBPyConnection, attributes: Sequence[Attribute]) -> dict[str, Climb]:
    """Hierarchies of quasi-identifiers, by column; a PolicyError if a hierarchy is unusable."""
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
