"""An order of the values of a text column: ordered EMD, medians and ranges, and audits that know the order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pytest

import duckanon
from duckanon.errors import PolicyError, SourceError
from duckanon.release.folders import not_yet
from tests.e2e.scenes import command, measure, rows, stock_script
from tests.examples import examples
from tests.oracle import emd, key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

SCALE = ("none", "mild", "bad", "worse", "worst", "fatal")
"""In no order of bytes, in either direction."""

PEOPLE = """
CREATE TABLE people AS
SELECT i AS id, i * 7 % 23 AS age, (['none', 'mild', 'bad', 'fatal'])[1 + (i * i + i // 3) % 4] AS pain,
    (['low', 'mid', 'high'])[1 + i * 5 % 3] AS pay
FROM range(200) AS r(i)
"""
ORDER = "order = {pain: ('none', 'mild', 'bad', 'fatal'), pay: ('low', 'mid', 'high')}"
ROLES = "quasi_identifiers = (age, pay), sensitive = pain, identifiers = id, k = 5, effort = 'fast'"
CREATE = f"CREATE ANONYMIZED VIEW v AS FROM people WITH ({ROLES}, t = 0.15, {ORDER})"


def ranks(released: Sequence[dict[str, Any]], order: Sequence[str]) -> list[int | None]:
    """Give each value its rank among the values of the table, NULL last."""
    present = [value for value in order if value in {row["pain"] for row in released}]
    return [None if row["pain"] is None else present.index(row["pain"]) for row in released]


def worst(released: Sequence[dict[str, Any]], quasi: Sequence[str], order: Sequence[str]) -> Fraction:
    """Greatest EMD of a class by the oracle: on ranks, in fractions."""
    found: dict[str, Counter[Any]] = defaultdict(Counter)
    for row, rank in zip(released, ranks(released, order), strict=True):
        found[repr([row[name] for name in quasi])][key(rank)] += 1
    whole: Counter[Any] = sum(found.values(), Counter())
    return max(emd(counts, whole, "ordered") for counts in found.values())


@pytest.mark.parametrize("seed", range(examples(60, few=4)))
def test_a_release_keeps_t_on_ranks_and_recodes_to_the_middle_of_its_class(seed: int) -> None:
    """Random tables, text or ENUM; EMD in fractions, medians and ranges of ranks by hand."""
    draw = random.Random(seed)
    order = SCALE[: draw.randrange(2, 7)]
    records = [
        {
            "id": place,
            "age": draw.randrange(6),
            "pay": None if draw.random() < 0.1 else draw.choice(order),
            "pain": None if draw.random() < 0.05 else draw.choice(order),
        }
        for place in range(draw.randrange(20, 60))
    ]
    enum, recode, t = draw.random() < 0.5, draw.choice(["median", "range"]), draw.choice([0.05, 0.15, 0.3])
    held = {name: {row[name] for row in records} - {None} for name in ("pay", "pain")}
    declared = {name: tuple(value for value in order if value in held[name]) for name in held}
    declared = {name: values for name, values in declared.items() if len(values) > 1}
    options: dict[str, Any] = {"order": declared}
    with duckanon.connect() as con:
        con.duckdb.register("given", pd.DataFrame(records))
        names = ", ".join(f"'{value}'" for value in order)
        kind = f"ENUM({names})" if enum else "VARCHAR"
        con.execute(f"CREATE TABLE t AS SELECT id, age, pay::{kind} AS pay, pain::{kind} AS pain FROM given")
        if enum:
            options = {"distance": {"pain": "ordered"}}
        elif "pay" not in declared or "pain" not in declared:
            return
        policy = duckanon.Policy(
            quasi_identifiers=["age", "pay"], sensitive="pain", insensitive="id", k=3, t=t,
            recode={"pay": recode}, effort="fast", **options,
        )  # fmt: skip
        report = duckanon.anonymize(con, "t", policy, name="v").report
        released = rows(con, "FROM v")
        again = measure(con, "AUDIT VIEW v", "t_closeness", "pain")
    by_oracle = worst(released, ("age", "pay"), order)
    assert by_oracle <= Fraction(str(t))
    told = [one.value for one in report.measures if one.measure == "t_closeness"]
    assert told == pytest.approx([float(by_oracle)], abs=1e-12)
    assert again["value"] == pytest.approx(float(by_oracle), abs=1e-12)
    source, classes = {row["id"]: row for row in records}, defaultdict(list)
    for row in released:
        classes[repr([row["age"], row["pay"]])].append(row)
    for members in classes.values():
        held_here = [source[row["id"]]["pay"] for row in members]
        places = sorted(order.index(pay) for pay in held_here if pay is not None)
        value = members[0]["pay"]
        if value is None:
            # Too few of a class of the partition have a value; several such classes may be one of the release.
            assert None in held_here
            continue
        if recode == "range":
            assert order.index(value["low"]) <= places[0], "no value of the class is below"
            assert order.index(value["high"]) >= places[-1], "no value of the class is above"
        else:
            # Classes of the partition with one value are one class of the release, so its median may differ.
            assert places[0] <= order.index(value) <= places[-1]


def test_a_median_of_text_is_the_lower_of_two_middle_values() -> None:
    """By hand: of none, none, bad, fatal it is none, of mild, bad, fatal bad; NULL does not count."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE t AS FROM (VALUES (1, 'none'), (1, 'none'), (1, 'bad'), (1, 'fatal'), "
            "(90, 'mild'), (90, 'bad'), (90, 'fatal'), (90, NULL)) AS v(age, pain)"
        )
        order = "order = {pain: ('none', 'mild', 'bad', 'fatal')}, weights = {age: 1000}, min_values = 1"
        con.sql(f"CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = (age, pain), k = 4, {order})")
        assert rows(con, "SELECT DISTINCT age, pain FROM v ORDER BY age") == [
            {"age": 1, "pain": "none"},
            {"age": 90, "pain": "bad"},
        ]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["people", "of_enum"])
def test_every_door_of_an_audit_knows_the_order(source: str, tmp_path: Path) -> None:
    """The record, the exported file with its check, gate.sql, verify and the command line give the oracle's EMD."""
    # A named value is that text for every other measure, though t is audited by places.
    policy = CREATE.replace("people", source).replace("t = 0.15", "t = 0.15, alpha = {pain: {fatal: 0.9}}")
    if source == "of_enum":
        policy = policy.replace(ORDER, "distance = {pain: 'ordered'}, recode = {pay: 'median'}")
    with duckanon.connect(tmp_path / "hospital.duckdb") as con:
        con.execute(PEOPLE)
        con.execute(
            "CREATE TABLE of_enum AS SELECT * REPLACE (pay::ENUM('low', 'mid', 'high', 'top') AS pay, "
            "pain::ENUM('none', 'mild', 'bad', 'worse', 'fatal') AS pain) FROM people"
        )
        con.sql(policy)
        expected = float(worst(rows(con, "FROM v"), ("age", "pay"), SCALE))
        assert measure(con, "AUDIT VIEW v", "t_closeness", "pain")["value"] == pytest.approx(expected)
        named = measure(con, "AUDIT VIEW v", "alpha_k_anonymity", "pain = fatal")
        text = con.execute("SELECT policy FROM duckanon.audits").fetchone()
        assert text is not None
        assert 'order = {pain = ["none", "mild", "bad", "fatal"]}' in text[0]
        page = duckanon.report(con, "v", original=source)
        assert "list_position([&#39;none&#39;, &#39;mild&#39;, &#39;bad&#39;, &#39;fatal&#39;]" in page.html
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
        con.sql(
            f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.csv'}' WITH (evidence = '{tmp_path / 'v.json'}')"
        )
    for file in ("hospital.duckdb", "v.duckdb"):
        done = command("verify", tmp_path / file)
        assert (done.returncode, done.stderr) == (0, "")
    assert command("verify", tmp_path / "v.csv", "--evidence", tmp_path / "v.json").returncode == 0
    with duckdb.connect(tmp_path / "v.duckdb", read_only=True) as reader:
        found = dict(reader.execute('SELECT measure, found FROM duckanon."check"').fetchall())
        assert found["t_closeness"] == pytest.approx(expected)
        assert found["alpha_k_anonymity"] == pytest.approx(named["value"])
        assert named["value"] > 0
        assert reader.execute(
            "SELECT count(*) FROM duckdb_types() WHERE logical_type = 'ENUM' AND NOT internal"
        ).fetchone() == (0,)
    gate = stock_script(tmp_path / "v.duckdb", ".read sql/gate.sql")
    assert f"alpha_k_anonymity of pain = fatal {named['value']:.6g} (asked 0.9)" in gate.stdout, gate.stderr
    assert f"t_closeness of pain {expected:.6g} (asked 0.15)" in gate.stdout, gate.stderr
    audit = ("--qi", "age,pay", "--sensitive", "pain", "-t", "0.15", "--format", "json")
    told = command("audit", tmp_path / "v.csv", *audit, "--order", "pain=none<mild<bad<fatal")
    assert f'"value": {expected!r}' in told.stdout
    unknown = command("audit", tmp_path / "v.csv", *audit, "--order", "pain=none<mild<bad")
    assert unknown.returncode == 2
    assert "order of 'pain' lacks the value 'fatal' of the column: add it in its place" in unknown.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forged", "difference"),
    [
        (
            "UPDATE duckanon.tree_1_1 SET rank = 5 - rank WHERE rank IN (2, 3)",
            'order = {pain = ["none", "mild"',
        ),
        ("UPDATE duckanon.tree_1_1 SET rank = rank * rank", "3 rows that a release does not store"),
        (
            (
                "CREATE TABLE duckanon.x AS SELECT *, 'Bob' AS name FROM duckanon.tree_1_1;"
                "DROP TABLE duckanon.tree_1_1; ALTER TABLE duckanon.x RENAME TO tree_1_1"
            ),
            "name VARCHAR, which a release does not store",
        ),
        ("DELETE FROM duckanon.tree_1_1 WHERE rank = 4", "order of 'pain' lacks the value 'fatal'"),
        (
            "UPDATE duckanon.columns SET tree = 'releases' WHERE tree IS NOT NULL",
            "the order of 'pain' is gone",
        ),
    ],
)
def test_a_file_whose_order_was_changed_is_refused(forged: str, difference: str, tmp_path: Path) -> None:
    """Whoever changes ranks in an exported file changes the distances, not the rows."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        con.sql(CREATE)
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
    with duckdb.connect(tmp_path / "v.duckdb") as forger:
        forger.execute(forged)
    done = command("verify", tmp_path / "v.duckdb")
    assert done.returncode == 1
    assert difference in done.stdout


def test_a_view_keeps_its_order_while_its_source_changes() -> None:
    """A value that is gone is no error, as for numbers; a value without a place is, and names it."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        con.sql(CREATE)
        con.execute("DELETE FROM people WHERE pain = 'mild'")
        con.sql("REFRESH ANONYMIZED VIEW v WITH (on_intersection = 'warn')")
        kept = rows(con, "FROM v ORDER BY ALL")
        expected = float(worst(kept, ("age", "pay"), ("none", "bad", "fatal")))
        assert measure(con, "AUDIT VIEW v", "t_closeness", "pain")["value"] == pytest.approx(expected)
        con.execute("INSERT INTO people VALUES (999, 3, 'awful', 'low')")
        with pytest.raises(PolicyError, match="order of 'pain' lacks the value 'awful' of the column"):
            con.sql("REFRESH ANONYMIZED VIEW v WITH (on_intersection = 'warn')")
        assert rows(con, "FROM v ORDER BY ALL") == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("order = {pain: ('none', 'mild', 'bad')}", "lacks the value 'fatal' of the column"),
        (
            "order = {pain: ('none', 'mild', 'bad', 'fatal', 'x')}",
            "has the value 'x', which the column has not",
        ),
        ("order = {pay: ('low', 'high')}", "order of 'pay' lacks the value 'mid'"),
        ("order = {age: ('1', '2')}", "order names 'age', which is BIGINT"),
    ],
)
def test_an_order_that_does_not_fit_its_column_names_the_value(options: str, message: str) -> None:
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        with pytest.raises(PolicyError, match=message):
            con.sql(f"CREATE ANONYMIZED VIEW v AS FROM people WITH ({ROLES}, {options})")
        assert con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


def test_an_order_may_name_what_the_enum_of_its_column_has() -> None:
    """By hand: each class of three has both values, as the table; NULL is the last."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE few AS SELECT i AS q, "
            "(['low', 'mid', NULL])[1 + i % 3]::ENUM('none', 'low', 'mid', 'high') AS pay FROM range(60) AS r(i)"
        )
        ask = "CREATE ANONYMIZED VIEW v AS FROM few WITH (quasi_identifiers = q, sensitive = pay, k = 3, t = 0.1, "
        with pytest.raises(
            PolicyError, match=r"has the value 'top', which the column has not: leave it out$"
        ):
            con.execute(ask + "order = {pay: ('mid', 'low', 'top')})")
        con.execute(ask + "order = {pay: ('mid', 'low', 'high', 'none')})")
        assert con.execute("SELECT DISTINCT count(*) FROM v GROUP BY q").fetchall() == [(3,)]


def test_an_audit_tells_of_a_wrong_order_in_our_words() -> None:
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        message = (
            r"^audit of people: order of 'pain' lacks the value 'fatal' of the column: add it in its place"
        )
        with pytest.raises(SourceError, match=message):
            con.sql(
                "AUDIT TABLE people WITH (quasi_identifiers = age, sensitive = pain, k = 2, t = 0.5, "
                "order = {pain: ('none', 'mild', 'bad')})"
            )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "option",
    [
        "method = 'mondrian'",
        "release = 'swap'",
        "suppression_limit = 0.1, l = 2",
        "method = 'tcloseness_first'",
    ],
)
def test_the_order_goes_with_other_options(option: str) -> None:
    """The oracle audits the released rows; swap has a column of the class."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        con.sql(CREATE[:-1] + f", {option})")
        quasi = ("class_id",) if "swap" in option else ("age", "pay")
        assert worst(rows(con, "FROM v"), quasi, SCALE) <= Fraction("0.15")


@pytest.mark.slow
def test_new_records_are_appended_by_ranks() -> None:
    """All rows of both releases keep t on ranks."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        con.sql(CREATE.replace("identifiers = id", "subject = id"))
        con.execute("INSERT INTO people SELECT id + 1000, age, pain, pay FROM people")
        con.sql("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
        released = rows(con, "FROM v")
        assert len(released) == 400
        assert worst(released, ("age", "pay"), SCALE) <= Fraction("0.15")


def test_a_frame_with_an_ordered_categorical_has_its_order() -> None:
    """pandas: the categories are in order, and the result has them too."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        frame = con.sql("SELECT age, pay, pain FROM people").df()
    frame["pain"] = pd.Categorical(frame["pain"], ["none", "mild", "bad", "fatal"], ordered=True)
    policy = duckanon.Policy(
        quasi_identifiers=["age", "pay"], sensitive="pain", k=5, t=0.15, distance={"pain": "ordered"}
    )
    released = duckanon.anonymize_table(frame, policy)
    assert worst(released.to_dict("records"), ("age", "pay"), SCALE) <= Fraction("0.15")
    duckanon.testing.assert_private(
        released.astype({"pain": str}), quasi_identifiers=["age", "pay"], sensitive="pain", t=0.15,
        order={"pain": ["none", "mild", "bad", "fatal"]},
    )  # fmt: skip


@pytest.mark.slow
def test_a_report_shows_ranges_of_text() -> None:
    """A range of texts is no number, and no text; the page says of which columns it measures no change."""
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        con.sql(CREATE[:-1] + ", recode = {pay: 'range'})")
        page = duckanon.report(con, "v", original="people")
        assert page.report.passed
        assert "STRUCT(low VARCHAR, high VARCHAR)" in page.html


@pytest.mark.slow
def test_the_table_function_takes_an_order_in_quotes() -> None:
    with duckanon.connect() as con:
        con.execute(PEOPLE)
        order = "{'pain': ['none', 'mild', 'bad', 'fatal']}"
        call = f"anonymize('people', quasi_identifiers := ['age', 'pay'], sensitive := ['pain'], k := 5, t := 0.15, identifiers := ['id'], \"order\" := {order})"
        assert worst(rows(con, f"FROM {call}"), ("age", "pay"), SCALE) <= Fraction("0.15")


def test_what_cannot_take_an_order_says_so() -> None:
    """Streams, and releases on Spark."""
    with pytest.raises(PolicyError, match="order is not yet for streams"):
        next(iter(duckanon.anonymize_stream([], ["age"], order={"age": ("a", "b")})))
    assert not_yet(duckanon.Policy(quasi_identifiers="age", k=2, order={"age": ("a", "b")})) == ["order"]


def test_alpha_of_a_named_value_is_that_of_the_value_and_not_of_its_place() -> None:
    """By hand: 'b' has one of two records in every class, whatever its place; '2' is a value and a place."""
    con = duckanon.connect()
    con.execute(
        "CREATE TABLE graded AS SELECT i // 2 AS age, ['2', 'b'][1 + i % 2] AS s FROM range(8) AS r(i)"
    )
    for named, share in (("b", 0.5), ("2", 0.5), ("c", 0.0)):
        rows = con.execute(
            "AUDIT TABLE graded WITH (quasi_identifiers = (age), sensitive = (s), k = 2, "
            f"order = {{s: ('b', '2')}}, alpha = {{s: {{'{named}': 0.5}}}})"
        ).fetchall()
        assert [row[1:4] for row in rows if row[0] == "alpha_k_anonymity"] == [(f"s = {named}", 0.5, share)]
