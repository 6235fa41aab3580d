"""Linkage attack: how many records of the original are found again in its release.

For every record of the original (a sample of a large table) an attacker knows some quasi-identifiers and
takes the nearest released record, any of several equally near records. The share of correctly linked records
is measured where the owner knows the truth. Where nobody knows the truth, the share is bounded from above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duckanon import progress
from duckanon.api.connection import Connection
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import named
from duckanon.evaluation.attack.linking import link
from duckanon.evaluation.attack.options import Attack
from duckanon.evaluation.attack.prepare import Sides, prepare
from duckanon.evaluation.attack.result import Linkage, Share, SubsetRisk, estimate
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy as np
    import numpy.typing as npt

    from duckanon.evaluation.attack.prepare import Prepared

__all__ = ["Attack", "Linkage", "Share", "Sides", "SubsetRisk", "attacked", "linkage"]


@interruptible
def linkage(
    con: Connection | duckdb.DuckDBPyConnection,
    original: str,
    release: str,
    quasi_identifiers: Sequence[str],
    **options: Any,
) -> Linkage:
    """Attack a release by linking the records of its original to it.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection; nothing is written.
    original, release : str
        Names of tables or views, as in SQL, or files in single quotes.
    quasi_identifiers : sequence of str
        Columns that an attacker may know.
    **options : object
        ``subsets``, ``columns``, ``percent``, ``interval``, ``id``, ``policy``, ``hierarchies``, ``sample``,
        ``seed``: see `duckanon.evaluation.attack.options.Attack`.

    Returns
    -------
    Linkage
        Risks; the same for the same tables, whatever the order of their rows.

    Raises
    ------
    DuckanonError
        A table is empty or cannot be read, a table lacks a column, a type has no distances, values cannot be
        compared, an option is out of range, or the id does not say the truth.

    Notes
    -----
    Distances are those of the pipeline. Numbers and dates are z-scores of the original's columns. Two
    different texts are 1 apart. NULL is a coordinate of its own. A released range is as near as its nearest
    end, a set as its nearest member, a label as the nearest value below it. Differences are exact, so near
    numbers do not count as equal. O(n log n) in SQL, and O((m + r) log m) on average for each subset, with m
    released classes and a sample of r records.
    """
    plain = con.duckdb if isinstance(con, Connection) else con
    sides = Sides(_relation(original), _relation(release), original, release)
    return attacked(plain, sides, Attack(quasi_identifiers=quasi_identifiers, **options))


def attacked(con: duckdb.DuckDBPyConnection, sides: Sides, attack: Attack) -> Linkage:
    """Attack a release as `linkage` does; both tables are SQL text."""
    with progress.step("linkage: read"):
        ready = prepare(con, sides, attack)
    known_truth = attack.id is not None
    subsets = attack.known()
    with progress.step("linkage: attack", len(subsets)) as step:
        risks = []
        for subset in subsets:
            risks.append(_risk(ready, subset, known_truth=known_truth))
            step.advance()
    own_shares, jointly = _own(ready) if known_truth else (None, None)
    return Linkage(
        sides.original_name,
        sides.release_name,
        ready.records,
        ready.released,
        len(ready.problem.truth),
        ready.left_out if known_truth else None,
        attack.seed,
        "nearest" if not known_truth else "id" if attack.policy is None else "policy",
        float(attack.percent),
        attack.interval,
        tuple(risks),
        own_shares,
        jointly,
    )


def _risk(ready: Prepared, subset: tuple[int, ...], *, known_truth: bool) -> SubsetRisk:
    linked = link(ready.problem, subset)
    ceiling = linked.groups / ready.records
    right = (linked.own > 0) / linked.nearest if known_truth else 1 / linked.nearest
    return SubsetRisk(
        tuple(ready.quasi[at].name for at in subset),
        linked.groups,
        linked.smallest,
        _share(ready, right, 1 / linked.smallest).at_most(ceiling),
        ceiling,
        _share(ready, linked.own / linked.nearest) if known_truth else None,
        {
            column.name: _share(ready, linked.inside[:, at] / linked.nearest)
            for at, column in enumerate(ready.guessed)
        },
    )


def _own(ready: Prepared) -> tuple[dict[str, Share], Share | None]:
    pairs = [
        (column, inside)
        for column, inside in zip(ready.guessed, ready.own, strict=True)
        if inside is not None
    ]
    numbers = [inside for column, inside in pairs if not column.nominal]
    jointly = None
    if len(numbers) > 1:
        outside = sum((~inside).astype(int) for inside in numbers)
        jointly = _share(ready, (outside <= 1) & (ready.problem.truth >= 0))
    return {column.name: _share(ready, inside) for column, inside in pairs}, jointly


def _share(ready: Prepared, values: npt.NDArray[Any], most: float = 1.0) -> Share:
    numbers: npt.NDArray[np.float64] = values.astype(float)
    return estimate(numbers, ready.records, most)


def _relation(name: str) -> str:
    parsed = parse_name(name)
    return named(parsed.catalog, parsed.schema, parsed.name)
