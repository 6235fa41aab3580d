"""The command ``stream`` where classes differ in size: t and l, CASTLE, and a disk that is full within one."""

from __future__ import annotations

import csv
import json
import random
import subprocess
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.e2e.scenes import command
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ILLS = ("flu", "cold", "acne", "", "asthma")
CLOSE = (
    "--qi", "age", "-k", "3", "--delay", "40", "--class-id", "--sensitive", "pay,ill", "-t", "pay=0.25", "-l", "ill=3",
)  # fmt: skip
CASTLE = (
    "--qi",
    "age,day",
    "-k",
    "4",
    "--delay",
    "30",
    "--method",
    "castle",
    "--clusters",
    "8",
    "--class-id",
)


def visits(count: int) -> str:
    """Lines of visits, of which neighbours are alike."""
    lines = (
        f"{(i * 37) % 80},2024-01-{1 + i % 28:02},{(i * i) % 17},{ILLS[(i // 3) % 5]},n{i}"
        for i in range(count)
    )
    return "\n".join(["age,day,pay,ill,note", *lines, ""])


def test_classes_keep_t_and_l_and_the_evidence_names_what_t_is_measured_from(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(visits(600))
    done = command("stream", source, out, *CLOSE, "--reference", "window", "--window", "100")
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    ills, sizes = defaultdict(set), Counter(row["class_id"] for row in rows)
    for row in rows:
        ills[row["class_id"]].add(row["ill"])
    assert min(map(len, ills.values())) >= 3
    assert min(sizes.values()) == 3
    assert max(sizes.values()) > 3
    found = json.loads((tmp_path / "out.csv.json").read_text())
    assert (found["closeness"]["reference"], found["closeness"]["window"]) == ("window", 100)
    told = found["closeness"]["columns"]
    assert (told["pay"]["distance"], told["pay"]["t"], told["pay"]["l"]) == ("ordered", 0.25, None)
    assert 0 < told["pay"]["largest_emd"] <= 0.25
    assert (told["ill"]["l"], told["ill"]["least_values"]) == (3, min(map(len, ills.values())))
    assert found["largest_class"] == max(sizes.values())
    assert sum(found["dropped_for"].values()) == found["dropped"]
    measures = {(one["measure"], one["attribute"]): one for one in found["audit"]["measures"]}
    assert measures["k_anonymity", None]["value"] == 3
    assert measures["distinct_l_diversity", "ill"]["passed"] is True
    assert measures["distinct_l_diversity", "ill"]["threshold"] == 3
    # Told and not judged: the distance from the file as a whole is another one.
    assert measures["t_closeness", "pay"]["threshold"] is None


def test_the_audit_of_l_is_that_of_the_file(tmp_path: Path) -> None:
    """By hand: the whole file is one class of the values flu, cold and nothing."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("age,ill\n1,flu\n2,flu\n3,cold\n4,\n")
    asked = ("--qi", "age", "-k", "2", "--delay", "9", "--sensitive", "ill", "-l", "3")
    assert command("stream", source, out, *asked).returncode == 0
    assert out.read_text() == "age,ill\n3,cold\n3,flu\n3,flu\n3,\n"
    found = json.loads((tmp_path / "out.csv.json").read_text())
    assert [one["value"] for one in found["audit"]["measures"] if "l_diversity" in one["measure"]] == [3.0]


@pytest.mark.parametrize(
    ("form", "values", "shown"),
    [
        ("csv", ["a", '""', ""], "a"),
        ("jsonl", ["1.5", "nan", "inf", "-inf", ""], "1.5"),
    ],
)
def test_l_counts_the_values_that_the_file_tells_apart(
    tmp_path: Path, form: str, values: list[str], shown: str
) -> None:
    """The file is read by DuckDB alone: every class has the one value that is told, and NULL."""
    source, out = tmp_path / "in.csv", tmp_path / f"out.{form}"
    draw = random.Random(1)
    lines = [f"{draw.randrange(50)},{draw.choice(values)}\n" for _ in range(300)]
    source.write_text("age,ill\n" + "".join(lines))
    done = command(
        "stream", source, out, "--qi", "age", "-k", "2", "--delay", "40", "--sensitive", "ill", "-l", "2"
    )
    assert done.returncode == 0, done.stderr
    with duckdb.connect() as con:
        found = con.execute(
            f"SELECT DISTINCT list(DISTINCT ill::VARCHAR) FILTER (ill IS NOT NULL), bool_or(ill IS NULL) FROM '{out}' "
            "GROUP BY age"
        ).fetchall()
    assert found == [([shown], True)]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_castle_from_the_command_line(tmp_path: Path, form: str) -> None:
    """At any time each combination of ranges is of k tuples at least; the file alone is audited for that."""
    source, out = tmp_path / "in.csv", tmp_path / f"out.{form}"
    source.write_text(visits(600))
    done = command("stream", source, out, *CASTLE)
    assert done.returncode == 0, done.stderr
    if form == "csv":
        with out.open(newline="") as file:
            ranges = [(row["age"], row["day"]) for row in csv.DictReader(file)]
        assert all(" to " in age and " to " in day for age, day in ranges)
    else:
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        ranges = [(json.dumps(row["age"]), json.dumps(row["day"])) for row in rows]
        assert set(rows[0]["day"]) == {"low", "high"}
    check_prefixes(ranges, 4)
    found = json.loads((tmp_path / f"out.{form}.json").read_text())
    assert found["audit"]["passed"] is True
    assert found["alone"] > 0
    assert found["classes"] + found["alone"] < found["written"] == len(ranges)
    # Another engine agrees: DuckDB alone reads the file.
    with duckdb.connect() as con:
        least = con.execute(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM '{out}' GROUP BY age, day)"
        ).fetchone()
    assert least is not None
    assert least[0] >= 4


def check_prefixes(ranges: list[tuple[Any, Any]], k: int) -> None:
    """What comes first with some ranges comes with k - 1 others, one after the other."""
    seen: set[tuple[Any, Any]] = set()
    place = 0
    while place < len(ranges):
        if ranges[place] not in seen:
            assert ranges[place : place + k] == [ranges[place]] * k
            seen.add(ranges[place])
            place += k
        else:
            place += 1


@pytest.mark.slow
def test_what_castle_has_not_is_said(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(visits(50))
    for words, message in (
        (("--qi", "ill"), "quasi-identifier 'ill' is text: --method castle releases ranges"),
        (("--qi", "age", "--order-weight", "1"), "--order-weight is for --method steered"),
        (("--qi", "age", "--sensitive", "ill", "-l", "2"), "-l is for --method steered"),
        (("--qi", "age", "--nulls", "category"), "--nulls category is not yet for --method castle"),
    ):
        done = command("stream", source, out, "--method", "castle", *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert not out.exists()
    done = command("stream", source, out, "--qi", "age", "--clusters", "5")
    assert "--clusters is for --method castle" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Any]:
    """A file system in memory that holds so many bytes."""
    folders = []

    def mounted(size: int) -> Path:
        folder = tmp_path / f"disk{size}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "duckanon_test", str(folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"a tmpfs of its own needs the right to mount: {done.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mounted
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [CLOSE, CASTLE], ids=["t and l", "castle"])
def test_a_real_full_disk_leaves_whole_classes(
    tmp_path: Path, small_disk: Any, asked: tuple[str, ...]
) -> None:
    """The disk is full at twenty points; each class that has begun there is whole, as in a file with room."""
    source, whole = tmp_path / "in.csv", tmp_path / "whole.csv"
    source.write_text(visits(4000))
    assert command("stream", source, whole, *asked).returncode == 0
    lines = whole.read_bytes().splitlines(keepends=True)
    for point in range(1, examples(20, 5) + 1):
        out = small_disk(4096 * point) / "out.csv"
        done = command("stream", source, out, *asked, "--report", tmp_path / f"{point}.json")
        assert done.returncode == 2
        assert "error: the output cannot be written: No space left on device" in done.stderr
        there = out.read_bytes()
        count = there.count(b"\n")
        assert there == b"".join(lines[:count])
        assert 1 < count < len(lines)
        assert f" {count - 1} written, " in done.stderr
        check_ends(lines, count, alone=asked is CASTLE)


def check_ends(lines: list[bytes], count: int, *, alone: bool) -> None:
    """A class in the first lines is there as a whole; where tuples come alone later, k = 4 of it are."""
    there, whole = (Counter(line.rsplit(b",", 1)[1] for line in part) for part in (lines[1:count], lines[1:]))
    for number, tuples in there.items():
        assert tuples >= 4 if alone else tuples == whole[number]
