"""Spool: rows that one stage writes batch by batch and a later one reads, on disk and not in memory."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import numpy.typing as npt

BYTES_IN_MEMORY = 16_000_000
"""Bytes up to which no file is made."""

ROWS_PER_WRITE = 65_536
"""Rows that are written together: a batch of its own costs DuckDB more than the rows of a tile do."""


class Spool:
    """Rows in the order in which they were added, in a file without a name that is gone with this object.

    Parameters
    ----------
    folder : Path or None
        Where the file is made, which nobody can open by a name; where temporary files are made without it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir())
        self._file = tempfile.SpooledTemporaryFile(max_size=BYTES_IN_MEMORY, dir=str(self._folder))  # noqa: SIM115
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._waiting: list[Mapping[str, npt.NDArray[Any]]] = []
        self._rows = 0
        # The file goes with this object, whatever ends the release.
        weakref.finalize(self, self._file.close)

    def add(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add rows: columns (n,) of the same names and types each time. O(n)."""
        rows = len(next(iter(columns.values())))
        # Few rows may be part of an array that would stay in memory with them.
        kept = (
            columns if rows >= ROWS_PER_WRITE else {name: values.copy() for name, values in columns.items()}
        )
        self._waiting.append(kept)
        self._rows += rows
        if self._rows >= ROWS_PER_WRITE:
            self._write()

    def _write(self) -> None:
        """Write all rows that wait as one batch."""
        waiting, self._waiting, self._rows = self._waiting, [], 0
        parts = {name: [columns[name] for columns in waiting] for name in waiting[0]}
        batch = pa.record_batch(
            {
                name: arrow.arrow(np.concatenate(part) if len(part) > 1 else part[0])
                for name, part in parts.items()
            }
        )
        try:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            self._writer.write_batch(batch)
        except OSError as full:
            raise DuckanonError(
                f"no room for {batch.nbytes} bytes more in {self._folder} ({full}): "
                "make room, or SET temp_directory to a folder with more"
            ) from full

    def read(self) -> pa.RecordBatchReader:
        """All rows from the first on; nothing can be added any more. One reader at a time."""
        if self._waiting:
            self._write()
        if self._writer is not None:
            self._writer.close()
        self._file.seek(0)
        return pa.ipc.open_stream(self._file)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All rows as columns in memory, by name."""
        rows = self.read().read_all()
        return {name: arrow.numbers(rows.column(name)) for name in rows.column_names}


def spool_folder(con: duckdb.DuckDBPyConnection) -> Path | None:
    """The folder into which DuckDB spills, where it is there; None for that of other temporary files."""
    query = templates.render("session.sql.j2:setting", name="temp_directory")
    named = engine.rows(con, query, "partition")[0][0]
    return Path(named) if named and Path(named).is_dir() else None
