"""Tables beside a release: orders and proofs have the form in which a release stores them, and no more.

An audit reads what it needs of them. Whatever else they held, such as a column of names, would leave unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckanon.audits.certificate import SUPERSETS_MAX
from duckanon.audits.joint import JOINT_VALUES_MAX
from duckanon.database import engine, templates
from duckanon.database.relations import Target, columns_of, relation_of
from duckanon.policy.names import fold
from duckanon.release import foreign
from duckanon.release.metadata import SCHEMA
from duckanon.release.verify.record import STAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.policy.policy import AuditPolicy
    from duckanon.release.verify.record import RecordedRelease

_ORDER_COLUMNS = [("value", "VARCHAR"), ("rank", "BIGINT")]
_PROOF_COLUMNS = [
    ("part", "VARCHAR"),
    ("class", "BIGINT"),
    ("from_value", "BIGINT"),
    ("to_value", "BIGINT"),
    ("amount", "BIGINT"),
]
_SUPERSET_COLUMNS = [(name, "BIGINT") for name in ("superset", "place", "first", "last")]


def misshapen(
    con: duckdb.DuckDBPyConnection, home: str, room: str, release: RecordedRelease, relation: str
) -> Iterator[str]:
    """Tell which tables beside a release have columns or rows that a release does not store.

    The room has our copies of the proofs, and `relation` are the released rows.
    """
    for table in dict.fromkeys(one.tree for one in release.columns if one.order and one.tree is not None):
        stored = foreign.stored(con, Target(home, SCHEMA, table), STAGE)
        own, _ = foreign.own_table(con, stored, room, STAGE)
        yield from _misshapen(con, own, "order", _ORDER_COLUMNS, {})
    values = {"classes": release.classes or 0, "values": JOINT_VALUES_MAX}
    for table in release.proofs.values():
        yield from _misshapen(con, Target(room, SCHEMA, table), "proof", _PROOF_COLUMNS, values)
    if release.supersets is not None:
        own = Target(room, SCHEMA, release.supersets)
        of_boxes = _of_boxes(con, relation, release.asked())
        yield from _misshapen(con, own, "superset", _SUPERSET_COLUMNS, of_boxes)


def strange_boxes(con: duckdb.DuckDBPyConnection, boxes: str, relation: str, policy: AuditPolicy) -> int:
    """Count the rows of boxes that a release of these rows does not store; both relations are SQL text."""
    values = _of_boxes(con, relation, policy) | {"relation": boxes}
    ((rows,),) = engine.rows(con, templates.render("evidence/contents.sql.j2:superset_form", **values), STAGE)
    return int(rows)


def _of_boxes(con: duckdb.DuckDBPyConnection, relation: str, policy: AuditPolicy) -> dict[str, Any]:
    quasi = {fold(name) for name in policy.quasi_identifiers}
    columns = [(name, kind) for name, kind in columns_of(con, relation, STAGE) if fold(name) in quasi]
    texts = [(name, kind == "VARCHAR") for name, kind in columns]
    return {"released": relation, "qi": texts, "supersets": SUPERSETS_MAX}


def _misshapen(
    con: duckdb.DuckDBPyConnection,
    own: Target,
    kind: str,
    columns: list[tuple[str, str]],
    values: dict[str, Any],
) -> Iterator[str]:
    relation = relation_of(own)
    found = columns_of(con, relation, STAGE)
    if found != columns:
        listed = ", ".join(f"{name} {type_}" for name, type_ in found)
        yield f"the table {SCHEMA}.{own.name} has the columns {listed}, which a release does not store"
        return
    query = templates.render(f"evidence/contents.sql.j2:{kind}_form", relation=relation, **values)
    ((rows,),) = engine.rows(con, query, STAGE)
    if rows:
        counted = "1 row" if rows == 1 else f"{rows} rows"
        yield f"the table {SCHEMA}.{own.name} has {counted} that a release does not store"
