"""Records dealt to tiles: each has its share of every stratum, as a slow oracle deals them one after the other."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from duckanon.database import templates
from duckanon.release.stages.bucket import Cut

Record = dict[str, Any]


def ntile(n: int, number: int) -> list[int]:
    """Parts of n records in order: of n in b parts the first n mod b have one more (SQL:2011, 6.10)."""
    return [part for part in range(number) for _ in range(n // number + (part < n % number))]


def dealt(records: list[Record], codes: list[str], strata: int, cuts: list[Cut]) -> dict[int, int]:
    """Return the tile of each record: strata of the order of the codes, each cut by one column after the other."""

    def parted(names: list[str], number: int) -> None:
        def place(one: Record) -> Any:
            values = [(one[name] is None, 0.0 if one[name] is None else one[name]) for name in names]
            # Knuth's multiplicative hash, which no two numbers below 2^32 share (The Art of Computer Programming, 6.4).
            spread = one["record_id"] * 2654435761 % 2**32
            return one["parts"], values, spread if strata > 1 else one["record_id"]

        ordered = sorted(records, key=place)
        for _, group in groupby(ordered, key=lambda one: one["parts"]):
            members = list(group)
            for one, part in zip(members, ntile(len(members), number), strict=True):
                one["parts"] = (*one["parts"], part)

    for one in records:
        one["parts"] = ()
    parted(codes, strata)
    tiles = {one["record_id"]: 0 for one in records}
    for cut in cuts:
        parted([cut.column], cut.parts)
        for one in records:
            tiles[one["record_id"]] = tiles[one["record_id"]] * cut.parts + one["parts"][-1]
    return tiles


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Record], list[str], list[Cut], int, list[int]]:
    """Draw coded records with ties and NULL, their codes and cuts, strata, and the records that are ready."""
    n, axes = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    codes = [f"c_{i}" for i in range(draw(st.integers(0, 2)))]
    cuts = [Cut(f"x_{i}", draw(st.integers(1, 4))) for i in range(axes)]
    value = st.one_of(st.none(), st.sampled_from([-1.5, 0.0, 2.0, 7.0]))
    records: list[Record] = [
        {"record_id": i + 1}
        | {cut.column: draw(value) for cut in cuts}
        | {code: draw(st.integers(0, 3)) for code in codes}
        for i in range(n)
    ]
    return (
        records,
        codes,
        cuts,
        draw(st.integers(1, 5)),
        [i + 1 for i in range(n) if draw(st.integers(0, 4)) == 0],
    )


@given(tables())
def test_records_are_dealt_as_one_by_one(
    table: tuple[list[Record], list[str], list[Cut], int, list[int]],
) -> None:
    records, codes, cuts, strata, ready = table
    types = [("record_id", pa.int64()), *((cut.column, pa.float64()) for cut in cuts)]
    schema = pa.schema([*types, *((code, pa.int32()) for code in codes)])
    statement = templates.render(
        "bucket/tiles.sql.j2",
        tiles="tiles",
        coded="coded",
        ready="ready",
        codes=codes,
        strata=strata,
        cuts=cuts,
        tile_count=math.prod(cut.parts for cut in cuts),
    )
    with duckdb.connect() as con:
        con.register("given", pa.Table.from_pylist(records, schema=schema))
        con.register("ready", pa.table({"record_id": pa.array(ready, pa.int64())}))
        con.execute("CREATE TEMP TABLE coded AS FROM given ORDER BY hash(record_id)")
        con.execute(statement)
        found = dict(con.execute("FROM tiles").fetchall())
    left = [one for one in records if one["record_id"] not in ready]
    assert found == dealt(left, codes, strata, cuts)


def test_a_tile_holds_near_records_whatever_ties_the_sensitive_values_have() -> None:
    # 4,000 records on a line, all of one sensitive value, in 5 strata and 4 tiles: a tile is a quarter of each stratum, and
    # each stratum is the whole line. Cut by the number, which follows the line, a stratum would be a fifth of it, and a
    # tile, with a part of each, would reach over four fifths and more.
    n, strata, parts = 4_000, 5, 4
    statement = templates.render(
        "bucket/tiles.sql.j2",
        tiles="tiles",
        coded="coded",
        ready="ready",
        codes=["c"],
        strata=strata,
        cuts=[Cut("x", parts)],
        tile_count=parts,
    )
    with duckdb.connect() as con:
        con.register("ready", pa.table({"record_id": pa.array([], pa.int64())}))
        con.execute(
            f"CREATE TEMP TABLE coded AS SELECT i AS record_id, i AS x, 0 AS c FROM range(1, {n + 1}) AS r(i)"
        )
        con.execute(statement)
        held = con.execute(
            "SELECT tile, count(*), max(record_id) - min(record_id) FROM tiles GROUP BY tile"
        ).fetchall()
    assert sorted(tile for tile, _, _ in held) == [0, 1, 2, 3]
    assert {count for _, count, _ in held} == {n // parts}
    assert max(reach for _, _, reach in held) <= 1.02 * n / parts


def test_a_sample_follows_no_step_of_the_records() -> None:
    # Groups of five that are equal but for c, 0 to 4 in turn, as households of five stand in the order of their values: every
    # fifth record would be one and the same member of each. Of 10,000 records 2,000 are the sample, 400 of each c.
    query = templates.render(
        "bucket/open.sql.j2", coded="coded", ready="ready", codes=["c"], cuts=[Cut("x", 2)], every=5
    )
    with duckdb.connect() as con:
        con.register("ready", pa.table({"record_id": pa.array([], pa.int64())}))
        con.execute(
            "CREATE TEMP TABLE coded AS SELECT i AS record_id, i // 5 AS x, i % 5 AS c FROM range(1, 10001) AS r(i)"
        )
        held = dict(con.execute(f"SELECT c, count(*) FROM ({query}) GROUP BY c").fetchall())
        low, high = con.execute(f"SELECT min(record_id), max(record_id) FROM ({query})").fetchall()[0]
    assert sorted(held) == [0, 1, 2, 3, 4]
    assert all(abs(count - 400) <= 8 for count in held.values())
    assert low <= 10
    assert high >= 9_990
