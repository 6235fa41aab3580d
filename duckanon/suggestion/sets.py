"""How far small sets of columns single out records: pairs, triples, and special uniques."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon import progress
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import named
from duckanon.suggestion.model import SHOWN_SETS, ColumnSet, SpecialUniques

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.suggestion.profile import Facts

PAIRED = 24
"""Columns of which all pairs are counted: 276 of them at most."""

EXAMINED = 12
"""Columns of which all triples are counted, 220 at most, and among which minimal sets are sought."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Uniqueness(NamedTuple):
    """What was found: sets, the most unique first; special uniques; contributions; the columns examined."""

    sets: tuple[ColumnSet, ...]
    special: tuple[SpecialUniques, ...]
    contributions: tuple[tuple[str, float], ...]
    examined: tuple[str, ...]


def uniqueness_of_sets(
    con: duckdb.DuckDBPyConnection, workspace: str, records: str, sample: str, candidates: Sequence[Facts]
) -> Uniqueness:
    """Uniqueness of pairs and triples of columns, and minimal sets of records (SUDA).

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    workspace : str
        Prefix of temporary relations.
    records, sample : str
        Temporary tables: all records, and those to look at.
    candidates : sequence of Facts
        Columns that outsiders may know.

    Returns
    -------
    Uniqueness
        Pairs of the `PAIRED` candidates with the most values, triples of the `EXAMINED` first of these.

    Notes
    -----
    A set is special for a record that is alone on it and not alone on any part of it: a minimal sample unique
    of Elliot, Manning and Ford (2002), here up to three columns. One GROUP BY over small integers a set, at
    most 520 of them, and a dozen over all records.
    """
    chosen = sorted(candidates, key=lambda facts: -facts.values)[:PAIRED]
    if len(chosen) < 2:
        return Uniqueness((), (), (), ())
    codes = f"{workspace}_codes"
    columns = [facts.column.code for facts in chosen]
    engine.run(
        con, templates.render("suggest/codes.sql.j2", codes=codes, sample=sample, columns=columns), "suggest"
    )
    query = templates.render("relation/count.sql.j2", relation=named("temp", codes))
    size = int(engine.rows(con, query, "suggest")[0][0])
    examined = min(len(chosen), EXAMINED)
    wanted = _wanted(len(chosen), examined)
    alone: dict[tuple[int, ...], Flags] = {}
    special: dict[tuple[int, ...], Flags] = {}
    with progress.step("sets of columns", len(wanted), "sets") as step:
        for members in wanted:
            flags = _alone(con, codes, [columns[member] for member in members], size)
            part = _any((alone[part] for part in combinations(members, len(members) - 1) if part), size)
            special[members] = flags & ~part
            alone[members] = flags
            step.advance()
    names = [facts.column.name for facts in chosen]
    sets = [
        _set(tuple(names[m] for m in members), flags, special[members], total=chosen[0].records)
        for members, flags in alone.items()
        if len(members) > 1
    ]
    inside = {members: flags for members, flags in special.items() if max(members) < examined}
    places = dict(zip(names, columns, strict=True))
    return Uniqueness(
        _in_table(con, records, sorted(sets, key=_place), places),
        _by_size(inside, size),
        _contributions(inside, names[:examined]),
        tuple(names[:examined]),
    )


def _set(names: tuple[str, ...], alone: Flags, special: Flags, *, total: int) -> ColumnSet:
    unique = int(alone.sum())
    return ColumnSet(names, len(alone), unique, int(special.sum()), unique if len(alone) == total else None)


def _in_table(
    con: duckdb.DuckDBPyConnection, records: str, sets: Sequence[ColumnSet], codes: Mapping[str, str]
) -> tuple[ColumnSet, ...]:
    """Count the first pairs and triples over all records where only a sample of them was looked at."""
    first = {
        own.columns
        for size in (2, 3)
        for own in [one for one in sets if len(one.columns) == size][:SHOWN_SETS]
        if own.unique_in_table is None
    }
    return tuple(_recounted(con, records, own, codes) if own.columns in first else own for own in sets)


def _recounted(
    con: duckdb.DuckDBPyConnection, records: str, own: ColumnSet, codes: Mapping[str, str]
) -> ColumnSet:
    columns = [codes[name] for name in own.columns]
    query = templates.render("relation/combinations.sql.j2", records=records, columns=columns)
    return replace(own, unique_in_table=engine.rows(con, query, "suggest")[0][2])


def _place(found: ColumnSet) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the sort key of a set: the most unique first; of equals, what its parts do not show already."""
    return -found.unique_records, len(found.columns), -(found.special_records or 0), found.columns


def _wanted(paired: int, examined: int) -> list[tuple[int, ...]]:
    """Return the sets to count, each after its parts."""
    return [
        *combinations(range(paired), 1),
        *combinations(range(paired), 2),
        *combinations(range(examined), 3),
    ]


def _alone(con: duckdb.DuckDBPyConnection, codes: str, columns: list[str], size: int) -> Flags:
    query = templates.render("suggest/alone.sql.j2", codes=codes, columns=columns)
    flags = np.zeros(size, dtype=np.bool_)
    flags[arrow.numbers(engine.table(con, query, "suggest").column(0))] = True
    return flags


def _any(parts: Iterator[Flags], size: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(size, dtype=np.bool_)
    for flags in parts:
        found |= flags
    return found


def _by_size(special: Mapping[tuple[int, ...], Flags], size: int) -> tuple[SpecialUniques, ...]:
    """Return for each size the records that need as many columns, and the number of their minimal sets."""
    fewer = np.zeros(size, dtype=np.bool_)
    rows = []
    for columns in sorted({len(members) for members in special}):
        own = [flags for members, flags in special.items() if len(members) == columns]
        here = _any(iter(own), size)
        rows.append(
            SpecialUniques(columns, int((here & ~fewer).sum()), sum(int(flags.sum()) for flags in own))
        )
        fewer |= here
    return tuple(rows)


def _contributions(
    special: Mapping[tuple[int, ...], Flags], names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return the share of all minimal sets that each column is in."""
    counts = {members: int(flags.sum()) for members, flags in special.items()}
    total = max(sum(counts.values()), 1)
    shares = [
        (name, sum(count for members, count in counts.items() if place in members) / total)
        for place, name in enumerate(names)
    ]
    return tuple(sorted(shares, key=lambda own: -own[1]))
