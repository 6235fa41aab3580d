"""sql/gate.sql: exit code 1 and one line when a table breaks its thresholds, in the stock command line."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from tests.examples import slowly, some
from tests.sql.gates import BOTH, GATE, QI, failed, fill, gate, runs, runs_in_1_2_2, script, variables
from tests.sql.stock import stock_command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("gate"))


def test_a_table_that_passes(desk: Path) -> None:
    # By hand: classes of 3 and 3; the six charges in order belong to A A B B A B, so the distribution
    # functions of A and of the whole differ by 1/6, 2/6, 1/6, 0, 1/6: EMD = (5/6) / 5 = 1/6.
    done = gate(
        desk, table="patients", quasi_identifiers=QI, sensitive=["charge"], k=3, t=0.166666666667, l=3
    )
    assert (done.returncode, done.stderr) == (0, "")
    line = done.stdout.strip().strip('"')
    assert line.startswith("passed: patients keeps k_anonymity 3 (asked 3), ")
    assert "distinct_l_diversity of charge 3 (asked 3)" in line
    assert "t_closeness of charge 0.166667 (asked 0.166666666667)" in line
    assert "\n" not in line


@pytest.mark.parametrize("bail", [True, False])
def test_a_violation_is_one_line_and_exit_code_1(desk: Path, bail: bool) -> None:
    done = gate(
        desk,
        bail=bail,
        table="patients.csv",
        quasi_identifiers=QI,
        sensitive=["charge"],
        k=4,
        t=0.166666666666,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "gate: patients.csv violates k_anonymity 3 (asked 4) in 2 of 2 classes (6 records), " in line
    assert "t_closeness of charge 0.166666666666667 (asked 0.166666666666) in 2 of 2 classes" in line


WAYS = {
    "file": ["-f", "job.sql"],
    "init": ["-init", "job.sql", "-c", "SELECT 'after the gate'"],
    "read": ["-c", ".read job.sql", "-c", "SELECT 'after the gate'"],
    "stdin": [],
}


# Always tried: that every way stops without the option of the shell that would make it stop, and that one goes on.
@pytest.mark.parametrize(
    ("way", "k", "bail"),
    [
        *[(way, 4, False) for way in WAYS],
        *some([(way, k, True) for k in (3, 4) for way in WAYS], one_of=len(WAYS) + 1),
    ],
)
def test_every_way_to_run_a_script_stops_at_the_gate(desk: Path, way: str, bail: bool, k: int) -> None:
    job = [
        ".read sql/install.sql",
        *(f"{one};" for one in variables({"table": "patients.csv", "quasi_identifiers": QI, "k": k})),
        ".read sql/gate.sql",
        "SELECT 'after the gate';",
    ]
    (desk / "job.sql").write_text("\n".join(job) + "\n")
    words = [str(stock_command()), *(["-bail"] if bail else []), *WAYS[way]]
    text = (desk / "job.sql").read_text() if way == "stdin" else ""
    done = subprocess.run(
        words, input=text, cwd=desk, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == (1 if k == 4 else 0), done.stderr
    assert ("after the gate" in done.stdout) == (k == 3)
    assert ("violates" in done.stderr) == (k == 4)


def test_a_release_needs_no_thresholds(desk: Path) -> None:
    done = gate(desk, "release.duckdb", install=False)
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "passed: main.v keeps k_anonymity",
        "(asked 3)",
        "of charge",
        "(asked 0.5)",
        "of diagnosis",
        "(asked 0.6)",
        "distinct_l_diversity",
    ):
        assert words in done.stdout


def test_a_release_with_a_tree_is_judged_along_it(desk: Path) -> None:
    done = gate(desk, "tree.duckdb", install=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "recursive_l_diversity of diagnosis" in done.stdout
    with duckanon.connect() as con:
        con.execute(f"ATTACH '{desk / 'tree.duckdb'}' AS r (READ_ONLY)")
        con.execute(
            "CREATE TABLE tree AS FROM (VALUES ('flu', 'mild', 'all'), ('cold', 'mild', 'all'), "
            "('cancer', 'grave', 'all')) AS v(leaf, parent, root)"
        )
        report = con.sql(
            "AUDIT TABLE r.main.w WITH (quasi_identifiers = (age, zip), sensitive = (diagnosis), t = 0.6, "
            "distance = {diagnosis: 'hierarchical'}, hierarchies = {diagnosis: 'tree'})"
        )
        assert report is not None
        (value,) = [row[3] for row in report.fetchall() if row[0] == "t_closeness"]
    assert f"t_closeness of diagnosis {value:.6g} (asked 0.6)" in done.stdout
    strict = gate(desk, "tree.duckdb", install=False, t={"diagnosis": value * 0.99})
    failed(strict, "gate: main.w violates t_closeness of diagnosis")


@pytest.mark.parametrize("table", slowly([None, "w", "main.w", "schema.w", "Schema.Main.W"], one_of=3))
def test_a_release_from_another_schema_is_judged_in_the_file_it_went_to(
    desk: Path, table: str | None
) -> None:
    # Source: the file itself, in which EXPORT puts every release into main; the view was s2.w.
    given = {} if table is None else {"table": table}
    done = gate(desk, "schema.duckdb", install=False, **given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "passed: main.w keeps k_anonymity" in done.stdout
    failed(gate(desk, "schema.duckdb", install=False, **given, k=61), "gate: main.w violates k_anonymity")


def test_the_line_lists_the_measures_in_one_order(desk: Path) -> None:
    # By hand: k, l, t, and columns by name, whatever the order of the threads.
    with duckdb.connect(str(desk / "tree.duckdb"), read_only=True) as con:
        line = runs(con, {"t": {"diagnosis": 1, "charge": 1}, "l": {"diagnosis": 1, "charge": 1}})
    assert re.findall(r"(?:keeps|,) (\w+)(?: of (\w+))?", line) == [
        ("k_anonymity", ""),
        *[(name, column) for name in ("distinct_l_diversity", "t_closeness") for column in BOTH],
    ]


def test_thresholds_in_variables_win_over_those_of_a_release(desk: Path) -> None:
    failed(gate(desk, "release.duckdb", install=False, k=61), "gate: main.v violates k_anonymity", "asked 61")
    failed(gate(desk, "release.duckdb", install=False, t=0.001), "t_closeness of charge", "of diagnosis")
    failed(gate(desk, "release.duckdb", install=False, l=100), "distinct_l_diversity of charge")


def test_a_release_that_was_changed_does_not_pass(desk: Path, tmp_path: Path) -> None:
    shutil.copytree(desk, tmp_path, dirs_exist_ok=True)
    with duckdb.connect(str(tmp_path / "release.duckdb")) as con:
        con.execute("DELETE FROM v WHERE rowid > 0 AND age = (SELECT age FROM v LIMIT 1)")
        con.execute("INSERT INTO v SELECT 99, 'z9', 1, 'flu'")
    failed(gate(tmp_path, "release.duckdb", install=False), "gate: main.v violates k_anonymity 1 (asked 3)")


def test_an_attached_release_is_judged_by_macros_that_are_not_its_own(desk: Path) -> None:
    words = [str(stock_command()), "-bail"]
    steps = [
        ".read sql/install.sql",
        "ATTACH 'release.duckdb' AS \"my release\" (READ_ONLY)",
        "SET VARIABLE gate_database = 'My Release'",
        ".read sql/gate.sql",
    ]
    for step in steps:
        words += ["-c", step]
    done = subprocess.run(words, cwd=desk, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "passed: main.v keeps" in done.stdout


def test_a_tree_in_a_file_or_table_is_the_hierarchy_of_a_column(desk: Path) -> None:
    # By hand: 4767* has stomach 2, lung 1, 4790* has 1 and 2; whole 3 and 3 of 6. The sum over edges of
    # |P - Q| / (2 * 2): leaves (0 + 1/6 + 0 + 1/6), organs (1/6 + 1/6), so EMD = (4/6) / 4 = 1/6.
    for tree in ("tree.csv", "leaf"):
        given = {"quasi_identifiers": QI, "sensitive": ["diagnosis"], "trees": {"Diagnosis": tree}}
        done = gate(desk, table="tree", **given, t=0.166666666667)
        assert done.returncode == 0, done.stderr
        assert "t_closeness of diagnosis 0.166667" in done.stdout
        failed(gate(desk, table="tree", **given, t=0.166666666666), "violates t_closeness of diagnosis")


def test_odd_names(desk: Path) -> None:
    given = {"table": '"my table"', "quasi_identifiers": ["my col"], "sensitive": ["it's"]}
    assert gate(desk, **given, k=3, t={"it's": 0.3}).returncode == 0
    failed(gate(desk, **given, k=4), "violates k_anonymity 3 (asked 4)")


@pytest.mark.parametrize("path", slowly(["a.b/c.d/{}", "./{}", "../a.b/{}", '"./{}"', "{}"], one_of=3))
def test_dots_in_a_path_are_no_dots_of_a_table(tmp_path: Path, path: str) -> None:
    # By hand: the file has two records of one class; before DuckDB 2.0 './x.csv' unquoted is table '/x.csv' of
    # schema '', and three dots are an error. The tree puts both values below one root, 1/2 each: EMD 0.
    desk = tmp_path / "a.b"
    for folder in (desk / "sql", desk / "c.d"):
        folder.mkdir(parents=True)
    for name in ("install.sql", "gate.sql"):
        shutil.copy(GATE.with_name(name), desk / "sql")
    for folder in (desk, desk / "c.d"):
        (folder / "two.csv").write_text("zip,s\na,x\na,y\n")
        (folder / "tree.csv").write_text("leaf,root\nx,all\ny,all\n")
    (desk / "a.b").symlink_to(desk)
    given = {"table": path.format("two.csv"), "quasi_identifiers": ["zip"], "sensitive": ["s"], "t": 1}
    given["trees"] = {"s": path.format("tree.csv")}
    done = gate(desk, "", **given, k=2)
    assert done.returncode == 0, done.stderr
    assert "keeps k_anonymity 2 (asked 2), t_closeness of s 0 (asked 1)" in done.stdout
    (old,) = runs_in_1_2_2(desk, [(":memory:", True, script({**given, "k": 3}))])
    assert f"gate: {path.format('two.csv')} violates k_anonymity 2 (asked 3)" in old


def test_it_is_sql_with_a_header_and_one_command_of_the_shell() -> None:
    lines = GATE.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("-- gate: ")
    for key in ("question", "reads", "returns", "violation", "source"):
        assert any(line.startswith(f"-- {key}: ") for line in lines), key
    assert [line for line in lines if line.startswith(".")] == [".bail on"]
    assert max(map(len, lines)) <= 120
    assert not {"{{", "{%"} & set(GATE.read_text(encoding="utf-8").split())


def test_this_duckdb_runs_it_too(desk: Path) -> None:
    for name in ("release", "tree"):
        with duckdb.connect(str(desk / f"{name}.duckdb"), read_only=True) as con:
            assert runs(con, {}).startswith("passed: main.")
            with pytest.raises(duckdb.InvalidInputException, match=r"violates t_closeness of charge"):
                runs(con, {"t": 0.0001})
            # The second run does not remember the first.
            con.execute("RESET VARIABLE gate_t")
            assert runs(con, {}).startswith("passed: main.")


@pytest.mark.slow
def test_duckdb_1_2_2_runs_it_too(desk: Path) -> None:
    found = runs_in_1_2_2(
        desk,
        [
            (f"{name}.duckdb", False, script(given))
            for name in ("release", "tree", "schema")
            for given in ({}, {"t": 0.0001})
        ],
    )
    assert [line.startswith("passed: main.") for line in found] == [True, False] * 3
    assert all("violates t_closeness of charge" in line.splitlines()[0] for line in found[1::2])


def test_shares_of_sensitive_values(desk: Path) -> None:
    """By hand: A holds ulcer, cancer, flu, B ulcer, flu, bronchitis; ulcer and flu are 2 of 6, the others 1 of 6."""
    given = {"table": "patients.csv", "quasi_identifiers": QI, "sensitive": ["diagnosis"]}
    kept = gate(
        desk, **given, alpha={"diagnosis": {"flu": 0.4, "it's": 0.1}}, beta=1, enhanced_beta={"diagnosis": 1}
    )
    assert (kept.returncode, kept.stderr) == (0, "")
    for part in (
        "beta_likeness of diagnosis 1 (asked 1)", "enhanced_beta_likeness of diagnosis 1 (asked 1)",
        "alpha_k_anonymity of diagnosis = flu 0.333333 (asked 0.4)", "alpha_k_anonymity of diagnosis = it's 0 (asked 0.1)",
    ):  # fmt: skip
        assert part in kept.stdout
    failed(gate(desk, **given, alpha=0.333333333333), "alpha_k_anonymity of diagnosis 0.333333333333333")
    failed(
        gate(desk, **given, delta=30),
        "violates delta_disclosure of diagnosis inf (asked 30) in 2 of 2 classes",
    )
    failed(
        gate(desk, **given, beta=0.999999999999),
        "violates beta_likeness of diagnosis 1 (asked 0.999999999999)",
    )
    failed(
        gate(desk, table="patients.csv", quasi_identifiers=QI, delta=1),
        "all thresholds but k need a sensitive",
    )
