"""The audits of joint t-closeness prove a certificate, and refuse every forged one, by SQL alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from duckanon.database import templates
from duckanon.kernels.closeness.joint import joint_distance, potentials_of, transport
from tests.examples import examples, slowly
from tests.kernels.test_joint import random_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

COLUMNS = {
    "class_member": "class INTEGER, value INTEGER",
    "joint_place": "value INTEGER, attribute INTEGER, place BIGINT, steps BIGINT, ordered BOOLEAN",
    "joint_kind": "largest BOOLEAN",
    "joint_scale": "denominator BIGINT",
    "joint_flow": "class INTEGER, from_value INTEGER, to_value INTEGER, mass BIGINT",
    "joint_potential": "class INTEGER, value INTEGER, potential BIGINT",
    "joint_pair": "from_value INTEGER, to_value INTEGER",
}
AUDITS = {
    "joint_distance": "joint_distances",
    "joint_upper": "joint_flows",
    "joint_lower": "joint_potentials",
    "class_joint_emd": "joint_t_closeness",
}

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A table of classes with the certificate of each class, and the EMD of each by the kernel."""

    class_member: Rows
    joint_place: Rows
    joint_kind: Rows
    joint_scale: Rows
    joint_flow: Rows
    joint_potential: Rows
    joint_pair: Rows
    emd: dict[int, Fraction]


def case_of(places: Sequence[Any], ordered: Sequence[bool], classes: Any, *, largest: bool) -> Case:
    """Case of `classes` (c, m), members by joint value."""
    distance = joint_distance(places, ordered, largest=largest)
    counts = np.asarray(classes).sum(axis=0)
    m = len(counts)
    flows: Rows = []
    potentials: Rows = []
    emd = {}
    for number, members in enumerate(classes):
        found = transport(distance, counts, members)
        parts = zip(found.source.tolist(), found.target.tolist(), found.moved.tolist(), strict=True)
        flows += [(number, *part) for part in parts]
        of_values = potentials_of(distance, found).tolist()
        potentials += [(number, value, potential) for value, potential in enumerate(of_values)]
        emd[number] = found.fraction(distance)
    return Case(
        [
            (number, value)
            for number, one in enumerate(classes)
            for value, count in enumerate(one)
            for _ in range(count)
        ],
        [
            (value, column, int(row[value]), max(int(max(row)), 1) if kind else 1, kind)
            for column, (row, kind) in enumerate(zip(places, ordered, strict=True))
            for value in range(m)
        ],
        [(largest,)],
        [(distance.denominator,)],
        flows,
        potentials,
        [(one, other) for one in range(m) for other in range(m)],
        emd,
    )


def random_case(rng: np.random.Generator) -> Case:
    places, counts, _ = random_table(rng)
    owner = rng.integers(0, rng.integers(1, 6), counts.sum())
    owner = np.unique(owner, return_inverse=True)[1]
    value = np.repeat(np.arange(len(counts)), counts)
    classes = np.zeros((owner.max() + 1, len(counts)), dtype=int)
    np.add.at(classes, (owner, value), 1)
    ordered = rng.integers(0, 2, len(places)).astype(bool).tolist()
    return case_of(places, ordered, classes, largest=bool(rng.integers(0, 2)))


# Three ages and two diseases, one record each; a class of each age. By hand: of each disease a third stays.
# From the lowest or highest age a third moves by 1/2 and a third by 1, from the middle age two thirds by 1/2.
EXAMPLE = case_of(
    [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]],
    [True, False],
    [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]],
    largest=True,
)
EXAMPLE_EMD = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 2)}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        for name, audit in AUDITS.items():
            connection.execute(f"CREATE VIEW {name} AS {templates.read(f'audit/{audit}.sql')}")
        yield connection


def audited(con: duckdb.DuckDBPyConnection, case: Case) -> dict[int, tuple[Fraction, bool, bool]]:
    """EMD, and whether it is proved and exact, of each class by SQL."""
    for name in COLUMNS:
        con.execute(f"DELETE FROM {name}")
        rows = getattr(case, name)
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            values = ", ".join(f"({marks})" for _ in rows)
            con.execute(f"INSERT INTO {name} VALUES {values}", [cell for row in rows for cell in row])
    query = "SELECT class, emd_numerator, emd_denominator, emd, proved, exact FROM class_joint_emd"
    found = {}
    for number, over, under, emd, proved, exact in con.execute(query).fetchall():
        assert emd == pytest.approx(over / under)
        found[number] = (Fraction(over, under), proved, exact)
    return found


def violated(con: duckdb.DuckDBPyConnection, t: Fraction) -> dict[int, bool]:
    """Verdict at a threshold on each class of the case that was audited last."""
    text = templates.read("audit/verdict_joint_t_closeness.sql")
    steps = t.numerator * 10**12 // t.denominator
    limit = f"SELECT CAST({steps} * CAST(0.000000000001 AS DECIMAL(18, 12)) AS DECIMAL(18, 12)) AS t"
    con.execute(f"CREATE OR REPLACE TEMP VIEW threshold AS {limit}")
    return {row[0]: row[3] for row in con.execute(text).fetchall()}


def test_a_certificate_of_the_kernel_is_proved_exactly(con: duckdb.DuckDBPyConnection) -> None:
    rng = np.random.default_rng(11)
    for _ in range(examples(120)):
        case = random_case(rng)
        assert audited(con, case) == {number: (emd, True, True) for number, emd in case.emd.items()}


def test_flows_alone_prove_that_a_class_is_near(con: duckdb.DuckDBPyConnection) -> None:
    case = replace(EXAMPLE, joint_potential=[])
    assert audited(con, case) == {number: (emd, True, False) for number, emd in case.emd.items()}
    assert violated(con, Fraction(1, 2)) == dict.fromkeys(case.emd, False)


def test_the_example_by_hand(con: duckdb.DuckDBPyConnection) -> None:
    assert audited(con, EXAMPLE) == {number: (emd, True, True) for number, emd in EXAMPLE_EMD.items()}
    assert violated(con, Fraction(1, 2)) == {0: False, 1: False, 2: False}
    assert violated(con, Fraction(1, 2) - Fraction(1, 10**12)) == {0: True, 1: False, 2: True}


def changed(relation: str, place: int, column: int, change: Callable[[Any], Any]) -> Callable[[Case], Case]:
    """Forgery of one cell."""

    def forged(case: Case) -> Case:
        rows = [list(row) for row in getattr(case, relation)]
        rows[place][column] = change(rows[place][column])
        return replace(case, **{relation: [tuple(row) for row in rows]})

    return forged


def of_class(relation: str, change: Callable[[Rows], Rows]) -> Callable[[Case], Case]:
    """Forgery of all rows of class 0."""

    def forged(case: Case) -> Case:
        rows: Rows = getattr(case, relation)
        own = change([row for row in rows if row[0] == 0])
        return replace(case, **{relation: [*own, *(row for row in rows if row[0] != 0)]})

    return forged


def swapped(relation: str) -> Callable[[Case], Case]:
    names = {0: 2, 2: 0}
    return lambda case: replace(
        case,
        **{relation: [(names.get(row[0], row[0]), *row[1:]) for row in getattr(case, relation)]},
    )


def detour(rows: Rows) -> Rows:
    """Flows that all go the other way round: through a value that is not in the table."""
    return [part for _, a, b, mass in rows for part in ((0, a, 99, mass), (0, 99, b, mass))]


FORGERIES: dict[str, Callable[[Case], Case]] = {
    "less mass in one flow": changed("joint_flow", 0, 3, lambda mass: mass - 1),
    "more mass in one flow": changed("joint_flow", 0, 3, lambda mass: mass + 1),
    "a flow of no mass": changed("joint_flow", 0, 3, lambda _: 0),
    "a flow of NULL": changed("joint_flow", 0, 3, lambda _: None),
    "a negative flow": of_class("joint_flow", lambda rows: [(0, b, a, -mass) for _, a, b, mass in rows]),
    "a negative flow beside": of_class("joint_flow", lambda rows: [*rows, (0, 0, 4, -1), (0, 4, 0, -1)]),
    "flows backwards": of_class("joint_flow", lambda rows: [(0, b, a, mass) for _, a, b, mass in rows]),
    "a flow from elsewhere": changed("joint_flow", 0, 1, lambda value: value + 2),
    "a flow to elsewhere": changed("joint_flow", 0, 2, lambda _: 0),
    "a flow to a value that is not there": changed("joint_flow", 0, 2, lambda _: 99),
    "a flow to NULL": changed("joint_flow", 0, 2, lambda _: None),
    "flows by way of a value that is not there": of_class("joint_flow", detour),
    "a flow twice": of_class("joint_flow", lambda rows: [rows[0], *rows]),
    "all flows twice": of_class("joint_flow", lambda rows: [*rows, *rows]),
    "no flow of a class": of_class("joint_flow", lambda _: []),
    "the flows of another class": swapped("joint_flow"),
    "a potential too high": changed("joint_potential", 0, 2, lambda u: u + 1),
    "a potential too low": changed("joint_potential", 0, 2, lambda u: u - 1),
    "a potential of NULL": changed("joint_potential", 0, 2, lambda _: None),
    "steeper potentials": of_class("joint_potential", lambda rows: [(*row[:2], 2 * row[2]) for row in rows]),
    "flat potentials": of_class("joint_potential", lambda rows: [(*row[:2], 7) for row in rows]),
    "a potential missing": of_class("joint_potential", lambda rows: rows[1:]),
    "a potential of another value": changed("joint_potential", 0, 1, lambda _: 5),
    "a potential of a value that is not there": changed("joint_potential", 0, 1, lambda _: 99),
    "a potential twice": of_class("joint_potential", lambda rows: [rows[0], *rows]),
    "one potential of many": of_class("joint_potential", lambda rows: rows[:1]),
    "the potentials of another class": swapped("joint_potential"),
    "a smaller denominator": changed("joint_scale", 0, 0, lambda _: 1),
    "another denominator": changed("joint_scale", 0, 0, lambda _: 3),
    "a multiple of the denominator": changed("joint_scale", 0, 0, lambda denominator: 2 * denominator),
    "a negative denominator": changed("joint_scale", 0, 0, lambda denominator: -denominator),
    "no denominator": lambda case: replace(case, joint_scale=[]),
    "two denominators": lambda case: replace(case, joint_scale=[*case.joint_scale, (4,)]),
    "pairs left out": lambda case: replace(case, joint_pair=case.joint_pair[:3]),
}


@pytest.mark.parametrize("forgery", slowly(FORGERIES, one_of=5))
def test_a_forged_certificate_is_refused_by_sql_alone(con: duckdb.DuckDBPyConnection, forgery: str) -> None:
    forged = FORGERIES[forgery](EXAMPLE)
    found = audited(con, forged)
    assert found[0][1:] == (False, False)
    # Even at t = 1, which every class keeps.
    assert violated(con, Fraction(1))[0]
    for number, (emd, proved, exact) in found.items():
        assert not proved or emd >= EXAMPLE_EMD[number]
        assert not exact or emd == EXAMPLE_EMD[number]


def test_a_costly_detour_is_no_lower_bound(con: duckdb.DuckDBPyConnection) -> None:
    """Flows that cost more than the least are a proof of their cost alone, and with potentials of nothing."""
    more = (0, 0, 4, 3), (0, 4, 0, 3)
    costly = replace(EXAMPLE, joint_flow=[*EXAMPLE.joint_flow, *more])
    assert audited(con, costly)[0][1:] == (False, False)
    emd, proved, exact = audited(con, replace(costly, joint_potential=[]))[0]
    assert (emd, proved, exact) == (EXAMPLE_EMD[0] + Fraction(6, 12), True, False)
