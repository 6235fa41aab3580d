"""EXPLAIN: what CREATE would do and why, without writing anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.audits.columns import share_bounds
from duckanon.database import arrow, engine
from duckanon.policy.bind import joint_thresholds
from duckanon.release.source import names_of
from duckanon.release.stages.bucket import WHOLE_TABLE_RECORDS, bucket, tile_size
from duckanon.release.stages.embed import EXACT_VALUES, embed
from duckanon.release.stages.limit import limit
from duckanon.release.stages.partition.generalize import (
    MINIMAL_NODES_MAX_CHECKS,
    alternatives,
    generalize,
)
from duckanon.release.stages.partition.plan import choose_plan
from duckanon.release.stages.stage import stage
from duckanon.release.ways import from_all_records, near_ways

if TYPE_CHECKING:
    import duckdb

    from duckanon.policy.policy import Policy
    from duckanon.release.source import Source
    from duckanon.release.stages.bucket import Tiles
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.plan import Plan
    from duckanon.release.stages.stage import Staged

EFFORTS = {
    None: "the partition as it is",
    "fast": "records change places while that lowers the loss and breaks no threshold",
    "balanced": "records change places, and neighbouring classes are formed anew",
    "best": "as balanced, with more tries",
}

SUPERSETS_TRIED = "t from all records, or from supersets of at least so many records if that loses less"
SUPERSETS_NOT_TRIED = "no supersets of so many records are tried: t is the distance from all records"
"""Reasons for the supersets of a policy with n."""

PlanRow = tuple[str, str | None, str, str | None]

PLAN_COLUMNS = ("property", "attribute", "value", "reason")
"""Columns of a plan."""


def explain(con: duckdb.DuckDBPyConnection, source: Source, policy: Policy) -> pa.Table:
    """Plan of a release as a table of `PLAN_COLUMNS`: method, class size, bound, recoding, distances, cost.

    Makes only temporary tables and removes them. Raises every error that CREATE raises before the partition.
    """
    with names_of(con, source), engine.temporary(con) as workspace:
        staged = stage(con, source.query, policy, workspace, drawn=source.drawn)
        embedded = embed(con, staged, policy)
        limits = limit(con, staged, embedded, policy)
        first = policy if policy.n is None else from_all_records(staged, policy)
        tiles = bucket(con, staged, embedded, limits, first)
        if policy.method == "full_domain":
            how = _lattice_rows(con, staged, embedded, limits, first)
        else:
            plan = choose_plan(con, embedded, limits, tiles, first)
            size = tile_size(first, limits.thresholds)
            how = [*_partition_rows(staged, tiles, plan, policy, size), *_recode_rows(staged, embedded)]
        if policy.n is not None:
            tried = any(True for _ in near_ways(staged, embedded, limits, policy))
            how.append(("supersets", None, f"{policy.n}", SUPERSETS_TRIED if tried else SUPERSETS_NOT_TRIED))
    left_out = f"{staged.left_out} left out for a NULL" if staged.left_out else None
    rows = [("records", None, f"{staged.size}", left_out), *how, *_distance_rows(staged, policy)]
    columns = [arrow.column(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.Table.from_arrays(columns, names=list(PLAN_COLUMNS))


def smallest_emd(n: int, size: int) -> float:
    """Least ordered EMD of a class of `size` out of `n` >= 2 records without ties.

    (n + s)(n - s) / (4 n (n - 1) s): Soria-Comas et al. 2015, Proposition 1.
    """
    return (n + size) * (n - size) / (4 * n * (n - 1) * size) if n > 1 else 0.0


def _partition_rows(
    staged: Staged, tiles: Tiles, plan: Plan, policy: Policy, tile_size: int
) -> list[PlanRow]:
    ready, recipe = len(tiles.ready_labels), plan.recipe
    repair = {
        "efficient": "merging, least loss for each violation removed",
        "nearest": "merging with the nearest class",
    }
    # n measures the distance from supersets, where other bounds hold.
    ordered = policy.n is None and any(
        f.attribute.t is not None and f.attribute.distance == "ordered" for f in staged.sensitive
    )
    bound = f"{smallest_emd(staged.size, recipe.size):.6g}" if ordered else "none"
    each = (
        f"of about {tile_size} records each" if tile_size < WHOLE_TABLE_RECORDS else "the whole table at once"
    )
    return [
        ("method", None, plan.method, plan.why),
        (
            "repair",
            None,
            repair.get(recipe.partner or "", "none"),
            "classes that violate a threshold after the partition",
        ),
        ("refinement", None, recipe.effort or "none", EFFORTS[recipe.effort]),
        ("class_size", None, f"{recipe.size}", f"k = {policy.k}, and what the thresholds need"),
        ("bound", None, bound, "least ordered EMD of such a class without ties (Soria-Comas 2015, Prop. 1)"),
        ("ready", None, f"{ready}", "records whose class is settled: k or more share all values"),
        ("tiles", None, f"{tiles.count}", each),
        ("cost", None, "n log n", "sorts in SQL; a kernel sees one tile at a time"),
    ]


def _lattice_rows(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, limits: Limits, policy: Policy
) -> list[PlanRow]:
    """Return the result of full-domain generalization, and how it was found."""
    begin = time.process_time()
    made = generalize(con, staged, embedded, limits, policy)
    seconds = time.process_time() - begin
    found = made.found
    pruned = found.nodes - found.checked
    allowed = int(policy.suppression_limit * staged.size)
    rows: list[PlanRow] = [
        ("method", None, policy.method, "chosen by name"),
        ("objective", None, policy.objective, f"{found.cost:.9g}, the least of all nodes"),
        ("classes", None, f"{int(found.of_row.max()) + 1}", None),
        ("suppressed", None, f"{found.suppressed}", f"at most {allowed} records"),
        ("nodes", None, f"{found.nodes}", f"{found.checked} checked, {pruned} pruned"),
        ("time", None, f"{seconds:.3g} s", "CPU time of the search"),
    ]
    for field, level in zip(staged.quasi, found.levels, strict=True):
        height = made.heights[field.column]
        why = f"of {height} above the values" if height else "no hierarchy: as it is"
        rows.append(("level", field.name, f"{level}", why))
    known = alternatives(made, staged, limits, policy)
    if known is None:
        why = f"not looked for: more than {MINIMAL_NODES_MAX_CHECKS} nodes would have to be checked"
        return [*rows, ("minimal_nodes", None, "unknown", why)]
    why = "keep the thresholds, and no node below does"
    minimal = [one for one in known if one.minimal]
    rows.append(("minimal_nodes", None, f"{len(minimal)}", why))
    for one in minimal:
        gone = f"{100 * one.suppressed:.4g} % suppressed"
        figures = f"loss {one.loss:.6g}, {gone}, {one.classes} classes, risk {one.risk:.4g}"
        rows.append(("minimal_node", None, ", ".join(map(str, one.levels)), figures))
    return rows


def _recode_rows(staged: Staged, embedded: Embedded) -> list[PlanRow]:
    rows: list[PlanRow] = []
    for field, axis in zip(staged.quasi, embedded.axes, strict=True):
        projected = axis.corners is not None and len(axis.corners) > EXACT_VALUES
        within = "15 %" if field.attribute.hierarchy is None else "25 %, in its hierarchy"
        how = f"projected: distances within {within}" if projected else None
        rows.append(("recode", field.name, str(field.recode), how))
    return rows


def _distance_rows(staged: Staged, policy: Policy) -> list[PlanRow]:
    rows: list[PlanRow] = []
    for field in staged.sensitive:
        n = policy.n if field.attribute.t is not None else None
        limits = [
            f"{name} = {value}"
            for name, value in (("t", field.attribute.t), ("n", n), ("l", field.attribute.l))
            if value
        ]
        limits += [
            f"{one.option} = {one.threshold}" + ("" if one.named is None else f" of {one.named!r}")
            for one in share_bounds(field.attribute)
        ]
        rows.append(
            ("distance", field.name, str(field.attribute.distance), ", ".join(limits) or "no threshold")
        )
    several = joint_thresholds(policy, [field.attribute for field in staged.sensitive])
    return [*rows, *(("distance", one.name, policy.joint_distance, f"t = {one.t}") for one in several)]
