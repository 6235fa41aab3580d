"""Rows of a hierarchy as users give them: a leaf, then its labels up to the root."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duckanon.errors import PolicyError


def rows_of_frame(option: str, value: Any) -> Any:
    """Return the rows of a table of pandas, polars or Arrow; return any other value unchanged."""
    if hasattr(value, "itertuples"):
        named = [str(name) for name in value.index.names if name is not None]
        if named:
            raise PolicyError(
                f"{option}: the index ({', '.join(named)}) of the DataFrame is no column: reset_index() "
                "makes columns of it"
            )
        rows = value.itertuples(index=False, name=None)
    elif hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns"):
        # Imported here because a policy without frames needs no Arrow.
        import pyarrow as pa

        rows = zip(*(column.to_pylist() for column in pa.table(value).columns), strict=True)
    else:
        return value
    # The hierarchy macros make tables of two columns: the leaf, and the list of its labels.
    return [
        (row[0], *row[1])
        if len(row) == 2 and not isinstance(row[1], str) and isinstance(row[1], Iterable)
        else row
        for row in rows
    ]


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:
        # pandas.NA gives no boolean when it is compared.
        return True


def hierarchy_cell(option: str, value: Any, level: int) -> str:
    """Return a hierarchy cell as DuckDB writes a value of its type; only a leaf may be empty text."""
    if _is_missing(value) or (value == "" and level):
        raise PolicyError(f"{option} has an empty cell: leave NULL out, it is a leaf of its own")
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_rows(option: str, rows: tuple[tuple[str, ...], ...]) -> None:
    """Raise unless every leaf has equally many labels, at least one."""
    heights = {len(row) for row in rows}
    if not rows or max(heights) < 2:
        raise PolicyError(f"{option} has no label above a leaf: give each leaf one or more, up to the root")
    if len(heights) > 1:
        short = next(row for row in rows if len(row) < max(heights))
        raise PolicyError(
            f"{option} gives {short[0]!r} {len(short) - 1} labels and others {max(heights) - 1}: give every "
            "leaf as many, up to the root"
        )
