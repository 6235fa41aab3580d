"""Variables of the user's program: our connection does not read them as tables."""

from __future__ import annotations

import re
import sys

from duckanon.errors import user_frame

_MISSING = re.compile(r"Table with name \"?(\w+)\"? does not exist")


def hint(cause: BaseException) -> str:
    """Hint for a DuckDB error about a table whose name is a variable of the caller; else empty."""
    match = _MISSING.search(str(cause))
    if match is None:
        return ""
    name, frame = match[1], user_frame(sys._getframe(1))
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    if not hasattr(value, "__arrow_c_stream__"):
        return ""
    return (
        f" {name!r} is a variable of Python and no table: register it on the DuckDB connection, as by "
        f"con.duckdb.register({name!r}, {name})"
    )
