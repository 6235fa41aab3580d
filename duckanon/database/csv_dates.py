"""The order of day, month and year in the dates of a CSV column."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from duckanon.database import engine, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_PART = re.compile("%[dmyY]")


def year_first(written: str | None) -> bool:
    """Whether a format begins with the year in four digits: then the month always comes before the day."""
    return written is None or written.startswith("%Y")


def with_order(written: str | None, stated: str) -> str | None:
    """Format of timestamps with the stated format of dates; a format that begins with the year is kept.

    >>> with_order("%d.%m.%Y %H:%M:%S", "%m.%d.%Y")
    '%m.%d.%Y %H:%M:%S'
    """
    if written is None or year_first(written):
        return written
    _, separator, time = written.partition(" ")
    return stated + separator + time


def other_orders(
    con: duckdb.DuckDBPyConnection, stage: str, texts: str, column: str, written: str | None
) -> list[str]:
    """Formats that read all texts of a column as dates, some differently; first the format that was found.

    Empty if all formats agree. `texts` is a relation in which every column is text.
    """
    if written is None or len(_PART.findall(written)) != 3:
        return []
    parts = _PART.findall(written)
    orders = [
        order
        for order in itertools.permutations(parts)
        # A year of four digits stands at the end, or in front (see `year_first`).
        if order != tuple(parts) and ("%Y" not in order or order[2] == "%Y") and order[1] != "%y"
    ]
    formats = [_written(written, order) for order in orders]
    query = templates.render(
        "files/csv_columns.sql.j2:orders", relation=texts, column=column, found=written, formats=formats
    )
    (row,) = engine.rows(con, query, stage, error=SourceError)
    others = [one for one, possible in zip(formats, row, strict=True) if possible]
    return [written, *others] if others else []


def ambiguous(stage: str, column: str, orders: Sequence[str]) -> SourceError:
    """The error that names the possible formats."""
    choice = " or ".join(repr(order.partition(" ")[0]) for order in orders)
    return SourceError(
        f"{stage}: the dates in column {column!r} can be read in {len(orders)} ways: say which by "
        f"dateformat, {choice} (--dateformat on the command line, read_csv(..., dateformat = ...) in SQL)"
    )


def _written(found: str, order: Sequence[str]) -> str:
    places = iter(order)
    return _PART.sub(lambda _: next(places), found)
