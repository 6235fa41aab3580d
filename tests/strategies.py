"""Random small tables with a policy that fits them, for property tests (hypothesis)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.oracle import counts, exact, key, reaches_l
from tests.oracle_shares import MODELS, keeps, limit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

NAMES = (
    "age",
    "ZIP",
    "select",
    "a b",
    'we"ird',
    "ünï",
    "q1",
    "record_id",
    "class",
    "class_id",
    "n",
    "value",
    "it's",
    "with (",
    "a.b",
    "x,y",
)
"""Column names, no two of them equal without regard to case: keywords, quotes, names that SQL files use."""

LETTERS = ("a", "b", "c", "d", "e", "f")

TREE = tuple((letter, "first" if letter in "abc" else "second", "any") for letter in LETTERS)
"""A hierarchy of height 2 over `LETTERS`, one row a leaf, from leaf to root."""

TREE_TABLE = "letter_tree"
"""Name under which `load` stores `TREE`."""

QUASI_IDENTIFIERS: Mapping[str, st.SearchStrategy[Any]] = {
    "INTEGER": st.integers(0, 4) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.sampled_from([-(2**63), 2**63 - 1, 0, 1, -1]) | st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(9,2)": st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    "DECIMAL(38,10)": st.sampled_from(["0E-10", "99999999999999999999.0000000001", "-0.0000000001"]).map(
        Decimal
    ),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300, -1e300, 5e-324]) | st.floats(-100, 100),
    "DATE": st.dates(date(1999, 12, 30), date(2000, 1, 4)) | st.dates(),
    "TIMESTAMP": st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)) | st.datetimes(),
    "BOOLEAN": st.booleans(),
    "VARCHAR": st.sampled_from(["", " ", "a", "A", "é", "O'Hare", "%", "12345", "NULL"])
    | st.text("ab", max_size=2),
    "ENUM('b', 'a', 'it''s')": st.sampled_from(["b", "a", "it's"]),
}
"""Values of a quasi-identifier by DuckDB type: ties, extremes of the type and values that look alike."""

SENSITIVE: Mapping[str, st.SearchStrategy[Any]] = {
    "INTEGER": st.integers(0, 3),
    "VARCHAR": st.sampled_from(LETTERS),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, 1e300, math.inf, math.nan]),
    "DATE": st.dates(date(2000, 1, 1), date(2000, 1, 3)),
    "BOOLEAN": st.booleans(),
    "ENUM('b', 'a', 'it''s')": st.sampled_from(["b", "a", "it's"]),
}
"""Values of a sensitive column by DuckDB type: few, so that classes share them."""

NUMBERS_AND_DATES = ("INTEGER", "BIGINT", "DECIMAL(9,2)", "DECIMAL(38,10)", "DOUBLE", "DATE", "TIMESTAMP")
NUMBER_RECODES = ("mean", "median", "range", "mode", "set")
TEXT_RECODES = ("mode", "set")


@dataclass(frozen=True)
class Case:
    """A table and a policy for it.

    Attributes
    ----------
    columns : tuple of (str, str)
        Name and DuckDB type.
    rows : tuple of tuples
        Python values, None for NULL.
    policy : mapping
        Options of the policy by name.
    trees : mapping
        Rows of the hierarchy of each sensitive column that has one.
    climbs : mapping
        Rows of the hierarchy of each quasi-identifier that has one: a value of the column, then its labels.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    policy: Mapping[str, Any]
    trees: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    climbs: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        return [dict(zip((name for name, _ in self.columns), row, strict=True)) for row in self.rows]

    @property
    def usable(self) -> list[dict[str, Any]]:
        """The records that take part: those without NULL in a quasi-identifier if the policy says so."""
        quasi = self.policy["quasi_identifiers"]
        drop = self.policy.get("nulls") == "suppress"
        return [row for row in self.records if not drop or all(row[name] is not None for name in quasi)]

    @property
    def refusal(self) -> str | None:
        """Option because of which the data must be refused, None if a release exists."""
        quasi, usable = self.policy["quasi_identifiers"], self.usable
        if self.policy.get("nulls") == "error" and any(row[q] is None for row in usable for q in quasi):
            return "nulls"
        if len(usable) < self.policy["k"]:
            return "k"
        kind, c = self.policy.get("l_diversity", "distinct"), self.policy.get("c")
        for name, wanted in self.policy.get("l", {}).items():
            # One single class is the most diverse of all partitions: the table's own l is the limit.
            if not reaches_l(counts(usable, name), exact(wanted), kind, None if c is None else exact(c)):
                return "l"
        return None


def load(connection: duckdb.DuckDBPyConnection, case: Case, name: str) -> None:
    """Create the table of a case, and the table of its hierarchy if it has one.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open for writing.
    case : Case
        What to load.
    name : str
        Name of the table, which must be free; any text.
    """
    _create(connection, name, case.columns, case.rows)
    if case.trees:
        levels = (("leaf", "VARCHAR"), ("parent", "VARCHAR"), ("root", "VARCHAR"))
        _create(connection, TREE_TABLE, levels, TREE)
    types = dict(case.columns)
    for column, rows in case.climbs.items():
        leaf = "VARCHAR" if types[column].startswith("ENUM") else types[column]
        labels = [(f"level {level}", "VARCHAR") for level in range(1, len(rows[0]))]
        _create(connection, f"hierarchy of {column}", [("leaf", leaf), *labels], rows)


def records_of(connection: duckdb.DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    """Return all rows of a relation by column name, in its physical order."""
    result = connection.execute(f"FROM {_quoted(name)}")
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    max_rows: int = 40,
    methods: Sequence[str] = ("auto",),
    thresholds: bool = True,
    hierarchies: bool | None = None,
) -> Case:
    """Return a strategy for tables of 1 to `max_rows` rows with a policy.

    Some of the policies cannot be met by their table; `Case.refusal` says why.

    Parameters
    ----------
    draw : DrawFn
        Given by hypothesis.
    max_rows : int
        At least 1.
    methods : sequence of str
        Methods to choose from.
    thresholds : bool
        Whether policies may ask for l and t; without, they ask for k alone.
    hierarchies : bool, optional
        Whether quasi-identifiers have hierarchies; by default some tables have some.
    """
    n = draw(st.integers(1, max_rows) | st.integers(min(6, max_rows), max_rows))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=7, unique=True))
    quasi, rest = names[: (len(names) + 1) // 2], names[(len(names) + 1) // 2 :]
    sensitive, other = rest[:2], rest[2:]
    types = {c: draw(st.sampled_from(list(QUASI_IDENTIFIERS))) for c in quasi}
    types |= {c: draw(st.sampled_from(["VARCHAR", *SENSITIVE])) for c in sensitive}
    types |= dict.fromkeys(other, "INTEGER")
    order = draw(st.permutations(names))
    table = {c: draw(_column((QUASI_IDENTIFIERS if c in quasi else SENSITIVE)[types[c]], n)) for c in order}
    options: dict[str, Any] = {
        "quasi_identifiers": quasi,
        "sensitive": sensitive,
        "k": draw(st.integers(2, 5) | st.just(max(n, 2))),
        "method": draw(st.sampled_from(methods)),
    }
    options |= {draw(st.sampled_from(["insensitive", "identifiers"])): other} if other else {}
    options |= draw(_preferences({c: types[c] for c in quasi}))
    asks, trees = draw(_thresholds(sensitive, types)) if thresholds and sensitive else ({}, {})
    climbs = {c: draw(_hierarchy(table[c])) for c in quasi if any(value is not None for value in table[c])}
    if climbs and (draw(st.integers(0, 2)) == 0 if hierarchies is None else hierarchies):
        chosen = sorted(draw(st.sets(st.sampled_from(sorted(climbs)), min_size=1)))
        climbs = {c: climbs[c] for c in chosen}
        options["hierarchies"] = {c: _quoted(f"hierarchy of {c}") for c in chosen}
        kept = {c: how for c, how in options.get("recode", {}).items() if c not in climbs}
        by_name = {c: draw(st.sampled_from(["hierarchy", "hierarchy", "mode", "set"])) for c in chosen}
        options["recode"] = kept | by_name
    else:
        climbs = {}
    if climbs and "hierarchies" in asks:
        asks["hierarchies"] = asks["hierarchies"] | options["hierarchies"]
    rows = tuple(zip(*table.values(), strict=True))
    if draw(st.integers(0, 4)) == 0:
        rows = tuple(draw(st.lists(st.sampled_from(rows), min_size=n, max_size=n)))
    case = Case(tuple((c, types[c]) for c in order), rows, options | asks, trees, climbs)
    bounds = draw(_shares(case, sensitive, types)) if thresholds and sensitive else {}
    return replace(case, policy={**case.policy, **bounds})


def _column(values: st.SearchStrategy[Any], n: int) -> st.SearchStrategy[list[Any]]:
    """Return a column of n values: free, with NULLs, constant, or from a few values with NULLs."""
    pools = st.lists(values, min_size=1, max_size=3)
    return st.one_of(
        st.lists(values, min_size=n, max_size=n),
        st.lists(st.none() | values, min_size=n, max_size=n),
        values.map(lambda value: [value] * n),
        pools.flatmap(lambda pool: st.lists(st.sampled_from([*pool, None]), min_size=n, max_size=n)),
    )


@st.composite
def _hierarchy(draw: st.DrawFn, column: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return random labels above each value of a column: up to three levels, the last one the root."""
    leaves = list({key(value): value for value in column if value is not None}.values())
    height = draw(st.integers(1, 3))
    above = [[draw(st.integers(0, 2)) for _ in range(height - 1)] for _ in leaves]
    # A label names the whole branch, so that no node has two parents.
    return [
        (leaf, *("/".join(map(str, branch[: height - level])) for level in range(1, height)), "*")
        for leaf, branch in zip(leaves, above, strict=True)
    ]


@st.composite
def _preferences(draw: st.DrawFn, types: Mapping[str, str]) -> dict[str, Any]:
    """Return some of the options that have a default, for quasi-identifiers of these types."""
    chosen: dict[str, Any] = {}
    if draw(st.booleans()):
        chosen["recode"] = {
            name: draw(st.sampled_from(NUMBER_RECODES if duckdb_type in NUMBERS_AND_DATES else TEXT_RECODES))
            for name, duckdb_type in types.items()
        }
    if draw(st.booleans()):
        chosen["nulls"] = draw(st.sampled_from(["category", "suppress", "error"]))
    if draw(st.booleans()):
        chosen["suppression_limit"] = draw(st.sampled_from([0, 0.05, 0.5]))
    if draw(st.booleans()):
        chosen["weights"] = {draw(st.sampled_from(sorted(types))): draw(st.sampled_from([0.5, 2.0]))}
    if draw(st.booleans()):
        chosen["refine"] = draw(st.booleans())
    # Mostly little effort, since the search takes longer than all else that is done to a small table.
    effort = draw(st.sampled_from(["fast", "fast", "fast", "balanced", "best", None]))
    if effort is not None:
        chosen["effort"] = effort
    return chosen


@st.composite
def _thresholds(
    draw: st.DrawFn, sensitive: Sequence[str], types: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return thresholds l and t, with distances, and the hierarchies that these need."""
    asks: dict[str, Any] = {}
    trees: dict[str, Any] = {}
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["distinct", "entropy", "recursive"]))
        steps = [1, 1.5, 2, 3] if kind == "entropy" else [1, 2, 2, 3]
        asks |= {"l": {c: draw(st.sampled_from(steps)) for c in sensitive}, "l_diversity": kind}
        asks |= {"c": draw(st.sampled_from([1.5, 3.0]))} if kind == "recursive" else {}
    if draw(st.booleans()):
        one = st.sampled_from([0.01, 0.1, 0.15, 0.3, 0.5, 1.0])
        asks["t"] = draw(one | st.fixed_dictionaries(dict.fromkeys(sensitive, one)))
        for name in sensitive if draw(st.booleans()) else ():
            # The oracle sees the text of an ENUM, which is in alphabetical order.
            allowed = ["equal"] if types[name].startswith("ENUM") else ["ordered", "equal"]
            allowed += ["hierarchical"] if types[name] == "VARCHAR" else []
            asks.setdefault("distance", {})[name] = draw(st.sampled_from(allowed))
        trees = {c: TREE for c, distance in asks.get("distance", {}).items() if distance == "hierarchical"}
        asks |= {"hierarchies": dict.fromkeys(trees, TREE_TABLE)} if trees else {}
    return asks, trees


@st.composite
def _shares(
    draw: st.DrawFn, case: Case, sensitive: Sequence[str], types: Mapping[str, str]
) -> dict[str, Any]:
    """Return bounds on the shares of values, for one case in three; all records together keep each alpha."""
    asks: dict[str, Any] = {}
    numbers = {
        "alpha": [0.4, 0.6, 0.8, 1],
        "delta": [0.3, 0.7, 2.5],
        "beta": [0.2, 1, 3],
        "enhanced_beta": [0.5, 9],
    }
    for model in (
        sorted(draw(st.sets(st.sampled_from(MODELS), min_size=1, max_size=2))) if draw(_ONE_OF_3) else ()
    ):
        one = st.sampled_from(numbers[model])
        asks[model] = draw(one | st.fixed_dictionaries(dict.fromkeys(sensitive, one)))
    letters = [c for c in sensitive if types[c] == "VARCHAR"]
    usable = case.usable
    if "alpha" in asks and letters and draw(st.booleans()):
        held = sorted({row[letters[0]] for row in usable} - {None})
        asks["alpha"] = {letters[0]: dict(zip(held[:2], (0.3, 0.5), strict=False))} if held else 0.8
    for name in sensitive if usable else ():
        held = [key(row[name]) for row in usable]
        if not keeps(held, held, {"alpha": limit_of(asks.get("alpha", 1), name)}):
            asks.pop("alpha")
            break
    return asks


_ONE_OF_3 = st.integers(0, 2).map(lambda number: number == 0)


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Create and fill a table."""
    declared = ", ".join(f"{_quoted(column)} {duckdb_type}" for column, duckdb_type in columns)
    connection.execute(f"CREATE TABLE {_quoted(name)} ({declared})")
    holes = ", ".join("?" for _ in columns)
    connection.executemany(f"INSERT INTO {_quoted(name)} VALUES ({holes})", [list(row) for row in rows])


def _quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'
