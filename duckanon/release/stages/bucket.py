"""Bucket: equal records get ready classes, and all other records are distributed to tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from duckanon import progress
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import named
from duckanon.database.spool import Spool, spool_folder
from duckanon.kernels import recipes
from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.dealing import bounds_of, chances, dealt
from duckanon.release.stages.embed import dimensions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Coordinates, Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.stage import Staged

Number = TypeVar("Number", np.int64, np.float64)

TILE_RECORDS = 4096
"""Records of a tile for kernels with quadratic cost."""

BROAD_TILE_RECORDS = 16384
"""Records of a tile for other kernels: fewer tiles have fewer borders, which lose less."""

CUTTING_METHODS = ("mondrian", "mondrian_relaxed")
"""Methods that cut the table from above."""

WHOLE_TABLE_RECORDS = 2**31
"""More records than any table has. Mondrian costs no more than sorting, so its tile is the whole table."""

FIRST_CLASS_MAX_RECORDS = 1024
"""Largest class of a first partition, in records, unless k is larger. Merging makes larger classes."""

CUT_MAX_COORDINATES = 3
"""Largest number of coordinates along which tiles are cut; the widest are taken."""

SAMPLED_TABLE_MIN_RECORDS = 2**22
"""Open records above which tiles are cut by a sample. Exact cuts would take four sorts, a tenth of the time
of a release of 100,000,000."""

SAMPLE_MIN_RECORDS, SAMPLE_MAX_RECORDS, SAMPLE_RECORDS_PER_TILE = 2**20, 2**22, 128
"""Records of that sample at least and at most, and records for each tile between these limits."""


@dataclass(frozen=True)
class Cut:
    """A coded column, and the number of parts into which each present tile is cut along it."""

    column: str
    parts: int


@dataclass(frozen=True)
class Records:
    """Some coded records in memory."""

    record_id: npt.NDArray[np.int64]  # (n,)
    columns: dict[str, npt.NDArray[np.float64]]  # (n,) by quasi-identifier; NaN where a number is NULL
    codes: npt.NDArray[np.int64]  # (s, n), of the sensitive fields that have a threshold


@dataclass(frozen=True)
class Tiles:
    """Tiles, and ready classes: k or more records with equal quasi-identifiers that keep the thresholds."""

    ready: Records  # records of the ready classes
    ready_labels: npt.NDArray[np.int64]  # classes of these records, from 0
    table: str  # temporary table (record_id, tile) of the open records
    count: int  # number of tiles; 0 if no record is open
    open_size: int  # number of open records


@progress.step("bucket")
def bucket(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Tiles:
    """Ready classes of exact duplicates, which lose nothing, and tiles of all other records. O(n log n).

    A table that one kernel sees whole has no ready classes: the kernel weighs duplicates against other
    records. Every tile gets its share of each part of the sensitive order. Ties are cut by record_id.
    """
    ready, labels = _ready(con, embedded, limits, policy)
    open_size = staged.size - len(labels)
    together = policy.method == "auto" and policy.refine and staged.size <= recipes.MDAV_MAX_RECORDS
    if open_size and (together or open_size < policy.k):
        # A kernel that sees the whole table weighs duplicates against other records, so all records are open.
        # With fewer than k open records, the last ready class is opened and takes them in.
        keep = labels < (labels.max() if staged.size > TILE_RECORDS and not together else 0)
        ready, labels = subset(ready, keep), labels[keep]
        open_size = staged.size - len(labels)
    tiles = f"{staged.workspace}_tiles"
    tile_count = 0
    if open_size:
        cuts = cuts_of(embedded.axes, -(-open_size // tile_size(policy, limits.thresholds)))
        tile_count = math.prod(cut.parts for cut in cuts)
        shared = limits.thresholds and tile_count > 1
        strata = _strata(staged.size, policy, limits.thresholds) if shared else 1
        registered = f"{staged.workspace}_ready"
        with engine.registered(con, {registered: pa.table({"record_id": arrow.arrow(ready.record_id)})}):
            if tile_count > 1 and _sampled(open_size, tile_count * strata, policy):
                records = _Open(con, embedded, limits, registered, cuts, strata)
                tile_count = _deal_by_sample(records, tiles, open_size, least=4 * policy.k)
            else:
                _deal(con, embedded, limits, tiles=tiles, ready=registered, cuts=cuts, strata=strata)
    return Tiles(ready, labels, tiles, tile_count, open_size)


def tile_size(policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Records of a tile, at least 4 k: more for kernels without quadratic cost, all for Mondrian."""
    if policy.method in CUTTING_METHODS:
        return WHOLE_TABLE_RECORDS
    linear = policy.method in ("blocks", "full_domain")
    broad = linear or (policy.method == "auto" and (policy.refine or not thresholds))
    return max(BROAD_TILE_RECORDS if broad else TILE_RECORDS, 4 * policy.k)


def stratum_size(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Number of equal parts of the sensitive order: the class size of t-closeness-first."""
    return recipes.stratum_size(n, policy.k, thresholds, largest=max(FIRST_CLASS_MAX_RECORDS, policy.k))


def _sampled(open_size: int, parts: int, policy: Policy) -> bool:
    """Whether tiles are cut by a sample, which has a record of each part of a tile.

    Shares of the sensitive order are then slightly off, so classes must be repaired afterwards.
    """
    repaired = policy.method == "auto" and policy.suppression_limit == 0
    return repaired and open_size > SAMPLED_TABLE_MIN_RECORDS and parts <= SAMPLE_MIN_RECORDS


def _strata(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Number of equal parts of the sensitive order, of which every tile gets its share."""
    count = recipes.tile_strata if policy.method == "auto" else recipes.stratum_size
    return count(n, policy.k, thresholds, largest=max(FIRST_CLASS_MAX_RECORDS, policy.k))


def stream(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    *,
    only: int | None = None,
) -> Iterator[Records]:
    """Open records, tile by tile (or `only` one tile), in the order of record_id.

    Nothing else may use the connection before the end; two tiles and one batch are in memory.
    """
    if not tiles.count:
        return
    codes = limits.codes
    query = templates.render(
        "bucket/stream.sql.j2",
        tiles=tiles.table,
        coded=embedded.coded,
        axes=embedded.axes,
        codes=codes,
        only=only,
    )
    pending: list[pa.RecordBatch] = []
    current: int | None = None
    for batch in engine.batches(con, query, "bucket"):
        numbers = arrow.numbers(batch.column(0))
        starts = np.flatnonzero(np.diff(numbers)) + 1
        for start, stop in zip([0, *starts], [*starts, len(numbers)], strict=True):
            if stop == start:
                continue
            if current is not None and numbers[start] != current:
                yield _records(pa.Table.from_batches(pending), embedded.axes, codes)
                pending = []
            current = int(numbers[start])
            pending.append(batch.slice(start, stop - start))
    if current is not None:
        yield _records(pa.Table.from_batches(pending), embedded.axes, codes)


def drop_tiles(con: duckdb.DuckDBPyConnection, tiles: Tiles) -> None:
    """Drop the table of the tiles, which has no further reader."""
    if tiles.count:
        drop = templates.render("relation.sql.j2:drop", parts=("temp", tiles.table), view=False)
        engine.run(con, drop, "bucket")


def _ready(
    con: duckdb.DuckDBPyConnection, embedded: Embedded, limits: Limits, policy: Policy
) -> tuple[Records, npt.NDArray[np.int64]]:
    codes = limits.codes
    # A published method chosen by name gets every record, as in its paper. So does the optimal cut of one
    # column: without the duplicates, classes of values on both sides of them would lose more.
    cut = not limits.thresholds and dimensions(embedded.axes) == 1
    repetitions = policy.k if policy.method == "auto" and not cut else None
    query = templates.render(
        "bucket/repeated.sql.j2",
        coded=embedded.coded,
        axes=embedded.axes,
        codes=codes,
        repetitions=repetitions,
    )
    pieces: dict[str, list[npt.NDArray[np.generic]]] = {}
    for batch in engine.batches(con, query, "bucket"):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            pieces.setdefault(name, []).append(arrow.numbers(column))

    def whole(name: str, kind: type[Number]) -> npt.NDArray[Number]:
        # The repeated records may be most of the table, so no column is in memory twice.
        return np.concatenate(pieces.pop(name, [np.zeros(0)])).astype(kind, copy=False)

    starts = whole("class_start", np.int64)
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(starts)) + 1, [len(starts)]]).astype(np.int64)
    sizes = np.diff(offsets) if len(starts) else np.zeros(0, dtype=np.int64)
    held = (
        np.stack([whole(column, np.int64) for column in codes]) if codes else np.zeros((0, len(starts)), int)
    )
    meets = np.ones(len(sizes), dtype=bool)
    if limits.thresholds and len(sizes):
        meets = violations_per_class(limits.thresholds, held, offsets).sum(axis=0) == 0
    keep = np.repeat(meets, sizes)
    labels = np.repeat(np.cumsum(meets) - 1, sizes)
    columns = {axis.column: whole(axis.column, np.float64)[keep] for axis in embedded.axes}
    records = Records(whole("record_id", np.int64)[keep], columns, np.ascontiguousarray(held[:, keep]))
    return records, labels[keep].astype(np.int64)


def _deal(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    limits: Limits,
    *,
    tiles: str,
    ready: str,
    cuts: list[Cut],
    strata: int,
) -> None:
    """Make the table of the tiles by cutting the records into equal parts."""
    statement = templates.render(
        "bucket/tiles.sql.j2",
        tiles=tiles,
        coded=embedded.coded,
        ready=ready,
        codes=limits.codes,
        strata=strata,
        cuts=cuts,
        tile_count=math.prod(cut.parts for cut in cuts),
    )
    engine.run(con, statement, "bucket")


@dataclass(frozen=True)
class _Open:
    """The open records, read part by part."""

    con: duckdb.DuckDBPyConnection
    embedded: Embedded
    limits: Limits
    ready: str  # registered table (record_id) of the records in ready classes
    cuts: list[Cut]
    strata: int

    def batches(self, every: int = 1) -> Iterator[pa.RecordBatch]:
        """Numbers, numbers along each cut, and codes of every `every`-th record."""
        query = templates.render(
            "bucket/open.sql.j2",
            coded=self.embedded.coded,
            ready=self.ready,
            cuts=self.cuts,
            codes=self.limits.codes,
            every=every,
        )
        return engine.batches(self.con, query, "bucket")

    def columns(self, rows: pa.RecordBatch | pa.Table) -> list[npt.NDArray[np.float64]]:
        """Sort keys of the cuts: place in the order of the sensitive values, and number along each cut."""
        place, values = np.zeros(len(rows)), 1
        for code, counts in zip(self.limits.codes, self.limits.counts, strict=True):
            values *= len(counts)
            # A DOUBLE distinguishes only 2^53 places, so the first columns decide.
            if values < 2**53:
                place = place * len(counts) + arrow.numbers(rows.column(code))
        return [place, *(arrow.numbers(rows.column(cut.column)).astype(np.float64) for cut in self.cuts)]

    def ties(self, rows: pa.RecordBatch | pa.Table) -> list[npt.NDArray[np.float64]]:
        """Sort keys of equal records: their numbers, which follow the values; in strata, mixed numbers.

        The reason is in bucket/tiles.sql.j2.
        """
        number = arrow.numbers(rows.column("record_id"))
        if self.strata == 1:
            return [number.astype(np.float64)] * (len(self.cuts) + 1)
        return [chances(number, cut) for cut in range(len(self.cuts) + 1)]


def _deal_by_sample(records: _Open, tiles: str, size: int, *, least: int) -> int:
    """Make the table of the tiles by the bounds of a sample, and return the number of tiles.

    A tile with fewer than `least` records joins the tile before it. O(n); only the sample is in memory.
    """
    parts = [records.strata, *(cut.parts for cut in records.cuts)]
    count, spool = math.prod(parts[1:]), Spool(spool_folder(records.con))
    every = size // min(max(SAMPLE_MIN_RECORDS, SAMPLE_RECORDS_PER_TILE * count), SAMPLE_MAX_RECORDS)
    sample = pa.Table.from_batches([*records.batches(every)])
    levels = bounds_of(records.columns(sample), records.ties(sample), parts)
    sizes = np.zeros(count, np.int64)
    for batch in records.batches():
        tile = dealt(records.columns(batch), records.ties(batch), levels) % count
        sizes += np.bincount(tile, minlength=count)
        spool.add({"record_id": arrow.numbers(batch.column("record_id")), "tile": tile.astype(np.int32)})
    homes, dealt_rows = _homes(sizes, least), spool.read()
    at_home = (
        pa.record_batch([rows.column(0), arrow.arrow(homes[arrow.numbers(rows.column(1))])], rows.schema)
        for rows in dealt_rows
    )
    reader = pa.RecordBatchReader.from_batches(dealt_rows.schema, at_home)
    with engine.registered(records.con, {f"{tiles}_rows": reader}):
        statement = templates.render("relation.sql.j2:load", table=tiles, relation=named(f"{tiles}_rows"))
        engine.run(records.con, statement, "bucket")
    return int(homes[-1]) + 1


def _homes(sizes: npt.NDArray[np.int64], least: int) -> npt.NDArray[np.int32]:
    """Return the tile, from 0, that each tile joins, so that no tile has too few records."""
    homes, last, held = np.empty(len(sizes), np.int32), -1, least
    for tile, size in enumerate(sizes):
        if last < 0 or (held >= least and size >= least):
            last, held = last + 1, 0
        homes[tile] = last
        held += int(size)
    return homes


def cuts_of(axes: tuple[Coordinates, ...], tiles: int) -> list[Cut]:
    """The widest columns, and the number of parts along each, for so many tiles."""
    widest = sorted(axes, key=lambda axis: -axis.variance)
    usable = [axis for axis in widest if axis.variance > 0][:CUT_MAX_COORDINATES] or list(widest[:1])
    cuts: list[Cut] = []
    left = tiles
    for number, axis in enumerate(usable):
        parts = round(left ** (1 / (len(usable) - number)))
        if axis.corners is not None and number < len(usable) - 1:
            parts = min(parts, len(axis.corners))
        parts = left if number == len(usable) - 1 else max(1, parts)
        cuts.append(Cut(axis.column, parts))
        left = -(-left // parts)
    return cuts


def _records(table: pa.Table, axes: tuple[Coordinates, ...], codes: tuple[str, ...]) -> Records:
    record_id = arrow.numbers(table.column("record_id")).astype(np.int64)
    columns = {axis.column: arrow.numbers(table.column(axis.column)).astype(np.float64) for axis in axes}
    stacked = [arrow.numbers(table.column(column)).astype(np.int64) for column in codes]
    values = np.stack(stacked) if stacked else np.zeros((0, len(record_id)), dtype=np.int64)
    return Records(record_id, columns, values)


def subset(records: Records, keep: npt.NDArray[np.bool_]) -> Records:
    """The chosen records."""
    columns = {name: column[keep] for name, column in records.columns.items()}
    return Records(records.record_id[keep], columns, np.ascontiguousarray(records.codes[:, keep]))
