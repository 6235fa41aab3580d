"""Repair: the worst classes are suppressed or merged until every class satisfies every threshold.

Repair always ends: every merge removes a class, and the class of all records has EMD 0.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon import progress
from duckanon.kernels.merge import class_members, merge_classes, violations_of
from duckanon.kernels.neighbours.centroids import nearest
from duckanon.kernels.neighbours.kd import kd_order
from duckanon.kernels.points import distance_points
from duckanon.release.stages.classes import Classes, ClassSums, changed, joined, sums_of, without_empty
from duckanon.release.stages.embed import coordinates, dimensions
from duckanon.release.stages.limit import evened, not_found, thresholds_without, together
from duckanon.release.stages.partition.leave_out import worst_classes
from duckanon.release.stages.partition.partition import on_all_cores
from duckanon.release.stages.stage import column_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.merge import Partner
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Coordinates, Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.partition import Partitioned
    from duckanon.release.stages.stage import Staged


ALL_CANDIDATES_MAX_CLASSES = 100_000
"""Classes up to which all are candidates for merging; beyond, only classes near a violating class."""

NEAR_CANDIDATE_CLASSES = 256
"""First number of candidates around each violating class."""

MERGED_IN_PARTS_MIN_CLASSES, PART_MAX_CLASSES = 20_000, 4096
"""Violating classes above which classes are first merged within parts of the table, and classes of a part. A
violating class compares all others as partners: a search tree would help with few columns only."""


CHUNK_RECORDS = 131_072
"""Records whose coordinates are in memory at once."""


@dataclass(frozen=True)
class Whole:
    """All records and classes in memory, as only a repair needs them."""

    labels: npt.NDArray[np.int64]  # (n,), class by record_id from 1
    codes: npt.NDArray[np.int64]  # (s, n), of the sensitive columns with a threshold
    classes: ClassSums
    violations: npt.NDArray[np.float64]  # (m,), violation of each class; 0.0 if none


@progress.step("repair")
def repair(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    partitioned: Partitioned,
    policy: Policy,
) -> Classes:
    """Classes that satisfy every threshold, by suppressing the worst classes and by merging.

    Without a violation it costs nothing. Otherwise it takes 8 bytes of memory for each record and sensitive
    column, and for each class and coordinate.
    """
    recipe = partitioned.plan.recipe
    if not len(partitioned.violating) or (recipe.partner is None and policy.suppression_limit == 0):
        return partitioned.classes

    def summed(labels: npt.NDArray[np.int64]) -> ClassSums:
        return summed_again(con, embedded, labels, partitioned.classes.count)

    whole = _whole(con, staged, embedded, limits, partitioned)
    labels, sums = mended(whole, limits, recipe.partner, policy, summed)
    return changed(con, labels, sums)


def _whole(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    partitioned: Partitioned,
) -> Whole:
    labels = partitioned.classes.by_record(staged.size)
    codes = np.empty((len(limits.codes), staged.size), dtype=np.int64)
    for number, column in enumerate(limits.codes):
        codes[number] = column_of(con, embedded.coded, column, staged.size, "repair")
    summed = partitioned.sums.columns()
    sizes, squares = summed.pop("size"), summed.pop("squares")
    violations = np.zeros(partitioned.classes.count)
    violations[partitioned.violating] = partitioned.violations
    sums = np.column_stack([*summed.values()]) if summed else np.zeros((len(sizes), 0))
    return Whole(labels, codes, ClassSums(np.ascontiguousarray(sums), squares, sizes), violations)


def summed_again(
    con: duckdb.DuckDBPyConnection, embedded: Embedded, labels: npt.NDArray[np.int64], count: int
) -> ClassSums:
    """Return the sums of the coordinates of each class, read again for records with a label."""
    sizes = np.bincount(labels[labels >= 0], minlength=count).astype(np.int64)
    sums, squares, done = np.zeros((count, dimensions(embedded.axes))), np.zeros(count), 0
    for axis in embedded.axes:
        values = column_of(con, embedded.coded, axis.column, len(labels), "repair")
        width = dimensions((axis,))
        for start in range(0, len(labels), CHUNK_RECORDS):
            part = slice(start, start + CHUNK_RECORDS)
            _add(axis, values[part], labels[part], sums[:, done : done + width], squares)
        done += width
    return ClassSums(sums, squares, sizes)


def _add(
    axis: Coordinates,
    values: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int64],
    sums: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> None:
    """Add the coordinates of some records in one axis to the sums of their classes."""
    released = labels >= 0
    here, local = np.unique(labels[released], return_inverse=True)
    part = sums_of(coordinates((axis,), {axis.column: values[released]}), local.astype(np.int64))
    sums[here] += part.sums
    squares[here] += part.squares


def mended(
    whole: Whole,
    limits: Limits,
    partner: Partner | None,
    policy: Policy,
    summed: Callable[[npt.NDArray[np.int64]], ClassSums] | None = None,
) -> tuple[npt.NDArray[np.int64], ClassSums]:
    """Labels (n,), -1 if suppressed, and classes that satisfy every threshold, see `repair`.

    `summed` gives the sums of the classes (m,) of the records with a label.
    """
    labels, codes, before = whole.labels, whole.codes, whole.classes
    violations: npt.NDArray[np.float64] | None = whole.violations
    thresholds = limits.thresholds
    if policy.suppression_limit > 0:
        most = int(policy.suppression_limit * len(labels))
        gone = worst_classes(whole.violations, whole.classes.sizes, most)
        # If every class violates and all may be suppressed, classes are merged instead: an empty release is
        # useless.
        released = ~gone[labels] if gone.any() and not gone.all() else np.ones(len(labels), dtype=bool)
        if not together(thresholds, codes, released):
            # Even one class of the remaining records would miss a threshold.
            even = evened(thresholds, codes, (whole.violations / whole.classes.sizes)[labels], policy)
            if even is None:
                raise not_found(policy)
            released = even
            labels = np.where(released, labels, -1)
            before = before if summed is None else summed(labels)
        if not released.all():
            labels = np.where(released, labels, -1)
            # The reference of an EMD is the released table.
            thresholds, codes = thresholds_without(limits, policy, codes, released)
            violations = None
    labels, classes = without_empty(labels, before)
    if violations is None:
        released = labels >= 0
        violations = violations_of(thresholds, codes[:, released], labels[released])
    if (
        partner == "efficient"
        and np.count_nonzero(violations) > MERGED_IN_PARTS_MIN_CLASSES
        and classes.sums.shape[1]
    ):
        merged = _merged_in_parts(labels, codes, classes, violations > 0.0, thresholds)
        labels, classes = np.where(labels >= 0, merged[labels], -1), joined(classes, merged)
        released = labels >= 0
        violations = violations_of(thresholds, codes[:, released], labels[released])
    if violations.any() and partner is not None:
        # Over the whole table, because a good partner of a class often lies in another tile.
        merged = _merged(labels, codes, classes, np.flatnonzero(violations), thresholds, partner)
        labels, classes = np.where(labels >= 0, merged[labels], -1), joined(classes, merged)
    return labels, classes


def _merged_in_parts(
    labels: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    classes: ClassSums,
    violating: npt.NDArray[np.bool_],
    thresholds: Sequence[Threshold],
) -> npt.NDArray[np.int64]:
    """Return the new class of each class (m,), with violating classes merged within their part."""
    centroids, m = classes.sums / classes.sizes[:, None], len(classes.sizes)
    depth = int(np.ceil(np.log2(m / PART_MAX_CLASSES)))
    order, sizes = kd_order(np.ascontiguousarray(distance_points(centroids)), depth)
    part_of, holder = np.empty(m, dtype=np.int64), np.arange(m)
    part_of[order] = np.repeat(np.arange(len(sizes)), sizes)
    leaves = np.split(order, np.cumsum(sizes)[:-1])
    released = np.flatnonzero(labels >= 0)
    parts = part_of[labels[released]]
    ends = np.cumsum(np.bincount(parts, minlength=len(sizes)))
    records = np.split(released[np.argsort(parts, kind="stable")], ends[:-1])

    def united(part: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        numbers = np.sort(leaves[part])
        return numbers, _united(labels, codes, classes, numbers, records[part], thresholds, "efficient")

    waiting = iter(np.unique(part_of[violating]).tolist())
    with closing(on_all_cores(united, waiting, threading.Event())) as results:
        for numbers, found in results:
            # A part merged into one class may still violate, and loses much otherwise: its classes look for
            # partners elsewhere.
            if found.max() > 0:
                holder[numbers] = numbers[found]
    return np.asarray(np.unique(holder, return_inverse=True)[1], dtype=np.int64)


def _merged(
    labels: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    classes: ClassSums,
    violating: npt.NDArray[np.int64],
    thresholds: Sequence[Threshold],
    partner: Partner,
) -> npt.NDArray[np.int64]:
    """Return the new class of each class (m,), with violating classes merged with classes near them."""
    centroids, m = classes.sums / classes.sizes[:, None], len(classes.sizes)
    count = m if m <= ALL_CANDIDATES_MAX_CLASSES else NEAR_CANDIDATE_CLASSES
    while True:
        chosen = np.ones(m, dtype=bool)
        if count < m:
            chosen[:] = False
            chosen[violating] = True
            near = nearest(centroids, centroids[violating], np.arange(1, count + 1), parallel=True)
            chosen[near.ravel()] = True
        numbers = np.flatnonzero(chosen)
        records = np.flatnonzero((labels >= 0) & chosen[labels])
        united = _united(labels, codes, classes, numbers, records, thresholds, partner)
        if united.max() > 0 or len(numbers) == m:
            break
        # All candidates merged into one class, which may still violate, and loses much otherwise: search
        # farther.
        count *= 8
    # There are at most as many unions as candidates, so the numbers of candidates name the unions.
    holder = np.arange(m)
    holder[numbers] = numbers[united]
    return np.asarray(np.unique(holder, return_inverse=True)[1], dtype=np.int64)


def _united(
    labels: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], classes: ClassSums,
    numbers: npt.NDArray[np.int64], records: npt.NDArray[np.int64], thresholds: Sequence[Threshold],
    partner: Partner,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """Return the new class, 0, 1, ..., of each of some classes; classes and records are ascending."""
    class_of = np.searchsorted(numbers, labels[records])
    offsets, members = class_members(class_of, np.ascontiguousarray(codes[:, records]))
    sums, sizes = classes.sums[numbers], classes.sizes[numbers]
    return merge_classes(sums / sizes[:, None], members, offsets, thresholds, partner=partner)
