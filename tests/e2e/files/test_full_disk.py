"""EXPORT where there is no room: one line about the file that was asked for, and nothing half-written."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.file_scene import write
from tests.e2e.scenes import ROOT
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

ROOM = 65_536
"""Bytes of the largest file that the command may write; ten times as many are asked for."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", slowly(["o.csv", "o.parquet", "o.duckdb"], one_of=2))
def test_a_file_without_room_is_named_and_not_begun(tmp_path: Path, name: str) -> None:
    drawn = random.Random(1)
    rows = [f"{i % 50},{drawn.getrandbits(128):032x}\n" for i in range(20_000)]
    write(tmp_path / "source" / "p.csv", "age,ill\n" + "".join(rows))
    (tmp_path / "target").mkdir()
    done = subprocess.run(
        [
            sys.executable, "-m", "duckanon", "anonymize", str(tmp_path / "source" / "p.csv"),
            f"{name}:t" if name.endswith("duckdb") else name, "--qi", "age", "--sensitive", "ill", "-k", "2",
        ],
        cwd=tmp_path / "target", env={"PATH": "", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert error == f"error: {name!r} was not written: file too large; nothing is left of it"
    assert list((tmp_path / "target").iterdir()) == []
