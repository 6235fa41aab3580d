"""Objects given to functions of Python in place of a connection, a name, a policy or a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.evaluation.linkage import linkage
from duckanon.evaluation.workload import compare
from duckanon.testing import assert_private

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME = pd.DataFrame({"age": [31, 31, 60, 60], "zip": ["a", "a", "b", "b"]})
POLICY = duckanon.Policy(quasi_identifiers=("age", "zip"), k=2)

TABLES: dict[str, tuple[object, str]] = {
    "lazy": (pl.LazyFrame({"age": [1, 2]}), r"LazyFrame: give its rows, \.collect\(\)"),
    "grouped": (FRAME.groupby("zip"), "DataFrameGroupBy: give the DataFrame that it groups"),
    "grouped by polars": (pl.from_pandas(FRAME).group_by("zip"), "GroupBy: give the DataFrame"),
    "series": (FRAME["age"], r"Series: give a DataFrame, \.to_frame\(\)"),
    "series of polars": (pl.Series([1]), r"Series: give a DataFrame, \.to_frame\(\)"),
    "array": (FRAME.to_numpy(), r"ndarray: give a DataFrame, pandas\.DataFrame\(array, columns"),
    "rows": (FRAME.to_dict("records"), r"list: give pyarrow\.Table\.from_pylist\(rows\)"),
    "columns": (FRAME.to_dict("list"), r"dict: give pyarrow\.table\(columns\)"),
    "arrow": (pa.array([1, 2]), r"Int64Array: give a table, pyarrow\.table"),
    "path": (Path("people.csv"), "Path: a file is named to duckanon.anonymize"),
    "class": (pd.DataFrame, "type: give an object of this class"),
}
"""Objects that are no table, and the end of the message for each."""


@pytest.mark.parametrize("kind", TABLES)
def test_an_object_that_is_no_table_is_told_with_what_to_give(kind: str) -> None:
    given, words = TABLES[kind]
    with pytest.raises(DuckanonError, match=f"^cannot read a table from .*{words}") as told:
        duckanon.anonymize_table(given, POLICY)
    assert "\n" not in str(told.value)
    with pytest.raises(DuckanonError, match=r"^a stream is read from batches of Arrow, not from "):
        duckanon.anonymize_stream(given, "age", k=2, delay=4)  # type: ignore[arg-type]
    if kind not in {"path", "class"}:
        with pytest.raises(DuckanonError, match=words):
            assert_private(given, quasi_identifiers="age", k=2)  # type: ignore[arg-type]


def test_a_frame_of_spark_is_told() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(DuckanonError, match=r"duckanon.spark takes a DataFrame of Spark"):
        duckanon.anonymize_table(frame, POLICY)


@pytest.mark.parametrize("given", [FRAME, pa.table({"age": [1]}), [FRAME], 3, None])
def test_a_table_given_as_a_stream_is_told(given: Any) -> None:
    with pytest.raises(DuckanonError, match=r"batches of Arrow, not from .*: give pyarrow"):
        duckanon.anonymize_stream(given, "age", k=2, delay=4)


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "policy of a report is a file": (
        lambda con: duckanon.report(con, "v", "x.html"),  # type: ignore[arg-type]
        "policy is a Policy, not the text 'x.html': a page is written to path='x.html'",
    ),
    "policy is a file": (
        lambda con: duckanon.audit(con, "v", "p.toml"),  # type: ignore[arg-type]
        "policy is a Policy, not the text 'p.toml': as duckanon.Policy.from_toml(text) for the text of a file",
    ),
    "policy is a dict": (
        lambda con: duckanon.anonymize(con, "people", {"k": 2}, name="w"),  # type: ignore[arg-type]
        "policy is a Policy, not dict: as duckanon.Policy(**options)",
    ),
    "policy of an audit": (
        lambda _: duckanon.anonymize_table(FRAME, duckanon.AuditPolicy(quasi_identifiers="age")),  # type: ignore[arg-type]
        "policy is a Policy, not AuditPolicy: as duckanon.Policy(quasi_identifiers=('age', 'zip'), k=5)",
    ),
    "text is a file": (
        lambda _: duckanon.Policy.from_toml("p.toml"),
        "the policy is TOML as text, not its file 'p.toml': give the text of the file",
    ),
    "source is a frame": (
        lambda con: duckanon.anonymize(con, FRAME, POLICY, name="w"),  # type: ignore[arg-type]
        (
            "source is a name as text, not DataFrame: register it, con.duckdb.register('patients', frame), and "
            "give source='patients'"
        ),
    ),
    "name is missing": (
        lambda con: duckanon.anonymize(con, "people", POLICY, name=None),  # type: ignore[arg-type]
        "name is a name as text, not NoneType: give name='patients'",
    ),
    "original is an array": (
        lambda con: duckanon.report(con, "v", original=np.zeros(3)),  # type: ignore[arg-type]
        "original is a name as text, not ndarray: give original='patients'",
    ),
    "connection of suggest": (
        lambda _: duckanon.suggest("h.duckdb", "people"),  # type: ignore[arg-type]
        (
            "the first argument is a connection, not the text 'h.duckdb': give one, as con = "
            "duckanon.connect('h.duckdb')"
        ),
    ),
    "connection of linkage": (
        lambda _: linkage(None, "a", "b", ["age"]),  # type: ignore[arg-type]
        (
            "the first argument is a connection, not NoneType: give one, as con = "
            "duckanon.connect('hospital.duckdb')"
        ),
    ),
    "release of compare": (
        lambda con: compare(con, "a", FRAME, "SELECT 1 FROM data"),  # type: ignore[arg-type]
        (
            "release is a name as text, not DataFrame: register it, con.duckdb.register('patients', frame), and "
            "give release='patients'"
        ),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_another_kind_is_told(call: str) -> None:
    with duckanon.connect() as con, pytest.raises(DuckanonError) as told:
        CALLS[call][0](con)
    assert str(told.value) == CALLS[call][1]


def test_a_variable_that_is_no_table_is_told_in_sql() -> None:
    lazy = pl.LazyFrame({"age": [1, 2]})
    with duckanon.connect() as con, pytest.raises(DuckanonError) as told:
        con.execute("AUDIT TABLE lazy WITH (quasi_identifiers = (age), k = 2)")
    assert str(told.value).endswith(
        "'lazy' is a variable of Python, a LazyFrame: give its rows, .collect()"
    ), lazy
