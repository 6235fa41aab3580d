"""Hierarchy files with and without a header: ARX writes none, and its first leaf must not be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.errors import PolicyError
from tests.e2e.scenes import EFFORT, command, rows
from tests.examples import slowly
from tests.reference import reference_file

if TYPE_CHECKING:
    from pathlib import Path

LEAVES = ["flu;lung;*", "cold;lung;*", "ulcer;stomach;*", "gastritis;stomach;*"]
ILL = "SELECT i % 6 AS a, ['flu', 'cold', 'ulcer', 'gastritis'][1 + i % 4] AS ill FROM range(120) AS r(i)"


def released(path: Path, query: str = ILL, ill: str = "ill") -> list[tuple[object, ...]]:
    """Give the report rows of a release whose distance comes from a hierarchy file."""
    options = f"distance = {{{ill}: 'hierarchical'}}, hierarchies = {{{ill}: '{path}'}}, {EFFORT}"
    with duckanon.connect() as con:
        statement = f"CREATE ANONYMIZED VIEW v AS {query} WITH (quasi_identifiers = a, sensitive = {ill}, k = 4, t = 0.3, {options})"
        return [tuple(row.values()) for row in rows(con, statement)]


@pytest.mark.parametrize("name", slowly(["tree.csv", "tree.tsv"]))
def test_a_hierarchy_file_without_a_header_loses_no_leaf(tmp_path: Path, name: str) -> None:
    """The same tree with a header is the oracle; so is the same file with its lines in any order."""
    path = tmp_path / name
    path.write_text("\n".join(["ill;part;all", *LEAVES]) + "\n", encoding="utf-8")
    expected = released(path)
    for first in range(len(LEAVES)):
        path.write_text("\n".join(LEAVES[first:] + LEAVES[:first]) + "\n", encoding="utf-8")
        assert released(path) == expected
    # Nothing but the last line of the first group is left of the root in a file of one line.
    path.write_text("flu;*\n", encoding="utf-8")
    assert released(path, "SELECT i % 6 AS a, 'flu' AS ill FROM range(60) AS r(i)")


@pytest.mark.slow
def test_titles_stay_titles(tmp_path: Path) -> None:
    """By hand: a title that is a value of the column has a line of its own; numbers never meet a title."""
    path = tmp_path / "tree.csv"
    path.write_text("\n".join(["flu;cold;any", *LEAVES]) + "\n", encoding="utf-8")
    assert released(path)
    path.write_text("ill;part;*\n" + "\n".join(LEAVES) + "\n", encoding="utf-8")
    assert released(path)
    path.write_text("age;decade;*\n1;0;*\n2;0;*\n11;10;*\n", encoding="utf-8")
    assert released(path, "SELECT i % 6 AS a, [1, 2, 11][1 + i % 3] AS ill FROM range(120) AS r(i)")
    path.write_text("1;0;*\n2;0;*\n11;10;*\n", encoding="utf-8")
    assert released(path, "SELECT i % 6 AS a, [1, 2, 11][1 + i % 3] AS ill FROM range(120) AS r(i)")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        # The first line could be titles: its root is another, and its leaf is no value of the column.
        (
            ["influenza;lung;all", *LEAVES[1:]],
            "'flu' (its first line, 'influenza;lung;all', was read as a header)",
        ),
        (
            ["flu;lung;all", *LEAVES[1:]],
            "(its first line, 'flu;lung;all', was read as a leaf, not as a header)",
        ),
    ],
)
def test_an_error_says_what_the_first_line_was_taken_for(
    tmp_path: Path, lines: list[str], words: str
) -> None:
    path = tmp_path / "tree.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(PolicyError) as wrong:
        released(path)
    assert words.removeprefix("'flu' ") in str(wrong.value)
    assert ("has no row for the value flu" in str(wrong.value)) == words.startswith("'flu'")
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("headers", [1, 0])
@pytest.mark.parametrize("line", [0, 1, 3])
@pytest.mark.parametrize("cells", ["{};*", "{};lung;x;*"])
def test_a_line_with_more_or_fewer_levels_is_named(
    tmp_path: Path, line: int, cells: str, headers: int
) -> None:
    """DuckDB leaves out a first line that is shorter, and takes a file with another one for a single column."""
    lines = list(LEAVES)
    lines[line] = cells.format(LEAVES[line].partition(";")[0])
    path = tmp_path / "tree.csv"
    path.write_text("\n".join(["ill;part;all"] * headers + lines) + "\n", encoding="utf-8")
    with pytest.raises(PolicyError) as wrong:
        released(path)
    told = f"line {line + 1 + headers} has {cells.count(';') + 1} cells, the others have 3: give every leaf"
    assert told in str(wrong.value)


@pytest.mark.parametrize(
    ("lines", "flaw"),
    [
        ([f"  {leaf}" for leaf in LEAVES], "has no row for the value cold, flu, gastritis, ulcer"),
        ([LEAVES[0].replace(";", " ;", 1), *LEAVES[1:]], "has no row for the value flu"),
        ([LEAVES[0].replace("lung", " lung"), *LEAVES[1:]], None),
        ([LEAVES[0].replace(";*", "; *"), *LEAVES[1:]], "puts below different parents, of level 1: lung"),
    ],
)
def test_blanks_around_labels_are_named(tmp_path: Path, lines: list[str], flaw: str | None) -> None:
    """A label with a blank that stands for a group of its own is a tree, and stays one."""
    path = tmp_path / "tree.csv"
    path.write_text("\n".join(["ill;part;all", *lines]) + "\n", encoding="utf-8")
    if flaw is None:
        assert released(path)
        return
    with pytest.raises(PolicyError) as wrong:
        released(path)
    assert flaw in str(wrong.value)
    assert "remove the blanks" in str(wrong.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_hierarchy_of_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "tree.csv"
    path.write_text("\n".join(LEAVES), encoding=encoding)
    with pytest.raises(duckanon.SourceError, match="is UTF-16, not UTF-8: convert it"):
        released(path)
    path.write_bytes(b"")
    with pytest.raises(duckanon.SourceError, match="is empty"):
        released(path)


@pytest.mark.parametrize(
    "column",
    ["occupation", *(pytest.param(name, marks=pytest.mark.long) for name in ("workclass", "salary-class"))],
)
def test_the_hierarchies_of_arx_are_read_as_they_are(tmp_path: Path, column: str) -> None:
    """Through the command line, which audits the file that it wrote with the same tree."""
    tree = reference_file(f"adult/hierarchy_{column}.csv")
    adult = reference_file("adult/adult.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "adult.csv").write_text("\n".join(adult[:2000]) + "\n", encoding="utf-8")
    options = [
        "--sensitive",
        column,
        "--distance",
        f"{column}=hierarchical",
        "--hierarchies",
        f"{column}={tree}",
    ]
    made = command(
        "anonymize", tmp_path / "adult.csv", tmp_path / "out.csv", "--qi", "age", *options, "--insensitive", "*",
        "-k", "5", "-t", "0.4", "--effort", "fast",
    )  # fmt: skip
    assert (made.returncode, "error" in made.stderr) == (0, False), made.stderr
    done = command("audit", tmp_path / "out.csv", "--qi", "age", *options, "-k", "5", "-t", "0.4")
    assert done.returncode == 0, done.stderr
