"""k over subsets of the quasi-identifiers: enforced by merging, through every door, judged by a Counter."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import duckanon
from duckanon import AuditPolicy, InfeasibleError, Policy, PolicyError
from tests.e2e.scenes import command
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Row = tuple[Any, ...]

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

VALUES: Mapping[str, Sequence[Any]] = {
    "INTEGER": range(10),
    "VARCHAR": "abcdef",
    "DOUBLE": [0.5, 1.25, 2.0, 7.75],
    "DATE": [f"2020-01-0{day}" for day in range(1, 10)],
}
TREE = "CREATE TABLE tree AS FROM (VALUES {}) AS path(leaf, pair, root)".format(
    ", ".join(f"('{leaf}', '{pair}', 'any')" for pair in ("ab", "cd", "ef") for leaf in pair)
)


class Asked(NamedTuple):
    """A random table with a policy: quasi-identifiers, k of the whole, k by subset, and other options."""

    kinds: dict[str, str]
    rows: list[Row]
    k: int
    subsets: dict[tuple[str, ...], int]
    size: int | None  # the subsets are all of this size
    options: dict[str, Any]

    def policy(self) -> Policy:
        named = {"k": {"*": self.k, **self.subsets}}
        k = (
            named
            if self.size is None
            else {"k": self.k, "k_subsets": {self.size: max(self.subsets.values())}}
        )
        return Policy(quasi_identifiers=list(self.kinds), **k, **self.options)

    def load(self, con: duckanon.Connection) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items())
        con.execute(f"CREATE TABLE t ({columns}, s VARCHAR, who INTEGER)")
        con.duckdb.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(self.kinds) + 2))})", self.rows)
        con.execute(TREE)


def asked(seed: int) -> Asked:
    """Give a table of up to 80 records, some with NULL, and thresholds that it can keep."""
    draw = random.Random(seed)
    n = draw.randint(12, 80)
    kinds = {f"c{number}": draw.choice([*VALUES, "VARCHAR"]) for number in range(draw.randint(2, 4))}
    rows = [
        (
            *(None if draw.random() < 0.1 else draw.choice(VALUES[kind]) for kind in kinds.values()),
            draw.choice("xyz"),
            draw.randint(1, n),
        )
        for _ in range(n)
    ]
    k, size = draw.randint(2, 4), draw.choice([None, draw.randint(1, len(kinds))])
    people = len({row[-1] for row in rows})
    subsets = {}
    if size is not None:
        subsets = dict.fromkeys(combinations(kinds, size), draw.randint(k, min(people, 15)))
    for _ in range(draw.randint(1, 3) if size is None else 0):
        chosen = tuple(name for name in kinds if draw.random() < 0.5) or ("c0",)
        subsets[chosen] = draw.randint(k, min(people, 15))
    texts = [name for name, kind in kinds.items() if kind == "VARCHAR"]
    options: dict[str, Any] = {"hierarchies": dict.fromkeys(texts, "tree")}
    method = draw.choice(["auto", "auto", "mondrian", "full_domain" if texts else "auto"])
    options |= {"method": method}
    if method != "full_domain":
        options["recode"] = dict.fromkeys(texts, "hierarchy")
    options |= draw.choice([{"sensitive": ["s"], "t": 0.4}, {"insensitive": ["s"]}])
    options |= draw.choice([{"subject": ["who"]}, {"identifiers": ["who"]}])
    options |= draw.choice([{}, {"suppression_limit": 0.2}])
    return Asked(kinds, rows, k, subsets, size, options)


def rare(rows: Sequence[Row], names: Sequence[str], subsets: Mapping[tuple[str, ...], int]) -> list[Any]:
    """Give the subsets with a combination of values that too few of the rows have."""
    return [subset for subset, k in subsets.items() if min(counted(rows, names, subset).values()) < k]


def counted(rows: Sequence[Row], names: Sequence[str], subset: Sequence[str]) -> Counter[Row]:
    return Counter(tuple(row[names.index(name)] for name in subset) for row in rows)


def released(con: duckanon.Connection, query: str) -> tuple[list[Row], list[str]]:
    cursor = con.execute(query)
    names = [column[0] for column in cursor.description]
    return cursor.fetchall(), names


def in_reach(made: Asked) -> bool:
    """Tell whether a refusal would be wrong: only full_domain may be unable to keep a k below n."""
    return made.options["method"] != "full_domain"


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(examples(300, 6)))
def test_no_door_releases_a_rare_combination(seed: int, tmp_path: Path) -> None:
    """Statement, table function and command line; the report counts what the rows show."""
    made = asked(seed)
    policy = made.policy()
    wanted = {tuple(made.kinds): made.k, **made.subsets}
    with duckanon.connect(tmp_path / "p.duckdb") as con:
        made.load(con)
        try:
            release = duckanon.anonymize(con, "t", policy, name="v")
        except InfeasibleError:
            assert not in_reach(made)
            return
        rows, names = released(con, "FROM v")
        assert not rare(rows, names, wanted)
        found = {one.attribute: one for one in release.report.measures if one.measure == "k_anonymity_subset"}
        assert len(found) == len(made.subsets)
        for subset, k in made.subsets.items():
            there = counted(rows, names, subset)
            line = found[", ".join(sorted(subset))]
            assert (line.threshold, line.value, line.classes) == (k, min(there.values()), len(there))
            assert (line.violations, line.records, line.passed) == (0, 0, True)
        audited = [
            row[:4] for row in con.execute("AUDIT VIEW v").fetchall() if row[0] == "k_anonymity_subset"
        ]
        assert audited == [(one.measure, one.attribute, one.threshold, one.value) for one in found.values()]
        if seed % 3:
            return
        con.execute("CREATE TABLE source AS FROM t")
        options = ", ".join(f"{name} := {value}" for name, value in in_sql(made).items())
        rows, names = released(con, f"FROM anonymize('source', {options})")
        assert not rare(rows, names, wanted)
        con.execute(f"COPY t TO '{tmp_path / 'raw.parquet'}'; COPY tree TO '{tmp_path / 'tree.csv'}'")
        (tmp_path / "p.toml").write_text(policy.to_toml().replace('"tree"', f"'{tmp_path / 'tree.csv'}'"))
        done = command(
            *("anonymize", tmp_path / "raw.parquet", tmp_path / "out.parquet"),
            *("--policy", tmp_path / "p.toml"),
        )
        assert done.returncode == 0, done.stderr
        rows, names = released(con, f"FROM '{tmp_path / 'out.parquet'}'")
        assert not rare(rows, names, wanted)


def in_sql(made: Asked) -> dict[str, str]:
    """Give the options of the policy as arguments of the table function, k by subset as JSON keys have it."""
    given = {"quasi_identifiers": list(made.kinds), **made.options}
    if made.size is None:
        given["k"] = {"*": made.k, **{f"({', '.join(subset)})": k for subset, k in made.subsets.items()}}
    else:
        given |= {"k": made.k, "k_subsets": {str(made.size): max(made.subsets.values())}}
    return {name: str(value) for name, value in given.items() if value != {}}


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        connection.execute(
            "CREATE TABLE p AS SELECT i AS id, i % 40 AS age, i % 3 AS zip FROM range(120) AS r(i)"
        )
        yield connection


def refused(con: duckanon.Connection, options: str, match: str, kind: type[Exception] = PolicyError) -> None:
    with pytest.raises(kind, match=match) as wrong:
        con.execute(
            "CREATE ANONYMIZED VIEW v AS SELECT age, zip FROM p WITH (quasi_identifiers = (age, zip), "
            + options
            + ")"
        )
    assert "\n" not in str(wrong.value)


def test_wrong_subsets_are_refused_in_one_line(con: duckanon.Connection) -> None:
    refused(con, "k = {*: 5, (age, Age): 10}", r"k names column 'Age' twice in \(age, Age\)")
    refused(
        con, "k = {*: 5, (age, id): 10}", r"k of \(age, id\) names 'id', which is not in quasi_identifiers"
    )
    refused(con, "k = {*: 5, (age, zpi): 10}", "did you mean 'zip'")
    refused(con, "k = {*: 5, (): 10}", "the list of columns is empty", duckanon.StatementError)
    refused(con, "k = 5, k_subsets = 3", "k_subsets has subsets of 3 columns, and quasi_identifiers names 2")
    refused(con, "k = 5, k_subsets = 0", "k_subsets = 0: use a number of columns of at least 1")
    refused(con, "k = {*: 5, zip: 0}", r"k of \(zip\) = 0: use an integer of at least 1")
    refused(con, "k = {*: 1, zip: 5}", "k of . = 1: use an integer of at least 2")
    refused(con, "k = {zip: 5}", r"k has no \*")
    refused(con, "k = {*: 5, (zip, age): 9}, k_subsets = {(age, zip): 8}", r"both have \(zip, age\)")
    refused(con, "k = {*: 5, zip: 9}, release = 'swap'", "k_subsets counts equal released values")
    refused(
        con,
        "k = {*: 5, zip: 121}",
        "k = 121 of .zip. is out of reach: there are 120 records",
        InfeasibleError,
    )
    assert con.execute("SHOW ANONYMIZED VIEWS").fetchall() == []


def test_k_subsets_is_k_of_all_subsets_of_a_size() -> None:
    """`k_subsets = 2` reports the pairs beside k; a larger k by name counts, as `{2: 50}` does."""
    quasi = ["a", "b", "c"]
    both = Policy(quasi_identifiers=quasi, k=5, k_subsets={2: 20, ("c", "A"): 30})
    assert Policy.from_toml(both.to_toml()) == both
    assert both.to_toml().splitlines()[-1] == 'k_subsets = {2 = 20, "(c, A)" = 30}'
    text = 'quasi_identifiers = ["a", "b", "c"]\nk = {"*" = 5, 2 = 20, "(c, A)" = 30}'
    assert Policy.from_toml(text) == both
    assert Policy(quasi_identifiers=quasi, k={"*": 5, ("c", "A"): 30, 2: 20}) == both
    assert AuditPolicy(quasi_identifiers=quasi, k=5).override(k={"b": 9}) == AuditPolicy(
        quasi_identifiers=quasi, k=5, k_subsets={"b": 9}
    )


def test_without_a_larger_k_the_release_is_the_same(con: duckanon.Connection) -> None:
    """The classes of the whole have k records, so every subset has."""
    for name, more in (("v", ""), ("w", ", k_subsets = 1")):
        con.execute(
            f"CREATE ANONYMIZED VIEW {name} AS SELECT age, zip FROM p WITH "
            f"(quasi_identifiers = (age, zip), k = 5{more})"
        )
    assert con.execute("FROM v").fetchall() == con.execute("FROM w").fetchall()


def test_equal_values_of_several_classes_count_together(con: duckanon.Connection) -> None:
    """By hand: 40 records of each zip; classes of 5 share a zip, so no class has to grow for zip: 40."""
    con.execute(
        "CREATE ANONYMIZED VIEW v AS SELECT age, zip::VARCHAR AS zip FROM p WITH (quasi_identifiers = (age, zip), "
        "weights = {zip: 1000}, k = {*: 5, zip: 40})"
    )
    assert Counter(zip_ for (zip_,) in con.execute("SELECT zip FROM v").fetchall()) == dict.fromkeys(
        "012", 40
    )
    ((least,),) = con.execute("SELECT min(n) FROM (SELECT count(*) AS n FROM v GROUP BY age, zip)").fetchall()
    assert 5 <= least < 10


def test_an_appended_class_keeps_the_subsets(con: duckanon.Connection) -> None:
    """Fewer new records than the largest k wait; enough of them make classes that keep each k themselves."""
    con.execute(
        "CREATE ANONYMIZED VIEW v AS SELECT id, age, zip FROM p WITH (quasi_identifiers = (age, zip), "
        "subject = id, k = {*: 3, age: 20})"
    )
    con.execute("INSERT INTO p SELECT 1000 + i, i, 7 FROM range(10) AS r(i)")
    con.execute("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
    assert con.execute("SELECT count(*) FROM v").fetchone() == (120,)
    con.execute("INSERT INTO p SELECT 2000 + i, i, 8 FROM range(15) AS r(i)")
    report = con.execute("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')").fetchall()
    rows, names = released(con, "FROM v")
    assert len(rows) == 145
    assert not rare(rows, names, {("age",): 20, ("age", "zip"): 3})
    assert [row[:4] for row in report if row[0] == "k_subjects_subset"] == [
        ("k_subjects_subset", "age", 20, 20)
    ]


def test_a_stream_and_spark_say_why_they_refuse() -> None:
    with pytest.raises(PolicyError, match="a stream releases a class before it has seen the others"):
        list(
            duckanon.anonymize_stream(
                iter([]),
                quasi_identifiers=["age"],
                k={"*": 5, "age": 9},
                delay=20,  # type: ignore[arg-type]
            )
        )


def test_p_percent_and_subsets_together(con: duckanon.Connection) -> None:
    """Persons with several records: what one adds to two classes adds up once these are merged."""
    con.execute(
        "CREATE TABLE pay AS SELECT i % 30 AS who, i % 30 * 40 + i * i % 97 AS wage, i % 7 AS branch "
        "FROM range(150) AS r(i)"
    )
    con.execute(
        "CREATE ANONYMIZED VIEW v AS SELECT * FROM pay WITH (quasi_identifiers = (wage, branch), subject = who, "
        "p_percent = 15, k = {*: 3, branch: 12, wage: 8})"
    )
    report = con.execute("AUDIT VIEW v").fetchall()
    rows, names = released(con, "FROM v")
    assert not rare(rows, names, {("branch",): 12, ("wage",): 8})
    assert all(row[-1] is not False for row in report)
