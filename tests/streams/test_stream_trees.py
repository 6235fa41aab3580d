"""Hierarchies in a stream: distances and labels by a reading of the rows that knows no code of ours."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import PolicyError, SourceError
from tests.e2e.scenes import command
from tests.examples import examples
from tests.oracle_stream import Stream, expected
from tests.streams.test_anonymize_stream import streamed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings(
    "ignore:delay = :duckanon.DuckanonWarning", "ignore:no tuple was written:duckanon.DuckanonWarning"
)

TREE = {code: [code[0] + "*", "*"] for code in ("a1", "a2", "a3", "b1", "b2", "c1")}
"""Two levels above the leaves."""
CODES = [*TREE, None]
TEXT: dict[str, Any] = {"hierarchies": {"code": TREE}, "recode": {"code": "hierarchy"}}


def ancestor(values: list[str | None]) -> str | None:
    """Label of the lowest node above all; NULL alone stays, with others there is only the root."""
    if len(set(values)) == 1:
        return values[0]
    groups = {None if value is None else value[0] for value in values}
    return f"{groups.pop()}*" if len(groups) == 1 and groups != {None} else "*"


def corners(value: str | None) -> list[float]:
    """A point of its own for each node below the root: those of two values differ up to their ancestor."""
    groups = [None, "a", "b", "c"]
    return [float(value == code) for code in CODES] + [
        float((value and value[0]) == group) for group in groups
    ]


@pytest.mark.slow
@settings(max_examples=examples(120, 10), deadline=None)
@given(st.data())
def test_classes_and_labels(data: st.DataObject) -> None:
    size, k = data.draw(st.integers(1, 50)), data.draw(st.integers(2, 4))
    delay = data.draw(st.integers(k - 1, 12))
    codes = data.draw(st.lists(st.sampled_from(CODES), min_size=size, max_size=size))
    column = pa.array(codes, pa.string())
    table = pa.table(
        {
            "code": column.dictionary_encode() if data.draw(st.booleans()) else column,
            "place": pa.array(range(size)),
        }
    )
    sizes = data.draw(st.lists(st.integers(0, 20), max_size=4))
    found, report = streamed(
        table, sizes, quasi_identifiers="code", k=k, delay=delay, class_id=True, weights={"code": 4}, **TEXT
    )
    wanted = expected(Stream([corners(code) for code in codes], k, delay, flush=True))
    rows = defaultdict(list)
    for row in found:
        rows[row["class_id"]].append(row)
    assert [sorted(row["place"] for row in rows[number]) for number in sorted(rows)] == wanted.classes
    for number, members in enumerate(wanted.classes):
        assert {row["code"] for row in rows[number]} == {ancestor([codes[member] for member in members])}
    assert report.written == len(found)


def test_squared_distances_are_levels_over_the_height() -> None:
    """By hand, weight 1: a1 and a2 meet at level 1 of 2, so each is at squared distance 1/2 / 2 / 2 = 1/8 from the middle.

    With the root in between (a1 and b1) it is 1 / 4.
    """
    for codes, mse in ((["a1", "a2"], 1 / 8), (["a1", "b1"], 1 / 4), (["a1", None], 1 / 4)):
        table = pa.table({"code": pa.array(codes, pa.string())})
        _, report = streamed(table, quasi_identifiers="code", k=2, delay=9, **TEXT)
        assert report.mse == pytest.approx(mse)


def test_a_column_that_is_named_as_a_level_has_values_of_its_own() -> None:
    """Only the name differs: sixteen values of each are told apart, not of both together."""
    draw = np.random.default_rng(2)
    codes = pa.array([f"c{code}" for code in draw.integers(0, 12, 300)])
    tree = {f"c{code}": [f"g{code % 3}", "*"] for code in range(12)}
    found = []
    for name in ("code 0", "other"):
        table = pa.table({"code": codes, name: pa.array([f"t{code}" for code in np.arange(300) % 14])})
        _, report = streamed(
            table, quasi_identifiers=["code", name], k=3, delay=60, hierarchies={"code": tree}
        )
        found.append(report.mse)
    assert found[0] == found[1]


def test_numbers_and_another_recode() -> None:
    """By hand: ages in tens; with 'mode' the hierarchy tells distances only."""
    table = pa.table({"age": pa.array([31, 38, 47, 31], pa.int16())})
    tree = {age: [f"{age // 10}0s", "*"] for age in range(30, 50)}
    options: dict[str, Any] = {"quasi_identifiers": "age", "k": 2, "delay": 9, "hierarchies": {"age": tree}}
    found, _ = streamed(table, **options, recode={"age": "hierarchy"})
    assert [row["age"] for row in found] == ["31", "31", "*", "*"]
    found, _ = streamed(table, **options, recode={"age": "mode"})
    assert [row["age"] for row in found] == [31, 31, 38, 38]


def test_a_value_that_is_no_leaf_is_an_error_with_its_tuple() -> None:
    table = pa.table({"code": ["a1", "a2", "b2", "z9"]})
    stream = duckanon.anonymize_stream(table.to_batches(max_chunksize=2), ["code"], k=2, delay=9, **TEXT)
    with pytest.raises(SourceError, match="'code' is 'z9' in tuple 4, which is no leaf of its hierarchy"):
        list(stream)
    assert stream.report.written == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recode": {"code": "hierarchy"}}, "recode of 'code' is 'hierarchy' and has none"),
        ({**TEXT, "scale": {"code": (0, 1)}}, "values have places in its hierarchy, and no scale"),
        ({**TEXT, "hierarchies": {"code": {"a1": ["a", "*"], "a2": ["b", "all"]}}}, "different roots"),
        ({**TEXT, "hierarchies": {"code": "no_such_table"}}, "no_such_table"),
        ({"hierarchies": {"place": {0: ["*"]}}}, "hierarchies of 'place' is of no use"),
        ({**TEXT, "method": "castle"}, "method = 'castle' releases ranges"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], message: str) -> None:
    table = pa.table({"code": ["a1", "a2"], "place": [0, 1]})
    with pytest.raises(PolicyError, match=message):
        streamed(table, quasi_identifiers=["code", "place"], k=2, delay=9, **options)


def test_a_hierarchy_is_a_table_of_the_database_of_a_query() -> None:
    """A table of columns, one of lists, and a view; the stream itself runs outside of the database."""
    with duckanon.connect() as con:
        con.sql(
            "CREATE TABLE visits AS SELECT unnest(['a1', 'b1', 'a2', 'b2']) AS code, unnest(range(4)) AS n"
        )
        con.sql('CREATE SCHEMA "odd one"')
        con.sql(
            """CREATE TABLE "odd one".tree AS SELECT code, code[1] || '*' AS upper, '*' AS root FROM visits"""
        )
        con.sql("CREATE VIEW lists AS SELECT code, [code[1] || '*', '*'] AS labels FROM visits")
        for number, name in enumerate(('"odd one".tree', "lists")):
            con.stream(
                "FROM visits", f"t{number}", quasi_identifiers="code", k=2, delay=9,
                hierarchies={"code": name}, recode={"code": "hierarchy"},
            )  # fmt: skip
            assert con.sql(f"FROM t{number}").fetchall() == [("a*", 0), ("a*", 2), ("b*", 1), ("b*", 3)]
        with pytest.raises(PolicyError, match="hierarchy 'nowhere' of 'code'"):
            con.stream(
                "FROM visits", "t", quasi_identifiers="code", k=2, delay=9, hierarchies={"code": "nowhere"}
            )
        assert con.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 't'").fetchall() == [(0,)]


def test_a_file_at_the_command_line(tmp_path: Path) -> None:
    source, tree, out = tmp_path / "in.csv", tmp_path / "tree.csv", tmp_path / "out.csv"
    source.write_text("code,n\n01,1\n02,2\n11,3\n12,4\n")
    tree.write_text("leaf,upper,root\n01,0*,*\n02,0*,*\n11,1*,*\n12,1*,*\n")
    asked = ("--qi", "code", "-k", "2", "--delay", "10", "--recode", "code=hierarchy")
    done = command("stream", source, out, *asked, "--hierarchies", f"code={tree}")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "code,n\n0*,1\n0*,2\n1*,3\n1*,4\n"
    done = command("stream", source, tmp_path / "o.csv", *asked, "--hierarchies", "code=missing.csv")
    assert done.returncode == 2
    assert "hierarchy 'missing.csv'" in done.stderr
    assert not (tmp_path / "o.csv").exists()
