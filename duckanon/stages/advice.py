"""Advice: what the owner of a valid release should know, loud where utility collapsed."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from duckanon import engine, sqlfiles
from duckanon.schema import Role
from duckanon.stages.embed import EXACT_VALUES
from duckanon.stages.plan import candidates, sample, trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.kernels.threshold import Threshold
    from duckanon.policy import Policy
    from duckanon.stages.bucket import Bucketed
    from duckanon.stages.embed import Embedded
    from duckanon.stages.repair import Repaired
    from duckanon.stages.stage import Staged

FEW_CLASSES = 20
"""Fewer than n / (FEW_CLASSES k) classes are a collapse, unless little was lost."""

MUCH_LOSS = 80.0
"""An IL above this, in per cent, is a collapse."""

LITTLE_LOSS = 1.0
"""With an IL up to this, in per cent, classes are few because values are few: that is no collapse."""

NEARLY_UNIQUE = 0.9
"""Share of different values above which an insensitive column singles records out."""


def warnings_of(con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded) -> tuple[str, ...]:
    """Warnings about the columns of a release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    staged, embedded : Staged, Embedded
        Results of the stages before.

    Returns
    -------
    tuple of str
        Insensitive columns that are nearly unique; nominal columns whose distances are approximate; records
        left out for a NULL.
    """
    found = []
    others = [field for field in staged.fields if field.attribute.role is Role.INSENSITIVE]
    if others and staged.size > 1:
        query = sqlfiles.render("stage/distinct.sql.j2", records=staged.records, fields=others)
        distinct = engine.rows(con, query, "advice")[0]
        for field, count in zip(others, distinct, strict=True):
            if count > NEARLY_UNIQUE * staged.size:
                found.append(
                    f"insensitive column {field.name!r} has {count} values in {staged.size} records "
                    "and can single them out: is it an identifier or a quasi-identifier?"
                )
    for field, axis in zip(staged.quasi, embedded.axes, strict=True):
        if axis.corners is not None and len(axis.corners) > EXACT_VALUES:
            found.append(
                f"quasi-identifier {field.name!r} has {len(axis.corners)} different texts: distances are "
                "approximate (within 15 %); group them in the source query for a better release"
            )
    if staged.left_out:
        found.append(
            f"nulls = 'suppress' left out {staged.left_out} records with a NULL in a quasi-identifier"
        )
    return tuple(found)


def collapse(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    bucketed: Bucketed,
    *,
    policy: Policy,
    thresholds: Sequence[Threshold],
    repaired_classes: Repaired,
) -> tuple[str, ...]:
    """Loud warning when the thresholds cost the data, with the t that would not.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    embedded, bucketed : Embedded, Bucketed
        Results of the stages before.
    policy : Policy
        k and the thresholds.
    thresholds : sequence of Threshold
        What every class satisfies.
    repaired_classes : Repaired
        The final classes.

    Returns
    -------
    tuple of str
        Empty, or one warning.
    """
    released = int((repaired_classes.labels >= 0).sum())
    classes, loss = repaired_classes.class_count, repaired_classes.information_loss
    few = classes < released / (FEW_CLASSES * policy.k) and loss > LITTLE_LOSS
    if not (few or loss > MUCH_LOSS):
        return ()
    text = f"the thresholds cost the data: {classes} classes of {released} records, loss {loss:.1f} %"
    if any(threshold.t is not None for threshold in thresholds) and bucketed.tile_count:
        better = _better_t(con, embedded, bucketed, policy, thresholds)
        text += f"; t = {better} would avoid it" if better else "; a larger t alone would not avoid it"
    return (text,)


def _better_t(
    con: duckdb.DuckDBPyConnection,
    embedded: Embedded,
    bucketed: Bucketed,
    policy: Policy,
    thresholds: Sequence[Threshold],
) -> Decimal | None:
    """Smallest t of a growing sequence at which the middle tile does not collapse."""
    points, codes = sample(con, embedded, bucketed)
    t = Decimal(str(float(min(threshold.t for threshold in thresholds if threshold.t is not None))))
    while t < 1:
        t = min(Decimal(1), (t * Decimal("1.25")).quantize(Decimal("0.01"), rounding=ROUND_CEILING))
        wider = [replace(h, t=max(Fraction(h.t), Fraction(t))) if h.t is not None else h for h in thresholds]
        for recipe in candidates(bucketed.open_size, policy, wider):
            classes, loss = trial(points, codes, policy, recipe, wider)
            if classes >= len(points) / (FEW_CLASSES * policy.k) and loss <= MUCH_LOSS:
                return t
    return None
