"""The partition methods by name: the function that runs a method, and its options.

`duckanon.policy.methods` holds what a method guarantees and costs, and its source, for every name that a
policy can give. A method has an entry there and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, Literal

import numpy as np
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels.compose import merged
from duckanon.kernels.first import blocks, mdav, tcloseness_first
from duckanon.kernels.first.univariate import univariate
from duckanon.literature import density, dissolve, fixed_size, mhm, sorting, steered, tfrp
from duckanon.literature.kanonymity_first import kanonymity_first
from duckanon.literature.kward import k_ward
from duckanon.literature.maximum_distance import maximum_distance
from duckanon.literature.mondrian import mondrian
from duckanon.literature.mondrian_suppressed import mondrian_suppressed
from duckanon.literature.mst import m_d
from duckanon.literature.mu_approx import mu_approx
from duckanon.literature.parts import ColumnTree, tree_of
from duckanon.literature.sabre import sabre
from duckanon.literature.task import Task
from duckanon.literature.vmdav import vmdav
from duckanon.policy.methods import BY_NAME, Method

__all__ = ["PUBLISHED", "Entry", "Method", "run_named"]

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
    _by_points("dba1", density.dba1),
    _by_points("dba2", density.dba2),
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
    _by_points("tfrp1", tfrp.tfrp1),
    _by_points("tfrp2", tfrp.tfrp2),
    _by_points("univariate", univariate),
    _by_points("vmdav", vmdav, "gamma"),
)

PUBLISHED = {entry.method.name: entry for entry in _ENTRIES}
"""The methods except `auto`, by name."""
