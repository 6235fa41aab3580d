"""Recoding: a record gets the values of its class, wherever other columns stand, and tables are in step or not."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import duckdb
import pytest

import duckanon
from duckanon.release.stages.recode import in_step
from tests.oracle_recode import half_away

if TYPE_CHECKING:
    from duckanon.release.stages.stage import Staged


@pytest.mark.filterwarnings("ignore:insensitive column:duckanon.DuckanonWarning")
@pytest.mark.parametrize("columns", ["a, b, i", "i, a, b", "a, i, b"])
@pytest.mark.parametrize("options", ["k = 4", "k = 4, refine = false"])
def test_a_record_gets_the_means_of_its_class_wherever_other_columns_stand(
    columns: str, options: str
) -> None:
    """Means by hand: `i` tells which record a released row is of, so nothing of a class can be another's."""
    values = {i: (float(i * 37 % 101), float(i * 53 % 89)) for i in range(150)}
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE p AS SELECT (i * 37 % 101)::DOUBLE AS a, (i * 53 % 89)::DOUBLE AS b, i FROM range(150) r(i)"
        )
        con.sql(
            f"CREATE ANONYMIZED VIEW v AS SELECT {columns} FROM p "
            f"WITH (quasi_identifiers = (a, b), insensitive = (i), {options})"
        )
        released = con.execute("SELECT a, b, i FROM v").fetchall()
    classes = defaultdict(list)
    for a, b, i in released:
        classes[a, b].append(values[i])
    assert sorted(i for *_, i in released) == list(range(150))
    for means, members in classes.items():
        # The values are whole numbers, and so are their means.
        exact = [Fraction(int(sum(column)), len(members)) for column in zip(*members, strict=True)]
        assert means == tuple(half_away(mean) for mean in exact)


@pytest.mark.parametrize(
    ("numbers", "in_order", "expected"),
    [
        ([1, 2, 3], True, True),
        ([1, 2, 3], False, False),  # the records are not in their order themselves
        ([1, 2], True, False),  # the last one is left out
        ([2, 3], True, False),
        ([1, 3, 2], True, False),
        ([1, 2, 2], True, False),
        ([], True, False),
    ],
)
def test_a_table_is_in_step_with_three_records(numbers: list[int], in_order: bool, expected: bool) -> None:
    staged = cast("Staged", SimpleNamespace(size=3, in_order=in_order))
    with duckdb.connect() as con:
        con.execute("CREATE TEMP TABLE placed AS SELECT unnest($1::BIGINT[]) AS record_id", [numbers])
        assert in_step(con, staged, "placed") is expected
