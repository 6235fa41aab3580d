"""The partition methods by name: what runs, what it guarantees, what it takes, and where it is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate

import numpy as np
from numpy.typing import NDArray

from duckanon.errors import PolicyError
from duckanon.kernels.compose import merged
from duckanon.kernels.first import blocks, mdav, tcloseness_first
from duckanon.literature import density, dissolve, fixed_size, mhm, sorting, steered, tfrp
from duckanon.literature.kanonymity_first import kanonymity_first
from duckanon.literature.kward import k_ward
from duckanon.literature.maximum_distance import maximum_distance
from duckanon.literature.mst import m_d
from duckanon.literature.mu_approx import mu_approx
from duckanon.literature.sabre import sabre
from duckanon.literature.task import Task
from duckanon.literature.univariate import univariate
from duckanon.literature.vmdav import vmdav

Labels = NDArray[np.int64]
Options = Mapping[str, Any]
Kernel = Callable[Concatenate[NDArray[np.float64], int, ...], Labels]


@dataclass(frozen=True)
class Method:
    """A partition method.

    Attributes
    ----------
    name : str
        Name for `partition` and for the option `method`.
    guarantees : str
        Which thresholds every class keeps, without repair.
    cost : str
        Order of the run time for n records.
    source : str
        Where it is published.
    """

    name: str
    guarantees: str
    cost: str
    source: str


@dataclass(frozen=True, eq=False)
class Entry:
    """A method, the function that runs it, and what that function takes.

    Attributes
    ----------
    method : Method
        What users read.
    run : callable
        From a task and the options given to labels of shape (n,).
    options : tuple of str
        Names of its own options.
    needs_t : bool
        Whether it works on sensitive columns; those that do not know nothing of t.
    """

    method: Method
    run: Callable[[Task, Options], Labels]
    options: tuple[str, ...] = ()
    needs_t: bool = False


def run_named(name: str, task: Task, options: Options) -> Labels:
    """Return the classes of a published method, as published.

    PolicyError where the method cannot do what is asked; the text names methods that can.
    """
    try:
        return PUBLISHED[name].run(task, options)
    except PolicyError:
        raise
    except (ValueError, TypeError) as error:
        raise PolicyError(f"method '{name}': {error}") from error


def _by_points(
    kernel: Kernel, guarantees: str, cost: str, source: str, *options: str, name: str = ""
) -> Entry:
    """Return the entry of a method that looks at the points only."""

    def run(task: Task, given: Options) -> Labels:
        return kernel(task.points, task.k, **given)

    return Entry(Method(name or str(getattr(kernel, "__name__", "")), guarantees, cost, source), run, options)


def _single(task: Task, name: str) -> Task:
    """Return the task if it has one sensitive column."""
    if len(task.codes) != 1:
        raise PolicyError(f"method '{name}' takes one sensitive column, not {len(task.codes)}: use 'auto'")
    return task


def _ordered(task: Task, name: str) -> Task:
    """Return the task if it has one sensitive column of ordered distance."""
    distance = _single(task, name).thresholds[0].reference.distance
    if distance != "ordered":
        raise PolicyError(f"method '{name}' ranks one 'ordered' column, not '{distance}': use 'auto'")
    return task


def _tcloseness_merge(task: Task, options: Options) -> Labels:
    """Algorithm 1: any partition, then the class with the greatest EMD joins the nearest, again and again."""
    labels = _base(options)(task.points, task.k)
    return merged(task.points, task.codes, task.thresholds, labels, "nearest")


def _kanonymity_first(task: Task, options: Options) -> Labels:
    """Algorithm 2, whose classes are then merged by Algorithm 1."""
    del options
    only = _single(task, "kanonymity_first")
    labels = kanonymity_first(only.points, only.codes[0], only.k, only.thresholds[0])
    return merged(only.points, only.codes, only.thresholds, labels, "nearest")


def _tcloseness_first(task: Task, options: Options) -> Labels:
    """Algorithm 3, which ranks one sensitive column."""
    del options
    only = _ordered(task, "tcloseness_first")
    return tcloseness_first.tcloseness_first(only.points, only.codes[0], only.k, only.limits[0])


def _steered(task: Task, options: Options) -> Labels:
    """Algorithm 1 of steered microaggregation; buckets in place of those that follow from t."""
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
    """Return the method that an option names: any that looks at the points only."""
    name = options.get("base", "mdav")
    able = [other for other, entry in PUBLISHED.items() if not entry.needs_t]
    if name not in able:
        raise PolicyError(f"base '{name}' is no method on points alone: use one of {', '.join(able)}")
    entry = PUBLISHED[name]

    def run(points: NDArray[np.float64], k: int) -> Labels:
        return entry.run(Task(points, k), {})

    return run


_DOMINGO_2002 = "Domingo-Ferrer and Mateo-Sanz, IEEE TKDE 14(1), 2002"
_LASZLO = "Laszlo and Mukherjee, IEEE TKDE 17(7), 2005"
_LIN = "Lin, Wen, Hsieh and Chang, Expert Systems with Applications 37(4), 2010"
_CHANG = "Chang, Li and Huang, Journal of Systems and Software 80(11), 2007"
_KABIR = "Kabir, Mahmood, Mustafa and Wang, IEEE Transactions on Cloud Computing, 2015"
_TORRA = "Domingo-Ferrer and Torra, Data Mining and Knowledge Discovery 11(2), 2005"
_SORIA_COMAS = "Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, IEEE TKDE 27(11), 2015"
_STEERED = "Domingo-Ferrer and Soria-Comas, steered microaggregation, 2017"
_SABRE = "Cao, Karras, Kalnis and Tan, The VLDB Journal 20(1), 2011"

_FIXED = "k; classes of k..2k-1"
_SQUARE = "O(n^2 / k)"

PUBLISHED = {
    entry.method.name: entry
    for entry in (
        _by_points(blocks.blocks, "k", "O(n log n)", "own method: MDAV in the blocks of a kd order"),
        _by_points(fixed_size.cbfs, _FIXED, _SQUARE, _LASZLO),
        _by_points(density.dba1, _FIXED, "O(n^2)", _LIN + ", first stage"),
        _by_points(density.dba2, _FIXED, "O(n^2)", _LIN + ", both stages"),
        _by_points(k_ward, _FIXED, "O(n^2)", _DOMINGO_2002 + ", k-Ward"),
        Entry(
            Method("kanonymity_first", "k and t", "O(n^2)", _SORIA_COMAS + ", Algorithm 2, then merging"),
            _kanonymity_first,
            options=("paths",),
            needs_t=True,
        ),
        _by_points(m_d, _FIXED, "O(n^2)", _LASZLO + ", MST partition, then diameter-based fixed size"),
        _by_points(maximum_distance, _FIXED, "O(n^2)", _DOMINGO_2002 + ", MD"),
        _by_points(mdav.mdav, _FIXED, _SQUARE, _TORRA),
        _by_points(mdav.mdav1, _FIXED, _SQUARE, _LIN + ", MDAV-1"),
        _by_points(dissolve.mdav2, _FIXED, _SQUARE, _LIN + ", MDAV-1 and the second stage"),
        _by_points(
            fixed_size.mdav_generic, _FIXED, _SQUARE,
            _TORRA + ", MDAV-generic",
        ),
        _by_points(sorting.meansort_ps, _FIXED, "O(n^2)", _KABIR + ", Eq. 5 and Algorithm 2"),
        _by_points(
            mhm.mhm, _FIXED, "O(n^2)", "Domingo-Ferrer et al., The VLDB Journal 15(4), 2006", "order"
        ),
        _by_points(
            mu_approx, _FIXED, "O(n^2)",
            "Domingo-Ferrer, Sebé and Solanas, Computers and Mathematics with Applications 55(4), 2008",
        ),
        _by_points(sorting.multidsort_ps, _FIXED, "O(n^2)", _KABIR + ", Algorithms 1 and 2", "resort"),
        Entry(Method("sabre", "k and t", "O(n^2)", _SABRE), _sabre, ("paths",), needs_t=True),
        Entry(
            Method(
                "steered",
                "k; t where no sensitive values are equal and the buckets divide n",
                "O(n^2 / k)",
                _STEERED + ", Algorithm 1",
            ),
            _steered,
            options=("base", "weight", "buckets"),
            needs_t=True,
        ),
        Entry(
            Method(
                "tcloseness_first",
                "k; t where no sensitive values are equal and the class size divides n, else nearly",
                "O(n^2 / k)",
                _SORIA_COMAS + ", Algorithm 3",
            ),
            _tcloseness_first,
            needs_t=True,
        ),
        Entry(
            Method("tcloseness_merge", "k and t", "O(n^2 / k)", _SORIA_COMAS + ", Algorithm 1"),
            _tcloseness_merge,
            options=("base", "paths"),
            needs_t=True,
        ),
        _by_points(tfrp.tfrp1, _FIXED, _SQUARE, _CHANG + ", first stage"),
        _by_points(tfrp.tfrp2, _FIXED, _SQUARE, _CHANG + ", both stages"),
        _by_points(
            univariate, _FIXED + ", the least loss of all", "O(n log n)",
            "Hansen and Mukherjee, IEEE TKDE 15(4), 2003",
        ),
        _by_points(
            vmdav, "k; classes of k..3k-2", "O(n^2)", "Solanas and Martínez-Ballesté, COMPSTAT 2006", "gamma"
        ),
    )
}  # fmt: skip
"""The methods but `auto`, by name."""
