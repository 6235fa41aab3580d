"""Partition: kernels label every record with its class, tile by tile."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from duckanon import progress
from duckanon.database import interrupts
from duckanon.database.spool import Spool, spool_folder
from duckanon.kernels.merge import violations_of
from duckanon.kernels.recipes import MDAV_MAX_RECORDS
from duckanon.literature.mondrian_suppressed import Suppression
from duckanon.release.stages.bucket import CUTTING_METHODS, stream, subset
from duckanon.release.stages.classes import (
    Classes,
    ClassSums,
    Spread,
    class_means,
    information_loss,
    spread_of,
    sums_of,
)
from duckanon.release.stages.embed import coordinates, cut_attributes, cut_points, dimensions
from duckanon.release.stages.limit import thresholds_of
from duckanon.release.stages.partition.boxes import box_thresholds
from duckanon.release.stages.partition.generalize import generalize
from duckanon.release.stages.partition.leave_out import leave_out, leaves_out
from duckanon.release.stages.partition.plan import (
    Plan,
    choose_plan,
    classes_left,
    classes_of,
    generalized_plan,
    merges,
    sample_of,
)
from duckanon.release.stages.partition.pool import (
    LARGE_TABLE_RECORDS,
    POOL_MAX_CLASS_SIZE,
    LabelledRecords,
    parted,
    pays,
    pooled,
    search_pool,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Records, Tiles
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.plan import Sample
    from duckanon.release.stages.stage import Staged


class _Tile(NamedTuple):
    """Records of a tile, their classes, and sums, means and violation of each class."""

    record_id: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    sums: ClassSums
    means: dict[str, npt.NDArray[np.float64]]
    violations: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Partitioned:
    """The classes before repair, with their violations and their plan."""

    classes: Classes
    plan: Plan
    sums: Spool  # size, squares and sums of each class in order; empty without thresholds
    violating: npt.NDArray[np.int64]  # (v,), classes that violate a threshold
    violations: npt.NDArray[np.float64]  # (v,), violation of each
    sample: Sample | None = None  # some records of the middle tile
    pooled: bool = False  # whether the worst classes of all tiles were searched together
    leaving: bool = False  # whether the partition, not the repair, left records out
    boxes: npt.NDArray[np.int64] | None = None  # (m,) box of each class, see `partition.boxes`


@dataclass(frozen=True)
class _Kernel:
    """Labels the records of a tile."""

    embedded: Embedded
    limits: Limits
    policy: Policy
    plan: Plan
    open_size: int  # number of records of all tiles
    merging: bool  # whether violating classes are merged within the tile
    leaving: bool  # whether records are left out within the tile
    suppression: Suppression | None
    stop: Stop

    def labels(self, records: Records, points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the class of each record (n,), 0..m-1; -1 for a record that is left out."""
        policy, thresholds, labels = self.policy, self.limits.thresholds, self.plan.classes
        if policy.n is not None:
            near = box_thresholds(self.limits, records.codes)
            # Each box tries several recipes: with more effort, a large table would take very long.
            tried = policy if self.open_size <= LARGE_TABLE_RECORDS else replace(policy, effort="fast")
            return classes_left(points, records.codes, near, policy=tried, stop=self.stop)
        if labels is None:
            cuts = (
                cut_points(self.embedded.axes, records.columns) if policy.method in CUTTING_METHODS else None
            )
            labels = classes_of(
                points, records.codes, policy, self.plan.recipe, thresholds, cuts, self.suppression,
                share=len(points) / self.open_size, seed=policy.seed, stop=self.stop, merging=self.merging,
            )  # fmt: skip
        if self.leaving:
            made = partial(classes_left, policy=policy, stop=self.stop)
            return leave_out(points, records.codes, labels, self.limits, policy, made)
        return labels


def partition(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
) -> Partitioned:
    """Classes of k or more records, refined within their tiles; some may still violate a threshold.

    Tiles run on all cores, and the number of cores does not change the result. In memory: two tiles more than
    cores. If the release ends early, workers stop within one pass.
    """
    if policy.method == "full_domain":
        return _generalized(con, staged, embedded, limits, tiles, policy)
    ended = threading.Event()
    kernel = _kernel(con, staged, embedded, limits, tiles, policy, ended)
    # Whether the worst classes may be searched together.
    pooling = policy.method == "auto" and (tiles.count > 1 or tiles.open_size > MDAV_MAX_RECORDS)
    pooling = pooling and policy.n is None
    # Classes in a box keep the thresholds of the box.
    thresholds = limits.thresholds if policy.n is None else ()

    def tile(records: Records) -> tuple[_Tile, LabelledRecords | None]:
        points = coordinates(embedded.axes, records.columns)
        part, far = LabelledRecords(records, points, kernel.labels(records, points)), None
        left = part.labels >= 0
        if not left.all():
            # Any released part keeps every threshold against its own distribution.
            return _described(
                staged, LabelledRecords(subset(records, left), points[left], part.labels[left])
            ), None
        if pooling:
            part, far = parted(part, tiles.open_size)
        return _described(staged, part, thresholds), far

    ready = coordinates(embedded.axes, tiles.ready.columns)
    found = _Found(spool_folder(con), keep_sums=bool(thresholds))
    found.add(_described(staged, LabelledRecords(tiles.ready, ready, tiles.ready_labels)))
    made: list[int] = []
    samples: list[Sample] = []
    pool: LabelledRecords | None = None
    with (
        progress.step("partition", total=tiles.count, unit="tiles") as step,
        closing(on_all_cores(tile, _noted(con, embedded, limits, tiles, samples), ended)) as results,
    ):
        for done, far in results:
            found.add(done)
            made.append(len(done.violations))
            if far is not None:
                pool, others = pooled(pool, far)
                found.add(_described(staged, others, thresholds))
            step.advance()
    together = pool is not None and found.class_size < POOL_MAX_CLASS_SIZE and pays(pool, found.within)
    if pool is not None:
        found.add(_described(staged, _search(pool, staged, kernel) if together else pool, thresholds))
    sample = samples[0] if samples else None
    partitioned = found.partitioned(staged.size, kernel, sample, pooled=together)
    boxes = None if policy.n is None else np.repeat(np.arange(len(made)), made)
    return replace(partitioned, boxes=boxes)


def _kernel(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
    ended: threading.Event,
) -> _Kernel:
    """Return the kernel for the records of every tile; it stops after `ended` is set."""
    stop = _stop(staged, ended)
    plan = choose_plan(con, embedded, limits, tiles, policy, stop)
    return _Kernel(
        embedded,
        limits,
        policy,
        plan,
        tiles.open_size,
        merging=merges(con, embedded, limits, tiles, policy, plan, stop),
        leaving=leaves_out(tiles, limits, policy),
        suppression=_suppression(staged, embedded, limits, policy),
        # Only refinement has a time limit: no first partition is cut short.
        stop=stop if plan.recipe.effort else ended.is_set,
    )


def _stop(staged: Staged, ended: threading.Event) -> Stop:
    """Return the test by which a kernel stops: the release has ended, or the time is over."""
    return lambda: ended.is_set() or staged.late


def _search(pool: LabelledRecords, staged: Staged, kernel: _Kernel) -> LabelledRecords:
    """Search the pool in a worker, which Ctrl-C stops like the workers of the tiles."""
    ended = threading.Event()
    search = partial(
        search_pool, policy=kernel.policy, recipe=kernel.plan.recipe, thresholds=kernel.limits.thresholds,
        share=len(pool.labels) / kernel.open_size, stop=_stop(staged, ended), merging=kernel.merging,
    )  # fmt: skip
    with closing(on_all_cores(search, iter([pool]), ended)) as results:
        (found,) = results
    return found


def _noted(
    con: duckdb.DuckDBPyConnection, embedded: Embedded, limits: Limits, tiles: Tiles, samples: list[Sample]
) -> Iterator[Records]:
    """Yield the tiles, and keep some records of the middle tile, because coded records are dropped early."""
    for number, records in enumerate(stream(con, embedded, limits, tiles)):
        if number == tiles.count // 2:
            samples.append(sample_of(embedded, tiles, records))
        yield records


def _suppression(staged: Staged, embedded: Embedded, limits: Limits, policy: Policy) -> Suppression | None:
    """Return the suppression allowed to a method that cuts; None for other methods."""
    most = int(policy.suppression_limit * staged.size) if policy.method in CUTTING_METHODS else 0
    of_counts = partial(thresholds_of, limits, policy)
    return Suppression(most, of_counts, *cut_attributes(embedded.axes)) if most else None


def _generalized(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
) -> Partitioned:
    """Return the classes of full-domain generalization, which keep every threshold."""
    with progress.step("partition"):
        made = generalize(con, staged, embedded, limits, policy)
    class_of = made.labels
    count = int(class_of.max()) + 1
    shape = count, dimensions(embedded.axes)
    whole = ClassSums(np.zeros(shape), np.zeros(count), np.zeros(count, dtype=np.int64))
    labels = Spool(spool_folder(con))
    for records in stream(con, embedded, limits, tiles):
        # A class spreads over many tiles, whose sums are added in the order of the tiles.
        of = class_of[records.record_id - 1]
        released = of >= 0
        labels.add({"record_id": records.record_id[released], "class_id": of[released]})
        here, local = np.unique(of[released], return_inverse=True)
        part = sums_of(coordinates(embedded.axes, records.columns)[released], local.astype(np.int64))
        whole.sums[here] += part.sums
        whole.squares[here] += part.squares
        whole.sizes[here] += part.sizes
    means = Spool(spool_folder(con))
    means.add({"class_id": np.arange(count)})
    classes = Classes(labels, means, count, made.found.suppressed, information_loss([spread_of(whole)]))
    none = np.zeros(0, dtype=np.int64)
    plan = generalized_plan(made, staged, policy)
    return Partitioned(classes, plan, Spool(spool_folder(con)), none, none.astype(np.float64))


def _described(staged: Staged, part: LabelledRecords, thresholds: Sequence[Threshold] = ()) -> _Tile:
    """Return the kept facts of the classes of some records, and their violations of the thresholds."""
    records, labels = part.records, part.labels
    count = int(labels.max()) + 1 if len(labels) else 0
    violations = violations_of(thresholds, records.codes, labels) if count and thresholds else np.zeros(count)
    means = {
        field.column: class_means(records.columns[f"x_{field.column}"], labels, count)
        for field in staged.quasi
        if field.averaged
    }
    return _Tile(records.record_id, labels, sums_of(part.points, labels), means, violations)


class _Found:
    """The classes of successive tiles, numbered consecutively."""

    def __init__(self, folder: Path | None, *, keep_sums: bool) -> None:
        self._labels, self._sums, self._means = Spool(folder), Spool(folder), Spool(folder)
        self._keep_sums = keep_sums
        self._count, self._records = 0, 0
        self._violating: list[npt.NDArray[np.int64]] = []
        self._violations: list[npt.NDArray[np.float64]] = []
        self._spreads: list[Spread] = []

    def add(self, tile: _Tile) -> None:
        """Add the classes of a tile."""
        first, size = self._count, len(tile.violations)
        self._labels.add({"record_id": tile.record_id, "class_id": tile.labels + first})
        self._means.add({"class_id": np.arange(first, first + size), **tile.means})
        if self._keep_sums:
            sums = {f"sum_{axis}": column for axis, column in enumerate(tile.sums.sums.T)}
            self._sums.add({"size": tile.sums.sizes, "squares": tile.sums.squares, **sums})
        violating = np.flatnonzero(tile.violations)
        self._violating.append(violating + first)
        self._violations.append(tile.violations[violating])
        self._spreads.append(spread_of(tile.sums))
        self._count += size
        self._records += len(tile.labels)

    @property
    def class_size(self) -> float:
        """Mean records of a class."""
        return self._records / max(self._count, 1)

    @property
    def within(self) -> float:
        """The SSE of all classes so far."""
        return sum(spread.within for spread in self._spreads)

    def partitioned(self, size: int, kernel: _Kernel, sample: Sample | None, *, pooled: bool) -> Partitioned:
        """All added classes, of so many records."""
        loss = information_loss(self._spreads)
        return Partitioned(
            Classes(self._labels, self._means, self._count, size - self._records, loss),
            kernel.plan,
            self._sums,
            np.concatenate(self._violating),
            np.concatenate(self._violations),
            sample,
            pooled,
            kernel.leaving,
        )


Given = TypeVar("Given")
Done = TypeVar("Done")


def on_all_cores(
    work: Callable[[Given], Done], stream: Iterator[Given], ended: threading.Event
) -> Generator[Done, None, None]:
    """Yield `work` of each item of a stream in order, computed by one worker a core.

    One item more than there are cores is read ahead. `ended` is set at the end, for any reason, so that
    workers can stop.
    """
    cores = os.cpu_count() or 1
    waiting: deque[Future[Done]] = deque()

    def end() -> None:
        ended.set()
        for future in waiting:
            future.cancel()

    with ThreadPoolExecutor(cores) as pool, interrupts.cleanup(None, end):
        for given in stream:
            waiting.append(pool.submit(work, given))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
