"""Effect: the changes of each quasi-identifier, record by record, computed while the source is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.audits.report import text_table
from duckanon.database import engine, templates
from duckanon.errors import PolicyError
from duckanon.policy.reported import reported_figure
from duckanon.release.stages.protect import judged
from duckanon.release.stages.recode import classes_relation, labelled_relation

if TYPE_CHECKING:
    import duckdb

    from duckanon.release.pipeline import Candidate

UNITS = {"date": "days", "timestamp": "seconds"}
"""Units of the change of a value, if they differ from the unit of the column."""


@dataclass(frozen=True)
class Effect:
    """Effect of a release on a quasi-identifier; other columns are released unchanged.

    Attributes
    ----------
    column : str
        Name.
    recode : str
        How it was recoded.
    records, changed_records : int
        Released records, and released records with another value; a range or set of several values counts.
    mean_change : float or None
        Mean absolute difference between released and original value over the records with both, to three
        digits. None for text, ranges and sets. None for means with ``p_percent``, because the difference
        would reveal the largest value of a class.
    unit : str or None
        Unit of the change, if it differs from the unit of the column.
    """

    column: str
    recode: str
    records: int
    changed_records: int
    mean_change: float | None
    unit: str | None

    @property
    def changed(self) -> float:
        """Share of the released records with another value."""
        return self.changed_records / self.records


def effects(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> tuple[Effect, ...]:
    """Effect of a release on each quasi-identifier, in source order. O(n), one scan and two joins."""
    staged = candidate.staged
    if candidate.policy.release != "table":
        why = {
            "swap": "cannot be told: nobody knows any more whose a value was",
            "anatomy": "is none: quasi-identifiers are released as they are",
        }[candidate.policy.release]
        raise PolicyError(f"the effect of release = {candidate.policy.release!r} {why}")
    query = templates.render(
        "recode/effect.sql.j2",
        quasi=staged.quasi,
        labelled=labelled_relation(staged),
        classes=classes_relation(staged),
    )
    records, *changes = engine.rows(con, query, "effect")[0]
    hidden = judged(staged) if candidate.policy.p_percent is not None else ()
    means = [
        None if mean is None or field in hidden else reported_figure(mean)
        for field, mean in zip(staged.quasi, changes[1::2], strict=True)
    ]
    return tuple(
        Effect(field.name, str(field.recode), records, changed, mean, _unit(field.kind, mean))
        for field, changed, mean in zip(staged.quasi, changes[::2], means, strict=True)
    )


def effect_text(changes: tuple[Effect, ...]) -> str:
    """Aligned table of effects; shares are from 0 to 1."""
    head = ("quasi_identifier", "recode", "changed_records", "changed", "mean_change", "unit")
    rows = [
        (one.column, one.recode, one.changed_records, one.changed, one.mean_change, one.unit)
        for one in changes
    ]
    return "\n".join(text_table(head, rows))


def _unit(kind: str, mean: float | None) -> str | None:
    return None if mean is None else UNITS.get(kind)
