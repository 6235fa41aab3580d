"""Releases that an earlier version recorded: what it wrote otherwise, in the terms of today."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.policy.recodes import RULES
from duckanon.release.verify.record import OF_THE_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.release.verify.record import RecordedAudit, RecordedColumn, RecordedRelease

RELEASED = 3
"""Version of the metadata since which classes and types of columns are those of the release."""

RENEW = "REFRESH the view and EXPORT it again to record what is released"


def in_terms_of_today(
    release: RecordedRelease, classes: int, columns: Sequence[tuple[str, str]]
) -> tuple[RecordedRelease, tuple[str, ...]]:
    """A recorded release as the version of today would have recorded it, and what was put in other terms.

    Numbers and types become today's where they are such as an earlier version wrote; what it cannot have
    written stays as it is. The classes and the columns, names with types, are those of its rows.
    """
    notes = []
    if any(audit.schema_version == 1 for audit in release.audits):
        notes.append(
            "metadata of version 1 recorded neither fingerprint nor policy hash: only values were compared"
        )
    if release.schema_version >= RELEASED:
        return release, tuple(notes)
    # Recoding to equal values makes classes fewer, never more.
    if classes < (release.classes or 0) <= (release.records or 0):
        notes.append(
            f"classes recorded {release.classes}, found {classes}: before version {RELEASED} the metadata "
            f"counted the classes of the partition, which may be recoded to equal values; {RENEW}"
        )
        audits = tuple(_counted(audit, release.classes, classes) for audit in release.audits)
        release = replace(release, classes=classes, audits=audits)
    typed = tuple(_typed(column, dict(columns)) for column in release.columns)
    if typed != release.columns:
        notes.append(f"before version {RELEASED} the metadata had the type of the source for a range or set")
    return replace(release, columns=typed), tuple(notes)


def _counted(audit: RecordedAudit, before: int | None, classes: int) -> RecordedAudit:
    """Put the number of classes right in the measures that had that of the partition."""
    measures = tuple(
        {**row, "classes": classes}
        if row["measure"] in OF_THE_SOURCE and row["classes"] == before and audit.schema_version < RELEASED
        else row
        for row in audit.measures
    )
    return replace(audit, measures=measures)


def _typed(column: RecordedColumn, types: Mapping[str, str]) -> RecordedColumn:
    """Give a range or set of the recorded type the type that it has in the release."""
    rule = RULES.get(column.recode or "")
    released = rule and rule.released.format(column.type)
    return replace(column, type=released) if released and types.get(column.name or "") == released else column
