"""Prepare: the first two stages and the thresholds, which CREATE, EXPLAIN and FRONTIER have in common."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.database.engine import temporary
from duckanon.release.stages.embed import embed
from duckanon.release.stages.stage import stage
from duckanon.release.stages.thresholds import limited

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Staged
    from duckanon.release.stages.thresholds import Limited


@dataclass(frozen=True)
class Prepared:
    """Typed records with coordinates, and what their classes have to satisfy.

    Attributes
    ----------
    staged : Staged
        The records.
    embedded : Embedded
        Their coordinates.
    wanted : Limited
        The sensitive columns that have a threshold.
    """

    staged: Staged
    embedded: Embedded
    wanted: Limited


@contextmanager
def prepared(
    con: duckdb.DuckDBPyConnection, query: str, policy: Policy, *, keep_source: bool = False
) -> Iterator[Prepared]:
    """Records of a query, ready to be dealt to tiles; all temporary tables made meanwhile go in the end.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    query : str
        The source query.
    policy : Policy
        Roles and thresholds.
    keep_source : bool
        Whether the source stays until the end, too.

    Yields
    ------
    Prepared
        Results of the stages.

    Raises
    ------
    DuckanonError
        Source and policy do not fit together.
    """
    with temporary(con) as prefix:
        with progress.step("stage"):
            staged = stage(con, query, policy, prefix, keep_source=keep_source)
        with progress.step("embed"):
            embedded = embed(con, staged, policy)
        yield Prepared(staged, embedded, limited(con, staged, embedded, policy))
