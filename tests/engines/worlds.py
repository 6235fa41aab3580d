"""Inputs of every audit: for each relation that audits read some small tables, and views made by other audits.

An audit that reads a relation which is not here fails its tests and says so: add the relation to `world`.
"""

from __future__ import annotations

import random
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlglot
from sqlglot import exp

from duckanon.audits.headers import audit_file
from duckanon.audits.portable import audit_sql
from duckanon.database import templates
from tests.engines.relations import Job, Relation, Row, on_duckdb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.audits.portable import Engine

DERIVED = {
    "class_size": ("class_sizes",),
    "class_diversity": ("l_diversity",),
    "class_recursion": ("l_diversity_recursive",),
    "class_emd": ("t_closeness_ordered", "t_closeness_equal", "t_closeness_hierarchical"),
    "value_share": ("value_shares",),
    "joint_distance": ("joint_distances",),
    "joint_upper": ("joint_flows",),
    "joint_lower": ("joint_potentials",),
    "class_joint_emd": ("joint_t_closeness",),
    "class_superset_emd": ("nt_closeness_ordered", "nt_closeness_equal"),
    "class_journalist": ("journalist_risk",),
    "class_change": ("release_rows",),
    "value_change": ("release_values",),
    "class_common": ("release_common_values",),
    "sum_change": ("release_sums",),
    "told": ("release_told",),
    "release_verdict": ("release_verdict_classes", "release_verdict_values"),
}
"""Relations that are the rows of an audit: a world takes one of them."""
STEP = Decimal("1e-12")
DOUBLES = frozenset({"correlation_change", "information_loss", "utility_numeric"})
"""Audits that want numbers in original and released."""


class World(NamedTuple):
    """Relations by name, and which audit makes each relation of `DERIVED`."""

    relations: Mapping[str, Relation]
    makers: Mapping[str, str]

    @property
    def text(self) -> bool:
        """Whether sensitive values are text."""
        return self.relations["class_member"].columns["value"] == "VARCHAR"


text_of = cache(audit_sql)
"""`audit_sql`, which is asked for the same texts again and again."""


@cache
def reads(audit: str) -> list[str]:
    """Relations that an audit reads, sorted."""
    query = sqlglot.parse_one(templates.read(audit_file(audit)), read="duckdb")
    ours = {cte.alias for cte in query.find_all(exp.CTE)}
    return sorted({table.name for table in query.find_all(exp.Table)} - ours)


def job(world: World, audit: str, engine: Engine, query: str | None = None) -> Job:
    """Give what an engine is to do for an audit; the query may be another than ours."""
    views: dict[str, str] = {}
    _add_views(world, audit, engine, views)
    return Job(views, text_of(audit, engine) if query is None else query)


def _add_views(world: World, audit: str, engine: Engine, views: dict[str, str]) -> None:
    for name in reads(audit):
        if name in world.relations:
            views[name] = world.relations[name].select(engine)
        else:
            assert name in world.makers, f"{audit} reads {name}: add it to tests/engines/worlds.py"
            _add_views(world, world.makers[name], engine, views)
            views[name] = text_of(world.makers[name], engine)


def at_a_class(world: World, steps: int = 0) -> World:
    """Give the world with t where one of its classes is, cut to 12 digits, or some steps above."""
    (answer,) = on_duckdb([job(world, world.makers["class_emd"], "duckdb")])
    rows = sorted(answer.rows, key=lambda row: str(row["class"]))
    row = max(rows[: len(rows) // 2 + 1], key=lambda row: row["emd"])
    emd = Context(prec=60).divide(row["emd_numerator"], row["emd_denominator"])
    t = emd.quantize(STEP, rounding=ROUND_FLOOR) + steps * STEP
    old = world.relations["threshold"]
    places = list(old.columns)
    new = [tuple(t if name == "t" else value for name, value in zip(places, old.rows[0], strict=True))]
    return world._replace(relations={**world.relations, "threshold": old._replace(rows=new)})


def world(members: Sequence[tuple[Any, Any]], seed: int, *, text: bool = False) -> World:
    """Give relations of all kinds around the rows (class, value) of class_member."""
    rng = random.Random(seed)
    kind = "VARCHAR" if text else "BIGINT"
    classes = sorted({row[0] for row in members if row[0] is not None}) or [1]
    made = [
        Relation("class_member", {"class": "BIGINT", "value": kind}, members),
        _tree(sorted({row[1] for row in members if row[1] is not None}) or ["x" if text else 1], kind),
        Relation(
            "threshold",
            {"k": "INTEGER", "l": "DECIMAL(18,12)", "c": "HUGEINT", "t": "DECIMAL(18,12)", "n": "BIGINT", "level": "INTEGER", "p": "INTEGER", "p_of": "INTEGER", "k_of": "INTEGER", "alpha": "DECIMAL(18,12)", "named": "VARCHAR", "delta": "DECIMAL(18,12)", "beta": "DECIMAL(18,12)", "enhanced_beta": "DECIMAL(18,12)", "subset": "BIGINT"},
            [(3, Decimal("1.5"), rng.choice([10**12, 15 * 10**11, 3 * 10**12 + 1]), Decimal("0.3"), len(members) // 2, seed % 3, 10, 100, 4, Decimal("0.5"), rng.choice([None, "x", "1"]), Decimal("1.1"), Decimal(rng.choice(["1", "0.000000000001", "999999"])), Decimal("0.7"), 5)],
        ),
        Relation(
            "class_superset",
            {"class": "BIGINT", "superset": "BIGINT"},
            [(c, s) for c in classes for s in range(4) if s == 0 or rng.random() < 0.5],
        ),
        Relation("population", {"class": "BIGINT"}, [(c,) for c in [*classes, 99] for _ in range(rng.randrange(9))] or [(99,)]),
        *_before_and_after(len(members), rng, text=text),
        _verdict(classes, rng),
        _contribution(classes, rng),
        Relation("class_subject", {"class": "BIGINT", "value": "BIGINT"}, [(c, rng.randrange(5)) for c, _ in members]),
        Relation(
            "subset_class",
            {"subset": "BIGINT", "class": "BIGINT", "class_size": "BIGINT"},
            [(s, c, rng.randrange(1, 6)) for s in (5, 6) for c in classes],
        ),
        *_two_releases(classes, rng),
        *_joint(sorted({row[1] for row in members if row[1] is not None}) or ["x" if text else 1], kind, classes, rng),
        *_boxes(classes, rng),
    ]  # fmt: skip
    makers = {name: audits[seed % len(audits)] for name, audits in DERIVED.items()}
    return World({relation.name: relation for relation in made}, makers)


def _tree(values: Sequence[Any], kind: str) -> Relation:
    """Give a tree of height 2; every other value is below the one node, the others below the other."""
    rows = [
        row
        for place, value in enumerate(values)
        for row in ((value, 0, str(value)), (value, 1, f"group {place % 2}"), (value, 2, "all"))
    ]
    return Relation("tree", {"value": kind, "level": "INTEGER", "node": "VARCHAR"}, rows)


def _joint(values: Sequence[Any], kind: str, classes: Sequence[int], rng: random.Random) -> list[Relation]:
    """Give two columns of every value, and a certificate that proves nothing."""
    both = {"from_value": kind, "to_value": kind}
    pairs = [(one, other) for one in values[:20] for other in values[:20]]
    places = [
        (v, a, i // 3 if a else i, max(len(values) - 1, 1), a == 0)
        for a in range(2)
        for i, v in enumerate(values)
    ]
    flows = [(c, *rng.choice(pairs), rng.randrange(-1, 9)) for c in classes for _ in range(4)]
    potentials = [(c, v, rng.randrange(9)) for c in classes[:3] for v in values]
    return [
        Relation("joint_place", {"value": kind, "attribute": "INTEGER", "place": "BIGINT", "steps": "BIGINT", "ordered": "BOOLEAN"}, places),
        Relation("joint_kind", {"largest": "BOOLEAN"}, [(rng.random() < 0.5,)]),
        Relation("joint_scale", {"denominator": "BIGINT"}, [(2 * max(len(values) - 1, 1),)]),
        Relation("joint_pair", both, pairs),
        Relation("joint_flow", {"class": "BIGINT", **both, "mass": "BIGINT"}, flows),
        Relation("joint_potential", {"class": "BIGINT", "value": kind, "potential": "BIGINT"}, potentials),
    ]  # fmt: skip


def _boxes(classes: Sequence[int], rng: random.Random) -> tuple[Relation, Relation]:
    """Give ranks in two places, and boxes of which some are absurd."""
    ranks = {"class": "BIGINT", "place": "BIGINT", "rank": "BIGINT"}
    places = [(c, p, rng.randrange(1, 5)) for c in classes for p in (1, 2)]
    bounds = {"superset": "BIGINT", "place": "BIGINT", "first": "BIGINT", "last": "BIGINT"}
    rows: list[Row] = [
        (s, rng.choice([1, 1, 2]), rng.randrange(1, 4), rng.randrange(2, 6))
        for s in range(9)
        for _ in range(2)
    ]
    rows += [(9, 3, 1, 4), (10, 1, None, 4), (None, 1, 1, 4), (11, None, 1, 4), (11, 1, 1, 4)]
    return Relation("class_rank", ranks, places), Relation("superset_bound", bounds, rows)


def _before_and_after(records: int, rng: random.Random, *, text: bool) -> tuple[Relation, Relation]:
    """Give original and released: three columns, one of them constant; released are rounder and fewer."""
    columns = {"record": "BIGINT", "attribute": "VARCHAR", "value": "VARCHAR" if text else "DOUBLE"}
    old: list[Row] = []
    new: list[Row] = []
    for record in range(records):
        age = None if rng.random() < 0.1 else rng.gauss(40, 9)
        for name, value in (("age", age), ("same", 7.0), ("size", rng.gauss(0, 1) + record / 5)):
            coarse = None if value is None else round(value, rng.choice([-1, 0]))
            old.append((record, name, value))
            if record % 6 or record == 0:
                new.append((record, name, coarse))
    if text:
        old, new = ([(r, a, v and ("x", "y", "")[int(v) % 3]) for r, a, v in rows] for rows in (old, new))
    return Relation("original", columns, old), Relation("released", columns, new)


def _contribution(classes: Sequence[int], rng: random.Random) -> Relation:
    """Give up to nine contributions to each class, of some contributors several, with NULL, 0 and both signs."""
    columns = {"class": "BIGINT", "attribute": "VARCHAR", "contributor": "BIGINT", "value": "BIGINT"}
    values = [None, 0, 1, 1, 5, -5, 40, 1000, -300]
    rows = [
        (c, "pay", rng.randrange(6), rng.choice(values)) for c in classes for _ in range(rng.randrange(1, 10))
    ]
    return Relation("contribution", columns, rows)


def _two_releases(classes: Sequence[int], rng: random.Random) -> tuple[Relation, Relation, Relation]:
    """Give records, sensitive values and means of an older and a newer release; some classes are in one only."""
    records: list[Row] = []
    values: list[Row] = []
    for c in [*classes, 99]:
        for is_new in (False, True):
            for _ in range(rng.randrange(5)):
                value = rng.choice([None, 1, 2, 3])
                records.append((is_new, c, 10 * (c % 1000) + (value or 0)))
                values.append((is_new, c, "s", value))
    records.append((True, 98, 9801))
    values.append((True, 98, "s", 1))
    means = [(c, "age", rng.choice([None, 30.0, 41.5])) for c in [*classes, 98, 99]]
    return (
        Relation(
            "release_record", {"is_new": "BOOLEAN", "class": "BIGINT", "combination": "BIGINT"}, records
        ),
        Relation(
            "release_value",
            {"is_new": "BOOLEAN", "class": "BIGINT", "attribute": "VARCHAR", "value": "BIGINT"},
            values,
        ),
        Relation("class_number", {"class": "BIGINT", "attribute": "VARCHAR", "value": "DOUBLE"}, means),
    )


def _verdict(classes: Sequence[int], rng: random.Random) -> Relation:
    """Give verdicts of two measures with a threshold and one without."""
    columns = {
        "place": "INTEGER", "measure": "VARCHAR", "attribute": "VARCHAR", "threshold": "DOUBLE", "class": "BIGINT",
        "class_size": "BIGINT", "value": "DOUBLE", "violated": "BOOLEAN",
    }  # fmt: skip
    rows: list[Row] = []
    for c in classes:
        size, emd = rng.randrange(1, 6), rng.randrange(8) / 8
        rows.append((0, "k_anonymity", None, 3.0, c, size, float(size), size < 3))
        rows.append((1, "distinct_l_diversity", "s", None, c, size, float(rng.randrange(1, 4)), None))
        rows.append((2, "t_closeness", "s", 0.25, c, size, emd, emd > 0.25))
    return Relation("verdict", columns, rows)


def _random_members(seed: int, records: int, classes: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    rng = random.Random(seed)
    return [(rng.choice(classes), rng.choice(values)) for _ in range(records)]


# In "even" every class has 5 of 20 records and there are 5 values, so that all distances end within 4 digits.
EVEN = [(place // 5, place % 5 if place < 10 else place % 3) for place in range(20)]
WORLDS = {
    "one record": world([(1, 1)], 1),
    "one class of NULL": world([(1, None)] * 4, 0),
    "classes of one, of NULL": world(
        [(None, 1), (None, 2), (1, 5), (2, None), (3, 5), (2**62, -(2**62)), (-4, 2**62), (7, 7), (7, 7)], 3
    ),
    "ties": at_a_class(world(_random_members(5, 30, [1, 1, 2, 3, 4, 5], [None, 10, 10, 20, 30, 40]), 4), 1),
    "text": world(
        _random_members(8, 40, range(6), [None, "", "a", "B", "ä", "a'b\\", "zebra"]), 2, text=True
    ),
    "many": at_a_class(world(_random_members(7, 200, range(25), [None, *range(0, 300, 9)]), 7)),
    "even": at_a_class(world(EVEN, 6)),
}
EVEN_TEXT = world([(c, str(value)) for c, value in EVEN], 6, text=True)
