"""Scenes of files: any name, any text, and a command in a folder."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

Run = tuple[int, str, str]


def run(folder: Path, *arguments: str) -> Run:
    """Run a command in a folder; give exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        # The command line shows warnings in a way of its own, for the rest of the process.
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
    ):
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
    return int(str(left.value.code)), out.getvalue(), err.getvalue()


def write(path: Path, text: str) -> Path:
    """Write a file and the folders above it; on this file system the name may be any."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def parquet(path: Path, text: str) -> Path:
    """Write the rows of a CSV as Parquet."""
    source = write(path.parent / "source" / "rows.csv", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as con:
        con.execute(
            f"COPY (FROM read_csv('{source}', hive_partitioning = false)) TO '{path.parent / 'draft'}' (FORMAT parquet)"
        )
    (path.parent / "draft").rename(path)
    return path


def k_of(run: Run) -> float:
    """Value of k-anonymity in an audit as JSON."""
    code, out, err = run
    assert code in {0, 1}, err
    return float(json.loads(out)["measures"][0]["value"])
