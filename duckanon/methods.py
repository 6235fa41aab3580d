"""Partition methods by name: each published method as published, and the one that the pipeline uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duckanon.errors import PolicyError
from duckanon.kernels import blocks, loss, mdav, tcloseness_first
from duckanon.kernels.compose import Recipe, compose, merged, recipes
from duckanon.kernels.points import check_class_size, distance_points
from duckanon.kernels.refine import Effort
from duckanon.kernels.refine import refine as refined
from duckanon.kernels.scale import Scale, scaled
from duckanon.task import Task, with_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Number = float | Decimal | Fraction | str
Labels = NDArray[np.int64]


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
class _Entry:
    """A method, the function that runs it, and what that function takes."""

    method: Method
    run: Callable[[Task], Labels]
    takes_t: bool = True
    needs_t: bool = False
    options: tuple[str, ...] = ()


def partition(
    points: ArrayLike,
    k: int,
    method: str = "auto",
    *,
    sensitive: ArrayLike | None = None,
    t: Number | Sequence[Number] | None = None,
    distance: str | Sequence[str] = "ordered",
    scale: Scale = "zscore",
    refine: bool = False,
    effort: Effort = "balanced",
    **method_options: object,
) -> Labels:
    """Return a partition of the records into classes of at least k.

    Parameters
    ----------
    points : array_like of shape (n, d), float
        Quasi-identifiers, one row a record; finite numbers.
    k : int
        Smallest class size, 1..n.
    method : str
        A name of `methods`.
    sensitive : array_like of shape (n,) or (n, s), optional
        Sensitive values, numbers or text; needed with t.
    t : float, Decimal, Fraction or str, or one a sensitive column, optional
        Largest EMD of a class, above 0 and at most 1; a float counts as its shortest decimal.
    distance : {'ordered', 'equal', 'hierarchical'}, or one a sensitive column
        Ground distance of the EMD.
    scale : {'zscore', 'minmax', 'none'}
        Scale on which distances between points are taken.
    refine : bool
        Exchange records between the classes of any method afterwards, as long as that lowers the information
        loss and breaks no threshold; 'auto' also begins from several partitions and takes the best.
    effort : {'fast', 'balanced', 'best'}
        How much refinement is tried.
    **method_options
        `paths` (methods 'auto' and 'tcloseness_merge', distance 'hierarchical'): ndarray of shape (m, H + 1),
        int: the tree node of each distinct sensitive value, ascending, on level 0 (itself) to H (the root);
        a list with one entry a sensitive column, None where the distance is another.

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1. What the classes guarantee depends on the method: see `methods`.

    Raises
    ------
    PolicyError
        If an argument is out of range, unknown, or of no use to the method.

    Notes
    -----
    Deterministic: equal distances go to the lowest record number.

    Examples
    --------
    >>> partition([[0.0], [9.0], [1.0], [8.0]], k=2, method="mdav").tolist()
    [0, 1, 0, 1]
    """
    entry = _entry(method)
    _check_use(entry, sensitive, t, method_options)
    if effort not in get_args(Effort):
        raise PolicyError(f"effort must be 'fast', 'balanced' or 'best', not {effort!r}")
    try:
        task = Task(distance_points(scaled(points, scale)), _integer(k))
        check_class_size(len(task.points), task.k)
        if t is not None and sensitive is not None:
            task = with_thresholds(task, sensitive, t=t, distance=distance, paths=method_options.get("paths"))
    except PolicyError:
        raise
    except (ValueError, TypeError) as error:
        raise PolicyError(str(error)) from error
    if method == "auto":
        return _auto(task, effort if refine else None)
    labels = entry.run(task)
    return _refined(task, labels, effort) if refine else labels


def information_loss(points: ArrayLike, labels: ArrayLike, scale: Scale = "zscore") -> float:
    """Return the information loss of a partition, IL = 100 SSE / SST.

    Parameters
    ----------
    points : array_like of shape (n, d), float
        Quasi-identifiers, one row a record; finite numbers.
    labels : array_like of shape (n,), int
        Class of each record, 0..m-1, no class empty.
    scale : {'zscore', 'minmax', 'none'}
        Scale on which distances between points are taken.

    Returns
    -------
    float
        Percent, 0 (every class holds equal records) to 100 (one class); 0.0 when all records are equal.

    Raises
    ------
    PolicyError
        If points, labels or scale are unusable.

    Examples
    --------
    >>> information_loss([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1])
    18.181818181818183
    """
    try:
        return loss.information_loss(scaled(points, scale), labels)
    except (ValueError, TypeError) as error:
        raise PolicyError(str(error)) from error


def methods() -> tuple[Method, ...]:
    """Return the partition methods of this version.

    Returns
    -------
    tuple of Method
        `auto` first, the others by name.
    """
    return tuple(entry.method for entry in _ENTRIES.values())


def _entry(name: str) -> _Entry:
    """Return the entry of a method, or say which name may be meant."""
    if name in _ENTRIES:
        return _ENTRIES[name]
    near = get_close_matches(str(name), _ENTRIES, n=1, cutoff=0.0)[0]
    raise PolicyError(f"unknown method '{name}', did you mean '{near}'? Methods: {', '.join(_ENTRIES)}")


def _integer(k: int) -> int:
    """Return k if it is a whole number by type: 5.0 may be a mistake for 0.5, so it is refused."""
    try:
        return index(k)
    except TypeError as error:
        raise PolicyError(f"k must be an integer, not {k!r}") from error


def _check_use(entry: _Entry, sensitive: object, t: object, options: Mapping[str, object]) -> None:
    """Raise PolicyError for what the method cannot use and for what it lacks."""
    name = entry.method.name
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        known = f"it has {', '.join(entry.options)}" if entry.options else "it has none"
        raise PolicyError(f"method '{name}' has no option '{unknown[0]}': {known}")
    if (t is None) != (sensitive is None):
        given, missing = ("sensitive", "t") if t is None else ("t", "sensitive")
        raise PolicyError(f"{given} is given without {missing}: t-closeness needs both")
    if t is not None and not entry.takes_t:
        able = ", ".join(other.method.name for other in _ENTRIES.values() if other.takes_t)
        raise PolicyError(f"method '{name}' knows nothing of t: use one of {able}, or leave t out")
    if t is None and entry.needs_t:
        raise PolicyError(f"method '{name}' needs t and sensitive")


def _auto(task: Task, effort: Effort | None = None) -> Labels:
    """MDAV; with t, of MDAV and t-closeness-first, both repaired and refined, the one that loses less."""
    n = len(task.points)
    tried = recipes(n, task.k, task.thresholds, effort, largest=n)
    first = sorted(range(len(task.codes)), key=lambda column: task.limits[column])
    codes, thresholds = [task.codes[c] for c in first], [task.thresholds[c] for c in first]

    def attempt(recipe: Recipe) -> Labels:
        return compose(task.points, codes, task.k, thresholds, recipe)

    # The attempts share nothing, and the compiled loops release the interpreter.
    with ThreadPoolExecutor(len(tried)) as pool:
        results = list(pool.map(attempt, tried))
    return min(results, key=lambda labels: loss.sse(task.points, labels))


def _refined(task: Task, labels: Labels, effort: Effort) -> Labels:
    """The classes of a method, refined."""
    return refined(task.points, labels, task.k, codes=task.codes, thresholds=task.thresholds, effort=effort)


def _tcloseness_merge(task: Task) -> Labels:
    """Algorithm 1: MDAV, then the class with the greatest EMD is merged with the nearest, again and again."""
    return merged(task.points, task.codes, task.thresholds, mdav.mdav(task.points, task.k), "nearest")


def _tcloseness_first(task: Task) -> Labels:
    """Algorithm 3, which ranks one sensitive column."""
    if len(task.codes) > 1 or task.thresholds[0].reference.distance != "ordered":
        raise PolicyError("method 'tcloseness_first' ranks one sensitive column, 'ordered': use 'auto'")
    return tcloseness_first.tcloseness_first(task.points, task.codes[0], task.k, task.limits[0])


_MDAV_SOURCE = "Domingo-Ferrer and Mateo-Sanz, IEEE TKDE 14(1), 2002"
_TCLOSENESS_SOURCE = "Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, IEEE TKDE 27(11), 2015"

_ENTRIES = {
    entry.method.name: entry
    for entry in (
        _Entry(
            Method(
                "auto",
                "k, and t where given: always",
                "O(n log n) beyond 8192 records",
                "MDAV; with t the best of MDAV and Algorithm 3 of Soria-Comas et al. 2015, repaired",
            ),
            lambda task: _auto(task),
            options=("paths",),
        ),
        _Entry(
            Method("blocks", "k", "O(n log n)", "own method: MDAV in the blocks of a kd order"),
            lambda task: blocks.blocks(task.points, task.k),
            takes_t=False,
        ),
        _Entry(
            Method("mdav", "k", "O(n^2 / k)", _MDAV_SOURCE),
            lambda task: mdav.mdav(task.points, task.k),
            takes_t=False,
        ),
        _Entry(
            Method("mdav1", "k", "O(n^2 / k)", _MDAV_SOURCE + ", end game of MDAV-1"),
            lambda task: mdav.mdav1(task.points, task.k),
            takes_t=False,
        ),
        _Entry(
            Method(
                "tcloseness_first",
                "k; t where no sensitive values are equal and the class size divides n, else nearly",
                "O(n^2 / k)",
                _TCLOSENESS_SOURCE + ", Algorithm 3",
            ),
            _tcloseness_first,
            needs_t=True,
        ),
        _Entry(
            Method("tcloseness_merge", "k and t", "O(n^2 / k)", _TCLOSENESS_SOURCE + ", Algorithm 1"),
            _tcloseness_merge,
            needs_t=True,
            options=("paths",),
        ),
    )
}
