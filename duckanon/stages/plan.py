"""Plan: how every tile is partitioned, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from duckanon.kernels import compose as kernel
from duckanon.kernels.compose import EXACT, Recipe, recipes
from duckanon.kernels.loss import information_loss
from duckanon.stages.bucket import stream, tile_size
from duckanon.stages.embed import coordinates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.compose import Start
    from duckanon.kernels.threshold import Threshold
    from duckanon.policy import Policy
    from duckanon.stages.bucket import Bucketed
    from duckanon.stages.embed import Embedded

SAMPLE = 4096
"""Records on which the recipes are tried."""

LARGEST = 1024
"""No first partition has classes above this (or above k): merging does the rest."""


@dataclass(frozen=True)
class Plan:
    """What is done in every tile.

    Attributes
    ----------
    recipe : Recipe
        First partition, class size, repair, refinement.
    why : str
        Reason for the choice, for EXPLAIN and the report.
    """

    recipe: Recipe
    why: str

    @property
    def method(self) -> str:
        """Name of the first partition."""
        return self.recipe.start

    @property
    def text(self) -> str:
        """One line: what is done, and why."""
        effort = f"refined ({self.recipe.effort})" if self.recipe.effort else "not refined"
        return f"{self.method}, classes from {self.recipe.size} records, {effort}: {self.why}"


def choose_plan(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    bucketed: Bucketed,
    policy: Policy,
    thresholds: Sequence[Threshold],
) -> Plan:
    """Recipe for all tiles.

    A method chosen by name is taken as it is. For ``auto`` without t and l it is MDAV, in blocks where a tile
    has more than `EXACT` records; with them all recipes are tried with little effort on a sample of the
    middle tile, and the one that loses the least information is taken.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    embedded, bucketed : Embedded, Bucketed
        Results of the stages before.
    policy : Policy
        k, t, method, refinement.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    Plan
        What every tile gets.
    """
    tried = candidates(bucketed.open_size, policy, thresholds)
    if policy.method != "auto":
        return Plan(tried[0], "chosen by name")
    if not bucketed.tile_count:
        return Plan(tried[0], "no record is left for it: the values alone make the classes")
    if not thresholds:
        exact = tried[0].start == "mdav"
        how = "exact MDAV" if exact else f"more than {EXACT} records in a tile: MDAV in blocks"
        return Plan(tried[0], f"only k is asked for; {how}")
    points, codes = sample(con, embedded, bucketed)
    losses = [trial(points, codes, policy.k, recipe, thresholds)[1] for recipe in tried]
    names = ", ".join(f"{recipe.start} with classes from {recipe.size}" for recipe in tried)
    why = f"least loss on a sample of {len(points)} records of {names}"
    return Plan(tried[int(np.argmin(losses))], why)


def candidates(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> tuple[Recipe, ...]:
    """Recipes that CREATE chooses from.

    Parameters
    ----------
    n : int
        Number of records that are partitioned.
    policy : Policy
        k, method, refinement.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    tuple of Recipe
        One for a method chosen by name, as it is published; for ``auto`` those of `recipes`.
    """
    k = policy.k
    if policy.method == "tcloseness_merge":
        return (Recipe("mdav", k, "nearest"),)
    if policy.method == "tcloseness_first":
        return (Recipe("tcloseness_first", stratum_size(n, policy, thresholds), None),)
    if policy.method != "auto":
        return (Recipe(cast("Start", policy.method), k, None),)
    effort = policy.effort if policy.refine else None
    # With thresholds the choice must be the same for all tiles of a table; without, only the tile counts.
    records = n if thresholds else min(n, tile_size(policy, thresholds))
    return recipes(records, k, thresholds, effort, largest=max(LARGEST, k))


def sample(
    con: duckdb.DuckDBPyConnection, embedded: Embedded, bucketed: Bucketed
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Coordinates and codes of at most `SAMPLE` records of the middle tile, evenly taken.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    embedded, bucketed : Embedded, Bucketed
        Results of the stages before; there is a tile.

    Returns
    -------
    tuple of ndarray of shape (n, d) and ndarray of shape (s, n)
        Points and sensitive codes.
    """
    (records,) = stream(con, embedded, bucketed, only=bucketed.tile_count // 2)
    points = coordinates(embedded.axes, records.columns)
    step = -(-len(points) // SAMPLE)
    return np.ascontiguousarray(points[::step]), np.ascontiguousarray(records.codes[:, ::step])


def trial(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    k: int,
    recipe: Recipe,
    thresholds: Sequence[Threshold],
) -> tuple[int, float]:
    """Classes and loss of a recipe on a sample, refined with little effort.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64
        Coordinates.
    codes : ndarray of shape (s, n), int64
        Sensitive codes.
    k : int
        Smallest class size.
    recipe : Recipe
        What to try.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    tuple of int and float
        Number of classes, and IL in per cent.
    """
    quick = replace(recipe, effort="fast" if recipe.effort else None, partner=recipe.partner or "efficient")
    labels = kernel.compose(points, codes, k, thresholds, quick)
    return int(labels.max()) + 1, information_loss(points, labels)


def stratum_size(n: int, policy: Policy, thresholds: Sequence[Threshold]) -> int:
    """Number of equal parts of the sensitive order of which every tile gets its share.

    Parameters
    ----------
    n : int
        Number of records.
    policy : Policy
        k.
    thresholds : sequence of Threshold
        What every class must satisfy.

    Returns
    -------
    int
        The class size of t-closeness-first.
    """
    return kernel.stratum_size(n, policy.k, thresholds, largest=max(LARGEST, policy.k))
