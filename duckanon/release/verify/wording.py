"""Words and names in the metadata of a release: those that this version writes, and no others."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from duckanon.policy.bind import Role
from duckanon.policy.checks import METHODS, Recode
from duckanon.release.metadata import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckanon.release.verify.record import RecordedRelease

_RELEASED = {role.value for role in Role if role is not Role.IDENTIFIER}

_RECODES = set(typing.get_args(Recode))

_STATEMENTS = {"release", "audit", "export"}


def misworded(release: RecordedRelease) -> Iterator[str]:
    """What the metadata of a release says in words or names that this version does not write.

    Parameters
    ----------
    release : RecordedRelease
        As it was read.

    Yields
    ------
    str
        A difference.
    """
    if release.table != f"release_{release.release_id}":
        yield f"the table of the release is recorded as {release.table!r}"
    if release.exported and release.target.schema != "main":
        yield f"the schema of an exported release is recorded as {release.target.schema!r}, and it is 'main'"
    if release.method not in METHODS:
        yield f"the method is recorded as {release.method!r}, which is none that this version knows"
    yield from _columns(release)
    statements = [audit.statement for audit in release.audits if audit.schema_version > 1]
    for statement in sorted({str(each) for each in statements} - _STATEMENTS):
        yield f"{SCHEMA}.audits has an audit by {statement!r}, which is no statement that records one"
    exports = statements.count("export")
    if release.exported and release.schema_version > 1 and not exports:
        yield "the audit with which the file was exported is not recorded"
    if not release.exported and exports:
        yield f"{SCHEMA}.audits has an audit of an export, which only an exported file has"


def _columns(release: RecordedRelease) -> Iterator[str]:
    positions = [column.position for column in release.columns]
    if positions != list(range(1, len(positions) + 1)):
        yield f"{SCHEMA}.columns numbers the columns {positions}, and not from 1 on"
    for column in release.columns:
        if column.role not in _RELEASED:
            yield f"the role of {column.name!r} is recorded as {column.role!r}, which is no role of a release"
        quasi = column.role == Role.QUASI_IDENTIFIER.value
        if (column.recode not in _RECODES) if quasi else column.recode is not None:
            yield f"column {column.name!r} is recorded as recoded by {column.recode!r}"
        if (column.tree is not None) != (column.distance == "hierarchical"):
            yield f"column {column.name!r} is recorded with {column.distance!r} and the tree {column.tree!r}"
