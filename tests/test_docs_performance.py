"""The page of performance: a benchmark that was run writes its section, the others stay as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.e2e.scenes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

RUN = {
    "kind": "run", "date": "2026-01-02", "shrink": 1, "system": "S", "cores": 2, "python": "3", "numpy": "2", "duckdb": "2"
}  # fmt: skip


def written(folder: Path, page: Path, **results: float) -> list[str]:
    """Give the sections of the page after a run of the benchmarks with a figure each."""
    folder.mkdir(exist_ok=True)
    for name, figure in results.items():
        entries = [{**RUN, "name": name}, {"kind": "row", "table": "T", "cells": {"CPU s": figure}}]
        (folder / f"{name}.json").write_text("\n".join(map(json.dumps, entries)))
    command = [sys.executable, ROOT / "docs" / "performance.py", "--results", folder, "--output", page]
    subprocess.run(command, check=True)
    return page.read_text().split("\n## ")[1:]


def test_a_section_is_written_anew_where_its_benchmark_was_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first = written(tmp_path / "first", page, bench_scale=1.25, bench_first=7.5)
    (of_scale,) = [each for each in first if "1.25" in each]
    second = written(tmp_path / "second", page, bench_first=8.5)
    assert len(first) == len(second)
    assert of_scale in second
    assert not any("7.5" in each for each in second)
    assert [one.partition("\n")[0] for one in first] == [one.partition("\n")[0] for one in second]
    changed = [new for old, new in zip(first, second, strict=True) if old != new]
    assert len(changed) == 1
    assert "8.5" in changed[0]
    assert sum("Not measured yet" in each for each in second) == len(second) - 3, (
        "the last one says how to repeat"
    )
