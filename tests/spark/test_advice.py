"""What is said of a release on Spark: by hand, and the lines of DuckDB's release of the same table."""

from __future__ import annotations

import json
import random
import re
import unicodedata
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import duckanon
from tests.e2e.release.test_dominated import told_classes
from tests.spark.test_anonymize import released

if TYPE_CHECKING:
    from tests.spark.running import Running

pytestmark = pytest.mark.slow


def on_spark(running: Running, rows: pa.Table, asked: dict[str, Any], **more: Any) -> tuple[list[str], str]:
    """Give the warnings of a release on Spark, and where it is."""
    answer = running.anonymize(rows, {"effort": "fast"} | asked, **more)
    assert "error" not in answer, answer["error"]
    return answer["evidence"]["audit"]["warnings"], answer["path"]


def on_duckdb(rows: pa.Table, asked: dict[str, Any]) -> list[str]:
    """Give the warnings of DuckDB's release."""
    with duckanon.connect() as con, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        con.duckdb.register("given", rows)
        policy = duckanon.Policy(**{"effort": "fast"} | asked)
        return list(duckanon.anonymize(con, "FROM given", policy, name="v").report.warnings)


def same(running: Running, rows: pa.Table, **asked: Any) -> list[str]:
    """Give the warnings, which both have, but for what classes cost: these are others."""
    found, _ = on_spark(running, rows, asked)
    said, known = (
        [one for one in texts if "cost" not in one and "min_values" not in one]
        for texts in (found, on_duckdb(rows, asked))
    )
    assert said == known
    return said


def test_insensitive_columns_that_are_unique_together(running: Running) -> None:
    """By hand: x has 90 values and y 10, and i gives every pair of them once, but for the last ten records."""
    for different, alone in ((890, "880 of 900"), (90, None)):
        numbers = [i % different for i in range(900)]
        rows = pa.table(
            {
                "a": [i % 9 for i in range(900)],
                "x": [i // 10 for i in numbers],
                "y": [i % 10 for i in numbers],
            }
        )
        said = same(running, rows, quasi_identifiers="a", insensitive="*", k=5)
        assert [one.partition(" records")[0] for one in said] == ([alone] if alone else [])
    # 30 (i, NULL, z) and 30 (NULL, i, z), with NaN beside each, are 60 combinations; n, which is unique, is told of
    # alone, and so is m, of which 20 are alone and the others are 0.
    half = [*(i // 2 for i in range(30)), *[None] * 30]
    rows = pa.table(
        {
            "a,b": [i % 6 for i in range(60)], "x": half, "y": half[30:] + half[:30],
            "z": [i % 2 for i in range(60)], "nan": [float("nan")] * 60, 'n"1': range(60),
            "m": [max(0, i - 39) for i in range(60)],
        }
    )  # fmt: skip
    unique, many, together = same(running, rows, quasi_identifiers="a,b", insensitive="*", k=5)
    assert many.startswith("insensitive column 'm' singles out 20 of 60 records")
    assert unique == (
        "insensitive column 'n\"1' has 60 values in 60 records and can single them out: "
        "is it an identifier or a quasi-identifier?"
    )
    assert together == (
        "60 of 60 records are alone with their 4 insensitive columns taken together: who knows these finds "
        "the record; drop some (identifiers) or make some quasi-identifiers"
    )


def test_values_of_ones_own_and_texts_with_approximate_distances(running: Running) -> None:
    """Of 200 records: 100 values in 199 are one's own, 66 (with NULL) and 70 are many, 64 and two are none."""
    rows = pa.table(
        {
            "who, is": [None, *(f"Person {i % 100}" for i in range(199))],
            "all": [f"Thing {i // 2}" for i in range(200)],
            "paid": [Decimal(i) for i in range(200)],
            "many": [None, *(f"m{i % 65}" for i in range(199))],
            "more": [f"m{i % 70}" for i in range(200)],
            "some": [None, *(f"s{i % 63}" for i in range(199))],
            "yes": [i % 2 == 0 for i in range(200)],
            "one": ["same"] * 200,
        }
    )
    recode = {"all": "set", "paid": "mode"}
    asked = {"quasi_identifiers": rows.column_names, "k": 5, "recode": recode}
    said = [one.partition(": ")[0] for one in same(running, rows, **asked)]
    own = "is released as that of one of its records"
    assert said == [
        f"quasi-identifier 'who, is' has 100 values in 199 records, and every class {own}",
        "quasi-identifier 'all' has 100 values in 200 records, and every class lists all of its",
        f"quasi-identifier 'paid' has 200 values in 200 records, and every class {own}",
        "quasi-identifier 'many' has 66 different texts",
        "quasi-identifier 'more' has 70 different texts",
    ]


COMMAS = {
    "plain": ["1,5", " 12", None], 'q"1': ["-1.234,50", "7,125", "+3"], "a`b": ["1,234", None, "\u00a07,125"],
    "it's": ["1,5", "1,5", "1,5"],
}  # fmt: skip
NO_COMMAS = {
    "b": ["a,b", "1,5", None], "c": ["1,2,3", "1,5", "2"], "d": ["1.5", "12", "2"], "e": ["1,5\n", "1,5", "2"],
    "f": ["", "1,5", "2"], "g": [None, None, None],
}  # fmt: skip


def test_numbers_with_a_comma_and_a_cast_that_spark_takes(running: Running) -> None:
    rows = pa.table({name: pa.array(texts * 6, pa.string()) for name, texts in (COMMAS | NO_COMMAS).items()})
    asked = {"quasi_identifiers": ["plain", 'q"1', *NO_COMMAS], "sensitive": ["a`b", "it's"], "k": 5, "l": 1}
    said, _ = on_spark(running, rows, asked)
    said = [one for one in said if "comma" in one]
    assert len(said) == len(COMMAS)
    quoted = {
        name: (f'"{name.replace(chr(34), 2 * chr(34))}"', f"`{name.replace('`', '``')}`") for name in COMMAS
    }
    known = [one for one in on_duckdb(rows, asked) if "comma" in one]
    for (name, texts), line, other in zip(COMMAS.items(), said, known, strict=True):
        head, write, cast = other.partition("write ")
        assert line == head + write + cast.replace(*quoted[name])
        asks = re.findall(r"CAST\(.*? AS DOUBLE\)", line)
        assert len(asks) == (2 if name == "a`b" else 1)
        number = running.run(
            "from pyspark.sql import SparkSession\n"
            f"frame = SparkSession.getActiveSession().createDataFrame([({texts[0]!r},)], [{name!r}])\n"
            f"print(frame.selectExpr({asks[-1]!r}).collect()[0][0])\n"
        )
        assert float(number) == {"plain": 1.5, 'q"1': -1234.5, "a`b": 1234.0, "it's": 1.5}[name]


GIANT = [*range(100, 159), 10_000]


@pytest.mark.parametrize(
    ("incomes", "told"),
    [
        # As tests/e2e/release/test_dominated.py has them, k = 3.
        (GIANT, True),
        ([-Decimal(one) / 4 for one in GIANT], True),
        ([*range(100, 158), 10_000, 10_001], False),
        ([100 + i if i % 12 == 0 else 0 for i in range(60)], False),
        ([7] * 60, False),
        # Ten others have 5; four NULL beside it.
        ([10**9, *[5] * 9, *[None] * 2990], True),
        # Beyond what is finite a range is still one.
        ([*(1e308 * (i % 2 * 2 - 1) for i in range(59)), 1.5e308], False),
    ],
)
def test_a_mean_that_tells_one(running: Running, incomes: list[Any], told: bool) -> None:
    rows = pa.table({"in,come": incomes, "s": [i % 7 for i in range(len(incomes))]})
    said = same(running, rows, quasi_identifiers="in,come", insensitive="s", k=5 if len(rows) > 60 else 3)
    assert [one.partition(" tells")[0] for one in said] == (
        ["in 1 class the mean of 'in,come'"] if told else []
    )


def test_ways_out_of_a_mean_and_one_class(running: Running) -> None:
    rows = pa.table({"income": GIANT, "s": [i % 7 for i in range(60)]})
    asked = {"quasi_identifiers": "income", "insensitive": "s"}
    for more in ({"k": 3, "recode": {"income": "median"}}, {"k": 30}):
        assert same(running, rows, **asked, **more) == []
    # The others of its only class lie within a range of one.
    near = pa.table({"income": [*([1, 2] * 29), 1, 10_000], "s": [1] * 60})
    [said] = same(running, near, **asked, k=60)
    assert said.startswith("in 1 class the mean of 'income' tells one record within 10 % to whoever knows")


@pytest.mark.parametrize("seed", range(3))
def test_classes_whose_mean_tells_one_are_counted_as_a_slow_reader_does(running: Running, seed: int) -> None:
    """Random tables with some giants, in fractions, from the released values of each record."""
    draw = random.Random(seed)
    size = draw.randrange(40, 120)
    incomes = [draw.randrange(100, 200) for _ in range(size)]
    for _ in range(4):
        incomes[draw.randrange(size)] = draw.choice([-1, 1]) * draw.randrange(500, 20_000)
    rows = pa.table({"income": incomes, "age": [draw.randrange(50) for _ in range(size)], "n": range(size)})
    said, path = on_spark(
        running, rows, {"quasi_identifiers": ["income", "age"], "insensitive": "n", "k": draw.randrange(2, 6)},
        partitions=1 + 3 * seed, tile=40,
    )  # fmt: skip
    classes: dict[tuple[int, int], int] = {}
    members = [
        (classes.setdefault((row["income"], row["age"]), len(classes)), incomes[row["n"]])
        for row in released(path)
    ]
    told = told_classes(members)
    found = [int(re.findall(r"in (\d+) class", one)[0]) for one in said if "the mean of" in one]
    assert found == ([told] if told else [])


BOTH_WAYS = """
import json
import pyarrow as pa
from pyspark.sql import SparkSession
from duckanon import Policy
from duckanon.spark import advice, stage
spark = SparkSession.getActiveSession()
texts = json.loads({texts!r})
frame = spark.createDataFrame([list(row) for row in zip(*texts.values())], ", ".join(f"{{name}} string" for name in texts))
bound = stage.bound(frame, Policy(quasi_identifiers=list(texts), k=2))
staged = stage.Staged(bound, frame.toDF(*(field.column for field in bound.fields)), None, frame.count(), 0, {{}}, {{}})
seen = advice._seen(staged, [], [], bound.fields)
known = {{field: pa.array(texts[name]).unique() for field, name in zip(bound.fields, texts)}}
told = advice._looks(known)
print(json.dumps([[seen[f"look_{{field.column}}"].asDict(), told[field]] for field in bound.fields]))
"""


def test_values_that_are_known_look_as_all_records_do(running: Running) -> None:
    """DuckDB is asked of the one and Spark of the other: of all cases above, and of every space there is."""
    spaces = [chr(point) for point in range(0x110000) if unicodedata.category(chr(point)) in {"Zs", "Cc"}]
    cases = [*COMMAS.values(), *NO_COMMAS.values(), *([f"{one}1,5{one}", "1,250", "2"] for one in spaces)]
    texts = {f"c{number}": case for number, case in enumerate(cases)}
    pairs = json.loads(running.run(BOTH_WAYS.format(texts=json.dumps(texts))))
    assert [seen for seen, _ in pairs] == [told for _, told in pairs]
    assert sum(seen["numbers"] for seen, _ in pairs) >= len(COMMAS)


EQUAL = """
from pyspark.sql import SparkSession
from duckanon import Policy
from duckanon.spark import advice, stage
spark = SparkSession.getActiveSession()
asked = Policy(quasi_identifiers="a", insensitive="*", k=2)
def told(classes, count):
    # Of each class how often it has 0 and 1; the usual range is 0, and every class is released as 0.
    rows = [(number, value) for number, values in enumerate(classes) for value in values]
    frame = spark.createDataFrame(rows, "class_id bigint, q1 int")
    bound = stage.bound(frame.select(frame.q1.alias("a")), asked)
    size = frame.count()
    staged = stage.Staged(bound, frame.select("q1"), None, size, 0, {"q1": size}, {})
    made = advice.AdvisedRelease(staged, None, frame, frame, None, count)
    return [one.partition(" tells")[0] for one in advice._dominated(made, asked)]
print(told([[0] * 9, [0, 0, 1], [0] * 30], 1))
print(told([[0] * 9, [0, 0, 1], [0, 0, 0, 1], [0] * 80], 1))
print(told([[0] * 9, [0, 0, 1], [0, 0, 0, 1], [0] * 80], 4))
print(told([[0] * 99], 1))
"""


def test_classes_with_equal_released_values_are_one(running: Running) -> None:
    """Two who are not usual hide each other there; where all classes differ they do not."""
    assert running.run(EQUAL).splitlines() == [
        "[\"in 1 class the mean of 'a'\"]",
        "[]",
        "[\"in 2 classes the mean of 'a'\"]",
        "[]",
    ]


def test_a_sample_of_numbers_does_not_depend_on_how_they_are_parted(running: Running) -> None:
    """Half of the records are equal, and a sample has its share of them; the giant is told of all the same."""
    draw = random.Random(4)
    incomes = [*(draw.randrange(10**6) / 7 + 100 for _ in range(499)), *[150.0] * 500, 1e9]
    rows = pa.table({"income": incomes, "s": [1] * 1000})
    asked = {"quasi_identifiers": "income", "insensitive": "s", "k": 3}
    labelled = pa.table({"q1": incomes, "class_id": [place // 3 for place in range(1000)]})
    drawn = (
        "from pyspark.sql import SparkSession\n"
        "from duckanon import Policy\n"
        "from duckanon.spark import advice, stage\n"
        f"frame = SparkSession.getActiveSession().read.parquet({running.stored(labelled)!r})\n"
        "bound = stage.bound(frame, Policy(quasi_identifiers='q1', identifiers='class_id', k=2))\n"
        "for parts in (1, 5):\n"
        "    [some] = advice._samples(frame.repartition(parts), {bound.quasi[0]: 1000}).values()\n"
        "    print(len(some), (some == 150).sum(), some.sum())\n"
    )
    running.run(
        "from duckanon.spark import advice\nadvice.held, advice.USUAL_SAMPLE_NUMBERS = advice.USUAL_SAMPLE_NUMBERS, 100\n"
    )
    try:
        found = [on_spark(running, rows, asked, partitions=parts)[0] for parts in (1, 5)]
        one, other = running.run(drawn).splitlines()
    finally:
        running.run("from duckanon.spark import advice\nadvice.USUAL_SAMPLE_NUMBERS = advice.held\n")
    assert one == other
    size, shared, _ = map(float, one.split())
    assert 70 < size < 140
    assert 0.3 < shared / size < 0.7
    assert found[0] == found[1]
    assert [text.partition(" tells")[0] for text in found[0]] == ["in 1 class the mean of 'income'"]
