"""The deFinetti attack on releases with exact quasi-identifiers: how often a sensitive value is found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from duckanon.audits.report import text_table
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import columns_of
from duckanon.errors import PolicyError, SourceError
from duckanon.evaluation.columns import STAGE, has_column
from duckanon.evaluation.prepare import SAMPLE
from duckanon.measures.definetti import Held, binned, by_counts, definetti, share_right
from duckanon.policy.kinds import NUMBERS, kind_of
from duckanon.policy.names import CLASS, fold
from duckanon.release.tables import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import pyarrow as pa

    from duckanon.evaluation.prepare import Sides

Form = Literal["anatomy", "swap"]


@dataclass(frozen=True)
class Guessed:
    """Result of the attack on a sensitive column.

    Attributes
    ----------
    sensitive : str
        The column.
    attacked : int
        Records whose value is guessed. 'anatomy': all records. 'swap': records whose known values occur
        together in one class only.
    right : float
        Share of the attacked records whose guess is right. Where records agree in all known values, their
        guesses are dealt at random.
    by_counts : float
        The same share if every guess is the most frequent value of the class; with 'anatomy' at most 1 / l.
    """

    sensitive: str
    attacked: int
    right: float
    by_counts: float


@dataclass(frozen=True)
class Definetti:
    """Result of a deFinetti attack.

    Attributes
    ----------
    original, release : str
        The tables.
    form : str
        ``anatomy`` or ``swap``.
    records : int
        Records of the original.
    columns : tuple of Guessed
        One a sensitive column.
    """

    original: str
    release: str
    form: Form
    records: int
    columns: tuple[Guessed, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: dicts, lists, strings, numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """A table, and what it means."""
        rows = [(one.sensitive, one.attacked, one.right, one.by_counts) for one in self.columns]
        return "\n".join(
            [
                f"deFinetti attack on {self.records} records of {self.original}",
                f"by the classes of {self.release}, released as {self.form!r}",
                "",
                *text_table(("sensitive", "attacked", "right", "by counts"), rows),
                "",
                "right: share of the attacked records whose value is guessed from the known columns, by what",
                "all classes together tell of both (Kifer 2009)",
                "by counts: the same for whoever names the most frequent value of the class",
            ]
        )


def definetti_attack(
    con: duckdb.DuckDBPyConnection,
    sides: Sides,
    quasi: Sequence[str],
    sensitive: Sequence[str],
    *,
    beside: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Definetti:
    """Guess the sensitive value of every person from a release with exact quasi-identifiers.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection; nothing is written.
    sides : Sides
        The original and the release. The original tells which guesses are right, and in 'swap' who is in
        which class.
    quasi, sensitive : sequence of str
        Known columns, and columns to be guessed.
    beside : str, optional
        Second table of a release as 'anatomy'; None for 'swap'.
    sample, seed : int
        'swap': at most `sample` persons are attacked, drawn by `seed`.

    Returns
    -------
    Definetti
        Shares of right guesses.

    Raises
    ------
    SourceError
        The release has no classes, or no person can be attacked.
    PolicyError
        A table lacks a column.

    Notes
    -----
    O(n log n) in SQL; in memory a pair for each record and value of its class. Method and source:
    `duckanon.measures.definetti`.
    """
    if not has_column(con, sides.release, CLASS):
        raise SourceError(
            f"{sides.release_name} has no column {CLASS!r}: the deFinetti attack is on releases with exact "
            "quasi-identifiers, release = 'anatomy' or 'swap'"
        )
    release = sides.release if beside is None else together(con, sides.release, beside, STAGE)
    form: Form = "swap" if beside is None else "anatomy"
    columns = [(name, _is_text(con, sides.original, name)) for name in quasi]
    for name in sensitive:
        for relation, what in ((sides.original, "original"), (release, "release")):
            if not has_column(con, relation, name):
                raise PolicyError(f"sensitive names {name!r}, which the {what} does not have")
    asked = {"original": sides.original, "release": release, "class": CLASS, "columns": columns}
    count = templates.render("relation.sql.j2:count", relation=sides.original)
    records = int(engine.rows(con, count, STAGE, error=SourceError)[0][0])
    found = []
    for name in sensitive:
        values = {**asked, "sensitive": name, "size": sample, "seed": seed}
        query = templates.render("linkage/definetti.sql.j2:held", **values)
        held = engine.table(con, query, STAGE)
        section = "whose" if form == "anatomy" else "dealt"
        query = templates.render(f"linkage/definetti.sql.j2:{section}", **values)
        found.append(_guessed(engine.table(con, query, STAGE), held, name, [text for _, text in columns]))
    return Definetti(sides.original_name, sides.release_name, form, records, tuple(found))


def _is_text(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> bool:
    """Tell whether the values of a column have no order."""
    kinds = {fold(column): kind for column, kind in columns_of(con, relation, STAGE)}
    if fold(name) not in kinds:
        raise PolicyError(f"quasi_identifiers names {name!r}, which the original does not have")
    return kind_of(kinds[fold(name)]) not in {*NUMBERS, "date", "timestamp"}


def _guessed(rows: pa.Table, held: pa.Table, name: str, texts: Sequence[bool]) -> Guessed:
    """Run the attack on a sensitive column, and count right guesses by the records with a true value."""
    number = {value: place for place, value in enumerate(dict.fromkeys(held.column("value").to_pylist()))}
    classes = np.unique(arrow.numbers(held.column("class")))
    holds = Held(
        np.searchsorted(classes, arrow.numbers(held.column("class"))).astype(np.int64),
        np.array([number[value] for value in held.column("value").to_pylist()], dtype=np.int64),
        arrow.numbers(held.column("records")).astype(np.int64),
    )
    ranks = [arrow.numbers(rows.column(f"c{place}")).astype(np.int64) for place in range(1, len(texts) + 1)]
    known = np.stack([one if text else binned(one) for one, text in zip(ranks, texts, strict=True)], axis=1)
    person = arrow.numbers(rows.column("person")).astype(np.int64)
    # Rows of the original have no class; in 'swap' a row has the class of its person.
    released = ~np.asarray(rows.column("class").is_null())
    own = arrow.numbers(rows.column("class").fill_null(-1)).astype(np.int64)
    true = np.array([number.get(value, -1) for value in rows.column("value").to_pylist()], dtype=np.int64)
    of_original = ~released if not released.all() else released
    if not released.any():
        raise SourceError(
            "no person has values that occur together in one class only: nothing can be attacked"
        )
    at = np.searchsorted(classes, own[released]).astype(np.int64)
    guesses = definetti(at, known[released], holds)
    right = share_right(person[released], guesses, person[of_original], true[of_original])
    return Guessed(name, int(released.sum()), right, by_counts(at, holds))
