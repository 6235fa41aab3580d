"""Partition methods by name: the published methods, and `auto`, which the pipeline uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from operator import index
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duckanon.errors import PolicyError
from duckanon.kernels import loss
from duckanon.kernels.compose import compose
from duckanon.kernels.exchange.refine import Effort
from duckanon.kernels.exchange.refine import refine as refined
from duckanon.kernels.points import Scale, check_class_size, distance_points, scaled
from duckanon.kernels.recipes import Recipe, recipes
from duckanon.literature.registry import PUBLISHED, Task, run_named, with_thresholds
from duckanon.measures.loss import information_loss
from duckanon.policy.methods import BY_NAME, METHODS, Method

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.kernels.first.tcloseness_first import Number

__all__ = ["information_loss", "methods", "partition"]

Labels = NDArray[np.int64]


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
    t : float, Decimal, Fraction or str, or a list with one for each sensitive column, optional
        Largest EMD of a class, above 0 and at most 1; a float counts as its shortest decimal.
    distance : {'ordered', 'equal', 'hierarchical'}, or a list with one for each sensitive column
        Ground distance of the EMD.
    scale : {'zscore', 'minmax', 'none'}
        Scale on which distances between points are taken.
    refine : bool
        Exchange records between classes afterwards, as long as that lowers the information loss and breaks no
        threshold. 'auto' then also starts from several partitions and takes the best.
    effort : {'fast', 'balanced', 'best'}
        How much refinement is tried.
    **method_options
        The options of a method, see docs/methods. `paths` (methods with t that take any distance, for
        'hierarchical'): ndarray of shape (m, H + 1), int, the tree node of each distinct sensitive value,
        ascending, on level 0 (the value) to H (the root); or a list with one entry a sensitive column, None
        where the distance is another. `hierarchies` ('mondrian', 'mondrian_relaxed'): such paths of distinct
        values, by column of the points. `gamma` ('vmdav'). `order` ('mhm': 'npn', 'md', 'mdav' or 'cbfs').
        `resort` ('multidsort_ps'). `base` ('tcloseness_merge', 'steered'): a method on points alone. `weight`
        and `buckets` ('steered').

    Returns
    -------
    ndarray of shape (n,), int64
        Class of each record, 0..m-1. The guarantees depend on the method, see `methods`.

    Raises
    ------
    PolicyError
        If an argument is out of range, unknown, or of no use to the method.

    Notes
    -----
    Deterministic: equal distances go to the lowest record number. Cost and source: see `methods`.

    Examples
    --------
    >>> partition([[0.0], [9.0], [1.0], [8.0]], k=2, method="mdav").tolist()
    [0, 1, 0, 1]
    """
    _check_use(method, sensitive, t, method_options)
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
    options = {name: value for name, value in method_options.items() if name != "paths"}
    labels = run_named(method, task, options)
    return _refined(task, labels, effort) if refine else labels


def methods() -> tuple[Method, ...]:
    """Return the partition methods of this version as `Method` objects: `auto` first, the others by name."""
    return tuple(BY_NAME.values())


def _integer(k: int) -> int:
    """Return k if its type is an integer; 5.0 is refused, since it may be a mistake for 0.5."""
    try:
        return index(k)
    except TypeError as error:
        raise PolicyError(f"k must be an integer, not {k!r}") from error


def _check_use(name: str, sensitive: object, t: object, options: Mapping[str, object]) -> None:
    """Raise PolicyError for an argument that the method cannot use, or that it lacks."""
    if name not in METHODS:
        near = get_close_matches(str(name), METHODS, n=1, cutoff=0.0)[0]
        raise PolicyError(f"unknown method '{name}', did you mean '{near}'? Methods: {', '.join(METHODS)}")
    if name == "full_domain":
        raise PolicyError("method 'full_domain' climbs hierarchies, points have none: give it in a policy")
    has = PUBLISHED[name].options if name != "auto" else ("paths",)
    unknown = sorted(set(options) - set(has))
    if unknown:
        known = f"it has {', '.join(has)}" if has else "it has none"
        raise PolicyError(f"method '{name}' has no option '{unknown[0]}': {known}")
    if (t is None) != (sensitive is None):
        given, missing = ("sensitive", "t") if t is None else ("t", "sensitive")
        raise PolicyError(f"{given} is given without {missing}: t-closeness needs both")
    if name == "auto":
        return
    keeps = PUBLISHED[name].keeps
    if t is not None and keeps == "k":
        able = ", ".join(["auto", *(other for other, entry in PUBLISHED.items() if entry.keeps != "k")])
        raise PolicyError(f"method '{name}' knows nothing of t: use one of {able}, or leave t out")
    if t is None and keeps == "t":
        raise PolicyError(f"method '{name}' needs t and sensitive")


def _auto(task: Task, effort: Effort | None = None) -> Labels:
    """Return the classes of the recipe with the least loss, of all that `recipes` names."""
    n, columns = task.points.shape
    tried = recipes(n, task.k, task.thresholds, effort, largest=n, columns=columns)
    first = sorted(range(len(task.codes)), key=lambda column: task.limits[column])
    codes, thresholds = [task.codes[c] for c in first], [task.thresholds[c] for c in first]

    def attempt(recipe: Recipe) -> Labels:
        return compose(task.points, codes, task.k, thresholds, recipe)

    # The attempts share nothing, and the compiled loops release the interpreter.
    with ThreadPoolExecutor(len(tried)) as pool:
        results = list(pool.map(attempt, tried))
    return min(results, key=lambda labels: loss.sse(task.points, labels))


def _refined(task: Task, labels: Labels, effort: Effort) -> Labels:
    """Return refined classes of a method."""
    return refined(task.points, labels, task.k, codes=task.codes, thresholds=task.thresholds, effort=effort)
