"""Plan: how every tile is partitioned, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypedDict, Unpack, get_args

import numpy as np

from duckanon.errors import PolicyError
from duckanon.kernels.closeness.threshold import least_records
from duckanon.kernels.compose import compose
from duckanon.kernels.loss import information_loss
from duckanon.kernels.merge import violations_of
from duckanon.kernels.recipes import (
    BLOCKS_MAX_LOSS_FACTOR,
    MDAV_MAX_RECORDS,
    Recipe,
    Start,
    choice,
    recipes,
)
from duckanon.literature.registry import PUBLISHED, Task, run_named, run_steered
from duckanon.release.stages.bucket import FIRST_CLASS_MAX_RECORDS, stratum_size, stream, tile_size
from duckanon.release.stages.embed import coordinates, dimensions
from duckanon.release.stages.partition.leave_out import leaves_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.kernels.exchange.refine import Effort, Stop
    from duckanon.kernels.merge import Partner
    from duckanon.literature.mondrian_suppressed import Suppression
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.bucket import Records, Tiles
    from duckanon.release.stages.embed import Cuts, Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.generalize import Generalization
    from duckanon.release.stages.stage import Staged

SAMPLE_MAX_RECORDS = 4096
"""Largest number of records on which recipes are tried."""

VIOLATING_MAX_RATIO = 10
"""Violating records, as a multiple of the records that may be suppressed, above which tiles merge: most
classes would be merged anyway."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some records of the tiles."""

    points: npt.NDArray[np.float64]  # (n, d), their coordinates
    codes: npt.NDArray[np.int64]  # (s, n), of the sensitive fields with a threshold
    open_size: int  # number of all records in tiles


class How(TypedDict, total=False):
    """Arguments of `compose` by name."""

    share: float
    seed: int
    stop: Stop | None
    merging: bool


@dataclass(frozen=True)
class Plan:
    """The work on every tile."""

    recipe: Recipe  # first partition, class size, repair, refinement
    why: str  # for EXPLAIN and the report
    # (n,), classes of the only tile's records in order, if the trial of the recipe has made them
    classes: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    levels: Mapping[str, int] = field(default_factory=dict)  # of full-domain generalization, by column

    @property
    def method(self) -> str:
        """Name of the first partition."""
        return self.recipe.start

    @property
    def text(self) -> str:
        """One line with the work and the reason."""
        effort = f"refined ({self.recipe.effort})" if self.recipe.effort else "not refined"
        return f"{self.method}, classes from {self.recipe.size} records, {effort}: {self.why}"


def choose_plan(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
    stop: Stop | None = None,
) -> Plan:
    """Recipe for all tiles; a method chosen by name is taken as it is.

    ``auto`` without t and l takes MDAV or, in one column, the optimal cut. With t or l it takes the recipe of
    least loss on a sample. If the sample is all records, the classes of the trial are kept.
    """
    thresholds, columns = limits.thresholds, dimensions(embedded.axes)
    # A box is a table of its own, with its own choice: see `classes_left`.
    records = tiles.open_size if policy.n is None else tiles.open_size // tiles.count
    tried = candidates(records, policy, thresholds, columns=columns)
    if policy.method != "auto":
        return Plan(tried[0], "chosen by name")
    if policy.n is not None:
        boxes = f"1 box of {policy.n}" if tiles.count == 1 else f"{tiles.count} boxes of {policy.n}"
        return Plan(tried[0], f"t is the distance from {boxes} or more records, and each has its own recipe")
    if not tiles.count:
        return Plan(tried[0], "no record is left for it: the values alone make the classes")
    if not thresholds:
        how = {
            "mdav": "exact MDAV",
            "blocks": f"more than {MDAV_MAX_RECORDS} records in a tile: MDAV in blocks",
            "univariate": "one column: of all classes of a tile these lose least",
        }[tried[0].start]
        return Plan(tried[0], f"only k is asked for; {how}")
    if len(tried) == 1:
        return Plan(tried[0], "no other class size pays for so many records, or none is allowed")
    return _tried(sample(con, embedded, limits, tiles), limits, tiles, policy, tried, stop)


def merges(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
    plan: Plan,
    stop: Stop | None = None,
) -> bool:
    """Tell whether tiles merge violating classes; otherwise `repair` may suppress them.

    Tiles merge if no record may be suppressed, if `leave_out` suppresses, or, with ``auto``, if far more
    records of a sample violate than may be suppressed.
    """
    thresholds = limits.thresholds
    if policy.suppression_limit == 0 or leaves_out(tiles, limits, policy):
        return True
    if policy.method != "auto" or not tiles.count or not thresholds:
        return False
    some, recipe = sample(con, embedded, limits, tiles), _on_trial(plan.recipe, "fast")
    labels = classes_of(
        some.points, some.codes, policy, recipe, thresholds, seed=policy.seed, stop=stop, merging=False
    )
    violating = violations_of(thresholds, some.codes, labels) > 0.0
    return bool(violating[labels].mean() > VIOLATING_MAX_RATIO * policy.suppression_limit)


def generalized_plan(made: Generalization, staged: Staged, policy: Policy) -> Plan:
    """Plan of full-domain generalization: the levels, and how they were found."""
    found, levels = made.found, made.levels
    named = ", ".join(
        f"{f.name} {levels[f.column]} of {made.heights[f.column]}" for f in staged.quasi if f.column in levels
    )
    why = (
        f"chosen by name; levels {named}; {policy.objective} {found.cost:.6g}, the least of all "
        f"{found.nodes} nodes, of which {found.checked} were checked"
    )
    return Plan(candidates(staged.size, policy, (), columns=0)[0], why, levels=levels)


def _tried(
    some: Sample,
    limits: Limits,
    tiles: Tiles,
    policy: Policy,
    tried: Sequence[Recipe],
    stop: Stop | None,
) -> Plan:
    """Plan with the recipe of least loss on a sample."""
    points, codes = some.points, some.codes
    whole = len(points) == some.open_size
    on_trial, found, losses = _on_sample(points, codes, policy, tried, limits.thresholds, stop, whole=whole)
    best = choice(tried, losses, sampled=some.open_size > MDAV_MAX_RECORDS)
    names = ", ".join(f"{recipe.start} with classes from {recipe.size}" for recipe in tried)
    little = (
        "least loss"
        if losses[best] == min(losses)
        else f"at most {BLOCKS_MAX_LOSS_FACTOR} times the least loss"
    )
    why = f"{little} on a sample of {len(points)} records of {names}"
    # Records, recipe, seed and merging are those of the release, so the trial has made its classes.
    merging = policy.suppression_limit == 0 or leaves_out(tiles, limits, policy)
    made = whole and on_trial[best] == tried[best] and merging
    return Plan(tried[best], why, found[best] if made else None)


def _on_sample(
    points: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], policy: Policy, tried: Sequence[Recipe],
    thresholds: Sequence[Threshold], stop: Stop | None, *, whole: bool,
) -> tuple[list[Recipe], list[npt.NDArray[np.int64]], list[float]]:  # fmt: skip
    """Return recipes for a trial on a sample or on all records, with their classes and losses."""
    effort: Effort = "fast" if policy.effort == "fast" or not whole else "balanced"
    on_trial = [_on_trial(recipe, effort) for recipe in tried]
    found = [
        classes_of(points, codes, policy, recipe, thresholds, seed=policy.seed, stop=stop)
        for recipe in on_trial
    ]
    return on_trial, found, [information_loss(points, labels) for labels in found]


def classes_left(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    thresholds: Sequence[Threshold],
    *,
    policy: Policy,
    stop: Stop | None,
) -> npt.NDArray[np.int64]:
    """Classes of the released part of a table that one kernel sees whole, by the recipe of least loss."""
    tried = candidates(len(points), policy, thresholds, columns=points.shape[1])
    step = -(-len(points) // SAMPLE_MAX_RECORDS)
    given = np.ascontiguousarray(points[::step]), np.ascontiguousarray(codes[:, ::step])
    on_trial, found, losses = _on_sample(*given, policy, tried, thresholds, stop, whole=step == 1)
    best = choice(tried, losses)
    if step == 1 and on_trial[best] == tried[best]:
        return found[best]
    return classes_of(points, codes, policy, tried[best], thresholds, seed=policy.seed, stop=stop)


def candidates(
    n: int, policy: Policy, thresholds: Sequence[Threshold], *, columns: int
) -> tuple[Recipe, ...]:
    """Recipes of CREATE: a method chosen by name as it is, for ``auto`` those of `recipes`."""
    k = policy.k
    # Published methods ignore subjects, so a class with too few subjects joins the nearest class.
    partner: Partner | None = "nearest" if policy.subject else None
    if policy.method == "tcloseness_first":
        return (Recipe("tcloseness_first", stratum_size(n, policy, thresholds), partner),)
    if policy.method != "auto":
        # Algorithm 1 continues across tiles: classes that still violate after a tile are merged between
        # tiles.
        merging = policy.method in ("tcloseness_merge", "kanonymity_first", "steered")
        return (Recipe(policy.method, k, "nearest" if merging else partner),)
    effort = policy.effort if policy.refine else None
    # With thresholds all tiles of a table need the same choice; without, only the tile counts.
    records = n if thresholds else min(n, tile_size(policy, thresholds))
    tried = recipes(records, k, thresholds, effort, largest=max(FIRST_CLASS_MAX_RECORDS, k), columns=columns)
    if thresholds and policy.suppression_limit:
        # Then no class is merged in its tile, and most classes of near records would be left over.
        return tuple(recipe for recipe in tried if recipe.start != "blocks")
    return tried


def sample(con: duckdb.DuckDBPyConnection, embedded: Embedded, limits: Limits, tiles: Tiles) -> Sample:
    """At most `SAMPLE_MAX_RECORDS` records of the middle tile, evenly spaced."""
    (records,) = stream(con, embedded, limits, tiles, only=tiles.count // 2)
    return sample_of(embedded, tiles, records)


def sample_of(embedded: Embedded, tiles: Tiles, records: Records) -> Sample:
    """At most `SAMPLE_MAX_RECORDS` records of a tile, evenly spaced."""
    points = coordinates(embedded.axes, records.columns)
    step = -(-len(points) // SAMPLE_MAX_RECORDS)
    some = np.ascontiguousarray(points[::step]), np.ascontiguousarray(records.codes[:, ::step])
    return Sample(*some, tiles.open_size)


def trial(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    policy: Policy,
    recipe: Recipe,
    thresholds: Sequence[Threshold],
) -> tuple[int, float]:
    """Number of classes and loss in per cent of a recipe on a sample, refined if the recipe refines."""
    labels = classes_of(points, codes, policy, _on_trial(recipe, "fast"), thresholds)
    return int(labels.max()) + 1, information_loss(points, labels)


def _on_trial(recipe: Recipe, effort: Effort) -> Recipe:
    """Return the recipe with merging, and with this effort if it refines."""
    return replace(recipe, effort=effort if recipe.effort else None, partner=recipe.partner or "efficient")


def most_classes(n: int, policy: Policy, recipe: Recipe, thresholds: Sequence[Threshold]) -> int:
    """Largest number of classes of a `trial` on n records; n if it is unknown."""
    if recipe.start not in get_args(Start) or policy.method == "univariate":
        return n
    return max(1, min((n // least_records(threshold) for threshold in thresholds), default=n))


def classes_of(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    policy: Policy,
    recipe: Recipe,
    thresholds: Sequence[Threshold],
    cuts: Cuts | None = None,
    suppression: Suppression | None = None,
    **how: Unpack[How],
) -> npt.NDArray[np.int64]:
    """Classes, 0..m-1, that a recipe of ``auto`` or a published method makes of some records.

    A method that cuts takes `cuts` instead of the points, and labels suppressed records -1. Fewer than k
    records are one class. A PolicyError if a published method does not support the policy.
    """
    # Chosen by name, the method for one column explains why it refuses several columns.
    if recipe.start in get_args(Start) and policy.method != "univariate":
        return compose(points, codes, policy.k, thresholds, recipe, **how)
    if len(points) < policy.k:
        return np.zeros(len(points), dtype=np.int64)
    keeps = PUBLISHED[recipe.start].keeps
    if keeps == "k":
        return run_named(recipe.start, Task(points, policy.k), {})
    if keeps == "all":
        cut, trees = cuts or (points, {})
        task = Task(
            cut, policy.k, [*codes], thresholds, trees=trees, stop=how.get("stop"), suppression=suppression
        )
        return run_named(recipe.start, task, {})
    if recipe.start == "steered":
        return _steered(points, codes, policy, thresholds)
    limited = [
        (code, replace(h, l=None, l_kind="distinct", c=None, shares=None), Fraction(h.t))
        for code, h in zip(codes, thresholds, strict=True)
        if h.t is not None
    ]
    if not limited:
        raise PolicyError(f"method = '{recipe.start}' needs t: give one, or use method = 'auto'")
    of_t, with_t, limits = (list(column) for column in zip(*limited, strict=True))
    return run_named(recipe.start, Task(points, policy.k, of_t, with_t, limits), {})


def _steered(
    points: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int64],
    policy: Policy,
    thresholds: Sequence[Threshold],
) -> npt.NDArray[np.int64]:
    """Classes steered to the t of a sensitive column, else to its l or its shares; `repair` merges others."""
    columns = list(zip(codes, thresholds, strict=True))
    # The subjects come last, as distinct values of which a class needs k.
    held = columns[:-1] if policy.subject else columns
    if not held:
        raise PolicyError(
            "method = 'steered' steers to a threshold on sensitive values: add t = 0.2 or l = 3, or use "
            "method = 'auto'"
        )
    of_t = [(code, aim) for code, aim in held if aim.t is not None]
    aims = of_t or [(code, aim) for code, aim in held if aim.l is not None] or held
    of, aimed = [code for code, _ in aims], [aim for _, aim in aims]
    limits = [Fraction(aim.t) for aim in aimed if aim.t is not None]
    return run_steered(Task(points, policy.k, of, aimed, limits), policy.steering_weight)
