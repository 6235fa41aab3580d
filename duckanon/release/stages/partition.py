"""Partition: the kernels label every record with its class, tile after tile, and repair by merging."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon import progress
from duckanon.database.spool import Spool, spool_folder
from duckanon.kernels.merging.merge import violations_of
from duckanon.kernels.recipes import EXACT
from duckanon.literature.mondrian_suppressed import Suppression
from duckanon.release.stages.bucket import BY_CUTS, stream, subset
from duckanon.release.stages.class_sums import Classes, Spread, information_loss, spread_of, sums_of
from duckanon.release.stages.embed import coordinates, cut_attributes, cut_points, dimensions
from duckanon.release.stages.generalize import generalize
from duckanon.release.stages.leave_out import leave_out, leaves_out
from duckanon.release.stages.means import class_means
from duckanon.release.stages.plan import (
    Plan,
    choose_plan,
    classes_left,
    classes_of,
    generalized_plan,
    merges,
    sample_of,
)
from duckanon.release.stages.pool import LARGE, Part, parted, pays, pooled, search_pool
from duckanon.release.stages.thresholds import thresholds_of
from duckanon.release.stages.workers import on_all_cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.kernels.recipes import Recipe
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Bucketed, Records
    from duckanon.release.stages.plan import Points
    from duckanon.release.stages.stage import Field, Staged
    from duckanon.release.stages.thresholds import Limited


class _Tile(NamedTuple):
    """Records of a tile, their classes, and of each class its sums, its means and its violation."""

    record_id: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    sums: Classes
    means: dict[str, npt.NDArray[np.float64]]
    violations: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Partitioned:
    """Classes of all records before repair; what grows with the records waits on disk."""

    bucketed: Bucketed
    labels: Spool  # record_id and class_id of every record
    sums: Spool  # size, squares and sums of every class, in order; of none where there is no threshold
    means: Spool  # class_id of every class, and the means of its floating-point columns
    class_count: int
    violating: npt.NDArray[np.int64]  # (v,), the classes that violate a threshold
    violations: npt.NDArray[np.float64]  # (v,), how far
    information_loss: float  # IL = 100 SSE / SST in per cent
    plan: Plan
    suppressed: int = 0  # records that the method itself left out
    middle: Points | None = None  # some records of the middle tile
    pooled: bool = False  # whether the worst classes of all tiles were searched together


def partition(con: duckdb.DuckDBPyConnection, bucketed: Bucketed, policy: Policy) -> Partitioned:
    """Classes of all records, of k or more each, refined; what a tile cannot repair is left to repair.

    Tiles run on all cores; the result does not depend on their number. As many tiles as cores are in memory,
    and two more. Whatever ends it, no worker goes on for longer than a pass.
    """
    if policy.method == "full_domain":
        return _generalized(con, bucketed, policy)
    limited, ended = bucketed.limited, threading.Event()
    embedded, staged, thresholds = limited.embedded, limited.embedded.staged, limited.thresholds
    until = staged.until

    stop = _stop(ended, until)
    plan = choose_plan(con, bucketed, policy, stop)
    # The time is that of refinement: no first partition is cut short.
    halt = stop if plan.recipe.effort else ended.is_set
    suppression = _suppression(limited, policy) if policy.method in BY_CUTS else None
    leaving = leaves_out(bucketed, policy)
    merging = merges(con, bucketed, policy, plan, stop)
    pooling = _pooling(bucketed, policy)

    def tile(records: Records) -> tuple[_Tile, Part | None]:
        points = coordinates(embedded.axes, records.columns)
        local = plan.classes
        if local is None:
            local = classes_of(
                points, records.codes, policy, plan.recipe, thresholds,
                share=len(points) / bucketed.open_size, seed=policy.seed, stop=halt,
                merging=merging,
                cuts=cut_points(embedded.axes, records.columns) if policy.method in BY_CUTS else None,
                suppression=suppression,
            )  # fmt: skip
        if leaving:
            made = partial(classes_left, policy=policy, stop=halt)
            local = leave_out(points, records.codes, local, limited, policy, made)
        if (local < 0).any():
            # What is left keeps every threshold against its own distribution.
            kept = local >= 0
            return _described(staged, Part(subset(records, kept), points[kept], local[kept])), None
        part, far = Part(records, points, local), None
        if pooling:
            part, far = parted(part, bucketed.open_size)
        return _described(staged, part, thresholds), far

    ready = coordinates(embedded.axes, bucketed.ready.columns)
    found = _Found(spool_folder(con), keep_sums=bool(thresholds))
    found.add(_described(staged, Part(bucketed.ready, ready, bucketed.ready_labels)))
    middle: list[Points] = []
    pool: Part | None = None
    with (
        progress.step("partition", total=bucketed.tile_count, unit="tiles") as step,
        closing(on_all_cores(tile, _noted(stream(con, bucketed), bucketed, middle), ended)) as results,
    ):
        for done, far in results:
            found.add(done)
            if far is not None:
                pool, others = pooled(pool, far)
                found.add(_described(staged, others, thresholds))
            step.advance()
    together = pool is not None and found.class_size < LARGE and pays(pool, found.within)
    if pool is not None:
        if together:
            share = len(pool.labels) / bucketed.open_size
            pool = _search(pool, policy, plan.recipe, thresholds, share, until, merging=merging)
        found.add(_described(staged, pool, thresholds))
    whole = found.partitioned(bucketed, plan, middle[0] if middle else None)
    return replace(whole, pooled=together)


def _pooling(bucketed: Bucketed, policy: Policy) -> bool:
    """Tell whether the worst classes may be searched together."""
    parts = bucketed.tile_count > 1 or bucketed.open_size > EXACT
    return policy.method == "auto" and parts


def _stop(ended: threading.Event, until: float | None) -> Stop:
    """Return what tells a kernel to stop: that nobody waits any more, or that the time is over."""
    return lambda: ended.is_set() or (until is not None and time.monotonic() > until)


def _search(
    pool: Part, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold], share: float,
    until: float | None, *, merging: bool,
) -> Part:  # fmt: skip
    """Search the pool in a worker, which Ctrl-C stops like those of the tiles."""
    ended = threading.Event()
    search = partial(
        search_pool, policy=policy, recipe=recipe, thresholds=thresholds, share=share,
        stop=_stop(ended, until), merging=merging,
    )  # fmt: skip
    with closing(on_all_cores(search, iter([pool]), ended)) as results:
        (found,) = results
    return found


def _noted(tiles: Iterator[Records], bucketed: Bucketed, middle: list[Points]) -> Iterator[Records]:
    """Yield the tiles, and note some records of the middle one: coded records do not stay until the end."""
    for number, records in enumerate(tiles):
        if number == bucketed.tile_count // 2:
            middle.append(sample_of(bucketed, records))
        yield records


def _suppression(limited: Limited, policy: Policy) -> Suppression | None:
    """Return what a method that cuts may suppress itself."""
    most = int(policy.suppression_limit * limited.embedded.staged.size)
    limits = partial(thresholds_of, limited, policy)
    return Suppression(most, limits, *cut_attributes(limited.embedded.axes)) if most else None


def averaged(staged: Staged) -> list[Field]:
    """Quasi-identifiers whose class means are computed here: sums in SQL may depend on the order of rows."""
    return [field for field in staged.quasi if field.recode == "mean" and not field.exact]


def _generalized(con: duckdb.DuckDBPyConnection, bucketed: Bucketed, policy: Policy) -> Partitioned:
    """Return the classes of full-domain generalization, which keep every threshold."""
    embedded = bucketed.limited.embedded
    with progress.step("partition"):
        made = generalize(con, bucketed.limited, policy)
    count = int(made.labels.max()) + 1
    shape = count, dimensions(embedded.axes)
    classes = Classes(np.zeros(shape), np.zeros(count), np.zeros(count, dtype=np.int64))
    labels = Spool(spool_folder(con))
    for records in stream(con, bucketed):
        # Class after class goes through many tiles: what each adds is summed in the order of the tiles.
        of = made.labels[records.record_id - 1]
        released = of >= 0
        labels.add({"record_id": records.record_id[released], "class_id": of[released]})
        here, local = np.unique(of[released], return_inverse=True)
        part = sums_of(coordinates(embedded.axes, records.columns)[released], local.astype(np.int64))
        for whole, added in zip(_arrays(classes), _arrays(part), strict=True):
            whole[here] += added
    means = Spool(spool_folder(con))
    means.add({"class_id": np.arange(count)})
    none = np.zeros(0, dtype=np.int64)
    loss = information_loss([spread_of(classes)])
    return Partitioned(
        bucketed, labels, Spool(spool_folder(con)), means, count, none, none.astype(np.float64), loss,
        generalized_plan(made, bucketed.limited.embedded.staged, policy), made.found.suppressed,
    )  # fmt: skip


def _described(staged: Staged, part: Part, thresholds: Sequence[Threshold] = ()) -> _Tile:
    """Return what is kept of the classes of some records, and which violate one of the thresholds."""
    records, labels = part.records, part.labels
    count = int(labels.max()) + 1 if len(labels) else 0
    violations = violations_of(thresholds, records.codes, labels) if count and thresholds else np.zeros(count)
    means = {
        field.column: class_means(records.columns[f"x_{field.column}"], labels, count)
        for field in averaged(staged)
    }
    return _Tile(records.record_id, labels, sums_of(part.points, labels), means, violations)


class _Found:
    """The classes of one tile after the other, numbered on."""

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
        """Records of a class on average."""
        return self._records / max(self._count, 1)

    @property
    def within(self) -> float:
        """The SSE of all classes so far."""
        return sum(spread.within for spread in self._spreads)

    def partitioned(self, bucketed: Bucketed, plan: Plan, middle: Points | None) -> Partitioned:
        """All that was added."""
        return Partitioned(
            bucketed,
            self._labels,
            self._sums,
            self._means,
            self._count,
            np.concatenate(self._violating),
            np.concatenate(self._violations),
            information_loss(self._spreads),
            plan,
            bucketed.limited.embedded.staged.size - self._records,
            middle,
        )


def _arrays(classes: Classes) -> tuple[npt.NDArray[Any], ...]:
    return classes.sums, classes.squares, classes.sizes
