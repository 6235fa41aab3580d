"""duckanon verify: releases of all kinds of columns and policies are verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from tests.e2e.evidence_scene import altered, everything_wrong, verified
from tests.examples import some

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    "options",
    some(
        [
            'quasi_identifiers = ("my age", "a\'b"), sensitive = ("s""x", day, flag), insensitive = *, k = 2, t = {"s""x": 0.6, day: 1}',
            'quasi_identifiers = (day), sensitive = ("s""x"), insensitive = *, k = 3, l = 2, l_diversity = \'recursive\', c = 2.5',
            "quasi_identifiers = (\"my age\", flag, mood), sensitive = (zoned, day), insensitive = *, k = 2, l = 1.5, l_diversity = 'entropy'",
            "quasi_identifiers = (\"MY AGE\"), sensitive = (mood), insensitive = *, k = 4, l_diversity = 'entropy', suppression_limit = 0.2",
            "quasi_identifiers = (\"my age\"), sensitive = (mood), insensitive = *, k = 4, distance = {mood: 'hierarchical'}, hierarchies = {mood: 'tree'}, t = 0.7",
            "quasi_identifiers = (half, zoned), insensitive = *, k = 2, nulls = 'suppress', suppression_limit = 0.5",
            "quasi_identifiers = (\"my age\", mood), insensitive = *, k = 2, recode = {\"my age\": 'range', mood: 'set'}",
            "quasi_identifiers = (\"my age\", mood), insensitive = *, k = 9, hierarchies = {mood: 'tree'}, recode = {mood: 'hierarchy'}",
            "quasi_identifiers = (mood), sensitive = (day), insensitive = *, k = 9, t = 0.9, hierarchies = {mood: 'tree'}, recode = {mood: 'set'}",
        ],
        one_of=3,
    ),
)
def test_releases_of_all_kinds_are_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    """Quoted names, NULL, NaN, -0.0, dates, ENUM, trees, other schemas, a time zone in one session only."""
    home, file = tmp_path / "my home.duckdb", tmp_path / "file.duckdb"
    with duckanon.connect(home) as con:
        con.execute("""
            CREATE SCHEMA "s p"; CREATE TABLE p AS SELECT
                CASE WHEN i % 9 = 0 THEN NULL ELSE i % 5 END AS "my age", 'x' || i % 2 AS "a'b",
                CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'v' || i % 3 END AS "s""x",
                DATE '2020-01-01' + (i % 6)::INTEGER AS day, i % 3 = 0 AS flag,
                (['low', 'high', 'none'])[1 + i % 3]::ENUM('low', 'high', 'none', 'never') AS mood,
                TIMESTAMPTZ '2020-01-01 00:00:00+00' + INTERVAL (i % 4) HOUR AS zoned,
                CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN -0.0 ELSE i / 2 END AS half,
                CASE i % 3 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 ELSE 0.0 END AS odd,
                [i % 2, NULL] AS list, '1:a' AS "colon"
            FROM range(72) r(i);
            CREATE TABLE tree AS FROM (VALUES ('low', 'some', 'all'), ('high', 'some', 'all'), ('none', 'nothing', 'all')) t(leaf, up, top);
            SET TimeZone = 'America/New_York'
        """)
        con.sql(f'CREATE ANONYMIZED VIEW "s p"."v w" AS FROM p WITH ({options})')
        con.sql('AUDIT VIEW "s p"."v w"; AUDIT VIEW "s p"."v w" WITH (k = 2)')
        con.sql(f"""EXPORT ANONYMIZED VIEW "s p"."v w" TO '{file}'""")
    for path in (home, file):
        code, found = verified(path, capsys)
        assert (code, everything_wrong(found)) == (0, [])
    if "hierarchical" in options:
        altered(file, "UPDATE duckanon.tree_1_1 SET node = 'all' WHERE node = 'nothing'")
        code, found = verified(file, capsys)
        assert any("hierarchies" in difference for difference in everything_wrong(found))
