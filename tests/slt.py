"""A runner for the part of sqllogictest that the audits need.

A ``.test`` file holds blocks parted by empty lines: ``statement ok``, ``statement error`` (after ``----`` a
part of the message), ``query <types>`` (after ``----`` the rows, values parted by tabs; R is compared to
1e-12). ``{joint_flows.sql}`` stands for the SELECT of an audit. It runs on duckdb in Python and, the same
text, in the stock command line.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.audits import headers
from duckanon.audits.macros import macro_statements
from duckanon.database import templates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Block:
    kind: str
    sql: str
    expected: tuple[str, ...]
    line: int


def read_blocks(path: Path) -> list[Block]:
    """Blocks of a file, comments left out."""
    blocks, line = [], 1
    for part in re.split(r"\n\n+", path.read_text(encoding="utf-8")):
        head, *rest = [text for text in part.split("\n") if text and not text.startswith("#")] or [""]
        if head:
            assert re.fullmatch(r"statement (ok|error)|query [TIRB]+", head), f"{path}:{line}: {head}"
            cut = rest.index("----") if "----" in rest else len(rest)
            blocks.append(Block(head, "\n".join(rest[:cut]), tuple(rest[cut + 1 :]), line))
        line += part.count("\n") + 2
    return blocks


def filled(sql: str) -> str:
    """Text with the SELECT of each named audit."""
    return re.sub(
        r"\{(\w+)\.sql\}", lambda name: headers.split(templates.read(headers.audit_file(name[1])))[1], sql
    )


def run_in_python(blocks: Sequence[Block]) -> None:
    """Run blocks on duckdb in this process."""
    with duckdb.connect() as con:
        for statement in macro_statements(temporary=False):
            con.execute(statement)
        for block in blocks:
            if block.kind == "statement error":
                with pytest.raises(duckdb.Error, match=re.escape(block.expected[0])):
                    con.execute(filled(block.sql)).fetchall()
                continue
            rows = con.execute(filled(block.sql)).fetchall()
            if block.kind != "statement ok":
                check(block, ["\t".join(map(_shown, row)) for row in rows])


def run_in_stock(blocks: Sequence[Block], command: Path) -> None:
    """Run blocks in the stock command line; errors are looked up on stderr, in their order."""
    script = [f".read '{templates.folder() / 'install.sql'}'"]
    for number, block in enumerate(blocks):
        script += [f".print @{number}", filled(block.sql).rstrip(";") + ";"]
    options = ["-list", "-noheader", "-separator", "\t", "-nullvalue", "NULL"]
    done = subprocess.run(
        [command, *options], input="\n".join(script), capture_output=True, text=True, check=False, timeout=60
    )
    printed = re.split(r"^@\d+\n", done.stdout + "\n", flags=re.MULTILINE)[1:]
    errors = done.stderr
    for block, text in zip(blocks, printed, strict=True):
        lines = [line for line in text.split("\n") if line]
        if block.kind == "statement error":
            assert not lines, f"line {block.line}: an error was expected, not {lines}"
            before, found, errors = errors.partition(block.expected[0])
            assert found, f"line {block.line}: no error {block.expected[0]!r} in {before!r}"
        elif block.kind != "statement ok":
            check(block, lines)


def check(block: Block, rows: Sequence[str]) -> None:
    """Compare rows with the expected ones, by the types of the block."""
    where = f"line {block.line}: {list(rows)}"
    assert len(rows) == len(block.expected), where
    for row, expected in zip(rows, block.expected, strict=True):
        values, wanted = row.split("\t"), expected.split("\t")
        assert len(values) == len(wanted) == len(block.kind.split()[1]), where
        for value, want, kind in zip(values, wanted, block.kind.split()[1], strict=True):
            if kind == "R" and want != "NULL":
                assert value != "NULL", where
                assert float(value) == pytest.approx(_number(want), abs=1e-12), where
            else:
                assert value == want, where


def _number(text: str) -> float:
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)
