"""Full-domain generalization: the optimum, by brute force over the whole lattice, and what users meet on the way."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.audits.html.frontier import frontier_page
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.release.frontier import frontier, picture
from duckanon.release.source import Source
from tests import lattice
from tests.e2e.scenes import command
from tests.examples import examples
from tests.lattice import Sensitive, best
from tests.oracle import counts, key, reaches_l
from tests.oracle_release import assert_ordered_by_values, assert_release_valid
from tests.strategies import Case, cases, records_of
from tests.strategies import load as load_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

OBJECTIVES = ("loss", "discernibility", "c_avg", "precision")


TREE = [("v0", "x", "*"), ("v1", "x", "*"), ("v2", "y", "*")]


class Problem(NamedTuple):
    """A table, its hierarchies (leaves to root; None: the column stays) and what is asked."""

    rows: list[dict[str, Any]]
    trees: dict[str, list[tuple[str, ...]] | None]
    k: int
    asked: dict[str, Sensitive]
    limit: Fraction
    objective: str

    @property
    def allowed(self) -> int:
        return int(float(self.limit) * len(self.rows))

    def policy(self) -> duckanon.Policy:
        """Give the policy that asks for it."""
        return duckanon.Policy(
            quasi_identifiers=list(self.trees),
            sensitive=list(self.asked),
            k=self.k,
            t={c: Decimal(one.t.numerator) / one.t.denominator for c, one in self.asked.items() if one.t}
            or None,
            l={c: str(one.l) for c, one in self.asked.items() if one.l} or None,
            l_diversity=next((one.kind for one in self.asked.values() if one.l), "distinct"),  # type: ignore[arg-type]
            c=next((str(float(one.c)) for one in self.asked.values() if one.c), None),
            distance={c: one.distance for c, one in self.asked.items()},
            method="full_domain",
            objective=self.objective,  # type: ignore[arg-type]
            hierarchies={
                **{q: {leaf: list(above) for leaf, *above in tree} for q, tree in self.trees.items() if tree},
                **{
                    c: {leaf: list(above) for leaf, *above in one.tree}
                    for c, one in self.asked.items()
                    if one.tree
                },
            },
            suppression_limit=float(self.limit),
        )


@st.composite
def hierarchies(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Draw a hierarchy of up to six leaves and three levels above them, the last of them the root."""
    leaves = draw(st.integers(1, 6))
    rows = [[f"v{leaf}"] for leaf in range(leaves)]
    for level in range(1, draw(st.integers(1, 3))):
        groups = {row[-1]: f"g{level}{draw(st.integers(0, 2))}" for row in rows}
        rows = [[*row, groups[row[-1]]] for row in rows]
    return [(*row, "*") for row in rows]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw a small table, with NULL at times, and thresholds of any kind."""
    trees: dict[str, Any] = {q: draw(hierarchies()) for q in ["a", "b", "c"][: draw(st.integers(1, 3))]}
    if draw(st.booleans()):
        trees["n"] = None
    n = draw(st.integers(2, 24))
    rows = []
    numbers = st.sampled_from([0.5, 1e17, None]) if draw(st.booleans()) else st.just(7.0)
    for _ in range(n):
        row: dict[str, Any] = {
            q: draw(st.sampled_from([leaf for leaf, *_ in tree])) if tree else draw(numbers)
            for q, tree in trees.items()
        }
        if draw(st.integers(0, 9)) == 0:
            row["a"] = None
        rows.append({**row, "s": draw(st.integers(0, 3)), "w": f"v{draw(st.integers(0, 2))}"})
    asked: dict[str, Sensitive] = {}
    t = st.none() | st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(1)])
    kind = draw(st.sampled_from(["distinct", "entropy", "recursive"]))
    for column in draw(st.sampled_from([(), ("s",), ("w",), ("s", "w")])):
        distance = draw(st.sampled_from(["ordered", "equal"] if column == "s" else ["equal", "hierarchical"]))
        tree = TREE if distance == "hierarchical" else None
        l = draw(st.sampled_from([None, Fraction(2), Fraction(1)]))  # noqa: E741
        c = Fraction(3, 2) if kind == "recursive" and l else None
        asked[column] = Sensitive(distance, draw(t), l, kind, c, tree)
    limit = draw(st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(1)]))
    return Problem(rows, trees, draw(st.integers(2, 5)), asked, limit, draw(st.sampled_from(OBJECTIVES)))


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def load(con: duckanon.Connection, problem: Problem) -> list[str]:
    """Make the table; return its columns."""
    columns = [*problem.trees, "s", "w"]
    types = {"n": "DOUBLE", "s": "INTEGER"}
    typed = ", ".join(f"{column} {types.get(column, 'VARCHAR')}" for column in columns)
    con.duckdb.execute(f"CREATE OR REPLACE TABLE people({typed})")
    con.duckdb.executemany(
        f"INSERT INTO people VALUES ({', '.join('?' * len(columns))})",
        [[row[c] for c in columns] for row in problem.rows],
    )
    return [*problem.trees, *problem.asked]


def texts(row: Any) -> tuple[Any, ...]:
    return tuple(key(value) for value in row)


ONE_GOES = Problem(
    [{"a": "v0", "s": 0, "w": "v1"}, *[{"a": None, "s": 0, "w": "v0"}] * 7],
    {"a": [("v0", "*"), ("v1", "*")]},
    k=2,
    asked={"w": Sensitive("hierarchical", Fraction(1, 10), tree=TREE)},
    limit=Fraction(1, 4),
    objective="loss",
)
"""A value of the sensitive column is suppressed altogether."""


@pytest.mark.slow
@example(problem=ONE_GOES)
@settings(
    max_examples=examples(400, 10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=problems())
def test_a_release_is_that_of_the_best_node_of_all(con: duckanon.Connection, problem: Problem) -> None:
    """Source: brute force over the lattice; released rows, number of suppressed records, cost."""
    assume(problem.k <= len(problem.rows))
    columns = load(con, problem)
    expected = best(
        problem.rows,
        problem.trees,
        problem.k,
        problem.asked,
        allowed=problem.allowed,
        objective=problem.objective,
    )
    source = f"SELECT {', '.join(columns)} FROM people"
    try:
        duckanon.anonymize(con, source, problem.policy(), name="anon", or_replace=True)
    except InfeasibleError:
        event("infeasible")
        # l of the whole table is checked first, whatever may be suppressed.
        assert expected is None or any(
            one.l and not reaches_l(counts(problem.rows, column), one.l, one.kind, one.c)
            for column, one in problem.asked.items()
        )
        return
    assert expected is not None
    event("suppressed" if len(expected.rows) < len(problem.rows) else "nobody suppressed")
    rows = con.duckdb.execute("FROM anon").fetchall()
    assert Counter(map(texts, rows)) == Counter(texts(row[c] for c in columns) for row in expected.rows)


@pytest.mark.slow
@settings(
    max_examples=examples(300, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=problems(), data=st.data())
def test_the_frontier_lists_every_minimal_node(
    con: duckanon.Connection, problem: Problem, data: st.DataObject
) -> None:
    """Source: brute force over the nodes within drawn levels, with drawn weights."""
    assume(problem.k <= len(problem.rows))
    columns, climbing = load(con, problem), {q: tree for q, tree in problem.trees.items() if tree}
    levels = {
        q: tuple(sorted(data.draw(st.tuples(*[st.integers(0, len(tree[0]) - 1)] * 2))))
        for q, tree in climbing.items()
        if data.draw(st.booleans())
    }
    problem = problem._replace(objective=data.draw(st.sampled_from(["loss", "precision"])))
    weights = {q: Fraction(data.draw(st.integers(1, 4)), 2) for q in climbing if data.draw(st.booleans())}
    policy = replace(problem.policy(), levels=levels, weights={q: float(one) for q, one in weights.items()})
    con.execute(f"CREATE OR REPLACE TABLE narrow AS SELECT {', '.join(columns)} FROM people")
    left = {
        node: lattice.released(problem.rows, problem.trees, node, problem.k, problem.asked)
        for node in lattice.nodes(problem.trees)
        if all(low <= node[list(problem.trees).index(q)] <= high for q, (low, high) in levels.items())
    }
    gone = {node: len(problem.rows) - sum(map(len, classes)) for node, classes in left.items()}
    keeping = {node for node, classes in left.items() if classes and gone[node] <= problem.allowed}
    source = Source("FROM narrow", "memory", "main")
    try:
        rows = frontier(con.duckdb, source, policy).to_pylist()
    except InfeasibleError as failure:
        event("infeasible")
        text = str(failure)
        found = re.search(r"suppresses at least (\d+) of", text)
        least = min((gone[node] for node, classes in left.items() if classes), default=None)
        # l of the whole table is checked first, whatever may be suppressed.
        assert (not keeping or "out of reach" in text) and (found is None or int(found[1]) == least)  # noqa: PT018
        return

    def costs(node: tuple[int, ...], objective: str) -> float:
        product = lattice.cost(problem.rows, problem.trees, node, problem.k, left[node], objective, weights)
        if objective == "precision":
            return float(product)
        return float(product) ** (1 if weights else 1 / len(problem.trees)) - 1

    by_node = {
        tuple(
            int(found[1]) if (found := re.search(rf"\b{q}: (\d+)", row["levels"])) else 0
            for q in problem.trees
        ): row
        for row in rows
    }
    event(f"{len(rows)} nodes")
    assert sorted(node for node, row in by_node.items() if row["minimal"]) == lattice.minimal(keeping)
    (chosen,) = (node for node, row in by_node.items() if row["chosen"])
    assert costs(chosen, problem.objective) == pytest.approx(
        min(costs(node, problem.objective) for node in keeping), abs=1e-11
    )
    for node, row in by_node.items():
        assert row["loss"] == pytest.approx(costs(node, "loss"), abs=1e-11)
        assert row["suppressed"] == gone[node] / len(problem.rows)
        assert row["classes"] == len(left[node])
        assert row["risk"] == 1 / min(map(len, left[node]))
        if any(one.t for one in problem.asked.values()):
            assert row["t"] <= max(float(one.t or 1) for one in problem.asked.values()) + 1e-12


@settings(
    max_examples=examples(200, 15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(hierarchies=True))
def test_any_table_keeps_its_thresholds(case: Case) -> None:
    """Source: the oracle of releases, which knows nothing of levels; columns of any type and name."""
    assume(case.climbs)
    policy = {name: value for name, value in case.policy.items() if name not in ("recode", "weights")}
    policy["method"] = "full_domain"
    with duckanon.connect() as con:
        load_case(con.duckdb, case, "source_table")
        try:
            duckanon.anonymize(con, "source_table", duckanon.Policy(**policy), name="v")
        except InfeasibleError:
            event("infeasible")
            return
        except duckanon.DuckanonError:
            assert case.refusal
            return
        rows, source = records_of(con.duckdb, "v"), records_of(con.duckdb, "source_table")
    quasi = policy["quasi_identifiers"]
    recode = {name: "hierarchy" if name in case.climbs else "mode" for name in quasi}
    assert_release_valid(source, rows, policy | {"recode": recode}, trees=case.trees)
    assert_ordered_by_values(rows)
    for name, tree in case.climbs.items():
        # All labels of a column are of one level; NULL, below the root, is above no value. How DuckDB writes a leaf
        # of any type is not known here.
        above = [{str(row[level]) for row in tree} for level in range(1, len(tree[0]))]
        labels = {row[name] for row in rows} - {None}
        assert any(labels <= level for level in above) or labels.isdisjoint(set().union(*above))


ZIPS = [(z, z[:-1] + "*", z[0] + "**", "***") for z in ("101", "102", "111", "201", "202")]

PATIENTS = [
    ("101", 30, 1),
    ("102", 30, 2),
    ("111", 30, 3),
    ("111", 30, 1),
    ("201", 30, 2),
    ("202", 40, 3),
    (None, 40, 1),
]

OPTIONS = "quasi_identifiers = (zip, age), sensitive = ill, k = 2, method = 'full_domain', hierarchies = {zip: 'zips'}"


@pytest.fixture
def clinic() -> Iterator[duckanon.Connection]:
    """Seven patients; a hierarchy of zips with three levels above them."""
    with duckanon.connect() as connection:
        connection.execute("CREATE TABLE patients(zip VARCHAR, age INTEGER, ill INTEGER)")
        connection.duckdb.executemany("INSERT INTO patients VALUES (?, ?, ?)", PATIENTS)
        connection.execute("CREATE TABLE zips(zip VARCHAR, two VARCHAR, one VARCHAR, root VARCHAR)")
        connection.duckdb.executemany("INSERT INTO zips VALUES (?, ?, ?, ?)", ZIPS)
        yield connection


def shown(con: duckanon.Connection, more: str = "") -> list[tuple[Any, ...]]:
    """Release the patients; return their zips and ages."""
    con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM patients WITH ({OPTIONS}{more})")
    return con.duckdb.execute("SELECT zip, age FROM v ORDER BY ALL").fetchall()


def test_the_root_is_above_null_and_everything(clinic: duckanon.Connection) -> None:
    """By hand: 202 and NULL of 40 share nothing but the root, so all records show it."""
    assert shown(clinic) == [("***", 30)] * 5 + [("***", 40)] * 2
    assert clinic.duckdb.execute("SELECT DISTINCT typeof(zip), typeof(age) FROM v").fetchall() == [
        ("VARCHAR", "INTEGER")
    ]


def test_suppression_by_hand(clinic: duckanon.Connection) -> None:
    """By hand: at level 1, 10* and 11* are two each, and 201, 202 and NULL are alone: three records of seven.

    There the loss is (2 / 5 + 3) / 7 of zip, of which 10* has two of six leaves, and 3 / 7 of age; 1.486 times 1.429
    is more than the 2 of the root, which suppresses nobody. Discernibility is 4 + 4 + 3 times 7, and 25 + 4: the
    same, so that the lower level is taken.
    """
    root = [("***", 30)] * 5 + [("***", 40)] * 2
    assert shown(clinic, ", suppression_limit = 0.43") == root
    assert shown(clinic, ", suppression_limit = 0.3, objective = 'discernibility'") == root
    pairs = [("10*", 30)] * 2 + [("11*", 30)] * 2
    assert shown(clinic, ", suppression_limit = 0.43, objective = 'discernibility'") == pairs
    report = duckanon.audit(clinic, "v", duckanon.AuditPolicy(quasi_identifiers=["zip", "age"], k=2))
    assert report.passed


def test_what_a_node_suppresses_for_t_says_nothing_of_those_below(con: duckanon.Connection) -> None:
    """By hand: three of Bonn have 2, one of Graz and one of Wien have 0; t = 1/4, two of five records may go.

    As they are, Graz and Wien are alone and go, and Bonn is all that is left: EMD 0. By lands there are three and
    two records, whose EMD is 2/5 and 3/5: all would go. A search that took that for an answer about the towns would
    end at the root.
    """
    con.execute(
        "CREATE OR REPLACE TABLE towns AS SELECT unnest(['Bonn', 'Bonn', 'Bonn', 'Graz', 'Wien']) AS town"
    )
    tree = {"Bonn": ["D", "*"], "Graz": ["A", "*"], "Wien": ["A", "*"]}
    policy = duckanon.Policy(
        quasi_identifiers="town", sensitive="s", k=2, t=0.25, distance={"s": "equal"}, suppression_limit=0.4,
        method="full_domain", hierarchies={"town": tree},
    )  # fmt: skip
    source = "SELECT town, CASE WHEN town = 'Bonn' THEN 2 ELSE 0 END AS s FROM towns"
    release = duckanon.anonymize(con, source, policy, name="anon", or_replace=True)
    assert con.duckdb.execute("FROM anon").fetchall() == [("Bonn", 2)] * 3
    assert release.suppressed == 2


def test_a_number_that_stays_keeps_all_its_digits(con: duckanon.Connection) -> None:
    """By hand: 2^53 and 2^53 + 1 are one number as DOUBLE, and were one class, all with the value of the smaller."""
    source = "SELECT 'x' AS a, CASE WHEN i < 2 THEN 0 ELSE 9007199254740992 + i // 4 END::BIGINT AS b FROM range(6) r(i)"
    policy = duckanon.Policy(
        quasi_identifiers=["a", "b"], k=2, method="full_domain", hierarchies={"a": {"x": ["*"]}}
    )
    duckanon.anonymize(con, source, policy, name="anon", or_replace=True)
    found = con.duckdb.execute("SELECT b, count(*) FROM anon GROUP BY b ORDER BY b").fetchall()
    assert found == [(0, 2), (2**53, 2), (2**53 + 1, 2)]


@pytest.mark.filterwarnings("default::duckanon.DuckanonWarning")
def test_sensitive_numbers_with_a_comma_are_told(con: duckanon.Connection) -> None:
    """Of the quasi-identifier, whose text is a leaf, nothing is said."""
    source = "SELECT '1,5' AS a, i || ',5' AS s FROM range(8) r(i)"
    policy = duckanon.Policy(
        quasi_identifiers="a", sensitive="s", k=2, method="full_domain", hierarchies={"a": {"1,5": ["*"]}}
    )
    with pytest.warns(duckanon.DuckanonWarning) as told:
        duckanon.anonymize(con, source, policy, name="anon", or_replace=True)
    commas = [str(one.message) for one in told if "decimal comma" in str(one.message)]
    assert [text.split(" ")[0] for text in commas] == ["'s'"]


def test_nulls_follow_their_option_at_every_level(clinic: duckanon.Connection) -> None:
    """By hand: without the patient whose zip is NULL, the one of 40 is alone at every level."""
    with pytest.raises(InfeasibleError, match="even with all hierarchies at their root"):
        shown(clinic, ", nulls = 'suppress'")
    with pytest.raises(duckanon.DuckanonError, match="'zip' is NULL in 1 of 7"):
        shown(clinic, ", nulls = 'error'")


def test_explain_shows_the_search(clinic: duckanon.Connection) -> None:
    """By hand: of four nodes the root alone keeps k, and is found when all below it are ruled out."""
    rows = clinic.sql(f"EXPLAIN CREATE ANONYMIZED VIEW v AS FROM patients WITH ({OPTIONS})")
    assert rows is not None
    plan = {(name, column): (value, reason) for name, column, value, reason in rows.fetchall()}
    checked = int(str(plan["nodes", None][1]).split()[0])
    assert plan["nodes", None] == ("4", f"{checked} checked, {4 - checked} pruned")
    assert 2 <= checked <= 4
    assert plan["level", "zip"] == ("3", "of 3 above the values")
    assert plan["level", "age"] == ("0", "no hierarchy: as it is")
    assert plan["minimal_nodes", None][0] == "1"
    assert plan["minimal_node", None][0] == "3, 0"
    assert plan["suppressed", None] == ("0", "at most 0 records")
    # By hand: zip loses everything, age nothing: the root of 2, minus 1.
    assert plan["objective", None] == ("loss", "0.414213562, the least of all nodes")
    assert ("time", None) in plan


def test_the_method_has_another_name(clinic: duckanon.Connection) -> None:
    options = OPTIONS.replace("full_domain", "Incognito")
    clinic.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({options})")
    shown_views = clinic.sql("SHOW ANONYMIZED VIEWS")
    assert shown_views is not None
    assert "full_domain" in str(shown_views.fetchall())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (OPTIONS.partition(", hierarchies")[0], "climbs hierarchies and there are none: add hierarchies = {zip: 'table'}"),
        (f"{OPTIONS}, recode = {{age: 'mean'}}", "recode of 'age' is 'mean' and method = 'full_domain' releases labels"),
        (
            f"{OPTIONS}, weights = {{age: 2}}, objective = 'c_avg'",
            "weights names 'age' and objective = 'c_avg' counts classes, not columns: leave it out, or use",
        ),
        (
            f"{OPTIONS.replace('full_domain', 'mdav')}, levels = {{zip: 1}}",
            "levels of 'zip' is of method = 'full_domain', not 'mdav': set that, or leave it out",
        ),
        (f"{OPTIONS}, levels = {{age: 1}}", "levels names 'age', which has no hierarchy: add hierarchies = {age: 'table'}"),
        (f"{OPTIONS}, levels = {{zip: (3, 1)}}", "levels of 'zip' = (3, 1): the range is upside down, put the lower"),
        (f"{OPTIONS}, levels = {{zip: 4}}", "levels of 'zip' = 4: its hierarchy has the levels 0 (the values) to 3 (the root)"),
        (f"{OPTIONS}, levels = {{zip: (1, 4)}}", "levels of 'zip' = (1, 4): its hierarchy has the levels 0 (the"),
        (f"{OPTIONS}, objective = 'losses'", "objective = 'losses' is unknown, did you mean 'loss'?"),
        (
            f"{OPTIONS.replace('full_domain', 'mdav')}, objective = 'precision'",
            "objective = 'precision' is of method = 'full_domain', not 'mdav': set that, or leave it out",
        ),
        (OPTIONS.replace("full_domain", "incognitto"), "did you mean 'incognito'?"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_an_error(
    clinic: duckanon.Connection, options: str, message: str
) -> None:
    with pytest.raises(PolicyError, match=re.escape(message)):
        clinic.execute(f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({options})")


def test_levels_are_taken_as_they_are(clinic: duckanon.Connection) -> None:
    """By hand: of level 1 the pairs 10* and 11* are left; to the level 2 three of seven are alone."""
    pairs = [("10*", 30)] * 2 + [("11*", 30)] * 2
    assert shown(clinic, ", levels = {zip: 1}, suppression_limit = 0.43") == pairs
    for levels in ("1", "(0, 2)"):
        with pytest.raises(
            InfeasibleError,
            match=r"suppresses at least 3 of 7 records, and 0 may go: allow other levels, or set "
            r"suppression_limit = 0.428572",
        ):
            shown(clinic, f", levels = {{zip: {levels}}}")
    shown(clinic, ", levels = {zip: 1}, suppression_limit = 0.428572")
    clinic.execute("REFRESH ANONYMIZED VIEW v")
    assert clinic.duckdb.execute("SELECT zip, age FROM v ORDER BY ALL").fetchall() == pairs


def test_a_page_shows_levels_to_choose_from(clinic: duckanon.Connection) -> None:
    """By hand: the root keeps all records; with level 1 three of seven go, and the pairs have ill 1, 2 and 1, 3."""
    asked = f"{OPTIONS}, t = 0.5, suppression_limit = 0.43"
    shown = clinic.sql(f"EXPLAIN CREATE ANONYMIZED VIEW v AS FROM patients WITH ({asked}) FRONTIER")
    rows = shown.to_arrow_table()
    found = {
        row["levels"]: (row["suppressed"], row["classes"], row["risk"], row["minimal"], row["chosen"])
        for row in rows.to_pylist()
    }
    assert found == {"{zip: 1}": (3 / 7, 2, 0.5, True, False), "{zip: 3}": (0, 2, 0.5, False, True)}
    page = frontier_page(rows)
    assert page.count("<svg ") == 2
    assert re.findall(r'<th scope="row">(.*?)</th>', page) == ["{zip: 3}", "{zip: 1}"]
    assert "<script" not in page
    assert frontier_page(rows) == page
    assert "suppressed, per cent of the records" in picture(rows)
    (none,) = (place for place, share in enumerate(rows["suppressed"].to_pylist()) if not share)
    page = frontier_page(rows.slice(none, 1))
    assert "\u2212" not in page, "no axis has negative shares"
    assert ">minimal<" not in page, "no legend names a kind of nodes without a dot"


def test_weights_change_the_best_levels(con: duckanon.Connection) -> None:
    """By hand: either a or b has to go to its root; the column that weighs less goes."""
    con.execute(
        "CREATE OR REPLACE TABLE corners AS SELECT unnest(['x', 'x', 'y', 'y']) AS a, unnest(['p', 'q', 'p', 'q']) AS b"
    )
    trees = {"a": {"x": ["*"], "y": ["*"]}, "b": {"p": ["*"], "q": ["*"]}}
    for objective in ("loss", "precision"):
        for weights, roots in (({"a": 2}, (False, True)), ({"b": 2}, (True, False))):
            policy = duckanon.Policy(
                quasi_identifiers=["a", "b"], k=2, method="full_domain", hierarchies=trees, weights=weights,
                objective=objective,
            )  # fmt: skip
            duckanon.anonymize(con, "corners", policy, name="anon", or_replace=True)
            row = con.duckdb.execute("SELECT a = '*', b = '*' FROM anon").fetchone()
            assert row == roots


def test_no_labels_are_left_for_other_methods() -> None:
    """`partition` has points, which have no hierarchy."""
    with pytest.raises(PolicyError, match="'full_domain' climbs hierarchies, points have none"):
        duckanon.partition([[0.0], [1.0]], k=2, method="full_domain")


def test_too_many_nodes_name_the_tallest_hierarchy(clinic: duckanon.Connection) -> None:
    """Twelve columns of four levels have 4^12 nodes, above 5,000,000."""
    columns = ", ".join(f"zip AS z{number}" for number in range(12))
    names = [f"z{number}" for number in range(12)]
    trees = ", ".join(f"{name}: 'zips'" for name in names)
    policy = (
        f"quasi_identifiers = ({', '.join(names)}), k = 2, method = 'full_domain', hierarchies = {{{trees}}}"
    )
    with pytest.raises(
        PolicyError, match=r"would search 16777216 nodes.*hierarchy of 'z0' fewer than its 4 levels"
    ):
        clinic.execute(f"CREATE ANONYMIZED VIEW v AS SELECT {columns} FROM patients WITH ({policy})")


def test_a_column_that_stays_may_stand_in_the_way(clinic: duckanon.Connection) -> None:
    """By hand: one patient of 41 is alone whatever the zips show."""
    clinic.execute("INSERT INTO patients VALUES ('101', 41, 1)")
    with pytest.raises(InfeasibleError, match=r"misses a threshold, as 'age' stays as in the source"):
        shown(clinic)
    assert shown(clinic, ", suppression_limit = 0.125") == [("***", 30)] * 5 + [("***", 40)] * 2


def test_a_refresh_climbs_again(clinic: duckanon.Connection) -> None:
    """By hand: two of each zip and age need no level at all; a zip that the hierarchy does not have is an error."""
    shown(clinic)
    clinic.execute("DELETE FROM patients WHERE zip IS NULL OR zip <> '111'")
    clinic.execute("REFRESH ANONYMIZED VIEW v")
    assert clinic.duckdb.execute("SELECT zip, age FROM v").fetchall() == [("111", 30)] * 2
    clinic.execute("INSERT INTO patients VALUES ('999', 30, 1)")
    with pytest.raises(PolicyError, match="no row for the value 999"):
        clinic.execute("REFRESH ANONYMIZED VIEW v")
    assert clinic.duckdb.execute("SELECT zip, age FROM v").fetchall() == [("111", 30)] * 2


@pytest.mark.slow
def test_the_command_line_and_verify_know_it(tmp_path: Path) -> None:
    """A release as a database file is what it says; and --dry-run shows levels."""
    csv = tmp_path / "patients.csv"
    csv.write_text(
        "zip,age,ill\n" + "".join(f"{z or ''},{a},{i}\n" for z, a, i in PATIENTS), encoding="utf-8"
    )
    tree = tmp_path / "zips.csv"
    tree.write_text("".join(";".join(row) + "\n" for row in ZIPS), encoding="utf-8")
    flags = [
        "--qi",
        "zip,age",
        "--sensitive",
        "ill",
        "-k",
        "2",
        "--method",
        "incognito",
        "--objective",
        "precision",
    ]
    flags += ["--hierarchies", f"zip={tree}"]
    plan = command("anonymize", csv, tmp_path / "o.csv", *flags, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert "minimal_node" in plan.stdout
    made = command("anonymize", csv, tmp_path / "o.csv", *flags)
    assert made.returncode == 0, made.stderr
    assert "levels zip 3 of 3; precision 0.5" in made.stdout
    assert (tmp_path / "o.csv").read_text(encoding="utf-8").splitlines()[1:3] == ["***,30,1", "***,30,1"]
    exported = tmp_path / "o.duckdb"
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE patients AS FROM read_csv('{csv}', types = {{'zip': 'VARCHAR'}})")
        con.execute(
            f"CREATE ANONYMIZED VIEW v AS FROM patients WITH ({OPTIONS.replace('zips', str(tree))}, suppression_limit = 0.43)"
        )
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{exported}'")
    verified = command("verify", exported)
    assert verified.returncode == 0, verified.stdout + verified.stderr
