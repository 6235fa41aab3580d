"""Spool: rows that one stage writes batch by batch and a later stage reads, on disk."""

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
"""Bytes that stay in memory before a file is made."""

ROWS_PER_WRITE = 65_536
"""Rows of a written batch: in DuckDB a batch costs more than the rows of a tile."""


class Spool:
    """Rows in the order of `add`, in a nameless file that disappears with this object.

    The file lies in `folder`, or in the folder for temporary files if `folder` is None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir())
        self._file = tempfile.SpooledTemporaryFile(max_size=BYTES_IN_MEMORY, dir=str(self._folder))  # noqa: SIM115
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._waiting: list[Mapping[str, npt.NDArray[Any]]] = []
        self._rows = 0
        # The file disappears with this object, whatever ends the release.
        weakref.finalize(self, self._file.close)

    def add(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add rows: columns (n,) with the same names and types each time. O(n)."""
        rows = len(next(iter(columns.values())))
        # A few rows may be a slice of a large array, which would stay in memory.
        kept = (
            columns if rows >= ROWS_PER_WRITE else {name: values.copy() for name, values in columns.items()}
        )
        self._waiting.append(kept)
        self._rows += rows
        if self._rows >= ROWS_PER_WRITE:
            self._write()

    def _write(self) -> None:
        """Write all waiting rows as one batch."""
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
        """All rows in order; no row can be added afterwards. One reader at a time."""
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
    """DuckDB's folder for temporary files if it exists; None for the system's folder."""
    query = templates.render("session.sql.j2:setting", name="temp_directory")
    named = engine.rows(con, query, "partition")[0][0]
    return Path(named) if named and Path(named).is_dir() else None
