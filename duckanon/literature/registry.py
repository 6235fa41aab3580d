"""The partition methods by name: the function that runs a method, its options, and its input, the task.

`duckanon.policy.methods` holds what a method guarantees and costs, and its source, for every name that a
policy can give. A method has an entry there and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Literal, cast

import numpy as np
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import Threshold, exact_t
from duckanon.kernels.compose import merged
from duckanon.kernels.first import blocks, mdav, tcloseness_first
from duckanon.kernels.first.univariate import univariate
from duckanon.literature import dissolve, fixed_size, mhm, sorting, steered
from duckanon.literature.kanonymity_first import kanonymity_first
from duckanon.literature.kward import k_ward
from duckanon.literature.maximum_distance import m_d, maximum_distance
from duckanon.literature.mondrian import ColumnTree, mondrian, tree_of
from duckanon.literature.mondrian_suppressed import mondrian_suppressed
from duckanon.literature.mu_approx import mu_approx
from duckanon.literature.sabre import sabre
from duckanon.policy.methods import BY_NAME, Method

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from duckanon.kernels.closeness.reference import Distance
    from duckanon.kernels.exchange.refine import Stop
    from duckanon.literature.mondrian_suppressed import Suppression


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a partition method."""

    points: NDArray[np.float64]  # (n, d) quasi-identifiers on the scale on which distances are taken
    k: int  # smallest class size
    # for each sensitive column: (n,) dense rank of the value of each record
    codes: Sequence[NDArray[np.int64]] = ()
    thresholds: Sequence[Threshold] = ()  # for each sensitive column: what every class must satisfy
    limits: Sequence[Fraction] = ()  # t of each sensitive column
    # for Mondrian: hierarchy of each column of the points that holds places
    trees: Mapping[int, ColumnTree] = field(default_factory=dict)
    stop: Stop | None = None  # for Mondrian: true when the classes are no longer wanted
    suppression: Suppression | None = None  # for Mondrian: what may be suppressed


def with_thresholds(
    task: Task, sensitive: ArrayLike, *, t: object, distance: object, paths: object = None
) -> Task:
    """Return the task with sensitive columns, (n,) or (n, s), and their t; NaN is last. O(s n log n)."""
    # `t`, `distance` and `paths` as in `duckanon.partition`. PolicyError if t is out of range, shapes do not
    # fit or values have no order; ValueError if the distance is unknown or the paths are no tree over them.
    values, n = np.asarray(sensitive), len(task.points)
    if values.ndim not in (1, 2) or len(values) != n or values.size == 0:
        raise PolicyError(f"sensitive must hold one row a record, of shape ({n}, s), not {values.shape}")
    columns = np.reshape(values, (n, -1)).T
    given = {"t": t, "distance": distance, "paths": paths}
    each = [_each(name, argument, len(columns)) for name, argument in given.items()]
    try:
        limits = [exact_t(limit, may_be_zero=False) for limit in each[0]]
    except ValueError as error:
        raise PolicyError(str(error)) from error
    codes, thresholds = [], []
    for column, limit, kind, path in zip(columns, limits, *each[1:], strict=True):
        code, counts = _ranked(column)
        known = reference(counts, cast("Distance", kind), cast("ArrayLike | None", path))
        codes.append(code)
        thresholds.append(Threshold(known, t=limit))
    return replace(task, codes=codes, thresholds=thresholds, limits=limits)


def _ranked(column: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the dense rank of each value, and the number of records of each rank."""
    try:
        _, code, counts = np.unique(column, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise PolicyError(f"sensitive values cannot be ordered ({error}): give numbers or text") from error
    return code.astype(np.int64), counts.astype(np.int64)


def _each(name: str, argument: object, columns: int) -> list[object]:
    """Return the argument for each sensitive column: the entries of a list, or the same argument for all."""
    entries = list(argument) if isinstance(argument, list | tuple) else [argument] * columns
    if len(entries) != columns:
        raise PolicyError(f"{name} has {len(entries)} entries for {columns} sensitive columns")
    return entries


__all__ = ["PUBLISHED", "Entry", "Method", "run_named", "run_steered"]

Labels = NDArray[np.int64]
Options = Mapping[str, Any]
Kernel = Callable[Concatenate[NDArray[np.float64], int, ...], Labels]


@dataclass(frozen=True, eq=False)
class Entry:
    """A method, the function that runs it, and the arguments of that function."""

    method: Method  # what users read
    run: Callable[[Task, Options], Labels]  # from a task and the given options to labels (n,)
    options: tuple[str, ...] = ()  # names of its own options
    keeps: Literal["k", "t", "all"] = "k"
    """'k': works on points alone. 't': works on sensitive columns and needs t. 'all': keeps given t and l."""

    @property
    def needs_t(self) -> bool:
        """Whether the method cannot run without t."""
        return self.keeps == "t"


def run_named(name: str, task: Task, options: Options) -> Labels:
    """Return the classes of a published method; PolicyError where the method cannot do what is asked."""
    try:
        return PUBLISHED[name].run(task, options)
    except PolicyError:
        raise
    except (ValueError, TypeError) as error:
        raise PolicyError(f"method '{name}': {error}") from error


def _by_points(name: str, kernel: Kernel, *options: str) -> Entry:
    """Return the entry of a method that works on points alone."""

    def run(task: Task, given: Options) -> Labels:
        return kernel(task.points, task.k, **given)

    return Entry(BY_NAME[name], run, options)


def _by_t(name: str, run: Callable[[Task, Options], Labels], *options: str) -> Entry:
    """Return the entry of a method that works on sensitive columns, and needs t."""
    return Entry(BY_NAME[name], run, options, keeps="t")


def _by_cuts(name: str, *, relaxed: bool) -> Entry:
    """Return the entry of Mondrian, strict or relaxed."""

    def run(task: Task, options: Options) -> Labels:
        points, trees = _climbed(task, options.get("hierarchies", {}))
        cuts = partial(mondrian, points, task.k)
        if task.suppression is not None:
            cuts = partial(mondrian_suppressed, points, task.k, task.suppression)
        return cuts(
            codes=task.codes, thresholds=task.thresholds, relaxed=relaxed, trees=trees, stop=task.stop
        )

    return Entry(BY_NAME[name], run, ("paths", "hierarchies"), keeps="all")


def _climbed(task: Task, hierarchies: Any) -> tuple[NDArray[np.float64], dict[int, ColumnTree]]:
    """Return the points with places for values of columns that have a hierarchy, and all hierarchies."""
    if hierarchies == {}:
        return task.points, dict(task.trees)
    columns = range(np.shape(task.points)[-1])
    if not isinstance(hierarchies, Mapping) or any(column not in columns for column in hierarchies):
        raise PolicyError(
            f"hierarchies takes paths by column, as in {{0: paths}}, of columns 0..{len(columns) - 1}"
        )
    points, trees = task.points.copy(), dict(task.trees)
    for column, paths in hierarchies.items():
        points[:, column], trees[column] = tree_of(points[:, column], paths)
    return points, trees


def _single(task: Task, name: str) -> Task:
    """Return the task if it has one sensitive column; PolicyError otherwise."""
    if len(task.codes) != 1:
        raise PolicyError(f"method '{name}' takes one sensitive column, not {len(task.codes)}: use 'auto'")
    return task


def _ordered(task: Task, name: str) -> Task:
    """Return the task if it has one sensitive column with ordered distance; PolicyError otherwise."""
    distance = _single(task, name).thresholds[0].reference.distance
    if distance != "ordered":
        raise PolicyError(f"method '{name}' ranks one 'ordered' column, not '{distance}': use 'auto'")
    return task


def _tcloseness_merge(task: Task, options: Options) -> Labels:
    """Run Algorithm 1: after any partition, the class of greatest EMD joins the nearest class, repeatedly."""
    labels = _base(options)(task.points, task.k)
    return merged(task.points, task.codes, task.thresholds, labels, "nearest")


def _kanonymity_first(task: Task, options: Options) -> Labels:
    """Run Algorithm 2, and merge its classes by Algorithm 1."""
    del options
    only = _single(task, "kanonymity_first")
    labels = kanonymity_first(only.points, only.codes[0], only.k, only.thresholds[0])
    return merged(only.points, only.codes, only.thresholds, labels, "nearest")


def _tcloseness_first(task: Task, options: Options) -> Labels:
    """Run Algorithm 3, which ranks one sensitive column."""
    del options
    only = _ordered(task, "tcloseness_first")
    return tcloseness_first.tcloseness_first(only.points, only.codes[0], only.k, only.limits[0])


def _steered(task: Task, options: Options) -> Labels:
    """Run Algorithm 1 of steered microaggregation, with the given buckets or those that follow from t."""
    only = _ordered(task, "steered")
    given = {name: options[name] for name in ("weight", "buckets") if name in options}
    if "buckets" not in given:
        given["t"] = only.limits[0]
    return steered.steered_tcloseness(only.points, only.codes[0], only.k, base=_base(options), **given)


def run_steered(task: Task, weight: float | None) -> Labels:
    """Return the classes of 'steered' in a release: spread evenly for any number of records, by t or by l."""
    only = _ordered(task, "steered") if task.limits else _single(task, "steered")
    return steered.steered_evenly(only.points, only.codes[0], only.k, only.thresholds[0], weight=weight)


def _sabre(task: Task, options: Options) -> Labels:
    del options
    only = _single(task, "sabre")
    return sabre(only.points, only.codes[0], only.k, only.thresholds[0])


def _base(options: Options) -> Callable[[NDArray[np.float64], int], Labels]:
    """Return the method of the option `base`, which works on points alone."""
    name = options.get("base", "mdav")
    able = [other for other, entry in PUBLISHED.items() if not entry.needs_t]
    if name not in able:
        raise PolicyError(f"base '{name}' is no method on points alone: use one of {', '.join(able)}")
    entry = PUBLISHED[name]

    def run(points: NDArray[np.float64], k: int) -> Labels:
        return entry.run(Task(points, k), {})

    return run


_ENTRIES = (
    _by_points("blocks", blocks.blocks),
    _by_points("cbfs", fixed_size.cbfs),
    _by_points("dba1", dissolve.dba1),
    _by_points("dba2", dissolve.dba2),
    _by_points("k_ward", k_ward),
    _by_t("kanonymity_first", _kanonymity_first, "paths"),
    _by_points("m_d", m_d),
    _by_points("maximum_distance", maximum_distance),
    _by_points("mdav", mdav.mdav),
    _by_points("mdav1", mdav.mdav1),
    _by_points("mdav2", dissolve.mdav2),
    _by_points("mdav_generic", fixed_size.mdav_generic),
    _by_points("meansort_ps", sorting.meansort_ps),
    _by_points("mhm", mhm.mhm, "order"),
    _by_cuts("mondrian", relaxed=False),
    _by_cuts("mondrian_relaxed", relaxed=True),
    _by_points("mu_approx", mu_approx),
    _by_points("multidsort_ps", sorting.multidsort_ps, "resort"),
    _by_t("sabre", _sabre, "paths"),
    _by_t("steered", _steered, "base", "weight", "buckets"),
    _by_t("tcloseness_first", _tcloseness_first),
    _by_t("tcloseness_merge", _tcloseness_merge, "base", "paths"),
    _by_points("tfrp1", dissolve.tfrp1),
    _by_points("tfrp2", dissolve.tfrp2),
    _by_points("univariate", univariate),
    _by_points("vmdav", fixed_size.vmdav, "gamma"),
)

PUBLISHED = {entry.method.name: entry for entry in _ENTRIES}
"""The methods except `auto`, by name."""
