"""Numbers that are codes are not averaged, and the release says so."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

import duckanon
from duckanon.policy.policy import Policy
from tests.oracle_recode import class_value


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "type_text", "recode", "told"),
    [
        ("zip", "INTEGER", "mode", "holds numbers and is named like a code"),
        ("PLZ", "BIGINT", "mode", "holds numbers and is named like a code"),
        ("planType", "SMALLINT", "mode", "holds numbers and is named like a code"),
        ("zip", "DOUBLE", "mean", "is named like a code, and means of codes say nothing"),
        ("income_level", "INTEGER", "mean", "is named like a code, and means of codes say nothing"),
        ("blood_level", "DOUBLE", "mean", None),
        ("age", "INTEGER", "mean", None),
        ("zip", "VARCHAR", "mode", None),
    ],
)
def test_codes_are_not_averaged(name: str, type_text: str, recode: str, told: str | None) -> None:
    """Three postal codes 12111, one 12113, in one class: the mean of 12111.5 is nobody's."""
    rows = pa.table({name: [12111, 12111, 12111, 12113], "ill": [1, 2, 1, 2]})
    policy = {"quasi_identifiers": name, "k": 4, "sensitive": "ill"}
    with duckanon.connect() as con:
        con.duckdb.register("rows", rows)
        con.execute(f'CREATE TABLE p AS SELECT CAST("{name}" AS {type_text}) AS "{name}", ill FROM rows')
        release = duckanon_release(con, policy, name="v")
        found = con.execute(f'SELECT DISTINCT "{name}" FROM v').fetchall()
        assert [told in warning for warning in release if "like a code" in warning] == (
            [True] if told else []
        )
        assert found == [
            (
                class_value([12111, 12111, 12111, 12113], recode, "BIGINT")
                if type_text != "VARCHAR"
                else "12111",
            )
        ]
        for how in ("mean", "mode") if type_text != "VARCHAR" else ():
            assert not [
                w
                for w in duckanon_release(con, {**policy, "recode": {name: how}}, name=how)
                if "like a code" in w
            ]
            value = con.execute(f'SELECT DISTINCT "{name}" FROM "{how}"').fetchall()
            assert value == [({"mean": 12112, "mode": 12111}[how],)]


def duckanon_release(con: duckanon.Connection, policy: dict[str, Any], name: str) -> tuple[str, ...]:
    """Make a release, and return its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return duckanon.anonymize(con, "p", Policy(**policy), name=name).report.warnings
