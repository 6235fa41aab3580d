"""Audit of joint t-closeness: a kernel finds the transport of each class, and SQL checks it.

The certificate has flows of all classes, which prove that no class is farther from the table than reported.
It has potentials of the farthest class and of the classes above t, at most `VIOLATIONS_LISTED`: they prove
that these classes are no nearer. SQL computes distances and verdicts from the audited rows and believes
nothing of the certificate, see sql/audit/joint_t_closeness.sql.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from duckanon.audits.certificate import Certificate
from duckanon.audits.report import CHANGING, VIOLATIONS_LISTED, Measure, violation_of
from duckanon.database import arrow, engine, templates
from duckanon.database.engine import temporary
from duckanon.errors import SourceError
from duckanon.kernels.closeness.joint import joint_distance, potentials_of, transport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from duckanon.audits.report import Report, Violation
    from duckanon.kernels.closeness.joint import JointDistance, Transport
    from duckanon.policy.joint import JointThreshold

    Integers = npt.NDArray[np.int64]

JOINT_VALUES_MAX = 4096
"""Largest number of joint values: a class takes 24 bytes of memory a pair of a surplus and a deficit."""


@dataclass(frozen=True)
class JointAudit:
    """Audit of several sensitive columns together."""

    measure: Measure
    violations: tuple[Violation, ...]
    certificate: Certificate


def audit_joint(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    quasi_identifiers: Sequence[str],
    asked: JointThreshold,
    *,
    texts: Collection[str],
    stage: str,
    given: Certificate | None = None,
) -> JointAudit:
    """Audit of several sensitive columns of a relation together, with a given certificate or a new one.

    SourceError if there are more than `JOINT_VALUES_MAX` joint values, or distances have no small common
    denominator.
    """
    with temporary(con) as workspace:
        values: dict[str, Any] = {"workspace": workspace, "qi": quasi_identifiers, "sensitive": asked.columns}
        values |= {"relation": relation, "texts": texts, "orders": asked.orders}
        for step in ("records", "classes", "values", "members"):
            engine.run(con, _text(step, values), stage, error=SourceError)
        found = given or _certificate(con, values, asked, stage)
        tables = {f"{workspace}_flows": found.flows, f"{workspace}_potentials": found.potentials}
        values |= {"ordered": asked.ordered, "largest": asked.largest, "t": asked.t, "name": asked.name}
        values |= {"denominator": found.denominator, "flows": templates.ident(f"{workspace}_flows")}
        values |= {"potentials": templates.ident(f"{workspace}_potentials")}
        with engine.registered(con, tables):
            engine.run(con, _text("verdicts", values), stage, error=SourceError)
        ((*measure,),) = engine.rows(con, _text("report", values), stage)
        worst: list[tuple[Any, ...]] = []
        if not measure[-1]:
            worst = engine.rows(con, _text("worst", values | {"limit": VIOLATIONS_LISTED}), stage)
    violations = tuple(violation_of(row, quasi_identifiers) for row in worst)
    return JointAudit(Measure(*measure), violations, found)


def audited_together(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    quasi_identifiers: Sequence[str],
    asked: Sequence[JointThreshold],
    report: Report,
    *,
    texts: Collection[str],
    given: Mapping[str, Certificate] | None = None,
) -> Report:
    """Report of an audit with the audits of several columns together, and their certificates.

    `given` certificates, by name of the columns, are checked in place of new ones.
    """
    found = [
        audit_joint(
            con,
            relation,
            quasi_identifiers,
            one,
            texts=texts,
            stage=f"audit of {report.name}",
            given=None if given is None else given.get(one.name),
        )
        for one in asked
    ]
    if any(one.measure.classes != report.classes for one in found):
        raise SourceError(f"audit of {report.name}: {CHANGING}")
    violations = [each for one in found for each in one.violations]
    whole = report.with_audits([one.measure for one in found], violations)
    return replace(whole, certificates=tuple(one.certificate for one in found))


def _text(step: str, values: Mapping[str, Any]) -> str:
    return templates.render(f"audit_bind/joint.sql.j2:{step}", **values)


def _certificate(
    con: duckdb.DuckDBPyConnection, values: Mapping[str, Any], asked: JointThreshold, stage: str
) -> Certificate:
    """Compute the certificate of all classes."""
    placed = engine.table(con, _text("places", values), stage)
    if placed.num_rows > JOINT_VALUES_MAX:
        raise SourceError(
            f"{stage}: {asked.name} have {placed.num_rows:,} joint values, and joint t-closeness is for "
            f"{JOINT_VALUES_MAX:,} at most: audit coarser values, or fewer columns together"
        )
    counted = engine.table(con, _text("counted", values), stage)
    class_of, value, records = (arrow.numbers(counted.column(name)) for name in counted.column_names)
    try:
        distance = joint_distance(
            [arrow.numbers(column) for column in placed.columns], asked.ordered, largest=asked.largest
        )
    except ValueError as wide:
        raise SourceError(f"{stage}: {asked.name}: {wide}") from wide
    found = _transports(distance, class_of - 1, value - 1, records)
    emd = [one.fraction(distance) for one in found]
    exact = sorted(range(len(emd)), key=lambda c: -emd[c])[:VIOLATIONS_LISTED]
    exact = [c for place, c in enumerate(exact) if place == 0 or emd[c] > Fraction(asked.t)]
    flows = [
        (np.full(len(one.moved), c + 1), one.source + 1, one.target + 1, one.moved)
        for c, one in enumerate(found)
    ]
    every = np.arange(placed.num_rows) + 1
    potentials = [(np.full(len(every), c + 1), every, potentials_of(distance, found[c])) for c in exact]
    return Certificate(
        asked.name,
        distance.denominator,
        _table(("class", "from_value", "to_value", "mass"), flows),
        _table(("class", "value", "potential"), potentials),
    )


def _transports(
    distance: JointDistance, class_of: Integers, value: Integers, records: Integers
) -> list[Transport]:
    """Transport of each class; rows (class, value, records) are in the order of the classes."""
    m = distance.places.shape[1]
    counts = np.bincount(value, weights=records, minlength=m).astype(np.int64)
    starts = np.searchsorted(class_of, np.arange(int(class_of[-1]) + 2))
    found = []
    for start, end in pairwise(starts):
        members = np.zeros(m, dtype=np.int64)
        members[value[start:end]] = records[start:end]
        found.append(transport(distance, counts, members))
    return found


def _table(names: Sequence[str], parts: Sequence[tuple[Integers, ...]]) -> pa.Table:
    # Imported here because an audit without joint t needs no Arrow table.
    import pyarrow as pa

    empty = np.zeros(0, dtype=np.int64)
    columns = [np.concatenate([empty, *(part[place] for part in parts)]) for place in range(len(names))]
    return pa.table(dict(zip(names, map(arrow.arrow, columns), strict=True)))
