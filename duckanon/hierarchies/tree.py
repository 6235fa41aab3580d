"""Tree: a hierarchy table is checked, and becomes rows of a value, a level and the node there."""

from __future__ import annotations

import contextlib
import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, own_copy, templates
from duckanon.database.paths import check_encoding, check_local, check_readable
from duckanon.database.relations import columns_of, named
from duckanon.errors import PolicyError
from duckanon.policy.names import DELIMITERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.bind import Attribute
    from duckanon.policy.checks import Hierarchy

LEVELS = 1_000
"""Most levels above the leaves; a code of a thousand characters has as many prefixes."""

_DATABASES = (".duckdb", ".db", ".ddb")
_FORMS = {"csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"), "parquet": (".parquet",)}


def make_tree(
    con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, domain: str
) -> npt.NDArray[np.int64]:
    """Nodes above every value code, of shape (m, H + 1).

    The tree (value, level, node) is left in a temporary table. NULL has nodes of its own below the root.
    PolicyError if the hierarchy is missing, or is not total, functional, nested and rooted; `domain` is the
    temporary table of the values.
    """
    height = _checked_tree(con, attribute, tree=tree, domain=domain)
    return _paths(con, tree, domain, height)


def make_climb(
    con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, climb: str, domain: str
) -> npt.NDArray[np.int64]:
    """Nodes above every value code, of shape (m, H + 1), codes in an order in which subtrees stand together.

    As `make_tree`; the codes of `domain` become those places, and they are left with the nodes above them in
    a temporary table (place, value, level, node).
    """
    height = _checked_tree(con, attribute, tree=tree, domain=domain)
    statement = templates.render("tree/climb.sql.j2", climb=climb, tree=tree, domain=domain, height=height)
    engine.run(con, statement, f"hierarchy of {attribute.name!r}")
    return _paths(con, tree, domain, height)


def leaves_of(
    con: duckdb.DuckDBPyConnection, tree: str, domain: str, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], int]:
    """Leaves of the hierarchy below each node above the value codes, of shape (m, H + 1), and all of them.

    After `make_climb`. Leaves that no record has count, and NULL where it is a value.
    """
    query = templates.render("tree/values.sql.j2:leaves", tree=tree, domain=domain)
    rows = engine.table(con, query, "hierarchy")
    below = np.ones(shape, dtype=np.int64)
    below[arrow.numbers(rows.column("code")), arrow.numbers(rows.column("level"))] = arrow.numbers(
        rows.column("leaves")
    )
    if len(rows) < below.size:
        # NULL is the last code, and one leaf more.
        below[:, -1] = int(below[0, -1]) + (shape[0] > 1)
    return below, int(below[0, -1])


def audit_tree(con: duckdb.DuckDBPyConnection, workspace: str, attribute: Attribute, *, relation: str) -> str:
    """Tree (value, level, node), as SQL text, of a sensitive column of any relation.

    Each value must have a path.
    """
    domain, tree = f"{workspace}_domain_{attribute.name}", f"{workspace}_tree_{attribute.name}"
    statement = templates.render(
        "tree/values.sql.j2:domain", domain=domain, column=attribute.name, relation=relation
    )
    engine.run(con, statement, "audit")
    _checked_tree(con, attribute, tree=tree, domain=domain)
    return named("temp", tree)


@dataclass(frozen=True)
class _HierarchyRows:
    """Where the rows of a hierarchy are read."""

    name: str  # what errors call it
    table: str  # relation, as SQL text
    columns: list[str]  # from leaf to root; or where `listed` the leaf, and the list of its labels
    listed: bool = False
    note: str = ""  # what the first line of a file was taken for
    csv: Path | None = None  # the file, if it is one


def _checked_tree(con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, domain: str) -> int:
    """Make the temporary tree of a column, or say what is wrong with its hierarchy; return its height."""
    text = attribute.kind == "text"
    kind = "VARCHAR" if text else attribute.type
    of = f"of {attribute.name!r}"
    with _rows(con, attribute.hierarchy or "", kind, domain) as rows:
        _check_height(f"{rows.name} {of}", len(rows.columns) - 1)
        statement = templates.render(
            "tree/tree.sql.j2",
            tree=tree,
            columns=rows.columns,
            listed=rows.listed,
            table=rows.table,
            type=kind,
            text=text,
        )
        engine.run(con, statement, f"{rows.name} {of}", error=PolicyError)
    height = int(
        engine.rows(con, templates.render("tree/values.sql.j2:height", tree=tree), "hierarchy")[0][0]
    )
    _check_height(f"{rows.name} {of}", height)
    query = templates.render("tree/flaws.sql.j2", tree=tree, domain=domain, height=height)
    for flaw, remedy in engine.rows(con, query, "hierarchy"):
        _check_ragged(rows)
        raise PolicyError(f"{rows.name} {of} {flaw}{rows.note}: {remedy}")
    return height


def _check_height(hierarchy: str, levels: int) -> None:
    """Raise where a hierarchy has more levels than are read."""
    if levels > LEVELS:
        raise PolicyError(
            f"{hierarchy} has {levels:,} levels above the leaves, and at most {LEVELS:,} are read: leave out "
            "levels, above all those that group no more than the one below"
        )


@contextlib.contextmanager
def _rows(
    con: duckdb.DuckDBPyConnection, hierarchy: Hierarchy, kind: str, domain: str
) -> Iterator[_HierarchyRows]:
    """Give the rows of a hierarchy: those of a table or file, or those that stand in the policy."""
    if isinstance(hierarchy, str):
        yield _named(con, hierarchy, kind, domain)
        return
    columns = [f"level_{level}" for level in range(len(hierarchy[0]))]
    rows = pa.table([pa.array(cells, pa.string()) for cells in zip(*hierarchy, strict=True)], names=columns)
    with engine.registered(con, {f"{domain}_rows": rows}):
        yield _HierarchyRows("hierarchy", named("temp", f"{domain}_rows"), columns)


def _named(con: duckdb.DuckDBPyConnection, hierarchy: str, kind: str, domain: str) -> _HierarchyRows:
    """Rows of a relation as the user wrote it.

    It is a name with up to three parts, or a file that exists. The files of ARX have no header, and DuckDB
    takes the first line of text for one, so that the leaf in it would be lost.
    """
    check_local(hierarchy)
    name = f"hierarchy {hierarchy!r}"
    form = next((form for form, endings in _FORMS.items() if hierarchy.lower().endswith(endings)), None)
    file = Path(hierarchy)
    if not file.is_file():
        if file.exists() and not file.is_dir():
            check_readable(file)
        form = None
    elif form is None and Path(hierarchy).suffix.lower() in _DATABASES:
        # DuckDB would attach the file and read whatever is in it, a view as well.
        raise PolicyError(
            f"{name} is a database: give a .csv or .parquet file, or ATTACH it and name its table"
        )
    if form == "csv":
        check_readable(Path(hierarchy))
        check_encoding(Path(hierarchy))
    headless, texts = False, kind == "VARCHAR"
    table = _table(hierarchy, form, texts=texts)
    try:
        columns, listed = _columns(con, name, table)
    except PolicyError:
        _check_ragged(_HierarchyRows(name, table, [], csv=Path(hierarchy) if form == "csv" else None))
        raise
    if form != "csv":
        own = named("temp", f"{domain}_{engine.workspace()}")
        own_copy.copy(con, table, own, name)
        lies = own_copy.lies(con, Path(hierarchy), own, name) if form == "parquet" else []
        if lies:
            raise PolicyError(f"{name}: {own_copy.told(lies)}")
        return _HierarchyRows(name, own, columns, listed)
    first = templates.render("relation.sql.j2:file", name=hierarchy, form="lines").strip()
    query = templates.render("relation.sql.j2:rows", relation=first, limit=1)
    cells = engine.rows(con, query, name, error=PolicyError)[0]
    if len(cells) == len(columns) and None not in cells and cells[0] == columns[0]:
        query = templates.render(
            "tree/values.sql.j2:headless", table=table, columns=columns, cells=cells, type=kind, domain=domain
        )
        headless = any(engine.rows(con, query, name, error=PolicyError)[0])
    if headless:
        table = _table(hierarchy, form, headless=True, texts=texts)
        columns, listed = _columns(con, name, table)
    taken = "as a header" if cells[0] == columns[0] else "as a leaf, not as a header"
    note = f" (its first line, {';'.join(map(str, cells))!r}, was read {taken})"
    return _HierarchyRows(name, table, columns, listed, note, Path(hierarchy))


def _check_ragged(rows: _HierarchyRows) -> None:
    """Say which line of a file has more or fewer cells than most: DuckDB reads other columns then."""
    if rows.csv is None or rows.csv.suffix.lower() == ".gz":
        return
    with rows.csv.open(encoding="utf-8", errors="replace", newline="") as file:
        begin = file.readline()
        file.seek(0)
        delimiter = max(DELIMITERS, key=begin.count)
        lines, cells = csv.reader(file, delimiter=delimiter), list[tuple[int, int]]()
        with contextlib.suppress(csv.Error):
            cells = [(lines.line_num, len(line)) for line in lines if line]
    usual = Counter(count for _, count in cells).most_common(1)
    for line, count in cells:
        if count != usual[0][0]:
            raise PolicyError(
                f"{rows.name}: line {line} has {count} cells, the others have {usual[0][0]}: give every leaf "
                "a label at every level, the one below again where a level is missing"
            )


def _table(hierarchy: str, form: str | None, *, texts: bool, headless: bool = False) -> str:
    return templates.render(
        "relation.sql.j2:file", name=hierarchy, form=form, headless=headless, texts=texts
    ).strip()


def _columns(con: duckdb.DuckDBPyConnection, name: str, table: str) -> tuple[list[str], bool]:
    """Return the columns of a hierarchy, and whether the second of two is a list of labels."""
    columns = columns_of(con, table, name, error=PolicyError)
    if len(columns) < 2:
        raise PolicyError(f"{name} has one column: it needs columns from leaf to root")
    return [column for column, _ in columns], len(columns) == 2 and columns[1][1].endswith("[]")


def _paths(con: duckdb.DuckDBPyConnection, tree: str, domain: str, height: int) -> npt.NDArray[np.int64]:
    nodes = engine.table(
        con, templates.render("tree/values.sql.j2:paths", tree=tree, domain=domain), "hierarchy"
    )
    size = engine.table(con, templates.render("embed.sql.j2:counts", domain=domain), "hierarchy").num_rows
    numbers = arrow.numbers(nodes.column("node_number"))
    paths = np.zeros((size, height + 1), dtype=np.int64)
    paths[arrow.numbers(nodes.column("code")), arrow.numbers(nodes.column("level"))] = numbers
    with_path = nodes.num_rows // (height + 1)
    if with_path < size:
        # NULL is the last code: below the root it has no relatives.
        fresh = (int(numbers.max()) if len(numbers) else 0) + 1
        paths[-1, :height] = np.arange(fresh, fresh + height)
        paths[-1, height] = paths[0, height]
    return paths
