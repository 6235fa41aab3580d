"""Guessed: whether a deFinetti attack finds sensitive values in a release with exact quasi-identifiers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import arrow, engine, templates
from duckanon.measures.definetti import Held, binned, by_counts, definetti, share_right
from duckanon.release.stages.recode.recode import labelled_relation

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.stages.stage import Field, Staged

ATTACK_MIN_GAIN_SHARE = 0.05
"""Share of the records by which the attack must beat a guess from the counts of classes, for a warning."""

CHANCE_DEVIATIONS = 3.0
"""Standard deviations by which the attack must beat chance, for a warning."""

ATTACK_RECORDS = 10_000
"""Records, about, on which the attack is tried; they form whole classes."""

ATTACK_MAX_PAIRS = 5_000_000
"""Pairs of a record and a value of its class above which the attack is not tried: it holds them in memory."""


def guessed(con: duckdb.DuckDBPyConnection, staged: Staged) -> list[str]:
    """Warnings of sensitive columns that a deFinetti attack finds, if quasi-identifiers are exact."""
    warnings = []
    for field in staged.sensitive:
        found = _found(con, staged, field)
        if found is None:
            continue
        right, counts, records = found
        if right - counts > max(
            ATTACK_MIN_GAIN_SHARE, CHANCE_DEVIATIONS * math.sqrt(counts * (1 - counts) / records)
        ):
            warnings.append(told(field.name, right, counts))
    return warnings


def told(name: str, right: float, counts: float) -> str:
    """Warning of a sensitive column that depends on the quasi-identifiers."""
    return (
        f"{name!r} goes with the quasi-identifiers, which are released exactly: a deFinetti attack finds it "
        f"for {right:.0%} of the records, where counts of their classes tell {counts:.0%}; take a larger l "
        "or k, fewer quasi-identifiers, or release = 'table' with t"
    )


def _found(con: duckdb.DuckDBPyConnection, staged: Staged, field: Field) -> tuple[float, float, int] | None:
    """Return the share that the attack finds, the share by counts alone, and the number of records.

    None if no class is examined, or a class is too large for the attack.
    """
    query = templates.render(
        "advice/guessed.sql.j2",
        labelled=labelled_relation(staged),
        quasi=staged.quasi,
        sensitive=field,
        step=-(-staged.size // ATTACK_RECORDS),
    )
    rows = engine.table(con, query, "advice")
    if not len(rows):
        return None
    numbers = {name: arrow.numbers(rows.column(name)).astype(np.int64) for name in rows.column_names}
    classes = np.unique(numbers["class"], return_inverse=True)[1].astype(np.int64)
    known = np.stack(
        [
            numbers[f"c{place}"] if one.nominal else binned(numbers[f"c{place}"])
            for place, one in enumerate(staged.quasi, start=1)
        ],
        axis=1,
    )
    pairs, records = np.unique(np.stack([classes, numbers["value"]]), axis=1, return_counts=True)
    if int(np.bincount(classes)[pairs[0]].sum()) > ATTACK_MAX_PAIRS:
        return None
    held = Held(pairs[0], pairs[1], records.astype(np.int64))
    guesses = definetti(classes, known, held)
    right = share_right(numbers["person"], guesses, numbers["person"], numbers["value"])
    return right, by_counts(classes, held), len(rows)
