"""The page about the house says what is there: rooms, imports and files."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOUSE = ROOT / "duckanon"


def layers() -> dict[str, int]:
    """Height of each room, from the contract that the linter holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (each for each in settings["contracts"] if each["type"] == "layers")
    assert contract["exhaustive"] is True
    assert settings["exclude_type_checking_imports"] is False
    return {
        room.strip(): -height
        for height, layer in enumerate(contract["layers"])
        for room in re.split(r"[|:]", layer)
    }


def test_the_rooms_are_written_anew_where_they_change() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "architecture.py", "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_there_are_few_rooms() -> None:
    """Eight modules beside the packages, fifteen packages, thirteen layers at most: streams and spark came last."""
    rooms = layers()
    assert len(list(HOUSE.glob("*.py"))) <= 8
    assert len([path for path in HOUSE.iterdir() if (path / "__init__.py").is_file()]) <= 15
    assert len(set(rooms.values())) <= 13


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py)?)`", PAGE)
    assert len(named) > 30
    for name in named:
        assert (HOUSE / name).exists() or (ROOT / name).exists(), name


def test_the_walks_go_up_as_often_as_they_say() -> None:
    height = layers()
    walks = re.findall(r"\*\*(The [^*]+)\*\* goe?s? up (once|twice): (.+?)(?:\n\n|\Z)", PAGE, re.DOTALL)
    assert [walk[0] for walk in walks] == ["The policy", "The query's text", "The labels"]
    for name, times, text in walks:
        steps = re.findall(r"(↑ )?`([a-z_]+)/[a-z_/]+\.py`", text)
        rises = [
            bool(mark) for (_, before), (mark, after) in pairwise(steps) if height[after] > height[before]
        ]
        marked = [mark for mark, _ in steps if mark]
        assert rises == [True] * {"once": 1, "twice": 2}[times], name
        assert len(marked) == len(rises), name
