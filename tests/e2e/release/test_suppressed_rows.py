"""Rows that another tool suppressed, `*` in all quasi-identifiers, are no class: an audit leaves them out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.policy.policy import AuditPolicy
from duckanon.testing import assert_private
from tests.e2e.file_scene import run, write
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

# By hand: two classes of 3, and 2 suppressed records, one of which only looks like a fourth value of pay.
ROWS = [("1*", "3*", 1), ("1*", "3*", 2), ("1*", "3*", 3), ("2*", "*", 1), ("2*", "*", 2), ("2*", "*", 3)]
MARKED = {"*": ("*", "*"), "NULL": (None, None), "NA": ("NA", "NA"), "(gone)": ("(gone)", "(gone)")}


def table(mark: str) -> str:
    """Give a relation with the rows and two suppressed ones, as SQL text."""
    rows = [*ROWS, (*MARKED[mark], 8), (*MARKED[mark], 9)]
    values = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows)
    return f"(VALUES {values}) AS t(zip, age, pay)"


def figures(measures: list[Any]) -> dict[str, float]:
    """Values of the measures that the marked rows change."""
    kept = ("k_anonymity", "distinct_l_diversity", "t_closeness", "suppressed_records")
    return {one["measure"]: one["value"] for one in measures if one["measure"] in kept}


# Both classes hold 1, 2 and 3, as the table does: EMD 0.
CLEAN = {"k_anonymity": 3, "distinct_l_diversity": 3, "t_closeness": 0, "suppressed_records": 2}


@pytest.mark.parametrize("mark", slowly(MARKED, one_of=2))
def test_marked_rows_are_left_out_and_counted_through_every_door(tmp_path: Path, mark: str) -> None:
    policy: dict[str, Any] = {"quasi_identifiers": ("zip", "age"), "sensitive": "pay", "k": 3, "t": 0.1}
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE t AS FROM {table(mark)}")
        con.execute(f"COPY t TO '{tmp_path / 't.csv'}' (HEADER)")
        con.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
        report = duckanon.audit(con, "t", AuditPolicy(**policy, suppressed=mark))
        assert figures(report.to_dict()["measures"]) == pytest.approx(CLEAN)
        assert report.passed
        statement = "AUDIT TABLE t WITH (quasi_identifiers = (zip, age), sensitive = pay, k = 3, t = 0.1{})"
        rows = con.execute(statement.format(f", suppressed = '{mark}'")).fetchall()
        assert figures([dict(zip(("measure", "a", "b", "value"), row, strict=False)) for row in rows]) == (
            pytest.approx(CLEAN)
        )
        assert not all(row[7] for row in con.execute(statement.format("")).fetchall() if row[7] is not None)
        kept = assert_private("t", **policy, suppressed=mark, con=con)
        assert figures(kept.to_dict()["measures"]) == pytest.approx(CLEAN)
    for name in ("t.csv", "t.parquet"):
        call = ["audit", name, "--qi", "zip,age", "--sensitive", "pay", "-k", "3", "-t", "0.1"]
        code, out, err = run(tmp_path, *call, "--suppressed", mark, "--format", "json")
        assert code == 0, err
        document = json.loads(out)
        assert figures(document["measures"]) == pytest.approx(CLEAN)
        assert f'suppressed = "{mark}"' in document["evidence"]["policy"]
        assert not any("suppressed" in warning for warning in document["warnings"])
        code, out, _ = run(tmp_path, *call, "--format", "json")
        warnings = json.loads(out)["warnings"]
        assert code == 1
        if mark != "(gone)":
            assert any("the 2 records whose quasi-identifiers all are" in one for one in warnings)
            assert any(f"suppressed = '{mark}'" in one and "--suppressed" in one for one in warnings)


def test_every_format_tells_how_many_were_left_out(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"COPY (FROM {table('*')}) TO '{tmp_path / 't.csv'}' (HEADER)")
    call = ["audit", "t.csv", "--qi", "zip,age", "--sensitive", "pay", "-k", "3", "--suppressed", "*"]
    for form in ("text", "json", "junit", "sarif", "html"):
        code, out, err = run(tmp_path, *call, "--format", form)
        assert code == 0, err
        words = "records left out" if form == "html" else "suppressed_records"
        assert words in out or "suppressed records" in out, form


def test_a_row_that_has_one_value_left_is_a_class(tmp_path: Path) -> None:
    """By hand: (*, 3*) is a class of one record; a number is never the mark."""
    write(tmp_path / "t.csv", "zip,age,n\n1*,3*,1\n1*,3*,1\n*,3*,1\n*,*,7\n")
    found = run(tmp_path, "audit", "t.csv", "--qi", "zip,age", "--suppressed", "*", "--format", "json")
    measures = {one["measure"]: one["value"] for one in json.loads(found[1])["measures"]}
    assert (measures["k_anonymity"], measures["suppressed_records"]) == (1, 1)
    found = run(tmp_path, "audit", "t.csv", "--qi", "zip,n", "--suppressed", "*", "--format", "json")
    measures = {one["measure"]: one["value"] for one in json.loads(found[1])["measures"]}
    assert (measures["k_anonymity"], measures["suppressed_records"]) == (1, 0)


def test_a_table_of_which_all_is_suppressed_does_not_pass(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "zip,age\n*,*\n*,*\n")
    code, out, err = run(tmp_path, "audit", "t.csv", "--qi", "zip,age", "-k", "2", "--suppressed", "*")
    assert (code, out) == (2, "")
    assert "every record is --suppressed" in err


def test_one_column_with_missing_values_is_no_sign_of_another_tool(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "zip,pay\n1,1\n1,2\n,3\n,4\n")
    code, out, _ = run(tmp_path, "audit", "t.csv", "--qi", "zip", "-k", "2")
    assert (code, "suppressed" in out) == (0, False)


def test_a_view_of_ours_keeps_what_it_counts() -> None:
    with duckanon.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 2 AS a, i AS s FROM range(8) AS r(i)")
        con.execute("CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = a, sensitive = s, k = 2)")
        with pytest.raises(duckanon.PolicyError, match="'suppressed'"):
            con.execute("AUDIT VIEW v WITH (suppressed = '*')")
        with pytest.raises(duckanon.PolicyError, match="suppressed"):
            con.execute(
                "CREATE ANONYMIZED VIEW w AS FROM t WITH (quasi_identifiers = a, k = 2, suppressed = '*')"
            )
        for wrong in ("3", "''", "(a, b)"):
            with pytest.raises(duckanon.PolicyError, match="use the text that stands for"):
                con.execute(f"AUDIT TABLE t WITH (quasi_identifiers = a, suppressed = {wrong})")
