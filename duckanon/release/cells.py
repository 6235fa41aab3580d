"""Cells of a CSV: a range becomes a text, and spreadsheets read some texts as formulas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from duckanon.audits.certificate import Supersets
from duckanon.database import engine, templates
from duckanon.errors import tell
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import listed
from duckanon.policy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    Columns = Sequence[tuple[str, str]]

_FORMULA = re.compile(r"'*[=+@\t\r-]")
"""Texts that sql/export/csv.sql.j2:escape quotes."""

_FORMULA_AS_IT_IS = re.compile(r"[=+@\t\r-]")
"""Texts that sql/export/csv.sql.j2:formulas searches for."""

FORMULA_COLUMNS_PER_STATEMENT = 200
"""Text columns that one statement searches for formulas."""

_UNSIGNED_RANGE = re.compile(r"STRUCT\(low (U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(\d+,\d+\)), .*")
"""Types of ranges whose numbers have no sign except a leading minus; a float such as 1e-05 has one inside."""


def spans_of(con: duckdb.DuckDBPyConnection, policy: str, columns: Columns, relation: str) -> dict[str, str]:
    """Separator of the ends of the ranges in each column: ``20-27`` if the ends have no sign."""
    recode = Policy.from_toml(policy).recode
    types = {name: type_text for name, type_text in columns if recode.get(name) == "range"}
    plain = [name for name, type_text in types.items() if _UNSIGNED_RANGE.fullmatch(type_text)]
    below = set()
    if plain:
        query = templates.render("export/csv.sql.j2:negative", columns=plain, relation=relation)
        below = {name for name, negative in engine.rows(con, query, "export") if negative}
    return {name: "-" if name in plain and name not in below else " to " for name in types}


def texts_of(columns: Columns) -> list[str]:
    """Columns in which a spreadsheet can read a cell as a formula; numbers and dates are safe."""
    return [name for name, type_text in columns if kind_of(type_text) in {"text", "other"}]


def boxes_of(
    con: duckdb.DuckDBPyConnection,
    boxes: Supersets,
    columns: Columns,
    relation: str,
    *,
    texts: Sequence[str],
    escaped: Sequence[str],
    spans: Mapping[str, str],
) -> Supersets:
    """Boxes of a release in the ranks of a CSV, of which the columns `texts` are read as text.

    `columns` are the quasi-identifiers of the release in their order; `escaped` and `spans` are as written.
    """
    qi = [
        {
            "name": name,
            "type": kind,
            "text": name in texts,
            "escaped": name in escaped,
            "span": spans.get(name) if name in texts else None,
        }
        for name, kind in columns
    ]
    with engine.temporary(con) as workspace:
        bounds = f"{workspace}_bounds"
        query = templates.render("export/csv.sql.j2:boxes", relation=relation, bounds=bounds, qi=qi)
        with engine.registered(con, {bounds: boxes.bounds}):
            return Supersets(engine.table(con, query, "export"))


def header_of(columns: Columns) -> list[str]:
    """Names of columns in the header of a CSV of escaped texts."""
    return [f"'{name}" if _FORMULA.match(name) else name for name, _ in columns]


def warn_of_formulas(con: duckdb.DuckDBPyConnection, columns: Columns, relation: str, path: str) -> None:
    """Warn of texts that a spreadsheet would read as formulas."""
    texts, found = texts_of(columns), set()
    types = dict(columns)
    typed = [(name, types[name] == "VARCHAR") for name in texts]
    query = templates.render("export/csv.sql.j2:any_formula", columns=typed, relation=relation)
    perhaps = bool(texts) and engine.rows(con, query, "export") != [(False,)]
    for part in engine.in_parts(texts if perhaps else [], FORMULA_COLUMNS_PER_STATEMENT):
        query = templates.render("export/csv.sql.j2:formulas", columns=part, relation=relation)
        (row,) = engine.rows(con, query, "export")
        found |= {name for name, formulas in zip(part, row, strict=True) if formulas}
    names = [name for name, _ in columns if name in found or _FORMULA_AS_IT_IS.match(name)]
    if names:
        columns_found = listed("columns", names)
        words = f"{path!r}: a spreadsheet takes texts of {columns_found} for formulas: give csv_formulas"
        tell(f"{words} = 'escape' for a quote in front, or 'keep'")
