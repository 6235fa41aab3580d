"""The two tables of an attack, and the temporary tables and queries that its steps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from duckanon.database import engine, templates
from duckanon.errors import SourceError
from duckanon.evaluation.attack.columns import STAGE

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from duckanon.evaluation.attack.columns import Column
    from duckanon.evaluation.attack.numbers import Spread
    from duckanon.evaluation.attack.options import Attack


class Sides(NamedTuple):
    """The two tables: as SQL text, and how a report calls them."""

    original: str
    release: str
    original_name: str
    release_name: str


@dataclass(frozen=True)
class Run:
    """What the steps of one preparation share.

    Attributes
    ----------
    con : duckdb.DuckDBPyConnection
        Sees both tables.
    sides : Sides
        The tables.
    attack : Attack
        Columns, interval, truth and sample.
    workspace : str
        What the names of its temporary tables begin with.
    quasi, guessed : tuple of Column
        Quasi-identifiers, and columns to be disclosed.
    wide : dict of Spread
        Where the numbers of the original lie, by name of column.
    records : int
        Of the original.
    """

    con: duckdb.DuckDBPyConnection
    sides: Sides
    attack: Attack
    workspace: str
    quasi: tuple[Column, ...]
    guessed: tuple[Column, ...]
    wide: dict[str, Spread]
    records: int

    @property
    def every(self) -> tuple[Column, ...]:
        """Quasi-identifiers, then the other columns."""
        return tuple(dict.fromkeys((*self.quasi, *self.guessed)))

    def named(self, name: str) -> str:
        """Full name of a temporary table."""
        return f"{self.workspace}_{name}"

    def text(self, name: str, **values: object) -> str:
        """Text of an SQL file, with the names that all of them share."""
        names = {part: self.named(part) for part in ("sample", "classes", "owner")}
        return templates.render(f"linkage/{name}.sql.j2", **{"columns": self.quasi, **names, **values})

    def run(self, name: str, **values: object) -> None:
        """Run an SQL file that makes a table."""
        engine.run(self.con, self.text(name, **values), STAGE, error=SourceError)

    def table(self, name: str, **values: object) -> pa.Table:
        """Rows of an SQL file."""
        return engine.table(self.con, self.text(name, **values), STAGE)
