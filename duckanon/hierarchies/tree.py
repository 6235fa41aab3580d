"""Hierarchy tables: checked, and turned into rows of a value, a level and the node there."""

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
"""Most levels above the leaves: the prefixes of a code of a thousand characters."""

_DATABASES = (".duckdb", ".db", ".ddb")
_FORMS = {"csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"), "parquet": (".parquet",)}


def make_tree(
    con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, domain: str
) -> npt.NDArray[np.int64]:
    """Return the nodes above every value code (m, H + 1); the tree is left in a temporary table.

    The tree has the columns (value, level, node). `domain` is the temporary table of the values. NULL has
    nodes of its own below the root. PolicyError if the hierarchy is missing, or is not total, functional,
    nested and rooted.
    """
    height = _checked_tree(con, attribute, tree=tree, domain=domain)
    return _paths(con, tree, domain, height)


def make_climb(
    con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, climb: str, domain: str
) -> npt.NDArray[np.int64]:
    """Return the nodes above every value code (m, H + 1), in an order that keeps subtrees together.

    As `make_tree`. The codes of `domain` become these places, left with their nodes in a temporary table
    (place, value, level, node).
    """
    height = _checked_tree(con, attribute, tree=tree, domain=domain)
    statement = templates.render("tree/climb.sql.j2", climb=climb, tree=tree, domain=domain, height=height)
    engine.run(con, statement, f"hierarchy of {attribute.name!r}")
    return _paths(con, tree, domain, height)


def leaves_of(
    con: duckdb.DuckDBPyConnection, tree: str, domain: str, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the leaves below each node above the value codes (m, H + 1), and the number of all leaves.

    Call `make_climb` before. Leaves without records count, and so does NULL where it is a value.
    """
    query = templates.render("tree/values.sql.j2:leaves", tree=tree, domain=domain)
    rows = engine.table(con, query, "hierarchy")
    below = np.ones(shape, dtype=np.int64)
    below[arrow.numbers(rows.column("code")), arrow.numbers(rows.column("level"))] = arrow.numbers(
        rows.column("leaves")
    )
    if len(rows) < below.size:
        # NULL is the last code and adds a leaf.
        below[:, -1] = int(below[0, -1]) + (shape[0] > 1)
    return below, int(below[0, -1])


def audit_tree(con: duckdb.DuckDBPyConnection, workspace: str, attribute: Attribute, *, relation: str) -> str:
    """Return the tree (value, level, node) of a sensitive column as SQL text; every value needs a path."""
    domain, tree = f"{workspace}_domain_{attribute.name}", f"{workspace}_tree_{attribute.name}"
    statement = templates.render(
        "tree/values.sql.j2:domain", domain=domain, column=attribute.name, relation=relation
    )
    engine.run(con, statement, "audit")
    _checked_tree(con, attribute, tree=tree, domain=domain)
    return named("temp", tree)


def label_tree(
    con: duckdb.DuckDBPyConnection, hierarchy: Hierarchy, kind: str, *, tree: str, domain: str
) -> None:
    """Make the tree (value, level, node) of a hierarchy for a chart, without a check of its labels.

    PolicyError if the hierarchy cannot be read.
    """
    with _rows(con, hierarchy, kind, domain) as rows:
        _make(con, rows, kind, tree=tree, stage=rows.name)


def _make(con: duckdb.DuckDBPyConnection, rows: _HierarchyRows, kind: str, *, tree: str, stage: str) -> None:
    statement = templates.render(
        "tree/tree.sql.j2",
        tree=tree,
        columns=rows.columns,
        listed=rows.listed,
        table=rows.table,
        type=kind,
        text=kind == "VARCHAR",
    )
    engine.run(con, statement, stage, error=PolicyError)


@dataclass(frozen=True)
class _HierarchyRows:
    """Where the rows of a hierarchy are read from."""

    name: str  # name in errors
    table: str  # relation, as SQL text
    columns: list[str]  # from leaf to root; if `listed`, the leaf and the list of its labels
    listed: bool = False
    note: str = ""  # how the first line of a file was read
    csv: Path | None = None  # the file, if the rows are a CSV file


def _checked_tree(con: duckdb.DuckDBPyConnection, attribute: Attribute, *, tree: str, domain: str) -> int:
    """Make the temporary tree of a column and return its height; PolicyError says what is wrong."""
    kind = "VARCHAR" if attribute.kind == "text" else attribute.type
    of = f"of {attribute.name!r}"
    with _rows(con, attribute.hierarchy or "", kind, domain) as rows:
        _check_height(f"{rows.name} {of}", len(rows.columns) - 1)
        _make(con, rows, kind, tree=tree, stage=f"{rows.name} {of}")
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
    """Raise PolicyError if a hierarchy has more levels than `LEVELS`."""
    if levels > LEVELS:
        raise PolicyError(
            f"{hierarchy} has {levels:,} levels above the leaves, and at most {LEVELS:,} are read: leave out "
            "levels, above all those that group no more than the one below"
        )


@contextlib.contextmanager
def _rows(
    con: duckdb.DuckDBPyConnection, hierarchy: Hierarchy, kind: str, domain: str
) -> Iterator[_HierarchyRows]:
    """Give the rows of a hierarchy: those of a table or file, or those written in the policy."""
    if isinstance(hierarchy, str):
        yield _named(con, hierarchy, kind, domain)
        return
    columns = [f"level_{level}" for level in range(len(hierarchy[0]))]
    rows = pa.table([pa.array(cells, pa.string()) for cells in zip(*hierarchy, strict=True)], names=columns)
    with engine.registered(con, {f"{domain}_rows": rows}):
        yield _HierarchyRows("hierarchy", named("temp", f"{domain}_rows"), columns)


def _named(con: duckdb.DuckDBPyConnection, hierarchy: str, kind: str, domain: str) -> _HierarchyRows:
    """Return the rows of a relation as the user wrote it: a name of up to three parts, or a file that exists.

    The files of ARX have no header. DuckDB reads a first line of text as a header, so that its leaf is lost.
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
        # DuckDB would attach the file and read any relation in it, even a view.
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
    """Raise PolicyError for a line with more or fewer cells than most lines: DuckDB misreads such a file."""
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
    """Return the columns of a hierarchy, and whether it has two columns of which the second is a list."""
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
        # NULL is the last code: it shares only the root with other values.
        fresh = (int(numbers.max()) if len(numbers) else 0) + 1
        paths[-1, :height] = np.arange(fresh, fresh + height)
        paths[-1, height] = paths[0, height]
    return paths
