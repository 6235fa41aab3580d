"""Partition: the kernels label every record with its class, tile after tile, and repair by merging."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from duckanon import progress
from duckanon.database import interrupts
from duckanon.kernels.closeness.threshold import violations_per_class
from duckanon.kernels.merging.merge import class_members
from duckanon.kernels.plain import carried
from duckanon.release.stages.bucket import stream
from duckanon.release.stages.class_sums import Classes, sums_of
from duckanon.release.stages.embed import coordinates
from duckanon.release.stages.plan import Plan, choose_plan, classes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Bucketed, Records


Done = TypeVar("Done")


class _Tile(NamedTuple):
    """Records of a tile, their classes, the sums of those and the violation of each."""

    records: Records
    labels: npt.NDArray[np.int64]
    sums: Classes
    violations: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Partitioned:
    """Labels of all records before repair."""

    bucketed: Bucketed
    labels: npt.NDArray[np.int64]  # (n,), class of record_id 1, 2, ...
    codes: npt.NDArray[np.int64]  # (s, n), of the sensitive columns with a threshold
    classes: Classes
    violations: npt.NDArray[np.float64]  # (m,), the violation of each class; 0.0 if none
    plan: Plan


def partition(con: duckdb.DuckDBPyConnection, bucketed: Bucketed, policy: Policy) -> Partitioned:
    """Labels of all records, k or more in every class, refined; what a tile cannot repair is left to repair.

    Tiles run on all cores; the result does not depend on their number. As many tiles as cores are in memory,
    and two more. Whatever ends it, no worker goes on for longer than a pass.
    """
    limited, ended = bucketed.limited, threading.Event()
    embedded, staged, thresholds = limited.embedded, limited.embedded.staged, limited.thresholds
    until = staged.until

    def stop() -> bool:
        return ended.is_set() or (until is not None and time.monotonic() > until)

    labels = np.full(staged.size, -1, dtype=np.int64)
    codes = np.zeros((len(limited.codes), staged.size), dtype=np.int64)
    parts: list[Classes] = []
    count = _place(labels, codes, bucketed.ready, bucketed.ready_labels, 0)
    parts.append(sums_of(coordinates(embedded.axes, bucketed.ready.columns), bucketed.ready_labels))
    violations = [np.zeros(count)]
    plan = choose_plan(con, bucketed, policy, stop)

    def tile(records: Records) -> _Tile:
        points = coordinates(embedded.axes, records.columns)
        local = classes_of(
            points, records.codes, policy, plan.recipe, thresholds,
            share=len(points) / bucketed.open_size, seed=policy.seed, stop=stop,
            merging=policy.suppression_limit == 0,
        )  # fmt: skip
        return _Tile(records, local, sums_of(points, local), _violations(records.codes, local, thresholds))

    with (
        progress.step("partition", total=bucketed.tile_count, unit="tiles") as step,
        closing(_on_all_cores(tile, stream(con, bucketed), ended)) as results,
    ):
        for done in results:
            count = _place(labels, codes, done.records, done.labels, count)
            parts.append(done.sums)
            violations.append(done.violations)
            step.advance()
    joined = [
        np.concatenate([getattr(part, name) for part in parts]) for name in Classes.__dataclass_fields__
    ]
    return Partitioned(bucketed, labels, codes, Classes(*joined), np.concatenate(violations), plan)


def _violations(
    codes: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], thresholds: Sequence[Threshold]
) -> npt.NDArray[np.float64]:
    """Return the violation of each class, of all thresholds together."""
    if not thresholds:
        return np.zeros(int(labels.max()) + 1)
    offsets, members = class_members(labels, codes)
    return np.asarray(violations_per_class(thresholds, members, offsets).sum(axis=0))


def _on_all_cores(
    work: Callable[[Records], Done], stream: Iterator[Records], ended: threading.Event
) -> Generator[Done, None, None]:
    """Yield the results in the order of the stream, of which few are read ahead."""
    cores = os.cpu_count() or 1
    waiting: deque[Future[Done]] = deque()

    def end() -> None:
        ended.set()
        for future in waiting:
            future.cancel()

    with ThreadPoolExecutor(cores) as pool, interrupts.cleanup(None, end):
        for records in stream:
            waiting.append(pool.submit(carried(work), records))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _place(
    labels: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    records: Records,
    local: npt.NDArray[np.int64],
    first: int,
) -> int:
    labels[records.record_id - 1] = local + first
    codes[:, records.record_id - 1] = records.codes
    return first + (int(local.max()) + 1 if len(local) else 0)
