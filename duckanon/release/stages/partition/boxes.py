"""Boxes: parts of the table that are natural supersets, for (n, t)-closeness.

Mondrian cuts the table at values of the quasi-identifiers as long as both parts have n records and keep l and
the bounds of shares. Classes are then made within the boxes, and their t is the distance from the box. A
class of the release lies in a box by its released values: `supersets` finds the least bounds of these values
which hold the classes of the box, and no class of another box if the values allow it. The audit looks at
nothing but the bounds. Source: Li, Li and Venkatasubramanian, IEEE TKDE 22(7), 2010, section 5, where the
supersets of a class are the parts that Mondrian cut before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon import progress
from duckanon.audits.certificate import SUPERSETS_MAX, Supersets
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import named
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.merge import violations_of
from duckanon.literature.registry import Task, run_named
from duckanon.release.stages.bucket import Records, Tiles
from duckanon.release.stages.embed import cut_points
from duckanon.release.stages.recode import class_codes
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.stage import Staged

    Integers = npt.NDArray[np.int64]


def without_t(limits: Limits) -> Limits:
    """Return the limits without t; fields that have no other threshold are left out."""
    kept = [
        (field, replace(threshold, t=None), counts)
        for field, threshold, counts in zip(limits.fields, limits.thresholds, limits.counts, strict=True)
        if threshold.l is not None or threshold.shares is not None
    ]
    fields, thresholds, counts = zip(*kept, strict=True) if kept else ((), (), ())
    return replace(limits, fields=fields, thresholds=thresholds, counts=counts)


@progress.step("boxes")
def box_tiles(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> Tiles:
    """Boxes of n records or more as tiles: every record is in one. O(n log n), all records in memory."""
    size = staged.size

    def read(column: str) -> npt.NDArray[np.float64]:
        return column_of(con, embedded.coded, column, size, "boxes")

    points, trees = cut_points(embedded.axes, {axis.column: read(axis.column) for axis in embedded.axes})
    others = without_t(limits)
    codes = [read(column).astype(np.int64) for column in others.codes]
    least = max(policy.n or 1, policy.k, -(-size // SUPERSETS_MAX))
    cut = Task(points, least, codes, others.thresholds, trees=trees, stop=lambda: staged.late)
    box = run_named("mondrian", cut, {})
    tiles = f"{staged.workspace}_tiles"
    rows = pa.table({"record_id": arrow.arrow(np.arange(1, size + 1)), "tile": arrow.arrow(box)})
    with engine.registered(con, {f"{tiles}_rows": rows}):
        load = templates.render("relation.sql.j2:load", table=tiles, relation=named(f"{tiles}_rows"))
        engine.run(con, load, "boxes")
    nobody = np.zeros(0, dtype=np.int64)
    columns = {axis.column: np.zeros(0) for axis in embedded.axes}
    none = Records(nobody, columns, np.zeros((len(limits.codes), 0), dtype=np.int64))
    return Tiles(none, nobody, tiles, int(box.max()) + 1, size)


def box_thresholds(limits: Limits, codes: Integers) -> tuple[Threshold, ...]:
    """Thresholds of the classes in a box whose records have these codes (s, n): t is measured from the box.

    The ranks of ordered distance are still those of the table, as in the audit.
    """
    found = []
    for threshold, of in zip(limits.thresholds, codes, strict=True):
        whole = threshold.reference
        counts = np.bincount(of, minlength=len(whole.counts)).astype(np.int64)
        found.append(replace(threshold, reference=reference(counts, whole.distance, part=True)))
    return tuple(found)


def supersets(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    classes: Classes,
    box: Integers,
    policy: Policy,
) -> Supersets | None:
    """Bounds that hold the classes of each box, `box` (m,), in ranks of the values that they release.

    Rounding may give classes of two boxes the same value, so that the bounds of a box hold classes of
    another. None if a class is too far from all records within its bounds.
    """
    ranks, nulls = class_codes(con, staged, classes, staged.quasi, policy)
    listed = [field.sort_type == "VARCHAR" for field in staged.quasi]
    codes: Integers | None = None
    labels = classes.by_record(staged.size)
    found: list[tuple[int, int, int, int]] = []
    for number in range(int(box.max()) + 1):
        bounds, held = bounds_of(ranks, nulls, box == number, listed)
        if (held & (box != number)).any():
            if codes is None:
                read = [column_of(con, embedded.coded, of, staged.size, "boxes") for of in limits.codes]
                codes = np.stack(read).astype(np.int64)
            inside = held[labels]
            near = box_thresholds(limits, codes[:, inside])
            own = violations_of(near, codes[:, inside], np.unique(labels[inside], return_inverse=True)[1])
            if own[box[held] == number].any():
                return None
        found += [(number + 1, *bound) for bound in bounds]
    return Supersets.of_rows(found)


def bounds_of(
    ranks: Integers, nulls: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], listed: Sequence[bool]
) -> tuple[list[tuple[int, int, int]], npt.NDArray[np.bool_]]:
    """Least bounds (place, first, last) of some classes, `inside` (m,), and all classes (m,) that these hold.

    `ranks` and `nulls` are (q, m); places and ranks in bounds begin at 1. In a `listed` column each rank is a
    bound of its own, and so is NULL in every column; else the ranks from the least to the greatest are one
    bound. Columns that keep no other class out have none. O(q m).
    """
    spans, out = [], []
    for row, null, alone in zip(ranks, nulls, listed, strict=True):
        single = np.unique(row[inside & (null | alone)])
        of = [(int(rank), int(rank)) for rank in single]
        if not alone and (inside & ~null).any():
            among = row[inside & ~null]
            of.append((int(among.min()), int(among.max())))
        within = np.isin(row, single)
        for first, last in of[len(single) :]:
            within |= (row >= first) & (row <= last)
        spans.append(of)
        out.append(~within)
    missing = np.sum(out, axis=0)
    bounds = []
    for place, (of, outside) in enumerate(zip(spans, out, strict=True), start=1):
        if ((missing == 1) & outside).any():
            bounds += [(place, first + 1, last + 1) for first, last in of]
        else:
            # Other columns keep the same classes out.
            missing = missing - outside
    return bounds, missing == 0


ALL_RECORDS = Supersets.of_rows(())
"""No box: t is the distance from all records alone, which always are a superset."""
