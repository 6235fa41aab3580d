"""Bucket: records that need no partition get their class at once, the others are dealt to tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

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
    from duckanon.release.stages.embed import Coordinates
    from duckanon.release.stages.thresholds import Limited

TILE = 4096
"""No kernel with quadratic cost meets more records than this at once."""

BROAD_TILE = 16384
"""Records of a tile where no kernel has quadratic cost: fewer borders, less loss."""

BY_CUTS = ("mondrian", "mondrian_relaxed")
"""Methods that cut the table."""

WHOLE = 2**31
"""No table has more records: Mondrian, which costs no more than sorting, sees it whole."""

LARGEST = 1024
"""No first partition has classes above this (or above k): merging does the rest."""

MAX_CUTS = 3
"""Coordinates along which tiles are cut, the widest ones."""

SAMPLED = 2**22
"""Open records above which a sample tells where tiles are cut. To cut them into equal parts takes four sorts
of all records, a tenth of the time of a release of 100,000,000."""

SAMPLE, MOST_SAMPLE, EACH = 2**20, 2**22, 128
"""Records of the sample, at least and at most, and for each tile in between."""


@dataclass(frozen=True)
class Cut:
    """A coded column and the number of parts that each tile so far is cut into along it."""

    column: str
    parts: int


@dataclass(frozen=True)
class Records:
    """Some coded records in memory."""

    record_id: npt.NDArray[np.int64]  # (n,)
    columns: dict[str, npt.NDArray[np.float64]]  # (n,) by quasi-identifier; NaN where a number is NULL
    codes: npt.NDArray[np.int64]  # (s, n), of the sensitive fields that have a threshold


@dataclass(frozen=True)
class Bucketed:
    """The ready classes and the tiles.

    In a ready class k or more records share all quasi-identifiers and meet every threshold.
    """

    limited: Limited
    ready: Records  # records whose class is settled
    ready_labels: npt.NDArray[np.int64]  # their classes, 0..
    tiles: str  # temporary table (record_id, tile) of the open records
    tile_count: int  # 0 when no record is open
    open_size: int  # number of open records


def bucket(
    con: duckdb.DuckDBPyConnection, limited: Limited, policy: Policy, *, name: str = "tiles"
) -> Bucketed:
    """Ready classes of exact duplicates, which lose no information at all, and tiles of the rest. O(n log n).

    None are ready in a table that one kernel sees whole: settled classes keep others from keeping t.
    Every tile gets its share of equal parts of the sensitive order, in a very large table about its share.
    Ties are cut by record_id, so the tiles do not depend on the physical order of the source.
    """
    embedded, staged = limited.embedded, limited.embedded.staged
    ready, labels = _ready(con, limited, policy)
    open_size = staged.size - len(labels)
    together = policy.method == "auto" and policy.refine and staged.size <= recipes.EXACT
    if open_size and (together or open_size < policy.k):
        # All ready classes open again where the kernel weighs them against others; the last one where too
        # few are left for a class of their own.
        keep = labels < (labels.max() if staged.size > TILE and not together else 0)
        ready, labels = subset(ready, keep), labels[keep]
        open_size = staged.size - len(labels)
    tiles = f"{staged.workspace}_{name}"
    tile_count = 0
    if open_size:
        cuts = cuts_of(embedded.axes, -(-open_size // tile_size(policy, limited.thresholds)))
        tile_count = math.prod(cut.parts for cut in cuts)
        shared = limited.thresholds and tile_count > 1
        strata = _strata(staged.size, policy, limited.thresholds) if shared else 1
        registered = f"{staged.workspace}_ready"
        with engine.registered(con, {registered: pa.table({"record_id": arrow.arrow(ready.record_id)})}):
            if tile_count > 1 and _sampled(open_size, tile_count * strata, policy):
                records = _Open(con, limited, registered, cuts, strata)
                tile_count = _deal_by_sample(records, tiles, open_size, least=4 * policy.k)
            else:
                _deal(con, limited, tiles=tiles, ready=registered, cuts=cuts, strata=strata)
    return Bucketed(limited, ready, labels, tiles, tile_count, open_size)


def tile_size(policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Records of a tile: `WHOLE` for Mondrian; else 4 k at least, `BROAD_TILE` or, if quadratic, `TILE`."""
    if policy.method in BY_CUTS:
        return WHOLE
    linear = policy.method in ("blocks", "full_domain")
    broad = linear or (policy.method == "auto" and (policy.refine or not thresholds))
    return max(BROAD_TILE if broad else TILE, 4 * policy.k)


def stratum_size(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Number of equal parts of the sensitive order of which every tile gets its share.

    It is the class size of t-closeness-first.
    """
    return recipes.stratum_size(n, policy.k, thresholds, largest=max(LARGEST, policy.k))


def _sampled(open_size: int, parts: int, policy: Policy) -> bool:
    """Whether a sample tells where tiles are cut: not where shares that are a little off are not repaired.

    Nor where it would have less than a record of each part, the share of a tile in a stratum.
    """
    repaired = policy.method == "auto" and policy.suppression_limit == 0
    return repaired and open_size > SAMPLED and parts <= SAMPLE


def _strata(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Number of parts of which every tile gets its share: of ``auto`` as many as `tile_strata` says."""
    count = recipes.tile_strata if policy.method == "auto" else recipes.stratum_size
    return count(n, policy.k, thresholds, largest=max(LARGEST, policy.k))


def stream(
    con: duckdb.DuckDBPyConnection, bucketed: Bucketed, *, only: int | None = None
) -> Iterator[Records]:
    """Open records, tile after tile (or `only` one tile), in the order of record_id.

    The connection belongs to the stream until its end; two tiles and one batch are in memory.
    """
    if not bucketed.tile_count:
        return
    embedded, codes = bucketed.limited.embedded, bucketed.limited.codes
    query = templates.render(
        "bucket/stream.sql.j2",
        tiles=bucketed.tiles,
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


def _ready(
    con: duckdb.DuckDBPyConnection, limited: Limited, policy: Policy
) -> tuple[Records, npt.NDArray[np.int64]]:
    embedded, codes = limited.embedded, limited.codes
    # A published method chosen by name does what its paper says: it gets every record. The optimal cut of one
    # column gets them, too: what lies between two values would lose more without them.
    cut = not limited.thresholds and dimensions(embedded.axes) == 1
    repetitions = policy.k if policy.method == "auto" and not cut else None
    query = templates.render(
        "bucket/repeated.sql.j2",
        coded=embedded.coded,
        axes=embedded.axes,
        codes=codes,
        repetitions=repetitions,
    )
    pieces: dict[str, list[npt.NDArray[Any]]] = {}
    for batch in engine.batches(con, query, "bucket"):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            pieces.setdefault(name, []).append(arrow.numbers(column))

    def whole(name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
        # Where most records are repeated these are most of the table: no column is in memory twice.
        return np.concatenate(pieces.pop(name, [np.zeros(0)])).astype(kind, copy=False)

    starts = whole("class_start", np.int64)
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(starts)) + 1, [len(starts)]]).astype(np.int64)
    sizes = np.diff(offsets) if len(starts) else np.zeros(0, dtype=np.int64)
    held = (
        np.stack([whole(column, np.int64) for column in codes]) if codes else np.zeros((0, len(starts)), int)
    )
    meets = np.ones(len(sizes), dtype=bool)
    if limited.thresholds and len(sizes):
        meets = violations_per_class(limited.thresholds, held, offsets).sum(axis=0) == 0
    keep = np.repeat(meets, sizes)
    labels = np.repeat(np.cumsum(meets) - 1, sizes)
    columns = {axis.column: whole(axis.column, np.float64)[keep] for axis in embedded.axes}
    records = Records(whole("record_id", np.int64)[keep], columns, np.ascontiguousarray(held[:, keep]))
    return records, labels[keep].astype(np.int64)


def _deal(
    con: duckdb.DuckDBPyConnection,
    limited: Limited,
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
        coded=limited.embedded.coded,
        ready=ready,
        codes=limited.codes,
        strata=strata,
        cuts=cuts,
        tile_count=math.prod(cut.parts for cut in cuts),
    )
    engine.run(con, statement, "bucket")


@dataclass(frozen=True)
class _Open:
    """The open records, of which a part is in memory at a time."""

    con: duckdb.DuckDBPyConnection
    limited: Limited
    ready: str  # registered table (record_id) of the others
    cuts: list[Cut]
    strata: int

    def batches(self, every: int = 1) -> Iterator[pa.RecordBatch]:
        """Record numbers, the numbers along each cut, and the codes of one in so many records."""
        query = templates.render(
            "bucket/open.sql.j2",
            coded=self.limited.embedded.coded,
            ready=self.ready,
            cuts=self.cuts,
            codes=self.limited.codes,
            every=every,
        )
        return engine.batches(self.con, query, "bucket")

    def columns(self, rows: pa.RecordBatch | pa.Table) -> list[npt.NDArray[np.float64]]:
        """What is cut: the place in the order of the sensitive values, and the number along each cut."""
        place, values = np.zeros(len(rows)), 1
        for code, counts in zip(self.limited.codes, self.limited.counts, strict=True):
            values *= len(counts)
            # Beyond that a DOUBLE holds no place, and what the first columns tell has to do.
            if values < 2**53:
                place = place * len(counts) + arrow.numbers(rows.column(code))
        return [place, *(arrow.numbers(rows.column(cut.column)).astype(np.float64) for cut in self.cuts)]

    def ties(self, rows: pa.RecordBatch | pa.Table) -> list[npt.NDArray[np.float64]]:
        """What cuts records that are equal: their numbers, which follow the values, and chance in strata.

        See bucket/tiles.sql.j2 for why.
        """
        number = arrow.numbers(rows.column("record_id"))
        if self.strata == 1:
            return [number.astype(np.float64)] * (len(self.cuts) + 1)
        return [chances(number, cut) for cut in range(len(self.cuts) + 1)]


def _deal_by_sample(records: _Open, tiles: str, size: int, *, least: int) -> int:
    """Make the table of the tiles by the bounds of a sample, and return how many tiles there are.

    One with less than `least` records joins the one before. O(n), and in memory only the sample.
    """
    parts = [records.strata, *(cut.parts for cut in records.cuts)]
    count, spool = math.prod(parts[1:]), Spool(spool_folder(records.con))
    every = size // min(max(SAMPLE, EACH * count), MOST_SAMPLE)
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
    """Return the number, 0.., of the tile that each one is a part of, so that none is too small."""
    homes, last, held = np.empty(len(sizes), np.int32), -1, least
    for tile, size in enumerate(sizes):
        if last < 0 or (held >= least and size >= least):
            last, held = last + 1, 0
        homes[tile] = last
        held += int(size)
    return homes


def cuts_of(axes: tuple[Coordinates, ...], tiles: int) -> list[Cut]:
    """Columns along which so many tiles are cut, the widest ones, and into how many parts each."""
    widest = sorted(axes, key=lambda axis: -axis.variance)
    usable = [axis for axis in widest if axis.variance > 0][:MAX_CUTS] or list(widest[:1])
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
    """Some of the records."""
    columns = {name: column[keep] for name, column in records.columns.items()}
    return Records(records.record_id[keep], columns, np.ascontiguousarray(records.codes[:, keep]))
